// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/warren-vm/warren/internal/link"
	"github.com/warren-vm/warren/vm"
)

// A guest is frozen around a capture: its programs stop, so that no copy draws a random
// number, takes a lock or prints anything before it has an identity of its own. The agent
// lives in the root control group and keeps running; the kernel freezes every group below it.

const (
	// freezePatience is how long the groups may take to freeze. A task in the
	// kernel freezes when it returns to user space.
	freezePatience = 300 * time.Millisecond
	freezeTick     = time.Millisecond
	// forkPatience is how long a command may take to start
	forkPatience = 2 * time.Second

	// miscGroup is the group for processes of the root group, which itself cannot be frozen
	miscGroup = "warren.misc"
	// maxRounds limits the search for processes in the root group; they may
	// start others in the meantime.
	maxRounds = 4
)

// freezer freezes and thaws the programs of a guest.
type freezer struct {
	sys   System
	file  string // keeps the state for a later agent
	forks gate

	mu   sync.Mutex // one freeze or thaw at a time
	held frozen
}

// frozen is the state that a freeze has changed and a thaw restores.
type frozen struct {
	dir    string   // root of the control groups; "" = nothing is frozen
	groups []string // names below it
	disks  []string // mount points
}

// init takes over the state that an earlier agent left frozen.
func (f *freezer) init(sys System, runDir string) {
	f.sys, f.file = sys, filepath.Join(runDir, "frozen")
	b, err := os.ReadFile(f.file)
	if err != nil {
		return
	}
	f.held = parseFrozen(string(b))
	if f.held.dir != "" {
		_ = f.forks.shut(0) // nothing forks yet
	}
}

// String returns the state, one thing a line, with quoted names.
func (z frozen) String() string {
	s := "dir " + strconv.Quote(z.dir) + "\n"
	for _, g := range z.groups {
		s += "group " + strconv.Quote(g) + "\n"
	}
	for _, d := range z.disks {
		s += "disk " + strconv.Quote(d) + "\n"
	}
	return s
}

func parseFrozen(s string) frozen {
	var z frozen
	if strings.HasPrefix(s, thawed) {
		return z
	}
	for line := range strings.SplitSeq(s, "\n") {
		what, quoted, _ := strings.Cut(line, " ")
		value, err := strconv.Unquote(quoted)
		if err != nil {
			continue
		}
		switch what {
		case "dir":
			z.dir = value
		case "group":
			z.groups = append(z.groups, value)
		case "disk":
			z.disks = append(z.disks, value)
		}
	}
	return z
}

// freeze stops every program except the agent, and with disk=1 also the file systems.
// With sync=1 it then writes what the programs have written to the disks.
func (a *Agent) freeze(w *answer, r *request) error {
	report, err := a.freezer.freeze(r.flag("disk"), r.flag("sync"))
	if err != nil {
		return err
	}
	return w.bytes(link.EncodeFreeze(report))
}

// sync writes all dirty pages to the disks, while programs run.
func (a *Agent) sync(w *answer, _ *request) error {
	a.freezer.mu.Lock()
	frozen := slices.Clone(a.freezer.held.disks)
	a.freezer.mu.Unlock()
	return w.done(a.freezer.syncDisks(frozen))
}

// thaw resumes the frozen programs. It is no error if nothing is frozen. A clock that stopped while
// the machine was paused is set forward first, so that no program sees time go back.
func (a *Agent) thaw(w *answer, r *request) error {
	if err := a.setForward(r); err != nil {
		return err
	}
	return w.done(a.freezer.thaw())
}

// clock sets the clock forward, and nothing else.
func (a *Agent) clock(w *answer, r *request) error { return w.done(a.setForward(r)) }

// setForward sets the clock to the request's time, unless it already shows that
// time or a later one.
func (a *Agent) setForward(r *request) error {
	now, err := r.number("time") // 0 = the host sent none
	if err != nil {
		return err
	}
	if t := time.Unix(0, now); time.Until(t) > clockLate {
		return a.sys.SetClock(t)
	}
	return nil
}

// clockLate is how far the clock may be behind the host's.
const clockLate = time.Millisecond

func (f *freezer) freeze(disk, sync bool) (vm.FreezeReport, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	begun := time.Now()
	dir, err := f.sys.Cgroups()
	if err != nil {
		return vm.FreezeReport{}, vm.Errorf(vm.Unsupported, "", "the programs of this guest cannot be frozen: %w", err)
	}
	if disk {
		_ = f.syncDisks(f.held.disks) // the freeze reports the error, too
	}
	// A command that is frozen before its exec would block the agent.
	if err := f.forks.shut(forkPatience); err != nil {
		return vm.FreezeReport{}, err
	}
	f.held.dir = dir
	moving, err := f.freezeGroups()
	switch {
	case err == nil && disk:
		err = f.freezeDisks()
	case err == nil && sync:
		err = f.syncDisks(f.held.disks)
	}
	if err != nil {
		return vm.FreezeReport{}, errors.Join(err, f.undo())
	}
	return vm.FreezeReport{Groups: len(f.held.groups), Waited: time.Since(begun), Unfrozen: moving}, nil
}

// freezeGroups freezes the groups that are not frozen yet. It returns the
// ones that are still running after freezePatience.
func (f *freezer) freezeGroups() (moving []string, err error) {
	own := f.leaveGroup()
	entries, err := os.ReadDir(f.held.dir)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		if name := e.Name(); e.IsDir() && name != own && name != miscGroup && f.movable(name) {
			f.held.groups = append(f.held.groups, name)
		}
	}
	if own != "" {
		moving = append(moving, own)
	}
	if f.movable(miscGroup) {
		f.held.groups = append(f.held.groups, miscGroup)
	}
	if err := f.stop(); err != nil {
		return nil, err
	}
	// Last, when hardly anything else runs, because it takes longest.
	if err := f.emptyRoot(); err != nil {
		return nil, err
	}
	return append(moving, f.awaitFrozen()...), nil
}

// stop writes the state down, because the agent may die at any point, and
// then asks the kernel to freeze its groups.
func (f *freezer) stop() error {
	if err := f.keep(); err != nil {
		return err
	}
	for _, g := range f.held.groups {
		_ = writeControl(f.control(g), "1") // awaitFrozen checks the result
	}
	return nil
}

func (f *freezer) has(group string) bool { return slices.Contains(f.held.groups, group) }

// movable reports whether a group should be frozen: neither the guest itself
// nor an earlier freeze has frozen it.
func (f *freezer) movable(group string) bool {
	if f.has(group) {
		return false
	}
	b, err := os.ReadFile(f.control(group))
	return err == nil && strings.TrimSpace(string(b)) == "0"
}

// leaveGroup moves the agent and its supervisor back to the root group if the
// init system moved them. It returns the group that they could not leave.
func (f *freezer) leaveGroup() string {
	own, _, _ := strings.Cut(strings.TrimPrefix(f.sys.OwnGroup(), "/"), "/")
	if own == "" {
		return ""
	}
	procs := filepath.Join(f.held.dir, "cgroup.procs")
	for _, pid := range f.spared() {
		if writeControl(procs, strconv.Itoa(pid)) != nil {
			return own
		}
	}
	return ""
}

// spared returns the processes that never freeze: the agent and its supervisor.
func (f *freezer) spared() []int {
	pids := []int{os.Getpid()}
	if parent := os.Getppid(); isSupervisor(parent) {
		pids = append(pids, parent)
	}
	return pids
}

func (f *freezer) control(group string) string {
	return filepath.Join(f.held.dir, group, "cgroup.freeze")
}

// inRoot returns the processes in the root group, except the given ones.
func (f *freezer) inRoot(except []int) []int {
	var found []int
	for _, field := range procFields(filepath.Join(f.held.dir, "cgroup.procs")) {
		pid, err := strconv.Atoi(field)
		if err == nil && !slices.Contains(except, pid) && !isKernelThread(pid) {
			found = append(found, pid)
		}
	}
	return found
}

// emptyRoot moves the processes of the root group, including those that they
// start in the meantime, to a group that can be frozen.
func (f *freezer) emptyRoot() error {
	seen := f.spared()
	for range maxRounds {
		programs := f.inRoot(seen)
		if len(programs) == 0 {
			return nil
		}
		misc := filepath.Join(f.held.dir, miscGroup)
		_ = os.Mkdir(misc, 0o755) // it may exist
		if !f.has(miscGroup) {
			f.held.groups = append(f.held.groups, miscGroup)
			if err := f.stop(); err != nil {
				return err
			}
		}
		for _, pid := range programs {
			_ = writeControl(filepath.Join(misc, "cgroup.procs"), strconv.Itoa(pid)) // the process may have ended
		}
		seen = append(seen, programs...)
	}
	return nil
}

// awaitFrozen waits until the groups are frozen and returns those that are not.
func (f *freezer) awaitFrozen() []string {
	moving := slices.Clone(f.held.groups)
	exact(func() {
		for deadline := time.Now().Add(freezePatience); ; {
			moving = slices.DeleteFunc(moving, f.isFrozen)
			if len(moving) == 0 || time.Now().After(deadline) {
				return
			}
			tick := syscall.NsecToTimespec(int64(freezeTick))
			_ = syscall.Nanosleep(&tick, nil) // the runtime's timers would be milliseconds late
		}
	})
	return moving
}

// isFrozen reports whether a group is frozen. A removed group counts as frozen.
func (f *freezer) isFrozen(name string) bool {
	b, err := os.ReadFile(filepath.Join(f.held.dir, name, "cgroup.events"))
	return err != nil || strings.Contains(string(b), "frozen 1")
}

// syncDisks writes the dirty pages of all file systems but the frozen ones. While programs
// run, they make new ones.
func (f *freezer) syncDisks(frozen []string) error {
	var errs []error
	for _, dir := range f.sys.Disks() {
		if !slices.Contains(frozen, dir) {
			errs = append(errs, f.sys.SyncDisk(dir))
		}
	}
	return errors.Join(errs...)
}

// freezeDisks freezes the file systems that are not frozen yet.
func (f *freezer) freezeDisks() error {
	for _, dir := range f.sys.Disks() {
		if slices.Contains(f.held.disks, dir) {
			continue
		}
		f.held.disks = append(f.held.disks, dir)
		if err := f.keep(); err != nil {
			return err
		}
		switch err := f.sys.FreezeDisk(dir); {
		case errors.Is(err, syscall.EBUSY), errors.Is(err, syscall.EOPNOTSUPP): // the guest froze it itself, or it can only be synced
			f.held.disks = f.held.disks[:len(f.held.disks)-1]
		case err != nil:
			f.held.disks = f.held.disks[:len(f.held.disks)-1]
			return vm.Errorf(vm.Unsupported, dir, "the file system cannot be frozen: %w", err)
		}
	}
	return f.keep()
}

// keep writes the state for a later agent. The file is in memory, so a frozen
// disk cannot block it. A program that has deleted the directory does not prevent
// captures.
func (f *freezer) keep() error {
	err := writeSmall(f.file, f.held.String(), 0o600)
	if errors.Is(err, os.ErrNotExist) {
		if err = os.MkdirAll(filepath.Dir(f.file), 0o755); err == nil {
			err = writeSmall(f.file, f.held.String(), 0o600)
		}
	}
	return err
}

// thaw releases everything that freeze stopped.
func (f *freezer) thaw() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.undo()
}

// undo thaws. What cannot be thawed stays in the state for another try.
func (f *freezer) undo() error {
	if f.held.dir == "" {
		return nil
	}
	if err := f.undoDisks(); err != nil {
		return err
	}
	var bad []string
	for _, g := range f.held.groups {
		if err := writeControl(f.control(g), "0"); err != nil && !errors.Is(err, os.ErrNotExist) && !errors.Is(err, syscall.ENODEV) {
			bad = append(bad, g)
		}
	}
	if len(bad) > 0 {
		f.held.groups = bad
		_ = f.keep()
		return vm.Errorf(vm.Internal, "", "some programs stay frozen: %s", strings.Join(bad, ", "))
	}
	f.held = frozen{}
	f.forks.open()
	return f.void()
}

// thawed is the first line of a state that is no longer valid.
const thawed = "thawed\n"

// void invalidates the state that keep wrote. It overwrites a few bytes in place: removing the
// file takes 10 ms in a guest that has just been woken, because its code has not run before.
func (f *freezer) void() error {
	fd, err := openRaw(f.file, syscall.O_WRONLY, 0)
	if errors.Is(err, os.ErrNotExist) {
		return nil // deleted meanwhile: no later agent reads it
	}
	if err != nil {
		return err
	}
	_, err = syscall.Pwrite(fd, []byte(thawed), 0)
	return errors.Join(err, syscall.Close(fd))
}

func (f *freezer) thawDisks() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.held.disks) == 0 {
		return nil
	}
	return errors.Join(f.undoDisks(), f.keep())
}

func (f *freezer) undoDisks() error {
	for len(f.held.disks) > 0 {
		dir := f.held.disks[0]
		if err := f.sys.ThawDisk(dir); err != nil && !errors.Is(err, syscall.EINVAL) { // EINVAL: it is not frozen
			return vm.Errorf(vm.Internal, dir, "the file system stays frozen: %w", err)
		}
		f.held.disks = f.held.disks[1:]
	}
	return nil
}

// thawAfter resumes a frozen guest if every reset succeeded. Otherwise the
// guest stays frozen, and the host destroys it.
func (f *freezer) thawAfter(report vm.ResetReport) error {
	for _, name := range vm.Resets {
		if report[name] != "ok" {
			return nil
		}
	}
	return f.thaw()
}

// writeControl writes to an existing control file.
func writeControl(file, word string) error {
	fd, err := syscall.Open(file, syscall.O_WRONLY|syscall.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	_, err = syscall.Write(fd, []byte(word))
	return errors.Join(err, syscall.Close(fd))
}

// isKernelThread reports whether a process is a kernel thread.
func isKernelThread(pid int) bool {
	var none [1]byte
	_, err := syscall.Readlink("/proc/"+strconv.Itoa(pid)+"/exe", none[:])
	return errors.Is(err, syscall.ENOENT) || errors.Is(err, syscall.ESRCH)
}

// gate lets forks through until it is shut; later forks wait.
type gate struct {
	mu     sync.Mutex
	inside int
	empty  chan struct{} // closed when the last fork leaves; nil = nobody waits for that
	opened chan struct{} // closed when the gate opens; nil = it is open
}

// enter waits until the gate is open, or until gone is closed.
func (g *gate) enter(gone <-chan struct{}) error {
	for {
		g.mu.Lock()
		opened := g.opened
		if opened == nil {
			g.inside++
			g.mu.Unlock()
			return nil
		}
		g.mu.Unlock()
		select {
		case <-opened:
		case <-gone:
			return context.Canceled
		}
	}
}

func (g *gate) leave() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.inside--; g.inside == 0 && g.empty != nil {
		close(g.empty)
		g.empty = nil
	}
}

// shut closes the gate and waits until no fork is in progress.
func (g *gate) shut(patience time.Duration) error {
	g.mu.Lock()
	if g.opened == nil {
		g.opened = make(chan struct{})
	}
	if g.inside == 0 {
		g.mu.Unlock()
		return nil
	}
	if g.empty == nil {
		g.empty = make(chan struct{})
	}
	empty := g.empty
	g.mu.Unlock()
	t := time.NewTimer(patience)
	defer t.Stop()
	select {
	case <-empty:
		return nil
	case <-t.C:
		g.open()
		return vm.Errorf(vm.Busy, "", "a command has been starting for more than %v", patience).WithHint("try again")
	}
}

func (g *gate) open() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.opened != nil {
		close(g.opened)
		g.opened = nil
	}
}
