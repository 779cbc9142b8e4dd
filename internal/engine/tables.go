// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"github.com/warren-vm/warren/internal/ledger"
	"github.com/warren-vm/warren/vm"
)

// tables are the records that only the engine writes.
type tables struct {
	vms    *ledger.Table[vm.ID, vm.VM]
	gens   *ledger.Table[vm.GenerationID, vm.Generation]
	builds *ledger.Table[vm.BuildID, vm.Build]
	holds  *ledger.Table[vm.HoldID, vm.Hold]
}

// Indexes of the tables.
const (
	byVM   = "vm"
	byName = "name" // of VMs; see nameKey
)

// nameKey is a value of the index byName. A VM has two: one with its account and one
// without, for a name among all accounts.
func nameKey(a vm.AccountID, name string) string { return string(a) + "/" + name }

func (e *Engine) newTables(l *ledger.Ledger) tables {
	return tables{
		vms: ledger.Add(l, ledger.Kind[vm.ID, vm.VM]{
			Name: "vms", Key: func(v *vm.VM) vm.ID { return v.ID }, Host: func(v *vm.VM) *string { return &v.Host },
			Limit: limitVMs.of(func(v *vm.VM) vm.AccountID { return v.Account }),
			Index: map[string]func(*vm.VM) []string{byName: func(v *vm.VM) []string {
				return []string{nameKey(v.Account, v.Name), nameKey("", v.Name)}
			}},
			Changed: e.vmChanged,
		}),
		gens: ledger.Add(l, ledger.Kind[vm.GenerationID, vm.Generation]{
			Name: "generations", Key: func(g *vm.Generation) vm.GenerationID { return g.ID }, Host: func(g *vm.Generation) *string { return &g.Host },
			Limit:   limitGenerations.of(func(g *vm.Generation) vm.AccountID { return g.Account }),
			Changed: e.generationChanged,
		}),
		builds: ledger.Add(l, ledger.Kind[vm.BuildID, vm.Build]{
			Name: "builds", Key: func(b *vm.Build) vm.BuildID { return b.ID }, Host: func(b *vm.Build) *string { return &b.Host },
			Limit: limitBuilds.of(func(b *vm.Build) vm.AccountID { return b.Account }),
		}),
		holds: ledger.Add(l, ledger.Kind[vm.HoldID, vm.Hold]{
			Name: "holds", Key: func(h *vm.Hold) vm.HoldID { return h.ID }, Host: func(h *vm.Hold) *string { return &h.Host },
			Index: map[string]func(*vm.Hold) []string{byVM: func(h *vm.Hold) []string { return []string{string(h.VM)} }},
		}),
	}
}
