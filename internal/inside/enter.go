// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package inside

import (
	"cmp"
	"context"
	"errors"
	"io"
	"net"
	"sync/atomic"

	"github.com/warren-vm/warren/internal/engine"
	"github.com/warren-vm/warren/vm"
)

// Enter records a login to a VM from outside the API. It returns the VM and a function
// that records the end. It does not wake the VM.
func (in *Inside) Enter(ctx context.Context, c *vm.Call, ref string, detail map[string]any) (vm.VM, func(error, map[string]any), error) {
	rec, err := in.cfg.Engine.Get(ctx, c, ref)
	if err != nil {
		return rec, nil, err
	}
	r, err := in.cfg.Journal.Begin(ctx, c, vm.AuditEntry{Op: vm.OpLogin, VM: rec.ID, Subject: label(rec), Detail: detail})
	if err != nil {
		return rec, nil, vm.WithOp(vm.OpLogin, ref, err)
	}
	return rec, r.End, nil
}

// LinuxUser returns a user of the guest and the directory in which that user's commands
// start in this VM; "" is root.
func (in *Inside) LinuxUser(ctx context.Context, c *vm.Call, ref, name string) (vm.LinuxUser, error) {
	return ask(ctx, in, c, ref, vm.OpSocket, name, func(ctx context.Context, v *visit) (vm.LinuxUser, error) {
		u, err := v.guest.LinuxUser(ctx, name)
		u.Workdir = cmp.Or(v.path(""), u.Home)
		return u, err
	})
}

// pulse counts the traffic of a stream as the VM's activity, not the open stream itself.
type pulse struct {
	traffic
	moved *atomic.Int64
}

// newPulse makes a visit count by its traffic.
func newPulse(v *visit) *pulse {
	v.CountTraffic()
	return &pulse{traffic: traffic{v: v}, moved: v.guard()}
}

// beat counts n bytes.
func (p *pulse) beat(n int) {
	p.moved.Add(int64(n))
	p.count(n)
}

// DialSocket connects to a socket inside a guest, over the guest's own network. The
// traffic counts as the VM's activity.
func (in *Inside) DialSocket(ctx context.Context, c *vm.Call, ref string, s vm.SocketSpec) (net.Conn, error) {
	if err := in.dials(ctx, c, ref, "connect to", s); err != nil {
		return nil, err
	}
	v, err := in.visitBeyond(ctx, c, ref, vm.OpSocket, s.User)
	if err != nil {
		return nil, err
	}
	bounded, stop := v.bounded(0)
	defer stop()
	unhook := context.AfterFunc(ctx, stop)
	defer unhook()
	conn, err := v.guest.DialSocket(bounded, s)
	if err != nil {
		err = v.Fail(bounded, err)
		v.End(err, nil)
		return nil, err
	}
	return newStream(v, conn, newPulse(v)), nil
}

// stream is a connection into a guest that is closed when the machine ends.
type stream struct {
	net.Conn
	*pulse
	stop func() bool
}

func newStream(v *visit, conn net.Conn, p *pulse) *stream {
	return &stream{Conn: conn, pulse: p, stop: context.AfterFunc(v.ctx, func() { _ = conn.Close() })}
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

// CloseWrite closes the sending side; the other side may continue.
func (s *stream) CloseWrite() error {
	return closeWrite(s.Conn)
}

// closeWrite closes the sending side if the connection supports that.
func closeWrite(conn net.Conn) error {
	if c, ok := conn.(interface{ CloseWrite() error }); ok {
		return c.CloseWrite()
	}
	return nil
}

func (s *stream) Close() error {
	s.stop()
	err := s.Conn.Close()
	s.v.End(nil, nil)
	return err
}

// ListenSocket listens on a socket inside a guest until the listener is closed, ctx ends,
// or the machine does.
func (in *Inside) ListenSocket(ctx context.Context, c *vm.Call, ref string, s vm.SocketSpec) (engine.SocketListener, error) {
	if err := in.dials(ctx, c, ref, "listen on", s); err != nil {
		return nil, err
	}
	v, err := in.visit(ctx, c, ref, vm.OpSocket, s.User)
	if err != nil {
		return nil, err
	}
	l, err := open(v, func(ctx context.Context) (engine.SocketListener, error) { return v.guest.ListenSocket(ctx, s) })
	if err != nil {
		return nil, err
	}
	out := &socketListener{SocketListener: l, c: c, user: s.User, p: newPulse(v)}
	out.stop = context.AfterFunc(v.ctx, func() { v.End(nil, nil) })
	return out, nil
}

type socketListener struct {
	engine.SocketListener
	c    *vm.Call
	user string
	p    *pulse
	stop func() bool
}

// Accept waits for a connection. Each is a visit of its own.
func (l *socketListener) Accept() (net.Conn, string, error) {
	conn, peer, err := l.SocketListener.Accept()
	if err != nil {
		return nil, "", err
	}
	at := l.p.v
	v, err := at.in.visit(context.WithoutCancel(at.ctx), l.c, string(at.rec.ID), vm.OpSocket, l.user)
	if err != nil {
		_ = conn.Close()
		return nil, "", err
	}
	l.p.beat(1)
	return newStream(v, conn, newPulse(v)), peer, nil
}

func (l *socketListener) Close() error {
	l.stop()
	err := l.SocketListener.Close()
	l.p.v.End(nil, nil)
	return err
}

// OpenHandle opens a file for reading and writing in parts, until ctx ends.
func (in *Inside) OpenHandle(ctx context.Context, c *vm.Call, ref, user, path string, o vm.OpenOptions) (engine.File, error) {
	verb := vm.OpRead
	if o.Write {
		verb = vm.OpWrite
	}
	what := onPath(verb, user, path)
	if verb == vm.OpWrite {
		what.Details = map[string]string{"content": "the caller sends it afterwards; it is not shown"}
	}
	if err := in.approved(ctx, c, ref, what); err != nil {
		return nil, err
	}
	v, err := in.recorded(ctx, c, ref, user, fileEntry(verb, path, user))
	if err != nil {
		return nil, err
	}
	f, err := open(v, func(ctx context.Context) (engine.File, error) { return v.guest.OpenHandle(ctx, user, v.path(path), o) })
	if err != nil {
		return nil, err
	}
	out := &file{f: f, pulse: newPulse(v)}
	out.stop = context.AfterFunc(v.ctx, func() { v.End(v.Fail(v.ctx, context.Cause(v.ctx)), out.detail()) })
	return out, nil
}

// file is an open file of a guest.
type file struct {
	f engine.File
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
	return n, f.v.Fail(f.v.ctx, err)
}

func (f *file) WriteAt(p []byte, at int64) (int, error) {
	n, err := f.f.WriteAt(p, at)
	f.in.Add(int64(n))
	f.beat(n)
	return n, f.v.Fail(f.v.ctx, err)
}

func (f *file) detail() map[string]any {
	return map[string]any{"bytesIn": f.in.Load(), "bytesOut": f.out.Load()}
}

func (f *file) Close() error {
	f.stop()
	err := f.f.Close()
	f.v.End(nil, f.detail())
	return err
}

// StatFollow describes a path, following a symlink at its end.
func (in *Inside) StatFollow(ctx context.Context, c *vm.Call, ref, user, path string) (vm.FileInfo, error) {
	return ask(ctx, in, c, ref, vm.OpRead, user, func(ctx context.Context, v *visit) (vm.FileInfo, error) {
		return v.guest.StatFollow(ctx, user, v.path(path))
	})
}

// SetAttr changes attributes of a file.
func (in *Inside) SetAttr(ctx context.Context, c *vm.Call, ref, user, path string, a vm.FileAttr) error {
	return in.change(ctx, c, ref, vm.OpChmod, path, user, func(ctx context.Context, v *visit) error {
		return v.guest.SetAttr(ctx, user, v.path(path), a)
	})
}

// Link gives the file at target a second name.
func (in *Inside) Link(ctx context.Context, c *vm.Call, ref, user, target, path string) error {
	return in.change(ctx, c, ref, vm.OpSymlink, path+" -> "+target, user, func(ctx context.Context, v *visit) error {
		return v.guest.Link(ctx, user, v.path(target), v.path(path))
	})
}
