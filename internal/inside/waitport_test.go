// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package inside_test

import (
	"context"
	"net"
	"testing"
	"time"

	"github.com/warren-vm/warren/internal/engine"
	"github.com/warren-vm/warren/vm"
)

// freePort is one of this host on which nothing listens; the simulated guest
// has this host's loopback.
func freePort(t *testing.T, host string) *net.TCPAddr {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", net.JoinHostPort(host, "0"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr)
}

// TestWaitPort: the wait ends when a program listens on a loopback address, or with the
// caller; it keeps the VM awake.
func TestWaitPort(t *testing.T) {
	s, e, c := site(t)
	create(t, e, c, engine.CreateRequest{Name: "box"})
	for _, host := range []string{"127.0.0.1", "::1"} {
		at := freePort(t, host)
		s.World.Serve(at.String())
		done := make(chan error, 1)
		go func() { done <- e.WaitPort(t.Context(), &vm.Call{Actor: c.Actor}, "box", uint16(at.Port)) }()
		eventually(t, "somebody waits", func() bool { return len(idleOf(t, e, c, "box").Awake) == 1 })
		select {
		case err := <-done:
			t.Fatalf("nothing listens yet: %v", err)
		default:
		}
		l, err := net.ListenTCP("tcp", at)
		if err != nil {
			t.Fatal(err)
		}
		if err := <-done; err != nil {
			t.Errorf("after something listened on %s the wait ended with %v", host, err)
		}
		_ = l.Close()
		if i := idleOf(t, e, c, "box"); len(i.Awake) != 0 {
			t.Errorf("afterwards it is kept awake: %+v", i.Awake)
		}
	}
	why := vm.Errorf(vm.Timeout, "box", "long enough")
	ctx, stop := context.WithTimeoutCause(t.Context(), time.Millisecond, why)
	defer stop()
	if err := e.WaitPort(ctx, c, "box", uint16(freePort(t, "127.0.0.1").Port)); vm.KindOf(err) != vm.Timeout || vm.AsError(err).Msg != why.Msg {
		t.Errorf("a wait that lasted too long ends with %v, want its cause %v", err, why)
	}
	err := e.WaitPort(t.Context(), c, "none", 7)
	wantCode(t, err, vm.NotFound, "VM_NOT_FOUND")
}

// TestWaitPortOutside: a server that listens only on the guest's network is found by the
// first attempt, too: no time passes here.
func TestWaitPortOutside(t *testing.T) {
	s, e, c, _ := clocked(t)
	create(t, e, c, engine.CreateRequest{Name: "box"})
	s.World.Fail("guest.dial", vm.Errorf(vm.Unavailable, "", "nothing listens on a loopback"))
	ctx, stop := context.WithTimeout(t.Context(), 5*time.Second)
	defer stop()
	if err := e.WaitPort(ctx, c, "box", 7); err != nil {
		t.Errorf("the wait for a port outside a loopback ended with %v", err)
	}
}

// TestWaitPortEnds: stopping the VM ends the wait, with that reason.
func TestWaitPortEnds(t *testing.T) {
	_, e, c := site(t)
	create(t, e, c, engine.CreateRequest{Name: "box"})
	port := uint16(freePort(t, "127.0.0.1").Port)
	done := make(chan error, 1)
	go func() { done <- e.WaitPort(t.Context(), &vm.Call{Actor: c.Actor}, "box", port) }()
	eventually(t, "somebody waits", func() bool { return len(idleOf(t, e, c, "box").Awake) == 1 })
	if _, err := e.Stop(t.Context(), c, "box"); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err == nil || vm.KindOf(err) == vm.Internal {
		t.Errorf("a stopped VM ends the wait with %v, want an error that says so", err)
	} else {
		t.Log(err)
	}
}
