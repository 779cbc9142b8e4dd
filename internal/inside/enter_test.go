// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package inside_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/warren-vm/warren/internal/engine"
	"github.com/warren-vm/warren/vm"
)

// TestSocketIdle: bytes through a connection into the guest are activity, the open
// connection is not; it is cut when the VM falls asleep.
func TestSocketIdle(t *testing.T) {
	_, e, c, clock := clocked(t)
	ctx := t.Context()
	create(t, e, c, engine.CreateRequest{Name: "box", IdleTimeout: vm.Some(vm.Seconds(60 * time.Second))})
	conn, err := e.DialSocket(ctx, c, "box", vm.SocketSpec{Network: "tcp", Address: "127.0.0.1:7"})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	buf := make([]byte, 1)
	for range 4 {
		pass(clock, 40*time.Second)
		if _, err := conn.Write([]byte("x")); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(conn, buf); err != nil {
			t.Fatal(err)
		}
	}
	if st := stateOf(t, e, c, "box"); st != vm.Running {
		t.Fatalf("%q in spite of traffic", st)
	}
	eventually(t, "it sleeps", func() bool { clock.Advance(time.Second); return stateOf(t, e, c, "box") == vm.Suspended })
	if _, err := io.ReadFull(conn, buf); err == nil {
		t.Error("the connection lives")
	}
	if _, err := e.LinuxUser(ctx, c, "box", ""); err != nil {
		t.Errorf("it does not wake: %v", err)
	}
}

// TestSocketRights: an identity reaches the sockets and files of its granted Linux users,
// and its login is recorded as its own.
func TestSocketRights(t *testing.T) {
	_, e, c := site(t)
	ctx := t.Context()
	create(t, e, c, engine.CreateRequest{Name: "box"})
	i, err := e.CreateIdentity(ctx, c, "")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := e.GrantVM(ctx, c, string(i.ID), "box", []string{"dev"}); err != nil {
		t.Fatal(err)
	}
	as := func() *vm.Call {
		return &vm.Call{Actor: vm.Actor{Account: c.Actor.Account, Identity: i.ID}, Request: vm.NewRequestID()}
	}
	for what, f := range map[string]func() error{
		"user":   func() error { _, err := e.LinuxUser(ctx, as(), "box", "root"); return err },
		"dial":   func() error { _, err := e.DialSocket(ctx, as(), "box", vm.SocketSpec{Network: "tcp"}); return err },
		"listen": func() error { _, err := e.ListenSocket(ctx, as(), "box", vm.SocketSpec{Network: "tcp"}); return err },
		"open": func() error {
			_, err := e.OpenHandle(ctx, as(), "box", "", "/etc/hostname", vm.OpenOptions{Read: true})
			return err
		},
		"stat": func() error { _, err := e.StatFollow(ctx, as(), "box", "", "/"); return err },
		"attr": func() error { return e.SetAttr(ctx, as(), "box", "", "/etc/hostname", vm.FileAttr{}) },
		"link": func() error { return e.Link(ctx, as(), "box", "", "/etc/hostname", "/x") },
	} {
		if err := f(); !errors.Is(err, vm.Denied) {
			t.Errorf("%s without the right gives %v, want it denied", what, err)
		}
	}
	rec, left, err := e.Enter(ctx, as(), "box", map[string]any{"how": "key"})
	if err != nil || rec.Name != "box" {
		t.Fatalf("the login leads to %q (%v), want box", rec.Name, err)
	}
	left(nil, nil)
	records, err := e.AuditList(ctx, c, vm.AuditFilter{})
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, r := range records {
		if r.Op == vm.OpLogin && r.Actor.Identity == i.ID && r.VM == rec.ID {
			found++
		}
	}
	if found != 1 {
		t.Errorf("%d records of the login", found)
	}
	if _, _, err := e.Enter(ctx, as(), "other", nil); !errors.Is(err, vm.Denied) {
		t.Errorf("a login to a VM without a permission gives %v, want it denied", err)
	}
}

// TestHandleRecord: opening a file leaves an audit record with the bytes transferred.
func TestHandleRecord(t *testing.T) {
	_, e, c := site(t)
	ctx := t.Context()
	create(t, e, c, engine.CreateRequest{Name: "box"})
	f, err := e.OpenHandle(ctx, c, "box", "", "/root/f", vm.OpenOptions{Write: true, Create: true})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt([]byte("12345"), 2); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	records, err := e.AuditList(ctx, c, vm.AuditFilter{})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range records {
		if r.Op == vm.OpWrite && r.Subject == "/root/f" {
			if r.Detail["bytesIn"] != int64(5) {
				t.Errorf("the write of 5 bytes is recorded with %+v", r.Detail)
			}
			return
		}
	}
	t.Error("no record")
}

// TestDialLoopback: a port on the guest's loopback can be reached, with IPv4 and IPv6.
func TestDialLoopback(t *testing.T) {
	_, e, c := site(t)
	ctx := t.Context()
	create(t, e, c, engine.CreateRequest{Name: "box"})
	for _, address := range []string{"127.0.0.1:0", "[::1]:0"} {
		l, err := e.ListenSocket(ctx, c, "box", vm.SocketSpec{Network: "tcp", Address: address})
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		at, err := netip.ParseAddrPort(l.Address())
		if err != nil {
			t.Fatal(err)
		}
		conn, err := e.DialPort(ctx, c, "box", at.Port())
		if err != nil {
			t.Fatalf("dial a listener of the guest at %s: %v", address, err)
		}
		guest, _, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := guest.Write([]byte("hello")); err != nil {
			t.Fatal(err)
		}
		buf := make([]byte, 5)
		if _, err := io.ReadFull(conn, buf); err != nil || string(buf) != "hello" {
			t.Errorf("from the guest's listener at %s come %q (%v), want hello", address, buf, err)
		}
		guest.Close()
		conn.Close()
	}
}

// TestDialLoopbackBound: a loopback connection beyond the limit waits until another one
// ends.
func TestDialLoopbackBound(t *testing.T) {
	_, e, c := site(t)
	create(t, e, c, engine.CreateRequest{Name: "box"})
	l, err := e.ListenSocket(t.Context(), c, "box", vm.SocketSpec{Network: "tcp", Address: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	at, err := netip.ParseAddrPort(l.Address())
	if err != nil {
		t.Fatal(err)
	}
	var open []net.Conn
	defer func() {
		for _, conn := range open {
			conn.Close()
		}
	}()
	dial := func(ctx context.Context) error {
		conn, err := e.DialPort(ctx, c, "box", at.Port())
		if err == nil {
			open = append(open, conn)
		}
		return err
	}
	for range 256 {
		if err := dial(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	soon, stop := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer stop()
	if err := dial(soon); err == nil {
		t.Error("one more is let in")
	}
	open[0].Close()
	open[0].Close() // a second Close frees no second place
	if err := dial(t.Context()); err != nil {
		t.Errorf("in the place of one that ended: %v", err)
	}
	again, stop := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer stop()
	if err := dial(again); err == nil {
		t.Error("the place was given twice")
	}
	for _, conn := range open {
		conn.Close()
	}
	if n := e.Inside.Loopbacks(); n != 0 {
		t.Errorf("places of %d guests are kept when all connections are closed", n)
	}
}
