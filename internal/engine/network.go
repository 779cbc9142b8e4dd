// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"net"

	"github.com/warren-vm/warren/vm"
)

// SetNetwork changes what a VM may reach: now when it runs, else from its next
// start. The machine is told before the record; when the record cannot be
// written the machine is told the old policy again.
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
	entry := AuditEntry{Detail: map[string]any{"from": string(op.before.Network.Mode), "to": mode}}
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
		e.emit(rec, "vm.network", map[string]any{"mode": mode})
	}
	return rec, err
}

func tellNetwork(ctx context.Context, r *run, p vm.NetworkPolicy) error {
	ctx, stop := context.WithTimeout(ctx, machineDeadline)
	defer stop()
	return r.machine.SetNetwork(ctx, p)
}

// Connections returns the latest connections of the guest to the outside, as
// its policy judged them; at most 1000.
func (e *Engine) Connections(ctx context.Context, c *vm.Call, ref string) ([]vm.Connection, error) {
	return ask(ctx, e, c, ref, vm.OpStats, func(ctx context.Context, v *visit) ([]vm.Connection, error) {
		return v.run.machine.Connections(ctx)
	})
}

// DialPort connects to a TCP port of the guest. The connection counts as
// activity until it is closed.
func (e *Engine) DialPort(ctx context.Context, c *vm.Call, ref string, port uint16) (net.Conn, error) {
	v, err := e.visit(context.WithoutCancel(ctx), c, ref, vm.OpDial)
	if err != nil {
		return nil, err
	}
	bounded, stop := v.bounded()
	defer stop()
	unhook := context.AfterFunc(ctx, func() { stop() })
	defer unhook()
	conn, err := v.run.machine.DialPort(bounded, port)
	if err != nil {
		err = v.fail(bounded, err)
		v.end(err, nil)
		return nil, err
	}
	// It is closed under a caller that loses the right to it.
	return &dialled{Conn: conn, v: v, stop: context.AfterFunc(v.ctx, func() { _ = conn.Close() })}, nil
}

// dialled is a connection that holds its visit.
type dialled struct {
	net.Conn
	v    *visit
	stop func() bool
}

func (d *dialled) Close() error {
	d.stop()
	err := d.Conn.Close()
	d.v.end(nil, nil)
	return err
}
