// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package inside

import (
	"context"
	"net"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/warren-vm/warren/internal/access"
	"github.com/warren-vm/warren/internal/engine"
	"github.com/warren-vm/warren/vm"
)

// Connections returns the latest outbound connections of the guest with the verdict of
// its network policy, at most 1000.
func (in *Inside) Connections(ctx context.Context, c *vm.Call, ref string) ([]vm.Connection, error) {
	return ask(ctx, in, c, ref, vm.OpStats, "", func(ctx context.Context, v *visit) ([]vm.Connection, error) {
		return v.Ports().Connections(ctx)
	})
}

// ConnectPort is DialPort for a caller that chose the port. It waits for an approval where the
// caller's permission needs one for commands: a program may take what arrives for a command.
func (in *Inside) ConnectPort(ctx context.Context, c *vm.Call, ref string, port uint16) (net.Conn, error) {
	if err := in.approved(ctx, c, ref, access.Act{Verb: vm.OpDial, What: "connect to the port " + strconv.Itoa(int(port))}); err != nil {
		return nil, err
	}
	return in.DialPort(ctx, c, ref, port)
}

// DialPort connects to a TCP port of the guest: to a server on the guest's network, or else to
// one on its 127.0.0.1 or ::1. The traffic counts as activity. ctx bounds waking the VM and
// dialling, not the connection. A VM that had to boot gets a moment to start its servers.
func (in *Inside) DialPort(ctx context.Context, c *vm.Call, ref string, port uint16) (net.Conn, error) {
	v, err := in.visitBeyond(ctx, c, ref, vm.OpDial, "")
	if err != nil {
		return nil, err
	}
	bounded, stop := v.bounded(0)
	defer stop()
	unhook := context.AfterFunc(ctx, func() { stop() })
	defer unhook()
	conn, err := v.dial(bounded, port)
	if err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		err = v.Fail(bounded, err)
		v.End(err, nil)
		return nil, err
	}
	v.CountTraffic()
	return newStream(v, conn, &pulse{traffic: traffic{v: v}, moved: &atomic.Int64{}}), nil
}

// bootPatience is how long after a boot DialPort retries a port that refuses.
const bootPatience = 10 * time.Second

// dial connects to a port. It retries while the guest is still booting its services.
func (v *visit) dial(ctx context.Context, port uint16) (net.Conn, error) {
	for {
		conn, err := v.reach(ctx, port)
		if err == nil || vm.KindOf(err) != vm.Unavailable || ctx.Err() != nil || !v.justBooted() {
			return conn, err
		}
		after, stop := v.in.cfg.Clock.After(dialEvery)
		select {
		case <-after:
		case <-ctx.Done():
		}
		stop()
	}
}

const (
	// loopbackUser is the Linux user under which connections to the guest's loopback are made: one
	// without rights, whoever the caller is.
	loopbackUser = "nobody"
	// maxLoopback bounds the connections to one guest's loopback. Each takes memory of
	// its agent, and strangers may make them. Further ones wait.
	maxLoopback = 256
)

// reach connects to a port once. If the guest's network refuses, the agent tries the
// loopback, where development servers listen by default.
func (v *visit) reach(ctx context.Context, port uint16) (net.Conn, error) {
	conn, refused := v.Ports().DialPort(ctx, port)
	if vm.KindOf(refused) != vm.Unavailable {
		return conn, refused
	}
	give, err := v.in.takePlace(ctx, v.Ports())
	if err != nil {
		return nil, vm.Errorf(vm.Limit, string(v.rec.ID), "%d connections to its 127.0.0.1 are open, which is the maximum", maxLoopback).
			WithHint("close some, or have the server listen on 0.0.0.0:%d", port)
	}
	for _, address := range []string{"127.0.0.1", "::1"} {
		address = net.JoinHostPort(address, strconv.Itoa(int(port)))
		if conn, err := v.guest.DialSocket(ctx, vm.SocketSpec{User: loopbackUser, Network: "tcp", Address: address}); err == nil {
			return &placed{Conn: conn, give: give}, nil
		}
	}
	give()
	return nil, vm.Errorf(vm.Unavailable, string(v.rec.ID), "nothing listens on port %d, neither on its network nor on 127.0.0.1 or [::1]: %w", port, refused).
		WithHint("start a server in the VM that listens on port %d", port)
}

// places limits the connections to one guest's loopback.
type places struct {
	taken chan struct{} // holds one value for each connection
	users int           // connections and waiters; guarded by Inside.mu
}

// takePlace waits for one of the places for connections to a guest's loopback. give
// returns the place.
func (in *Inside) takePlace(ctx context.Context, guest engine.Ports) (give func(), err error) {
	in.mu.Lock()
	p := in.loopback[guest]
	if p == nil {
		p = &places{taken: make(chan struct{}, maxLoopback)}
		in.loopback[guest] = p
	}
	p.users++
	in.mu.Unlock()
	leave := func() {
		in.mu.Lock()
		defer in.mu.Unlock()
		if p.users--; p.users == 0 {
			delete(in.loopback, guest)
		}
	}
	select {
	case p.taken <- struct{}{}:
		return sync.OnceFunc(func() { <-p.taken; leave() }), nil
	case <-ctx.Done():
		leave()
		return nil, context.Cause(ctx)
	}
}

// placed is a connection to a guest's loopback. Closing it returns its place.
type placed struct {
	net.Conn
	give func()
}

func (p *placed) Close() error {
	defer p.give()
	return p.Conn.Close()
}

// CloseWrite closes the sending side.
func (p *placed) CloseWrite() error { return closeWrite(p.Conn) }

// dialEvery is the pause between two attempts.
const dialEvery = 100 * time.Millisecond

// justBooted reports whether the machine was booted, not resumed, a moment ago.
func (v *visit) justBooted() bool {
	return v.rec.Generation == "" && v.rec.StartedAt.After(v.rec.CreatedAt) && v.in.now().Sub(v.rec.StartedAt) < bootPatience
}
