// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package audit

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/warren-vm/warren/vm"
)

// Phase says which end of an action a line is of.
type Phase string

// The phases. A note is a record of Warren itself, such as a repaired tail.
const (
	Begin Phase = "begin"
	End   Phase = "end"
	Note  Phase = "note"
)

// What notes say.
const (
	newSegment = "a new segment" // the first line of each segment but the first
	newLog     = "a new log: "   // the first line of a log that took the place of another one
)

// Entry describes an action before it is taken.
type Entry struct {
	Op      vm.Op
	VM      vm.ID
	Subject string // a path, a command, an account; cut at 4 KiB
	Actor   vm.Actor
	Request vm.RequestID
	// Generation is what the VM stood on; Network and Right are the digests of the network
	// policy and of the permission that were in force. "" = none.
	Generation vm.GenerationID
	Network    string
	Right      string
	// Outcome is set for what has already happened: the record needs no End.
	Outcome string
	Detail  map[string]any // never a secret; at most 32 KiB as JSON
}

// Record is one action with its outcome, joined from its lines.
type Record struct {
	Entry   // with Outcome: "pending" while it runs, "ok", or the kind of the failure
	ID      string
	Seq     int64 // of its begin
	EndSeq  int64 // of its end; 0 = it has no line of its own, or is not on disk yet
	Time    time.Time
	Error   string
	EndedAt time.Time
	Result  map[string]any // the end's detail
}

// Pending is the outcome of an action that has not ended.
const Pending = "pending"

const (
	maxSubject = 4 << 10
	maxDetail  = 32 << 10
)

// line is the record of one line of a segment.
type line struct {
	Seq     int64           `json:"seq"`
	Prev    string          `json:"prev"` // hash of the line before
	ID      string          `json:"id"`   // of a begin: the receipt
	Time    time.Time       `json:"time"`
	Phase   Phase           `json:"phase"`
	Of      string          `json:"of,omitempty"`      // of an end: the begin's id
	Outcome string          `json:"outcome,omitempty"` // of an end: "ok" or a kind of failure
	Error   string          `json:"error,omitempty"`
	Op      vm.Op           `json:"op,omitempty"`
	VM      vm.ID           `json:"vm,omitempty"`
	Subject string          `json:"subject,omitempty"`
	Actor   vm.Actor        `json:"actor,omitzero"`
	Request vm.RequestID    `json:"request,omitempty"`
	Detail  json.RawMessage `json:"detail,omitempty"`
	Open    []string        `json:"open,omitempty"` // of a segment's first note: actions begun earlier and not ended

	Generation vm.GenerationID `json:"generation,omitempty"`
	Network    string          `json:"network,omitempty"` // digest of the VM's network policy
	Right      string          `json:"right,omitempty"`   // digest of the permission by which the caller acts
	Tree       []string        `json:"tree,omitempty"`    // of a segment's first note: peaks of the tree over all records before it
}

func newLine(phase Phase, e Entry) (line, error) {
	ln := line{
		ID: vm.NewReceiptID(), Time: time.Now().UTC(), Phase: phase,
		Op: e.Op, VM: e.VM, Subject: cut(e.Subject), Actor: e.Actor, Request: e.Request,
		Generation: e.Generation, Network: e.Network, Right: e.Right, Outcome: e.Outcome,
	}
	if len(e.Detail) == 0 {
		return ln, nil
	}
	data, err := json.Marshal(e.Detail)
	if err != nil {
		return ln, vm.Errorf(vm.Internal, "audit", "detail of a record: %w", err)
	}
	if len(data) > maxDetail {
		return ln, vm.Errorf(vm.Limit, "audit", "detail of a record has %d bytes, at most %d", len(data), maxDetail)
	}
	ln.Detail = data
	return ln, nil
}

// cut bounds a text that a caller chose.
func cut(s string) string {
	if len(s) <= maxSubject {
		return s
	}
	return strings.ToValidUTF8(s[:maxSubject], "") + "…"
}

// record returns the action that ln begins.
func (ln *line) record() *Record {
	r := &Record{
		Entry: Entry{
			Op: ln.Op, VM: ln.VM, Subject: ln.Subject, Actor: ln.Actor, Request: ln.Request, Detail: object(ln.Detail),
			Generation: ln.Generation, Network: ln.Network, Right: ln.Right, Outcome: Pending,
		},
		ID: ln.ID, Seq: ln.Seq, Time: ln.Time,
	}
	if ln.Outcome != "" {
		r.Outcome, r.EndedAt = ln.Outcome, ln.Time
	}
	return r
}

// end notes the outcome in ln.
func (r *Record) end(ln *line) {
	r.Outcome, r.Error, r.EndedAt, r.Result, r.EndSeq = ln.Outcome, ln.Error, ln.Time, object(ln.Detail), ln.Seq
}

func object(data json.RawMessage) map[string]any {
	var out map[string]any
	if len(data) > 0 {
		_ = json.Unmarshal(data, &out) // it was decoded from JSON before
	}
	return out
}

// genesis stands for the hash before the first line.
const genesis = "warren audit chain 1"

const (
	lineHead = `{"hash":"`
	lineMid  = `","record":`
	hashLen  = 2 * sha256.Size
	lineMin  = len(lineHead) + hashLen + len(lineMid) + 1
)

// appendLine adds ln to buf as a line of the file and returns its hash.
func appendLine(buf []byte, ln *line) ([]byte, [sha256.Size]byte, error) {
	data, err := json.Marshal(ln)
	if err != nil {
		return buf, [sha256.Size]byte{}, vm.Errorf(vm.Internal, "audit", "record: %w", err)
	}
	sum := sha256.Sum256(data)
	buf = append(buf, lineHead...)
	buf = append(hex.AppendEncode(buf, sum[:]), lineMid...)
	return append(append(buf, data...), '}', '\n'), sum, nil
}

// split takes a line of the file apart without checking it.
func split(raw []byte) (hash, record []byte, err error) {
	if len(raw) < lineMin || !bytes.HasPrefix(raw, []byte(lineHead)) || raw[len(raw)-1] != '}' ||
		string(raw[len(lineHead)+hashLen:lineMin-1]) != lineMid {
		return nil, nil, errors.New("is not a record")
	}
	return raw[len(lineHead) : len(lineHead)+hashLen], raw[lineMin-1 : len(raw)-1], nil
}

// parse reads one line and checks its hash.
func parse(raw []byte) (ln line, hash string, err error) {
	want, record, err := split(raw)
	if err != nil {
		return ln, "", err
	}
	sum := sha256.Sum256(record)
	if hash = hex.EncodeToString(sum[:]); hash != string(want) {
		return ln, "", errors.New("was changed")
	}
	if err := json.Unmarshal(record, &ln); err != nil {
		return ln, "", fmt.Errorf("cannot be read: %w", err)
	}
	return ln, hash, nil
}

// follows checks the number and the previous hash of a line against the line before it.
func follows(seq int64, prev string, before int64, hash string) error {
	switch {
	case seq == before+1 && prev == hash:
		return nil
	case seq > before+1:
		return fmt.Errorf("is missing: record %d is in its place, so records were removed or reordered", seq)
	case seq <= before:
		return fmt.Errorf("is not here: a line with the number %d was put in or moved", seq)
	}
	return errors.New("does not belong to the record before it: one of the two was replaced")
}
