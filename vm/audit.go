// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package vm

import "time"

// The policies for the arguments of commands in audit records.
const (
	ArgsFull   = "full"   // as given, cut at 1 KiB, with the digest of all
	ArgsDigest = "digest" // the name of the program, and the digest of all
	ArgsNone   = "none"   // the name of the program
)

// AuditEntry is the record written before an action.
type AuditEntry struct {
	Op      Op
	VM      ID
	Subject string // another subject: a path, a command, an account
	Actor   Actor
	Request RequestID
	Detail  map[string]any
	// Generation is what the VM stood on; Network and Right are the digests of its network
	// policy and of the caller's permission. The journal fills them in.
	Generation GenerationID
	Network    string
	Right      string
	Outcome    string // of what has already happened; "" = it is about to happen
}

// AuditRecord is an entry with its outcome.
type AuditRecord struct {
	ID      string         `json:"id"` // the receipt
	Seq     int64          `json:"seq"`
	Time    time.Time      `json:"time"`
	Op      Op             `json:"op"`
	VM      ID             `json:"vm,omitempty"`
	Subject string         `json:"subject,omitempty"`
	Actor   Actor          `json:"actor"`
	Request RequestID      `json:"requestId,omitempty"`
	Outcome string         `json:"outcome"` // "ok", "pending", else the kind of the error
	Error   string         `json:"error,omitempty"`
	EndedAt time.Time      `json:"endedAt,omitzero"`
	Detail  map[string]any `json:"detail,omitempty"`

	Generation GenerationID `json:"generation,omitempty"` // that the VM stood on
	Network    string       `json:"network,omitempty"`    // digest of the VM's network policy
	Right      string       `json:"right,omitempty"`      // digest of the permission by which the caller acted
}

// AuditFilter selects audit records; they are listed newest first.
type AuditFilter struct {
	Account AccountID // "" = all; only for admins
	VM      ID
	Op      Op        // "" = all
	Actor   string    // an id of the caller; "" = all
	ID      string    // a receipt; "" = all
	Since   time.Time // zero = from the first
	Until   time.Time // zero = to the last
	Limit   int       // 0 = 100
	After   int64     // only records with a lower Seq than this; 0 = from the newest
}

// AuditReport is the result of checking the chain.
type AuditReport struct {
	Records int64  `json:"records"`
	Signed  int64  `json:"signed"` // number of the last line that a signature covers
	OK      bool   `json:"ok"`
	Problem string `json:"problem,omitempty"` // the first error, and where
	Code    string `json:"code,omitempty"`    // of the problem: AUDIT_CHANGED, AUDIT_CUT, AUDIT_KEY, AUDIT_FOREIGN, AUDIT_PRUNED
	Fix     string `json:"fix,omitempty"`     // what to do about the problem

	Pruned  int64    `json:"pruned,omitempty"`  // records of which only the hashes are left
	Anchors int      `json:"anchors,omitempty"` // checkpoints from outside that were compared
	Log     string   `json:"log,omitempty"`     // id of the log
	Key     string   `json:"key,omitempty"`     // fingerprint of the key that signs it
	Root    string   `json:"root,omitempty"`    // of the Merkle tree over all records
	Notes   []string `json:"notes,omitempty"`   // what is odd, but breaks nothing
}

// AuditPruned says what a pruning of the audit log removed.
type AuditPruned struct {
	Segments int    `json:"segments"`
	Records  int64  `json:"records"`
	Bytes    int64  `json:"bytes"`
	Through  int64  `json:"through"` // number of the last record that was removed
	Receipt  string `json:"receipt,omitempty"`
}

// MaxLeft bounds the batches of connections that a machine leaves when it ends while the
// server is away.
const MaxLeft = 200

// ConnectionBatch is what a monitor tells the server of the connections of its guest.
type ConnectionBatch struct {
	First   int64           `json:"first"`             // number of the first one, since the machine started
	Dropped int64           `json:"dropped,omitempty"` // refusals before it that were not kept
	List    []Connection    `json:"list,omitempty"`
	Sum     *ConnectionsSum `json:"sum,omitempty"` // of those beyond the budget of records
}

// ConnectionsSum is one record for many connections: a VM has a budget of records an hour.
type ConnectionsSum struct {
	Since   time.Time `json:"since"`
	Until   time.Time `json:"until"`
	Allowed int64     `json:"allowed"`
	Refused int64     `json:"refused"`
	Up      int64     `json:"up"`
	Down    int64     `json:"down"`
}

// Less returns the sum without the connections of an earlier state of it; nil = none is
// left.
func (s *ConnectionsSum) Less(o ConnectionsSum) *ConnectionsSum {
	left := ConnectionsSum{Since: o.Until, Until: s.Until, Allowed: s.Allowed - o.Allowed, Refused: s.Refused - o.Refused, Up: s.Up - o.Up, Down: s.Down - o.Down}
	if left.Allowed+left.Refused == 0 {
		return nil
	}
	return &left
}

// ReceiptLine is one line of the audit log with the proof that it is in it.
type ReceiptLine struct {
	Seq    int64    `json:"seq"`
	Record string   `json:"record"` // its JSON as it stands in the log
	Proof  []string `json:"proof"`  // hex, from the leaf up
}
