// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package vm

import "time"

// ReceiptKind and ReceiptVersion are in each receipt.
const (
	ReceiptKind    = "warren-receipt"
	ReceiptVersion = 1
)

// Receipt is the signed document of a VM's life. The lines are the evidence; Summary says
// what they say, and a verifier computes it again. docs/receipts.md describes it.
type Receipt struct {
	Kind       string         `json:"kind"` // ReceiptKind
	Version    int            `json:"version"`
	VM         ID             `json:"vm"`
	Made       time.Time      `json:"made"`
	Warren     string         `json:"warren"` // version of the server
	Key        string         `json:"key"`    // hex public key of both signatures
	Checkpoint Checkpoint     `json:"checkpoint"`
	Summary    ReceiptSummary `json:"summary"`
	Lines      []ReceiptLine  `json:"lines"`               // oldest first
	Signature  string         `json:"signature,omitempty"` // hex, Ed25519; over the canonical JSON of the rest
}

// ReceiptSummary is what the records of a receipt say.
type ReceiptSummary struct {
	Name      string            `json:"name,omitempty"`
	From      time.Time         `json:"from"` // of the first record
	To        time.Time         `json:"to"`   // of the last record
	Records   int               `json:"records"`
	Out       []ReceiptOut      `json:"out"`               // what left it: copied, published, committed
	Secrets   []string          `json:"secrets"`           // names of the secrets that were used
	Networks  []string          `json:"networks"`          // digests of the network policies that decided
	Policies  map[string]any    `json:"policies"`          // their content, by digest, where a record has it
	Locked    map[string]string `json:"locked"`            // volumes that were mounted: whether each was locked at the end
	Refused   int               `json:"refused"`           // actions and connections that were refused
	Connected int               `json:"connected"`         // connections that were allowed
	Partial   bool              `json:"partial,omitempty"` // records of others about the VM are left out: who asked may not see them
}

// ReceiptOut is something that left a VM.
type ReceiptOut struct {
	Op      Op     `json:"op"`
	What    string `json:"what"`
	To      string `json:"to,omitempty"`
	SHA256  string `json:"sha256,omitempty"`
	Receipt string `json:"receipt"` // id of the record
}
