// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"cmp"
	"context"
	"errors"
	"io"
	"net"
	"sync/atomic"

	"github.com/warren-vm/warren/vm"
)

// Enter records that somebody logs in to a VM from outside the API, and returns
// the VM and a function that records the end. It wakes nothing.
func (e *Engine) Enter(ctx context.Context, c *vm.Call, ref string, detail map[string]any) (vm.VM, func(error, map[string]any), error) {
	e.mu.Lock()
	s, err := e.lookupLocked(c.Actor, ref)
	var rec vm.VM
	if err == nil {
		rec = s.rec
	}
	e.mu.Unlock()
	if err != nil {
		return rec, nil, fail(vm.OpLogin, ref, err)
	}
	r, err := e.record(ctx, c, vm.AuditEntry{Op: vm.OpLogin, VM: rec.ID, Subject: label(rec), Detail: detail})
	if err != nil {
		return rec, nil, fail(vm.OpLogin, ref, err)
	}
	return rec, r.End, nil
}

// LinuxUser says who a user of the guest is, and where that user's commands
// begin in this VM; "" is root.
func (e *Engine) LinuxUser(ctx context.Context, c *vm.Call, ref, name string) (vm.LinuxUser, error) {
	c.User = name
	return ask(ctx, e, c, ref, vm.OpSocket, func(ctx context.Context, v *visit) (vm.LinuxUser, error) {
		u, err := v.guest.LinuxUser(ctx, name)
		u.Workdir = cmp.Or(v.path(""), u.Home)
		return u, err
	})
}

// pulse makes what goes through a stream the VM's activity, and not that
// somebody holds the stream open.
type pulse struct {
	traffic
	moved *atomic.Int64
}

// newPulse takes over a visit.
func newPulse(v *visit) *pulse {
	v.loosen()
	return &pulse{traffic: traffic{v: v}, moved: v.guard()}
}

// beat notes n bytes.
func (p *pulse) beat(n int) {
	p.moved.Add(int64(n))
	p.count(n)
}

// DialSocket connects to a socket inside a guest, by the guest's own network.
// What goes through the connection is the VM's activity.
func (e *Engine) DialSocket(ctx context.Context, c *vm.Call, ref string, s vm.SocketSpec) (net.Conn, error) {
	c.User = s.User
	v, err := e.visit(context.WithoutCancel(ctx), c, ref, vm.OpSocket)
	if err != nil {
		return nil, err
	}
	bounded, stop := v.bounded()
	defer stop()
	unhook := context.AfterFunc(ctx, stop)
	defer unhook()
	conn, err := v.guest.DialSocket(bounded, s)
	if err != nil {
		err = v.fail(bounded, err)
		v.end(err, nil)
		return nil, err
	}
	return newStream(v, conn), nil
}

// stream is a connection into a guest, cut when the machine ends.
type stream struct {
	net.Conn
	*pulse
	stop func() bool
}

func newStream(v *visit, conn net.Conn) *stream {
	return &stream{Conn: conn, pulse: newPulse(v), stop: context.AfterFunc(v.ctx, func() { _ = conn.Close() })}
}

func (s *stream) Read(p []byte) (int, error) {
	n, err := s.Conn.Read(p)
	s.beat(n)
	return n, err
}

func (s *stream) Write(p []byte) (int, error) {
	n, err := s.Conn.Write(p)
	s.beat(n)
	return n, err
}

// CloseWrite ends this side's bytes; the other's may go on.
func (s *stream) CloseWrite() error {
	if c, ok := s.Conn.(interface{ CloseWrite() error }); ok {
		return c.CloseWrite()
	}
	return nil
}

func (s *stream) Close() error {
	s.stop()
	err := s.Conn.Close()
	s.v.end(nil, nil)
	return err
}

// ListenSocket listens on a socket inside a guest until the listener is closed,
// its context ends, or the machine does.
func (e *Engine) ListenSocket(ctx context.Context, c *vm.Call, ref string, s vm.SocketSpec) (SocketListener, error) {
	c.User = s.User
	v, err := e.visit(ctx, c, ref, vm.OpSocket)
	if err != nil {
		return nil, err
	}
	l, err := open(v, func(ctx context.Context) (SocketListener, error) { return v.guest.ListenSocket(ctx, s) })
	if err != nil {
		return nil, err
	}
	out := &socketListener{SocketListener: l, e: e, c: c, ref: string(v.slot.id), p: newPulse(v)}
	out.stop = context.AfterFunc(v.ctx, func() { v.end(nil, nil) })
	return out, nil
}

type socketListener struct {
	SocketListener
	e    *Engine
	c    *vm.Call
	ref  string
	p    *pulse
	stop func() bool
}

// Accept waits for a connection, which is a visit of its own.
func (l *socketListener) Accept() (net.Conn, string, error) {
	conn, peer, err := l.SocketListener.Accept()
	if err != nil {
		return nil, "", err
	}
	v, err := l.e.visit(context.WithoutCancel(l.p.v.ctx), l.c, l.ref, vm.OpSocket)
	if err != nil {
		_ = conn.Close()
		return nil, "", err
	}
	l.p.beat(1)
	return newStream(v, conn), peer, nil
}

func (l *socketListener) Close() error {
	l.stop()
	err := l.SocketListener.Close()
	l.p.v.end(nil, nil)
	return err
}

// OpenHandle opens a file to be read and written in pieces. ctx is its life.
func (e *Engine) OpenHandle(ctx context.Context, c *vm.Call, ref, user, path string, o vm.OpenOptions) (File, error) {
	c.User = user
	verb := vm.OpRead
	if o.Write {
		verb = vm.OpWrite
	}
	v, err := e.visit(ctx, c, ref, verb)
	if err != nil {
		return nil, err
	}
	if err := v.recordAs(ctx, c, fileEntry(path, user)); err != nil {
		err = v.fail(ctx, err)
		v.end(err, nil)
		return nil, err
	}
	f, err := open(v, func(ctx context.Context) (File, error) { return v.guest.OpenHandle(ctx, user, v.path(path), o) })
	if err != nil {
		return nil, err
	}
	out := &file{f: f, pulse: newPulse(v)}
	out.stop = context.AfterFunc(v.ctx, func() { v.end(v.fail(v.ctx, context.Cause(v.ctx)), out.detail()) })
	return out, nil
}

// file is an open file of a guest.
type file struct {
	f File
	*pulse
	stop    func() bool
	in, out atomic.Int64
}

var _ io.ReaderAt = (*file)(nil)

func (f *file) ReadAt(p []byte, at int64) (int, error) {
	n, err := f.f.ReadAt(p, at)
	f.out.Add(int64(n))
	f.beat(n)
	if errors.Is(err, io.EOF) {
		return n, err
	}
	return n, f.v.fail(f.v.ctx, err)
}

func (f *file) WriteAt(p []byte, at int64) (int, error) {
	n, err := f.f.WriteAt(p, at)
	f.in.Add(int64(n))
	f.beat(n)
	return n, f.v.fail(f.v.ctx, err)
}

func (f *file) detail() map[string]any {
	return map[string]any{"bytesIn": f.in.Load(), "bytesOut": f.out.Load()}
}

func (f *file) Close() error {
	f.stop()
	err := f.f.Close()
	f.v.end(nil, f.detail())
	return err
}

// StatFollow describes a path, following a symlink at its end.
func (e *Engine) StatFollow(ctx context.Context, c *vm.Call, ref, user, path string) (vm.FileInfo, error) {
	c.User = user
	return ask(ctx, e, c, ref, vm.OpRead, func(ctx context.Context, v *visit) (vm.FileInfo, error) {
		return v.guest.StatFollow(ctx, user, v.path(path))
	})
}

// SetAttr changes attributes of a file.
func (e *Engine) SetAttr(ctx context.Context, c *vm.Call, ref, user, path string, a vm.FileAttr) error {
	return e.change(ctx, c, ref, vm.OpChmod, path, user, func(ctx context.Context, v *visit) error {
		return v.guest.SetAttr(ctx, user, v.path(path), a)
	})
}

// Link gives the file at target a second name.
func (e *Engine) Link(ctx context.Context, c *vm.Call, ref, user, target, path string) error {
	return e.change(ctx, c, ref, vm.OpSymlink, path+" -> "+target, user, func(ctx context.Context, v *visit) error {
		return v.guest.Link(ctx, user, v.path(target), v.path(path))
	})
}
