// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package audit

import (
	"crypto/sha256"
	"encoding/hex"
	"time"

	"github.com/warren-vm/warren/vm"
)

// Phase says which end of an action a line is of.
type Phase string

// The phases. A note is Warren's own, such as a repaired tail.
const (
	Begin Phase = "begin"
	End   Phase = "end"
	Note  Phase = "note"
)

// Entry is what is known of an action before it is taken.
type Entry struct {
	Op      vm.Op          `json:"op,omitempty"`
	VM      vm.ID          `json:"vm,omitempty"`
	Subject string         `json:"subject,omitempty"` // a path, a command, an account; cut at 4 KiB
	Actor   vm.Actor       `json:"actor,omitzero"`
	Request vm.RequestID   `json:"request,omitempty"`
	Detail  map[string]any `json:"detail,omitempty"` // never a secret
}

// line is one line of the file.
type line struct {
	Seq     int64     `json:"seq"`
	ID      string    `json:"id"` // of a begin: the receipt
	Time    time.Time `json:"time"`
	Phase   Phase     `json:"phase"`
	Of      string    `json:"of,omitempty"`      // of an end: the begin's id
	Outcome string    `json:"outcome,omitempty"` // of an end: "ok" or a kind of failure
	Error   string    `json:"error,omitempty"`
	Entry
}

// Record is one action with its outcome, put together from its lines.
type Record struct {
	Entry
	ID      string
	Seq     int64 // of its begin
	Time    time.Time
	Outcome string // "pending" while it goes on
	Error   string
	EndedAt time.Time
	Result  map[string]any // the end's detail
}

// Pending is the outcome of an action that has not ended.
const Pending = "pending"

const (
	maxSubject = 4 << 10
	maxLine    = 64 << 10
)

// chain returns the hash of a line.
func chain(prev string, record []byte) string {
	h := sha256.New()
	h.Write([]byte(prev))
	h.Write([]byte{'\n'})
	h.Write(record)
	return hex.EncodeToString(h.Sum(nil))
}

// genesis stands before the first line.
const genesis = "warren audit chain 1"
