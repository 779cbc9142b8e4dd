// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package vmtest

import (
	"context"
	"io"
	"net"
	"os"
	"slices"
	"time"

	"github.com/warren-vm/warren/internal/engine"
	"github.com/warren-vm/warren/vm"
)

func (g *guest) LinuxUser(ctx context.Context, name string) (vm.LinuxUser, error) {
	if err := g.enter(ctx, "user"); err != nil {
		return vm.LinuxUser{}, err
	}
	uid, err := g.disk.uid(name)
	if name == "" {
		name = "root"
	}
	return vm.LinuxUser{Name: name, UID: uid, GID: uid, Home: home(name), Shell: "/bin/sh"}, err
}

// DialSocket connects to an echo service on port 7 of the loopback, and to sockets of
// ListenSocket. Other ports of this host are not the guest's.
func (g *guest) DialSocket(ctx context.Context, s vm.SocketSpec) (net.Conn, error) {
	if err := g.enter(ctx, "dial"); err != nil {
		return nil, err
	}
	if s.User != "" {
		if _, err := g.disk.uid(s.User); err != nil {
			return nil, err
		}
	}
	if s.Network == "tcp" && s.Address == "127.0.0.1:7" {
		return echo(), nil
	}
	g.mu.Lock()
	ours := s.Network == "unix" || g.listens[s.Address]
	g.mu.Unlock()
	if !ours && !g.m.w.serves(s.Address) {
		return nil, vm.Errorf(vm.Unavailable, s.Address, "cannot connect: connection refused")
	}
	conn, err := (&net.Dialer{}).DialContext(ctx, s.Network, s.Address)
	if err != nil {
		return nil, vm.Errorf(vm.Unavailable, s.Address, "cannot connect: connection refused")
	}
	return conn, nil
}

// ListenSocket listens on this host, since the simulated guest has no network.
func (g *guest) ListenSocket(ctx context.Context, s vm.SocketSpec) (engine.SocketListener, error) {
	if err := g.enter(ctx, "listen"); err != nil {
		return nil, err
	}
	address, dir := s.Address, ""
	if s.Network == "unix" && address == "" {
		var err error
		if dir, err = os.MkdirTemp("", "ssh-"); err != nil {
			return nil, err
		}
		address = dir + "/agent"
	}
	l, err := (&net.ListenConfig{}).Listen(ctx, s.Network, address)
	if err != nil {
		return nil, vm.Errorf(vm.Unavailable, s.Address, "cannot listen: %w", err)
	}
	g.mu.Lock()
	g.listens[l.Addr().String()] = true
	g.mu.Unlock()
	out := &socketListener{Listener: l, dir: dir}
	context.AfterFunc(ctx, func() { _ = out.Close() })
	return out, nil
}

type socketListener struct {
	net.Listener
	dir string
}

func (l *socketListener) Address() string { return l.Addr().String() }

func (l *socketListener) Accept() (net.Conn, string, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, "", err
	}
	return conn, conn.RemoteAddr().String(), nil
}

func (l *socketListener) Close() error {
	err := l.Listener.Close()
	if l.dir != "" {
		_ = os.RemoveAll(l.dir)
	}
	return err
}

func (g *guest) StatFollow(ctx context.Context, user, p string) (vm.FileInfo, error) {
	g.disk.mu.Lock()
	p = g.disk.follow(user, p)
	g.disk.mu.Unlock()
	return g.Stat(ctx, user, p)
}

func (g *guest) OpenHandle(ctx context.Context, user, p string, o vm.OpenOptions) (engine.File, error) {
	if err := g.enter(ctx, "handle"); err != nil {
		return nil, err
	}
	g.disk.mu.Lock()
	p = g.disk.follow(user, p)
	n := g.disk.nodes[p]
	g.disk.mu.Unlock()
	switch {
	case n == nil && !o.Create:
		return nil, noFile(p)
	case n != nil && o.Exclusive:
		return nil, badFile(p, "file exists")
	case n == nil:
		if _, err := g.disk.put(user, p, nil, o.Mode, false); err != nil {
			return nil, err
		}
	case n.kind != vm.FileRegular:
		return nil, badFile(p, "not a regular file")
	case o.Truncate:
		g.disk.mu.Lock()
		n.data = nil
		g.disk.mu.Unlock()
	}
	g.disk.mu.Lock()
	defer g.disk.mu.Unlock()
	return &openFile{d: g.disk, n: g.disk.nodes[p], o: o}, nil
}

type openFile struct {
	d *disk
	n *node
	o vm.OpenOptions
}

func (f *openFile) ReadAt(p []byte, at int64) (int, error) {
	f.d.mu.Lock()
	defer f.d.mu.Unlock()
	if at >= int64(len(f.n.data)) {
		return 0, io.EOF
	}
	n := copy(p, f.n.data[at:])
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

func (f *openFile) WriteAt(p []byte, at int64) (int, error) {
	f.d.mu.Lock()
	defer f.d.mu.Unlock()
	if f.o.Append {
		at = int64(len(f.n.data))
	}
	if short := int(at) + len(p) - len(f.n.data); short > 0 {
		f.n.data = append(slices.Clip(f.n.data), make([]byte, short)...)
	}
	return copy(f.n.data[at:], p), nil
}

func (*openFile) Close() error { return nil }

func (g *guest) SetAttr(ctx context.Context, user, p string, a vm.FileAttr) error {
	if err := g.enter(ctx, "setattr"); err != nil {
		return err
	}
	g.disk.mu.Lock()
	defer g.disk.mu.Unlock()
	p = g.disk.follow(user, p)
	n := g.disk.nodes[p]
	if n == nil {
		return noFile(p)
	}
	if a.Size != nil {
		n.data = append(slices.Clip(n.data), make([]byte, max(0, int(*a.Size)-len(n.data)))...)[:*a.Size]
	}
	if a.Mode != nil {
		n.mode = *a.Mode
	}
	if a.UID != nil {
		n.uid = *a.UID
	}
	if a.Mtime != (time.Time{}) {
		n.mtime = a.Mtime
	}
	return nil
}

func (g *guest) Link(ctx context.Context, user, target, p string) error {
	if err := g.enter(ctx, "link"); err != nil {
		return err
	}
	g.disk.mu.Lock()
	defer g.disk.mu.Unlock()
	n := g.disk.nodes[g.disk.resolve(user, target)]
	if n == nil {
		return noFile(target)
	}
	if p = g.disk.resolve(user, p); g.disk.nodes[p] != nil {
		return badFile(p, "file exists")
	}
	g.disk.nodes[p] = n
	return nil
}

// echo sends back what it receives, until either end is closed.
func echo() net.Conn {
	near, far := net.Pipe()
	go func() { // ends when either end is closed
		defer far.Close()
		buf := make([]byte, 4096)
		for {
			n, err := far.Read(buf)
			if err != nil {
				return
			}
			if _, err := far.Write(buf[:n]); err != nil {
				return
			}
		}
	}()
	return near
}
