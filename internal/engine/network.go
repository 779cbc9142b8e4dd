// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"encoding/json"

	"github.com/warren-vm/warren/internal/egress"
	"github.com/warren-vm/warren/vm"
)

// EditNetwork changes a VM's network policy: at once if it runs, else from its next start.
// edit gets the VM's record and a copy of its policy to change; its error is returned as it
// is. The hosts of mode packages are filled in afterwards.
// The machine gets the policy before the record; if the record cannot be written, the
// machine gets the old policy back. Kinds: of edit; Denied when the VM's profile forbids the
// policy.
func (e *Engine) EditNetwork(ctx context.Context, c *vm.Call, ref string, edit func(rec vm.VM, p *vm.NetworkPolicy) error) (vm.VM, error) {
	done, err := e.ChangeNetwork(ctx, c, ref, NetworkEdit{Edit: edit})
	return done.VM, err
}

// NetworkEdit is a change of a VM's network policy.
type NetworkEdit struct {
	Edit func(rec vm.VM, p *vm.NetworkPolicy) error // see EditNetwork
	// Check gets the open connections that the new policy would close, before the change;
	// its error prevents the change and is returned as it is. nil = no check.
	Check  func(cut []vm.Connection) error
	DryRun bool // change nothing
}

// ChangeNetwork is EditNetwork that says what the change did.
func (e *Engine) ChangeNetwork(ctx context.Context, c *vm.Call, ref string, n NetworkEdit) (done vm.NetworkChanged, err error) {
	op, err := e.begin(ctx, c, ref, vm.OpNetwork)
	if err != nil {
		return done, fail(vm.OpNetwork, ref, err)
	}
	defer func() { err = e.finish(op, err) }()
	p, err := copyPolicy(op.before.Network)
	if err != nil {
		return done, err
	}
	if err := n.Edit(op.before, &p); err != nil {
		return done, err
	}
	if err := mayReach(op.before, p); err != nil {
		return done, err
	}
	img, err := e.cfg.Images.Find(op.ctx, string(op.before.Image))
	if err != nil && p.Mode == vm.NetPackages {
		return done, err
	}
	p.Hosts = hostsOf(p.Mode, img)
	done = vm.NetworkChanged{VM: op.before, Policy: p, Widens: egress.Widens(op.before.Network, p), DryRun: n.DryRun}
	r := e.runOf(op.slot)
	if r != nil {
		// A monitor of an older Warren cannot tell. A monitor that is silent refuses the policy, too.
		if done.Cut, err = cutBy(op.ctx, r, p); err != nil && n.DryRun {
			return done, err
		}
		if n.Check != nil {
			if err := n.Check(done.Cut); err != nil {
				return done, err
			}
		}
	}
	if n.DryRun {
		return done, nil
	}
	done.VM, err = e.applyNetwork(op, c, r, done)
	return done, err
}

// applyNetwork records a change of the policy, and makes it.
func (e *Engine) applyNetwork(op *operation, c *vm.Call, r *run, done vm.NetworkChanged) (vm.VM, error) {
	p := done.Policy
	entry := vm.AuditEntry{Detail: map[string]any{
		"from": string(op.before.Network.Mode), "to": string(p.Mode), "policy": p, "policyDigest": p.Digest(),
	}}
	if err := e.receiptFor(op.ctx, op, c, entry); err != nil {
		return vm.VM{}, err
	}
	if r != nil {
		undo := func(ctx context.Context) error { return tellNetwork(ctx, r, op.before.Network) }
		if err := op.undo.add(op.ctx, "network policy", undo); err != nil {
			return vm.VM{}, err
		}
		if err := tellNetwork(op.ctx, r, p); err != nil { // it may have taken the policy nevertheless
			return vm.VM{}, err
		}
	}
	rec, err := e.update(op.ctx, op.slot, func(rec *vm.VM) { rec.Network = p })
	if err == nil {
		e.cfg.Journal.EmitVM(rec, "vm.network", map[string]any{"mode": string(p.Mode), "rules": len(p.Rules), "cut": len(done.Cut)})
	}
	return rec, err
}

// cutBy lists the open connections of a machine that a policy would close.
func cutBy(ctx context.Context, r *run, p vm.NetworkPolicy) ([]vm.Connection, error) {
	ctx, stop := context.WithTimeout(ctx, machineDeadline)
	defer stop()
	return r.machine.CutBy(ctx, p)
}

// copyPolicy copies a policy with all its lists.
func copyPolicy(p vm.NetworkPolicy) (out vm.NetworkPolicy, err error) {
	data, err := json.Marshal(p)
	if err == nil {
		err = json.Unmarshal(data, &out)
	}
	if err != nil {
		return out, vm.Errorf(vm.Internal, "", "a network policy cannot be copied: %w", err)
	}
	return out, nil
}

func tellNetwork(ctx context.Context, r *run, p vm.NetworkPolicy) error {
	ctx, stop := context.WithTimeout(ctx, machineDeadline)
	defer stop()
	return r.machine.SetNetwork(ctx, p)
}
