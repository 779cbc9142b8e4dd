// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package qemu

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/warren-vm/warren/internal/layout"
	"github.com/warren-vm/warren/vm"
)

// Ident identifies one process for good: a pid may be given to another program
// later.
type Ident struct {
	PID    int    `json:"pid"`
	Start  uint64 `json:"start"`  // clock ticks since boot, field 22 of /proc/PID/stat
	BootID string `json:"bootId"` // of the host
}

// Identify returns the identity of a live process.
func Identify(pid int) (Ident, error) {
	start, err := startTime(pid)
	if err != nil {
		return Ident{}, err
	}
	boot, err := HostBootID()
	if err != nil {
		return Ident{}, err
	}
	return Ident{PID: pid, Start: start, BootID: boot}, nil
}

// save writes the identity to path, without syncing it: after a crash of the host
// it means nothing.
func (id Ident) save(path string) error {
	data, err := json.Marshal(id)
	if err != nil {
		return err
	}
	tmp := path + ".tmp"
	if err := os.WriteFile(tmp, data, 0o600); err != nil {
		return fileError(path, err)
	}
	return fileError(path, os.Rename(tmp, path))
}

// Note writes the identity again if somebody removed its file.
func (p *Process) Note() error { return p.Ident.save(layout.RunVM(p.Spec.RunDir).QEMUPID()) }

// Find returns the QEMUs of this user (of all, for root) that were started under that -name, for
// the case that the identity's file was not written.
func Find(name vm.ID) ([]Ident, error) {
	var found []Ident
	err := each(func(pid int, of vm.ID) {
		if of != name {
			return
		}
		if id, err := Identify(pid); err == nil {
			found = append(found, id)
		}
	})
	return found, err
}

// FindAll returns the -names of all QEMUs of this user (of all, for root) that are
// VMs of any data directory.
func FindAll() (names []vm.ID, err error) {
	err = each(func(_ int, of vm.ID) { names = append(names, of) })
	return names, err
}

// each calls f with each QEMU of this user (of all, for root) and its -name.
func each(f func(pid int, of vm.ID)) error {
	procs, err := os.ReadDir("/proc")
	if err != nil {
		return err
	}
	for _, e := range procs {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		if err != nil {
			continue // it has ended meanwhile
		}
		_, rest, named := bytes.Cut(line, []byte("\x00-name\x00"))
		name, rest, _ := bytes.Cut(rest, []byte{0})
		if !named || !bytes.HasPrefix(rest, []byte("-nodefaults\x00")) {
			continue // another's
		}
		st, err := os.Stat(fmt.Sprintf("/proc/%d", pid))
		if err != nil {
			continue
		}
		if sys, ok := st.Sys().(*syscall.Stat_t); ok && (os.Getuid() == 0 || int(sys.Uid) == os.Getuid()) {
			f(pid, vm.ID(name))
		}
	}
	return nil
}

// HostBootID returns the host's boot id.
func HostBootID() (string, error) {
	data, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return strings.TrimSpace(string(data)), err
}

// startTime fails for a process that is gone or a zombie.
func startTime(pid int) (uint64, error) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	// The name in parentheses may contain anything; count fields from its end.
	i := bytes.LastIndexByte(data, ')')
	fields := strings.Fields(string(data[i+1:]))
	if i < 0 || len(fields) < 20 {
		return 0, fmt.Errorf("/proc/%d/stat: unexpected form", pid)
	}
	if fields[0] == "Z" || fields[0] == "X" {
		return 0, os.ErrProcessDone
	}
	return strconv.ParseUint(fields[19], 10, 64)
}

// Alive reports whether this process still runs.
func (id Ident) Alive() bool {
	if id.PID <= 0 {
		return false
	}
	boot, err := HostBootID()
	if err != nil || boot != id.BootID {
		return false
	}
	start, err := startTime(id.PID)
	return err == nil && start == id.Start
}

// Handle refers to one process, also after its pid was reused.
type Handle struct{ f *os.File }

// Open opens a handle on the process. The error is os.ErrProcessDone when it is
// gone. Close the handle.
func (id Ident) Open() (*Handle, error) {
	if id.PID <= 0 {
		return nil, os.ErrProcessDone
	}
	fd, err := unix.PidfdOpen(id.PID, unix.PIDFD_NONBLOCK)
	if errors.Is(err, unix.ESRCH) || errors.Is(err, unix.EINVAL) {
		return nil, os.ErrProcessDone
	}
	if err != nil {
		return nil, fmt.Errorf("pidfd_open %d: %w", id.PID, err)
	}
	h := &Handle{f: os.NewFile(uintptr(fd), "pidfd")}
	if !id.Alive() { // checked with the handle open: the pid cannot be reused now
		h.Close()
		return nil, os.ErrProcessDone
	}
	return h, nil
}

// Signal sends a signal. A process that is gone is no error.
func (h *Handle) Signal(sig unix.Signal) error {
	err := h.control(func(fd int) error { return unix.PidfdSendSignal(fd, sig, nil, 0) })
	if errors.Is(err, unix.ESRCH) {
		return nil
	}
	return err
}

// Wait blocks, without polling, until the process has ended or ctx has.
func (h *Handle) Wait(ctx context.Context) error {
	rc, err := h.f.SyscallConn()
	if err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, func() { _ = h.f.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	var perr error
	err = rc.Read(func(fd uintptr) bool {
		var n int
		n, perr = pollIn(int(fd))
		return n > 0 || perr != nil
	})
	if errors.Is(err, os.ErrDeadlineExceeded) && ctx.Err() != nil {
		return ctx.Err()
	}
	return errors.Join(err, perr)
}

// pollIn returns 1 when the process behind a pidfd has ended.
func pollIn(fd int) (int, error) {
	for {
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 0)
		if !errors.Is(err, unix.EINTR) {
			return n, err
		}
	}
}

func (h *Handle) control(f func(fd int) error) error {
	rc, err := h.f.SyscallConn()
	if err != nil {
		return err
	}
	var ferr error
	if err := rc.Control(func(fd uintptr) { ferr = f(int(fd)) }); err != nil {
		return err
	}
	return ferr
}

// Close closes the handle. The process keeps running.
func (h *Handle) Close() { h.f.Close() }

// End kills the process, if it still is that process, and waits until it is
// gone.
func (id Ident) End(ctx context.Context) error {
	h, err := id.Open()
	if errors.Is(err, os.ErrProcessDone) {
		return nil
	}
	if err != nil {
		return err
	}
	defer h.Close()
	if err := h.Signal(unix.SIGKILL); err != nil {
		return err
	}
	return h.Wait(ctx)
}
