// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"

	"github.com/warren-vm/warren/vm"
)

// RenameVM gives a VM another name, which no other VM of the account may have. Its
// current name changes nothing. It waits for an operation in progress. The guest's host
// name changes when the VM next starts or wakes. The old name then finds nothing; the
// VM's id does not change.
func (e *Engine) RenameVM(ctx context.Context, c *vm.Call, ref, name string) (vm.VM, error) {
	if err := vm.CheckName(name); err != nil {
		return vm.VM{}, fail(vm.OpVMRename, ref, vm.AsError(err).WithCode("INVALID_REQUEST"))
	}
	return e.setName(ctx, c, ref, name)
}

// ClearName takes the name of a VM away, so that another one may have it.
func (e *Engine) ClearName(ctx context.Context, c *vm.Call, ref string) (vm.VM, error) {
	return e.setName(ctx, c, ref, "")
}

// setName gives a VM another name; "" = none.
func (e *Engine) setName(ctx context.Context, c *vm.Call, ref, name string) (v vm.VM, err error) {
	op, err := e.begin(ctx, c, ref, vm.OpVMRename)
	if err != nil {
		return vm.VM{}, fail(vm.OpVMRename, ref, err)
	}
	defer func() { err = e.finish(op, err) }()
	if op.before.Name == name {
		return op.before, nil
	}
	if name != "" {
		if err := e.promiseName(op, name); err != nil {
			return vm.VM{}, err
		}
	}
	entry := vm.AuditEntry{Subject: name, Detail: map[string]any{"from": op.before.Name, "to": name}}
	if err := e.receiptFor(op.ctx, op, c, entry); err != nil {
		return vm.VM{}, err
	}
	rec, err := e.update(op.ctx, op.slot, func(rec *vm.VM) { rec.Name = name })
	if err == nil {
		e.cfg.Journal.EmitVM(rec, "vm.renamed", map[string]any{"from": op.before.Name})
	}
	return rec, err
}

// promiseName reserves a name until op ends. Kind Exists when it is taken.
func (e *Engine) promiseName(op *operation, name string) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if err := e.nameFreeLocked(vm.VM{Account: op.before.Account, Name: name}); err != nil {
		return err
	}
	e.promised[op] = []string{name}
	return nil
}
