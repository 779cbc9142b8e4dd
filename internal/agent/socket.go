// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"errors"
	"io"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/warren-vm/warren/internal/link"
	"github.com/warren-vm/warren/vm"
)

// Sockets are created by system calls: package net with its resolver would cost
// every guest a megabyte. To resolve a name, the host runs getent in the guest.

// connectWithin limits the time to connect.
const connectWithin = 20 * time.Second

// maxListeners limits the listening sockets of clients.
const maxListeners = 128

// listeners are the sockets on which clients of the host listen in the guest.
// Each is closed with the stream that requested it.
type listeners struct {
	mu sync.Mutex
	m  map[string]*os.File
	n  int64
}

func (l *listeners) add(f *os.File) (string, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.m) >= maxListeners {
		return "", vm.Errorf(vm.Limit, "", "clients already listen on %d sockets", maxListeners)
	}
	if l.m == nil {
		l.m = make(map[string]*os.File)
	}
	l.n++
	id := strconv.FormatInt(l.n, 10)
	l.m[id] = f
	return id, nil
}

func (l *listeners) find(id string) *os.File {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.m[id]
}

func (l *listeners) remove(id string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.m, id)
}

// target is the socket that a request names.
func (a *Agent) target(r *request) (linuxUser, syscall.Sockaddr, error) {
	u, err := a.users.find(r.query.Get("user"))
	if err != nil {
		return u, nil, err
	}
	address := r.query.Get("address")
	switch r.query.Get("network") {
	case "tcp":
		ap, err := netip.ParseAddrPort(address)
		if err != nil {
			return u, nil, vm.Errorf(vm.Invalid, address, "is not an address and a port")
		}
		if ip := ap.Addr().Unmap(); ip.Is4() {
			return u, &syscall.SockaddrInet4{Port: int(ap.Port()), Addr: ip.As4()}, nil
		}
		return u, &syscall.SockaddrInet6{Port: int(ap.Port()), Addr: ap.Addr().As16()}, nil
	case "unix":
		path, err := u.abs(address)
		return u, &syscall.SockaddrUnix{Name: path}, err
	}
	return u, nil, vm.Errorf(vm.Invalid, r.query.Get("network"), "is not a kind of socket")
}

// streamSocket creates a socket for an address.
func streamSocket(sa syscall.Sockaddr) (int, error) {
	family := syscall.AF_UNIX
	switch sa.(type) {
	case *syscall.SockaddrInet4:
		family = syscall.AF_INET
	case *syscall.SockaddrInet6:
		family = syscall.AF_INET6
	}
	return syscall.Socket(family, syscall.SOCK_STREAM|syscall.SOCK_NONBLOCK|syscall.SOCK_CLOEXEC, 0)
}

// dialSocket connects to a socket of the guest, or through its network, and
// turns the stream into that connection.
func (a *Agent) dialSocket(w *answer, r *request) error {
	u, sa, err := a.target(r)
	if err != nil {
		return err
	}
	f, err := connect(u, sa)
	if err != nil {
		return vm.Errorf(vm.Unavailable, r.query.Get("address"), "cannot connect: %w", err)
	}
	return w.relay(r, f, "")
}

func connect(u linuxUser, sa syscall.Sockaddr) (*os.File, error) {
	fd := -1
	err := u.do(func() (err error) {
		if fd, err = streamSocket(sa); err != nil {
			return err
		}
		if err = syscall.Connect(fd, sa); errors.Is(err, syscall.EINPROGRESS) {
			return nil
		}
		return err
	})
	if err != nil {
		if fd >= 0 {
			_ = syscall.Close(fd)
		}
		return nil, err
	}
	f := os.NewFile(uintptr(fd), "socket")
	_ = f.SetWriteDeadline(time.Now().Add(connectWithin))
	var cerr error
	err = control(f, true, func(fd int) bool {
		switch cerr = syscall.Connect(fd, sa); cerr {
		case syscall.EISCONN:
			cerr = nil
		case syscall.EALREADY, syscall.EINPROGRESS, syscall.EINTR:
			return false
		}
		return true
	})
	if err = errors.Join(err, cerr); err != nil {
		_ = f.Close()
		return nil, err
	}
	return f, f.SetWriteDeadline(time.Time{})
}

// control calls fn until it returns true, each time after the socket has
// become writable or readable.
func control(f *os.File, write bool, fn func(fd int) bool) error {
	raw, err := f.SyscallConn()
	if err != nil {
		return err
	}
	once := func(fd uintptr) bool { return fn(int(fd)) }
	if write {
		return raw.Write(once)
	}
	return raw.Read(once)
}

// relay answers with the head of a stream, with word in a header line, and
// copies both ways until both are done or the session ends. It closes f.
func (w *answer) relay(r *request, f *os.File, word string) error {
	defer f.Close()
	defer context.AfterFunc(r.ctx, func() { _ = f.SetDeadline(time.Unix(1, 0)) })()
	w.started, w.closing = true, true
	b := make([]byte, len(upgraded)+link.FrameHeader, len(upgraded)+link.FrameHeader+len(word))
	copy(b, upgraded)
	link.PutFrameHeader(b[len(upgraded):], link.FrameStarted, len(word))
	if _, err := w.conn.Write(append(b, word...)); err != nil {
		return err
	}
	over := make(chan struct{})
	go func() { // ends with the stream, which serveConn closes, or with f
		defer close(over)
		buf := make([]byte, 32<<10)
		if _, err := io.CopyBuffer(struct{ io.Writer }{f}, struct{ io.Reader }{r.in}, buf); err != nil {
			_ = f.SetDeadline(time.Unix(1, 0))
			return
		}
		_ = control(f, true, func(fd int) bool { _ = syscall.Shutdown(fd, syscall.SHUT_WR); return true })
	}()
	buf := make([]byte, 32<<10)
	_, err := io.CopyBuffer(struct{ io.Writer }{w.conn}, struct{ io.Reader }{f}, buf)
	_ = w.conn.Close() // closes this direction only
	if err != nil {
		return err
	}
	<-over
	return nil
}

// listenSocket listens on a socket of the guest until the stream ends.
func (a *Agent) listenSocket(w *answer, r *request) error {
	dir := ""
	if r.query.Get("network") == "unix" && r.query.Get("address") == "" {
		u, err := a.users.find(r.query.Get("user"))
		if err != nil {
			return err
		}
		if err := u.do(func() (err error) { dir, err = os.MkdirTemp("/tmp", "ssh-"); return err }); err != nil {
			return fileError("/tmp", err)
		}
		defer func() { _ = u.do(func() error { return os.Remove(dir) }) }() // fails if it is not empty
		r.query.Set("address", filepath.Join(dir, "agent"))
	}
	u, sa, err := a.target(r)
	if err != nil {
		return err
	}
	f, address, err := listen(u, sa)
	if err != nil {
		return vm.Errorf(vm.Unavailable, r.query.Get("address"), "cannot listen: %w", err)
	}
	defer f.Close()
	if path, ok := sa.(*syscall.SockaddrUnix); ok {
		defer func() { _ = u.do(func() error { return os.Remove(path.Name) }) }() // somebody may have removed it
	}
	id, err := a.socks.add(f)
	if err != nil {
		return err
	}
	defer a.socks.remove(id)
	ctx, stop := r.untilGone(w)
	defer stop()
	w.started = true
	if _, err := io.WriteString(w.conn, upgraded); err != nil {
		return err
	}
	if err := link.WriteFrame(w.conn, link.FrameStarted, []byte(id+" "+address)); err != nil {
		return err
	}
	<-ctx.Done()
	_ = f.SetDeadline(time.Unix(1, 0))
	return context.Cause(ctx)
}

// listen returns the socket and the address that it is bound to.
func listen(u linuxUser, sa syscall.Sockaddr) (f *os.File, address string, err error) {
	fd := -1
	err = u.do(func() (err error) {
		if fd, err = streamSocket(sa); err != nil {
			return err
		}
		if _, ok := sa.(*syscall.SockaddrUnix); !ok {
			if err := syscall.SetsockoptInt(fd, syscall.SOL_SOCKET, syscall.SO_REUSEADDR, 1); err != nil {
				return err
			}
		}
		if err := syscall.Bind(fd, sa); err != nil {
			return err
		}
		return syscall.Listen(fd, 128)
	})
	if err == nil {
		sa, err = syscall.Getsockname(fd)
	}
	if err != nil {
		if fd >= 0 {
			_ = syscall.Close(fd)
		}
		return nil, "", err
	}
	return os.NewFile(uintptr(fd), "listener"), addressOf(sa), nil
}

func addressOf(sa syscall.Sockaddr) string {
	switch sa := sa.(type) {
	case *syscall.SockaddrInet4:
		return netip.AddrPortFrom(netip.AddrFrom4(sa.Addr), uint16(sa.Port)).String()
	case *syscall.SockaddrInet6:
		return netip.AddrPortFrom(netip.AddrFrom16(sa.Addr), uint16(sa.Port)).String()
	case *syscall.SockaddrUnix:
		return strings.TrimPrefix(sa.Name, "@")
	}
	return ""
}

// acceptSocket waits for a connection to a listening socket and turns the
// stream into it. It ends with the listener at the latest.
func (a *Agent) acceptSocket(w *answer, r *request) error {
	l := a.socks.find(r.query.Get("id"))
	if l == nil {
		return vm.Errorf(vm.NotFound, r.query.Get("id"), "nobody listens any more")
	}
	fd, peer := -1, syscall.Sockaddr(nil)
	var aerr error
	err := control(l, false, func(lfd int) bool {
		fd, peer, aerr = syscall.Accept4(lfd, syscall.SOCK_NONBLOCK|syscall.SOCK_CLOEXEC)
		return !errors.Is(aerr, syscall.EAGAIN) && !errors.Is(aerr, syscall.EINTR)
	})
	if err = errors.Join(err, aerr); err != nil {
		return vm.Errorf(vm.Unavailable, "", "nobody listens any more: %w", err)
	}
	return w.relay(r, os.NewFile(uintptr(fd), "socket"), addressOf(peer))
}
