// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"github.com/warren-vm/warren/internal/ledger"
	"github.com/warren-vm/warren/vm"
)

// tables are the records that the engine alone writes.
type tables struct {
	builds  *ledger.Table[vm.BuildID, vm.Build]
	holds   *ledger.Table[vm.HoldID, vm.Hold]
	results *ledger.Table[vm.RequestID, Result]
}

// Indexes of the tables.
const (
	byVM      = "vm"
	byAccount = "account"
)

func newTables(l *ledger.Ledger) tables {
	return tables{
		builds: ledger.Add(l, ledger.Kind[vm.BuildID, vm.Build]{
			Name: "builds", Key: func(b *vm.Build) vm.BuildID { return b.ID }, Host: func(b *vm.Build) *string { return &b.Host },
			Limit: limitBuilds.of(func(b *vm.Build) vm.AccountID { return b.Account }),
		}),
		holds: ledger.Add(l, ledger.Kind[vm.HoldID, vm.Hold]{
			Name: "holds", Key: func(h *vm.Hold) vm.HoldID { return h.ID }, Host: func(h *vm.Hold) *string { return &h.Host },
			Index: map[string]func(*vm.Hold) []string{byVM: func(h *vm.Hold) []string { return []string{string(h.VM)} }},
		}),
		results: ledger.Add(l, ledger.Kind[vm.RequestID, Result]{
			Name: "results", Key: func(r *Result) vm.RequestID { return r.Request }, Host: func(r *Result) *string { return &r.Host },
			Limit: limitResults.of(func(r *Result) vm.AccountID { return r.Account }),
			Index: map[string]func(*Result) []string{byAccount: func(r *Result) []string { return []string{string(r.Account)} }},
		}),
	}
}
