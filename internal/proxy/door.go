// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package proxy

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/warren-vm/warren/vm"
)

// Door is the server's end: it gets the requests that monitors forward.
type Door struct {
	// Speaks reports whether a process is the monitor of a VM.
	Speaks func(id vm.ID, pid int) bool
	// Handle answers a request of a VM's programs.
	Handle func(w http.ResponseWriter, r *http.Request, id vm.ID)
	Log    *slog.Logger
}

// peerKey is the context key of the process at the other end.
type peerKey struct{}

// Listen makes the door's socket, mode 0600, in place of one that a server left.
func Listen(ctx context.Context, path string) (net.Listener, error) {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, vm.Errorf(vm.Internal, path, "cannot be replaced: %w", err)
	}
	l, err := (&net.ListenConfig{}).Listen(ctx, "unix", path)
	if err == nil {
		err = os.Chmod(path, 0o600)
	}
	if err != nil {
		return nil, vm.Errorf(vm.Internal, path, "cannot listen for the VMs' own requests: %w", err)
	}
	return l, nil
}

// Serve answers requests until ctx ends, and cuts those in progress then.
func (d *Door) Serve(ctx context.Context, l net.Listener) error {
	server := &http.Server{
		Handler:           http.HandlerFunc(d.handle),
		ReadHeaderTimeout: 10 * time.Second,
		IdleTimeout:       time.Minute,
		ErrorLog:          slog.NewLogLogger(d.Log.Handler(), slog.LevelDebug),
		BaseContext:       func(net.Listener) context.Context { return ctx },
		ConnContext: func(ctx context.Context, c net.Conn) context.Context {
			return context.WithValue(ctx, peerKey{}, peerOf(c))
		},
	}
	stop := context.AfterFunc(ctx, func() { _ = server.Close() })
	defer stop()
	err := server.Serve(l)
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return vm.Errorf(vm.Internal, l.Addr().String(), "serving the VMs' own requests: %w", err)
}

// handle answers a request whose sender is the monitor that it claims to be.
func (d *Door) handle(w http.ResponseWriter, r *http.Request) {
	id := vm.ID(r.Header.Get(headerVM))
	pid, _ := r.Context().Value(peerKey{}).(int)
	if !vm.IsID(string(id)) || pid == 0 || !d.Speaks(id, pid) {
		d.Log.Warn("a process that is not the VM's monitor spoke for it", "vm", id, "pid", pid)
		say(w, http.StatusForbidden, "warren: this is not the monitor of that VM")
		return
	}
	r.Header.Del(headerVM)
	d.Handle(w, r, id)
}

// peerOf returns the process that connected; 0 = unknown.
func peerOf(c net.Conn) int {
	u, ok := c.(*net.UnixConn)
	if !ok {
		return 0
	}
	raw, err := u.SyscallConn()
	if err != nil {
		return 0
	}
	pid := 0
	err = raw.Control(func(fd uintptr) {
		if cred, err := unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED); err == nil {
			pid = int(cred.Pid)
		}
	})
	if err != nil {
		return 0
	}
	return pid
}
