// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package vm

import "time"

// AuditEntry is the record written before an action.
type AuditEntry struct {
	Op      Op
	VM      ID
	Subject string // another subject: a path, a command, an account
	Actor   Actor
	Request RequestID
	Detail  map[string]any
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
}

// AuditFilter selects audit records; they are listed newest first.
type AuditFilter struct {
	Account AccountID // "" = all; only for admins
	VM      ID
	Limit   int   // 0 = 100
	After   int64 // only records with a lower Seq than this; 0 = from the newest
}

// AuditReport is the result of checking the chain.
type AuditReport struct {
	Records int64  `json:"records"`
	Signed  int64  `json:"signed"` // number of the last line that a signature covers
	OK      bool   `json:"ok"`
	Problem string `json:"problem,omitempty"` // the first error, and where
}
