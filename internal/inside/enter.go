// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package inside

import (
	"cmp"
	"context"
	"errors"
	"io"
	"net"
	"strconv"
	"sync/atomic"
	"time"

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
		u, err := v.guest.LinuxUser(ctx, cmp.Or(name, v.rec.User))
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

// OpenHandle opens a file for reading and writing in parts, until ctx ends. A handle that can
// read and change has an approval and an audit record for each of both.
func (in *Inside) OpenHandle(ctx context.Context, c *vm.Call, ref, user, path string, o vm.OpenOptions) (engine.File, error) {
	verbs := handleVerbs(o)
	calls := make([]*vm.Call, len(verbs)) // one for each, because a call has one approval
	for i, verb := range verbs {
		one := *c
		calls[i] = &one
		what := onPath(verb, user, path, handleFacts(verb, o))
		if verb == vm.OpWrite && (o.Write || o.Append) {
			what.Details["content"] = "the caller sends it afterwards; it is not shown"
		}
		if err := in.approved(ctx, calls[i], ref, what); err != nil {
			return nil, err
		}
	}
	out := &file{reads: verbs[len(verbs)-1] == vm.OpRead, writes: verbs[0] == vm.OpWrite}
	for i, verb := range verbs {
		v, err := in.recorded(ctx, calls[i], ref, user, fileEntry(verb, path, user, handleFacts(verb, o)))
		c.Receipt = cmp.Or(c.Receipt, calls[i].Receipt)
		if err != nil {
			out.end(err)
			return nil, err
		}
		out.visits = append(out.visits, v)
	}
	v := out.visits[0]
	f, err := open(v, func(ctx context.Context) (engine.File, error) { return v.guest.OpenHandle(ctx, user, v.path(path), o) })
	if err != nil {
		out.end(err)
		return nil, err
	}
	out.f, out.pulse = f, newPulse(v)
	for _, other := range out.visits[1:] {
		other.CountTraffic() // else an idle handle would keep the VM awake
	}
	out.stop = context.AfterFunc(v.ctx, func() { out.end(v.Fail(v.ctx, context.Cause(v.ctx))) })
	return out, nil
}

// handleVerbs are the verbs of a handle: OpWrite for whatever may change the file, then OpRead
// if its content can be read, or if nothing else is asked for.
func handleVerbs(o vm.OpenOptions) (list []vm.Op) {
	if o.Write || o.Append || o.Create || o.Truncate {
		list = append(list, vm.OpWrite)
	}
	if o.Read || len(list) == 0 {
		list = append(list, vm.OpRead)
	}
	return list
}

// handleFacts says how a handle may change the file.
func handleFacts(verb vm.Op, o vm.OpenOptions) facts {
	f := facts{"as": "an open file"}
	if verb == vm.OpRead {
		return f
	}
	for name, on := range map[string]bool{"append": o.Append, "create": o.Create, "truncate": o.Truncate, "exclusive": o.Exclusive} {
		if on {
			f[name] = "yes"
		}
	}
	if o.Create {
		f["mode"] = octal(cmp.Or(o.Mode, 0o644))
	}
	return f
}

// file is an open file of a guest.
type file struct {
	f engine.File
	*pulse
	visits        []*visit // each with a record
	reads, writes bool     // which records there are
	stop          func() bool
	in, out       atomic.Int64
}

// unrecorded is the error of a use of a handle that has no record of it.
func unrecorded(way string) error {
	return vm.Errorf(vm.Denied, "", "the file was not opened for %s", way)
}

var _ io.ReaderAt = (*file)(nil)

func (f *file) ReadAt(p []byte, at int64) (int, error) {
	if !f.reads {
		return 0, unrecorded("reading")
	}
	n, err := f.f.ReadAt(p, at)
	f.out.Add(int64(n))
	f.beat(n)
	if errors.Is(err, io.EOF) {
		return n, err
	}
	return n, f.v.Fail(f.v.ctx, err)
}

func (f *file) WriteAt(p []byte, at int64) (int, error) {
	if !f.writes {
		return 0, unrecorded("writing")
	}
	n, err := f.f.WriteAt(p, at)
	f.in.Add(int64(n))
	f.beat(n)
	return n, f.v.Fail(f.v.ctx, err)
}

func (f *file) detail() map[string]any {
	return map[string]any{"bytesIn": f.in.Load(), "bytesOut": f.out.Load()}
}

// end ends the visits, and so the records.
func (f *file) end(err error) {
	for _, v := range f.visits {
		v.End(err, f.detail())
	}
}

func (f *file) Close() error {
	f.stop()
	err := f.f.Close()
	f.end(nil)
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
	return in.change(ctx, c, ref, vm.OpChmod, path, user, attrFacts(a), func(ctx context.Context, v *visit) error {
		return v.guest.SetAttr(ctx, user, v.path(path), a)
	})
}

// attrFacts says what a change of attributes sets.
func attrFacts(a vm.FileAttr) facts {
	f := facts{}
	if a.Size != nil {
		f["size"] = strconv.FormatInt(*a.Size, 10)
	}
	if a.Mode != nil {
		f["mode"] = octal(*a.Mode)
	}
	if a.UID != nil && a.GID != nil {
		f["owner"] = strconv.Itoa(*a.UID) + ":" + strconv.Itoa(*a.GID)
	}
	for name, at := range map[string]time.Time{"accessed": a.Atime, "modified": a.Mtime} {
		if !at.IsZero() {
			f[name] = at.UTC().Format(time.RFC3339)
		}
	}
	return f
}

// Link gives the file at target a second name.
func (in *Inside) Link(ctx context.Context, c *vm.Call, ref, user, target, path string) error {
	return in.change(ctx, c, ref, vm.OpSymlink, path+" -> "+target, user, facts{"as": "a second name of the file"}, func(ctx context.Context, v *visit) error {
		return v.guest.Link(ctx, user, v.path(target), v.path(path))
	})
}
