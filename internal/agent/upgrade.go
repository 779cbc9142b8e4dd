// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"github.com/warren-vm/warren/vm"
)

// maxBinary limits the size of a new agent.
const maxBinary = 64 << 20

// upgrade receives a new program for this process. After the answer the session ends, and the
// new agent synchronises with the host again, with the same pid, children and descriptors.
func (a *Agent) upgrade(w *answer, r *request) error {
	digest := r.query.Get("digest")
	if !isHex(digest) || len(digest) != 64 {
		return vm.Errorf(vm.Invalid, digest, "is not a digest")
	}
	if r.size <= 0 || r.size > maxBinary {
		return vm.Errorf(vm.Invalid, "", "an agent of %d bytes", r.size)
	}
	if err := a.freezer.upgradable(); err != nil {
		return err
	}
	file := filepath.Join(a.cfg.RunDir, "agent")
	tmp := file + ".new"
	if err := a.saveProgram(r, tmp); err != nil {
		_ = os.Remove(tmp)
		return fileError(tmp, err)
	}
	if err := os.Rename(tmp, file); err != nil {
		_ = os.Remove(tmp)
		return fileError(file, err)
	}
	// An agent that restarts after a crash reads it.
	if err := writeSmall(filepath.Join(a.cfg.RunDir, "agent.digest"), digest+"\n", 0o600); err != nil {
		return fileError(file, err)
	}
	// A host that has the answer closes the link at once, so a failed write
	// does not prove that the host did not get it.
	err := w.bytes(nil)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.next, a.nextDigest = file, digest
	if a.stopRun != nil {
		a.stopRun()
	}
	return err
}

// saveProgram writes the body to a file and checks that it runs, because a
// broken program would lose the agent.
func (a *Agent) saveProgram(r *request, file string) error {
	_ = os.Remove(file) // remains of a failed upgrade
	f, err := os.OpenFile(file, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o755)
	if err != nil {
		return err
	}
	_, err = io.CopyBuffer(onlyWriter{f}, onlyReader{r.body}, make([]byte, copySize))
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	ctx, stop := context.WithTimeout(r.ctx, 20*time.Second)
	defer stop()
	if out, err := a.freezer.output(exec.CommandContext(ctx, file, "check")); err != nil {
		return vm.Errorf(vm.Invalid, "", "the new agent does not run in this guest: %w: %.200s", err, out)
	}
	return nil
}

// heritage is what an agent passes to its successor.
type heritage struct {
	Version   int        `json:"version"` // of this structure; 1
	Digest    string     `json:"digest"`
	Port      int        `json:"port"` // descriptor
	Key       []byte     `json:"key"`
	NextKey   []byte     `json:"nextKey,omitempty"`
	NextID    int        `json:"nextId"`
	Reserved  int        `json:"reserved"`
	Processes []heirProc `json:"processes"`
	NextTerm  int        `json:"nextTerm,omitempty"`
	Expired   []string   `json:"expired,omitempty"` // ids of terminals
	Terminals []heirTerm `json:"terminals,omitempty"`
}

// heirProc is a process with open descriptors.
type heirProc struct {
	Process vm.Process    `json:"process"`
	Start   uint64        `json:"start"`
	Total   int64         `json:"total"`
	Base    int64         `json:"base"` // of the log; -1 = none
	Outs    [2]int        `json:"outs"` // descriptors, -1 = closed
	Left    time.Duration `json:"left"` // until the timeout, 0 = none
}

// become execs the new program in this process. It returns only on failure,
// with everything as before.
func (a *Agent) become(file string, port *os.File) error {
	a.handlers.Wait() // their streams have ended; none may be forking now
	a.mu.Lock()
	h := heritage{Version: 1, Digest: a.nextDigest}
	a.mu.Unlock()
	list, terms := a.procs.list(), a.terms.list()
	defer func() { // reached only on failure
		for _, p := range list {
			p.thaw()
		}
		for _, t := range terms {
			t.thaw()
		}
	}()
	for _, p := range list {
		p.freeze()
	}
	for _, t := range terms {
		t.freeze()
	}
	var keep []int
	fd, err := rawFD(port)
	if err != nil {
		return err
	}
	h.Port, keep = fd, append(keep, fd)
	a.keys.mu.Lock()
	h.Key, h.NextKey = a.keys.current, a.keys.next
	a.keys.mu.Unlock()
	h.NextID, h.Reserved = a.procs.next, a.procs.reserved
	for _, p := range list {
		hp, fds, err := p.bequeath()
		if err != nil {
			return err
		}
		h.Processes = append(h.Processes, hp)
		keep = append(keep, fds...)
	}
	h.NextTerm, h.Expired = a.terms.next, a.terms.expired
	for _, t := range terms {
		ht, fds, err := t.bequeath()
		if err != nil {
			return err
		}
		defer func() { _ = syscall.Close(ht.Screen) }()
		h.Terminals = append(h.Terminals, ht)
		keep = append(keep, fds...)
	}
	state, err := h.store()
	if err != nil {
		return err
	}
	defer func() { _ = syscall.Close(state) }()
	return execKeeping(file, append(keep, state), state)
}

// execKeeping runs the file in this process with descriptors kept open.
func execKeeping(file string, keep []int, state int) error {
	for _, fd := range keep {
		if err := setCloexec(fd, false); err != nil {
			return fmt.Errorf("descriptor %d: %w", fd, err)
		}
	}
	err := syscall.Exec(file, []string{agentName, "agent", "-heritage", strconv.Itoa(state)}, os.Environ())
	for _, fd := range keep {
		_ = setCloexec(fd, true)
	}
	return fmt.Errorf("exec %s: %w", file, err)
}

func setCloexec(fd int, on bool) error {
	flag := 0
	if on {
		flag = syscall.FD_CLOEXEC
	}
	_, _, e := syscall.Syscall(syscall.SYS_FCNTL, uintptr(fd), syscall.F_SETFD, uintptr(flag))
	if e != 0 {
		return e
	}
	return nil
}

// store writes the heritage to anonymous memory and returns its descriptor.
func (h *heritage) store() (fd int, err error) {
	b, err := json.Marshal(h)
	if err != nil {
		return 0, err
	}
	return fill(b)
}

func rawFD(f *os.File) (int, error) {
	raw, err := f.SyscallConn()
	if err != nil {
		return -1, err
	}
	got := -1
	err = raw.Control(func(fd uintptr) { got = int(fd) }) // unlike Fd, Control does not change the descriptor
	return got, err
}

// freeze stops this agent's work on a process, at a point where the log has
// all output that was read.
func (p *process) freeze() {
	p.mu.Lock()
	p.frozen = true
	if p.timer != nil {
		p.timer.Stop()
	}
	if p.pidfd != nil {
		_ = p.pidfd.SetReadDeadline(time.Unix(1, 0))
	}
	p.mu.Unlock()
	p.stopPumps()
	p.waiter.Wait()
	p.stopPumps()
}

// thaw undoes freeze.
func (p *process) thaw() {
	p.mu.Lock()
	p.frozen = false
	running, left := p.info.ExitCode == nil, p.deadline
	for _, f := range p.outs {
		if f != nil {
			_ = f.SetReadDeadline(time.Time{})
		}
	}
	p.mu.Unlock()
	if !running {
		p.waiter.Go(p.follow)
		return
	}
	_ = p.pidfd.SetReadDeadline(time.Time{})
	if !left.IsZero() {
		p.limit(max(time.Until(left), time.Millisecond))
	}
	p.run()
}

// bequeath describes a frozen process and returns the descriptors to keep.
func (p *process) bequeath() (heirProc, []int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	h := heirProc{Process: p.info, Start: p.started, Total: p.total, Base: -1, Outs: [2]int{-1, -1}}
	var keep []int
	for i, f := range p.outs {
		if f == nil {
			continue
		}
		fd, err := rawFD(f)
		if err != nil {
			return h, nil, err
		}
		h.Outs[i] = fd
		keep = append(keep, fd)
	}
	if p.log != nil {
		h.Base, _ = p.log.bounds()
	}
	if !p.deadline.IsZero() {
		h.Left = max(time.Until(p.deadline), time.Millisecond)
	}
	return h, keep, nil
}

// Inherit reads what the previous agent of this process left in a descriptor.
// It returns the new agent and its port.
func Inherit(cfg Config, state int) (*Agent, *os.File, error) {
	f := os.NewFile(uintptr(state), "heritage")
	defer f.Close()
	b, err := io.ReadAll(io.NewSectionReader(f, 0, maxWords))
	if err != nil {
		return nil, nil, err
	}
	var h heritage
	if err := json.Unmarshal(b, &h); err != nil {
		return nil, nil, err
	}
	cfg.Key, cfg.Digest = h.Key, h.Digest
	cfg.inherited = &h
	a, err := New(cfg)
	if err != nil {
		return nil, nil, err
	}
	a.keys.next = h.NextKey
	if err := setCloexec(h.Port, true); err != nil {
		return nil, nil, err
	}
	return a, os.NewFile(uintptr(h.Port), "port"), nil
}

// inherit adds the processes of the previous agent.
func (t *table) inherit(h *heritage) {
	t.next, t.reserved = h.NextID, h.Reserved
	for _, hp := range h.Processes {
		p := newProcess(t, hp.Process)
		p.started, p.total = hp.Start, hp.Total
		for i, fd := range hp.Outs {
			if fd >= 0 {
				_ = setCloexec(fd, true)
				p.outs[i] = os.NewFile(uintptr(fd), "pipe")
			}
		}
		running := p.info.ExitCode == nil
		if hp.Base >= 0 {
			var err error
			if p.log, err = openLog(t.path(p.info.ID)+".log", hp.Base, running || p.outs != [2]*os.File{}); err != nil {
				t.log.Warn("a process log cannot be read", "process", p.info.ID, "error", err)
			}
		}
		t.procs[p.info.ID] = p
		switch {
		case running:
			t.adopt(p)
			if hp.Left > 0 {
				p.limit(hp.Left)
			}
		default:
			close(p.ended)
			p.waiter.Go(p.follow)
		}
	}
}
