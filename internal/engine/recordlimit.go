// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"github.com/warren-vm/warren/internal/ledger"
	"github.com/warren-vm/warren/vm"
)

// The limits are far above what anybody needs, and so low that one account
// cannot fill the store. What is not here is bounded by what it belongs to:
// holds by VMs.
var (
	limitVMs         = limit[vm.VM]{10_000, "VMs", "delete some (`warren rm NAME`)", "TOTAL_VM_LIMIT_EXCEEDED"}
	limitGenerations = limit[vm.Generation]{20_000, "generations", "delete snapshots (`warren snapshot rm NAME`) or VMs", "SNAPSHOT_LIMIT_EXCEEDED"}
	limitBuilds      = limit[vm.Build]{2000, "builds of the last 30 days", "wait until older ones are forgotten", ""}
)

// limit is how many records of one kind an account may have, whatever its quota
// says: the record store is one for all.
type limit[T any] struct {
	most       int
	what, then string // in words, and what makes room
	code       string // "" = LIMIT_EXCEEDED
}

func (l limit[T]) of(account func(*T) vm.AccountID) ledger.Limit[T] {
	return ledger.Limit[T]{Most: l.most, What: l.what, Then: l.then, Code: l.code, Owner: func(rec *T) string { return string(account(rec)) }}
}

// Bounds of what a guest says that is kept in a record.
const (
	maxTerminalText  = 256 // bytes of a command or a title
	maxTerminalBytes = 24 << 10
)

// keepTerminals notes in a VM's record the terminals that its guest has, and how
// many of them were left out. A guest can say anything.
func keepTerminals(rec *vm.VM, list []vm.TerminalSession) {
	rec.Terminals, rec.TerminalsOmitted = nil, 0
	bytes := 0
	for _, t := range list {
		t.User, t.Command, t.Title = short(t.User), short(t.Command), short(t.Title)
		bytes += len(t.ID) + len(t.User) + len(t.Command) + len(t.Title)
		if vm.CheckTerminalID(t.ID) != nil || len(rec.Terminals) == vm.MaxTerminals || bytes > maxTerminalBytes {
			rec.TerminalsOmitted++
			continue
		}
		rec.Terminals = append(rec.Terminals, t)
	}
}

// fitTerminals is keepTerminals for a record that an earlier version wrote.
func fitTerminals(rec *vm.VM) {
	omitted := rec.TerminalsOmitted
	keepTerminals(rec, rec.Terminals)
	rec.TerminalsOmitted += omitted
}

func short(s string) string { return vm.Clip(s, maxTerminalText) }
