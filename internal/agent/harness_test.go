// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package agent_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"os"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/hashicorp/yamux"

	"github.com/warren-vm/warren/internal/agent"
	"github.com/warren-vm/warren/internal/guest"
	"github.com/warren-vm/warren/internal/link"
	"github.com/warren-vm/warren/vm"
)

var testKey = bytes.Repeat([]byte{7}, link.KeySize)

// rig is an agent in this process, on a socket pair instead of a virtio port,
// and a client.
type rig struct {
	*guest.Client
	t       *testing.T
	cfg     agent.Config
	sys     *fakeSystem
	host    *os.File // the host's end of the port
	mu      sync.Mutex
	session *yamux.Session
	stop    func()
}

// fakeSystem notes what the resets would do to this machine's kernel.
type fakeSystem struct {
	mu       sync.Mutex
	clock    time.Time
	entropy  []byte
	hostname string
	bootID   string
	fail     error
	cgroups  string
	disks    []string
	calls    []string // to SyncDisk, FreezeDisk and ThawDisk
}

func (f *fakeSystem) note(fn func()) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	fn()
	return f.fail
}

func (f *fakeSystem) SetClock(t time.Time) error { return f.note(func() { f.clock = t }) }

func (f *fakeSystem) Reseed(b []byte) error { return f.note(func() { f.entropy = b }) }

func (f *fakeSystem) SetHostname(n string) error { return f.note(func() { f.hostname = n }) }

func (f *fakeSystem) SetBootID(id, _ string) error   { return f.note(func() { f.bootID = id }) }
func (*fakeSystem) Signal(int, syscall.Signal) error { return nil }
func (*fakeSystem) Reboot(bool) error                { return nil }
func (*fakeSystem) OwnGroup() string                 { return "/" }

func (f *fakeSystem) Cgroups() (string, error) {
	if f.cgroups == "" {
		return "", errors.New("no control groups")
	}
	return f.cgroups, nil
}

func (f *fakeSystem) Disks() []string { return f.disks }

func (f *fakeSystem) SyncDisk(dir string) error {
	return f.note(func() { f.calls = append(f.calls, "sync "+dir) })
}

func (f *fakeSystem) FreezeDisk(dir string) error {
	return f.note(func() { f.calls = append(f.calls, "freeze "+dir) })
}

func (f *fakeSystem) ThawDisk(dir string) error {
	return f.note(func() { f.calls = append(f.calls, "thaw "+dir) })
}

func portPair(t *testing.T) (guestEnd, hostEnd *os.File) {
	t.Helper()
	fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_NONBLOCK|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	return os.NewFile(uintptr(fds[0]), "port"), os.NewFile(uintptr(fds[1]), "host")
}

func newRig(t *testing.T) *rig {
	t.Helper()
	dir := ownDir(t)
	r := &rig{t: t, sys: &fakeSystem{}}
	r.cfg = agent.Config{
		Version: "test", Digest: "d1", Key: testKey, LogDir: dir + "/log", RunDir: dir + "/run", EtcDir: "/etc",
		System: r.sys, Log: slog.New(slog.NewTextHandler(t.Output(), nil)),
	}
	r.start()
	t.Cleanup(func() { r.stop() })
	return r
}

// ownDir is a directory for an agent's files, removed after the test. The
// agent records the end of a process there after its client has seen it, so a
// removal may meet a file that is just being created.
func ownDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "warren-agent-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		var err error
		for range 100 {
			if err = os.RemoveAll(dir); err == nil {
				return
			}
			time.Sleep(20 * time.Millisecond)
		}
		t.Error(err)
	})
	return dir
}

// start runs an agent; a second call after stop is an agent after a crash.
func (r *rig) start() {
	r.t.Helper()
	a, err := agent.New(r.cfg)
	if err != nil {
		r.t.Fatal(err)
	}
	port, host := portPair(r.t)
	r.host = host
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = a.Run(ctx, port)
	}()
	r.connect()
	r.Client = guest.New(func(context.Context) (net.Conn, error) {
		r.mu.Lock()
		s := r.session
		r.mu.Unlock()
		return s.Open()
	})
	r.stop = func() {
		r.Client.Close()
		_ = r.session.Close()
		cancel()
		select {
		case <-done:
		case <-time.After(10 * time.Second):
			r.t.Error("the agent did not stop")
		}
		_ = port.Close()
		_ = host.Close()
	}
}

// connect synchronises again, as a new host would: the old session ends.
func (r *rig) connect() {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), 10*time.Second)
	defer cancel()
	r.mu.Lock()
	old := r.session
	r.mu.Unlock()
	if old != nil {
		_ = old.Close() // says nothing to the guest; here both would share one socket
	}
	c, err := net.FileConn(r.host)
	if err != nil {
		r.t.Fatal(err)
	}
	s, err := link.Host(ctx, c, nil, r.cfg.Key)
	if err != nil {
		r.t.Fatal(err)
	}
	r.mu.Lock()
	r.session = s
	r.mu.Unlock()
}

func within(t *testing.T, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

type result struct {
	status         vm.ExitStatus
	stdout, stderr string
}

func (r *rig) run(spec vm.ExecSpec) result {
	r.t.Helper()
	e, err := r.Exec(within(r.t, 20*time.Second), spec)
	if err != nil {
		r.t.Fatal(err)
	}
	var out, errs bytes.Buffer
	st, err := e.Run(&out, &errs)
	if err != nil {
		r.t.Fatal(err)
	}
	return result{st, out.String(), errs.String()}
}

func (r *rig) sh(command string) result { return r.run(vm.ExecSpec{Command: command}) }

func (r *rig) logOf(id string, from int64, follow bool) (string, int64) {
	r.t.Helper()
	rc, at, err := r.Log(within(r.t, 20*time.Second), id, from, follow)
	if err != nil {
		r.t.Fatal(err)
	}
	defer rc.Close()
	b, err := io.ReadAll(rc)
	if err != nil {
		r.t.Fatal(err)
	}
	return string(b), at
}
