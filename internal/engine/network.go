// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"net"
	"strconv"
	"time"

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

// Connections returns the latest connections of the guest to the outside, as
// its policy judged them; at most 1000.
func (e *Engine) Connections(ctx context.Context, c *vm.Call, ref string) ([]vm.Connection, error) {
	return ask(ctx, e, c, ref, vm.OpStats, func(ctx context.Context, v *visit) ([]vm.Connection, error) {
		return v.run.machine.Connections(ctx)
	})
}

// DialPort connects to a TCP port of the guest: to a server that listens on the
// guest's network, else to one that listens on its 127.0.0.1 or ::1 alone. What
// goes through the connection counts as activity. ctx bounds the wait for a VM that has to wake
// and the dial, not the connection. A VM that had to boot for it is given a
// moment to start its servers.
func (e *Engine) DialPort(ctx context.Context, c *vm.Call, ref string, port uint16) (net.Conn, error) {
	v, err := e.visitFor(ctx, context.WithoutCancel(ctx), c, ref, vm.OpDial)
	if err != nil {
		return nil, err
	}
	bounded, stop := v.bounded()
	defer stop()
	unhook := context.AfterFunc(ctx, func() { stop() })
	defer unhook()
	conn, err := v.dial(bounded, port)
	if err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		err = v.fail(bounded, err)
		v.end(err, nil)
		return nil, err
	}
	v.loosen()
	// It is closed under a caller that loses the right to it.
	unheld := context.AfterFunc(v.ctx, func() { _ = conn.Close() })
	return &dialled{Conn: conn, v: v, traffic: &traffic{v: v}, unheld: unheld}, nil
}

// bootPatience is how long after a boot a port that refuses may still come.
const bootPatience = 10 * time.Second

// dial connects to a port, again and again while the guest is still booting its
// services.
func (v *visit) dial(ctx context.Context, port uint16) (net.Conn, error) {
	for {
		conn, err := v.reach(ctx, port)
		if err == nil || vm.KindOf(err) != vm.Unavailable || ctx.Err() != nil || !v.justBooted() {
			return conn, err
		}
		after, stop := v.e.cfg.Clock.After(dialEvery)
		select {
		case <-after:
		case <-ctx.Done():
		}
		stop()
	}
}

const (
	// loopbackUser is who the guest sees connect to its loopback: one without rights,
	// whoever it is that may see the port.
	loopbackUser = "nobody"
	// maxLoopback bounds the connections to one guest's loopback. Each takes memory
	// of its agent, and strangers may make them. More of them wait.
	maxLoopback = 256
)

// reach connects to a port once. What the guest's network refuses its agent tries
// on the loopback, where development servers listen by default.
func (v *visit) reach(ctx context.Context, port uint16) (net.Conn, error) {
	conn, refused := v.run.machine.DialPort(ctx, port)
	if vm.KindOf(refused) != vm.Unavailable {
		return conn, refused
	}
	select {
	case v.run.loopback <- struct{}{}:
	case <-ctx.Done():
		return nil, vm.Errorf(vm.Limit, string(v.slot.id), "%d connections to its 127.0.0.1 are open, and none has ended", maxLoopback).
			WithHint("close some, or have the server listen on 0.0.0.0:%d", port)
	}
	for _, address := range []string{"127.0.0.1", "::1"} {
		address = net.JoinHostPort(address, strconv.Itoa(int(port)))
		if conn, err := v.guest.DialSocket(ctx, vm.SocketSpec{User: loopbackUser, Network: "tcp", Address: address}); err == nil {
			v.loopback = true // given back by end
			return conn, nil
		}
	}
	<-v.run.loopback
	return nil, vm.Errorf(vm.Unavailable, string(v.slot.id), "nothing listens on port %d, neither on its network nor on 127.0.0.1 or [::1]: %w", port, refused).
		WithHint("start a server in the VM that listens on port %d", port)
}

// dialEvery is the pause between two attempts.
const dialEvery = 100 * time.Millisecond

// justBooted reports whether the machine was booted, not continued, a moment
// ago.
func (v *visit) justBooted() bool {
	return v.rec.Generation == "" && v.rec.StartedAt.After(v.rec.CreatedAt) && v.e.now().Sub(v.rec.StartedAt) < bootPatience
}
