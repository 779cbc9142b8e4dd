// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"

	"github.com/warren-vm/warren/vm"
)

// SetNetwork changes a VM's network policy: at once if it runs, else from its next start.
// The machine gets the policy before the record; if the record cannot be written, the
// machine gets the old policy back.
func (e *Engine) SetNetwork(ctx context.Context, c *vm.Call, ref, mode string) (v vm.VM, err error) {
	m, err := vm.ParseNetworkMode(mode)
	if err != nil {
		return vm.VM{}, fail(vm.OpNetwork, ref, vm.AsError(err).WithCode("INVALID_REQUEST"))
	}
	op, err := e.begin(ctx, c, ref, vm.OpNetwork)
	if err != nil {
		return vm.VM{}, fail(vm.OpNetwork, ref, err)
	}
	defer func() { err = e.finish(op, err) }()
	if err := mayReach(op.before, m); err != nil {
		return vm.VM{}, err
	}
	entry := vm.AuditEntry{Detail: map[string]any{"from": string(op.before.Network.Mode), "to": mode}}
	if err := e.receiptFor(op.ctx, op, c, entry); err != nil {
		return vm.VM{}, err
	}
	img, err := e.cfg.Images.Find(op.ctx, string(op.before.Image))
	if err != nil && m == vm.NetPackages {
		return vm.VM{}, err
	}
	p := policy(m, img)
	if r := e.runOf(op.slot); r != nil {
		if err := tellNetwork(op.ctx, r, p); err != nil {
			return vm.VM{}, err
		}
		undo := func(ctx context.Context) error { return tellNetwork(ctx, r, op.before.Network) }
		if err := op.undo.add(op.ctx, "network policy", undo); err != nil {
			return vm.VM{}, err
		}
	}
	rec, err := e.update(op.ctx, op.slot, func(rec *vm.VM) { rec.Network = p })
	if err == nil {
		e.cfg.Journal.EmitVM(rec, "vm.network", map[string]any{"mode": mode})
	}
	return rec, err
}

func tellNetwork(ctx context.Context, r *run, p vm.NetworkPolicy) error {
	ctx, stop := context.WithTimeout(ctx, machineDeadline)
	defer stop()
	return r.machine.SetNetwork(ctx, p)
}
