// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"maps"

	"github.com/warren-vm/warren/vm"
)

// Label changes a VM's labels as vm.ChangeLabels does. It waits for the operation in
// progress. Setting a label to its current value changes nothing.
func (e *Engine) Label(ctx context.Context, c *vm.Call, ref string, change map[string]*string) (v vm.VM, err error) {
	op, err := e.begin(ctx, c, ref, vm.OpLabel)
	if err != nil {
		return vm.VM{}, fail(vm.OpLabel, ref, err)
	}
	defer func() { err = e.finish(op, err) }()
	labels, err := vm.ChangeLabels(op.before.Labels, change)
	if err != nil {
		return vm.VM{}, err
	}
	if maps.Equal(labels, op.before.Labels) {
		return op.before, nil
	}
	if err := e.receiptFor(op.ctx, op, c, vm.AuditEntry{Detail: map[string]any{"change": change}}); err != nil {
		return vm.VM{}, err
	}
	rec, err := e.update(op.ctx, op.slot, func(rec *vm.VM) { rec.Labels = labels })
	if err == nil {
		e.cfg.Journal.EmitVM(rec, "vm.labelled", map[string]any{"labels": labels})
	}
	return rec, err
}

// fillLabels gives a new VM the requested labels.
func fillLabels(rec *vm.VM, r CreateRequest, _ vm.Image) (err error) {
	rec.Labels, err = vm.ChangeLabels(rec.Labels, vm.SetLabels(r.Labels))
	return err
}
