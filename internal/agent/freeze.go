// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"errors"
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

const (
	// freezePatience is how long a group of programs has to stand still. What is
	// in the kernel by then stops on its way back to its program.
	freezePatience = 300 * time.Millisecond
	freezeLook     = time.Millisecond

	fiFreeze = 0xc0045877 // ioctl FIFREEZE, linux/fs.h
	fiThaw   = 0xc0045878 // ioctl FITHAW

	kernelThread = 0x00200000 // PF_KTHREAD in the flags of /proc/PID/stat
)

// freezer has the guest's programs stand still while the machine is captured,
// and until the resets of a start on the capture are done: two copies of a
// program that runs at once would draw the same random numbers. Everything but
// the agent, its supervisor and the kernel's threads lives in a control group
// below the root, and those can be frozen (cgroup-v2.rst, cgroup.freeze).
type freezer struct {
	mu      sync.Mutex
	groups  []string     // that were frozen by us
	disk    bool         // the root file system is frozen, too
	threads map[int]bool // the kernel's, as far as they have been seen
}

// freeze answers POST /freeze.
func (a *Agent) freeze(w *answer, r *request) error {
	f := &a.freezer
	f.mu.Lock()
	defer f.mu.Unlock()
	begin := time.Now()
	if err := a.gather(); err != nil {
		return err
	}
	groups, err := a.freezable()
	if err != nil {
		return err
	}
	// Noted first: an agent that is started anew must be able to let them go.
	note := strings.Join(groups, "\n")
	if err := os.WriteFile(a.frozenNote(), []byte(note), 0o600); err != nil {
		return err
	}
	f.groups = groups
	report := vm.FreezeReport{Groups: len(groups)}
	for _, g := range groups {
		if err := os.WriteFile(filepath.Join(g, "cgroup.freeze"), []byte("1"), 0); err != nil && !errors.Is(err, os.ErrNotExist) {
			return errors.Join(vm.Errorf(vm.GuestFault, g, "cannot be frozen: %w", err), a.thawLocked())
		}
	}
	report.Unfrozen = awaitFrozen(groups, begin.Add(freezePatience))
	if r.query.Get("disk") != "" {
		syscall.Sync()
		if err := a.rootIoctl(fiFreeze); err != nil {
			return errors.Join(vm.Errorf(vm.GuestFault, "/", "the file system cannot be frozen: %w", err), a.thawLocked())
		}
		f.disk = true
	}
	report.Waited = time.Since(begin)
	return w.bytes(link.EncodeFreeze(report))
}

// thaw answers POST /thaw. Where nothing is frozen it does nothing.
func (a *Agent) thaw(w *answer, _ *request) error {
	if err := a.letGo(); err != nil {
		return err
	}
	return w.bytes(nil)
}

// letGo lets everything go on that freeze has stopped.
func (a *Agent) letGo() error {
	a.freezer.mu.Lock()
	defer a.freezer.mu.Unlock()
	return a.thawLocked()
}

func (a *Agent) thawLocked() error {
	f := &a.freezer
	var errs []error
	if f.disk {
		if err := a.rootIoctl(fiThaw); err != nil && !errors.Is(err, syscall.EINVAL) { // EINVAL: is not frozen
			errs = append(errs, err)
		}
	}
	if f.groups == nil { // another agent may have frozen them
		if b, err := os.ReadFile(a.frozenNote()); err == nil {
			f.groups = strings.Fields(string(b))
		}
	}
	for _, g := range f.groups {
		err := os.WriteFile(filepath.Join(g, "cgroup.freeze"), []byte("0"), 0)
		if err != nil && !errors.Is(err, os.ErrNotExist) && !errors.Is(err, syscall.ENODEV) {
			errs = append(errs, err)
		}
	}
	if len(errs) > 0 {
		return vm.Errorf(vm.GuestFault, "", "programs may stand still: %w", errors.Join(errs...))
	}
	if err := os.Remove(a.frozenNote()); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	f.groups, f.disk = nil, false
	return nil
}

func (a *Agent) frozenNote() string { return filepath.Join(a.cfg.RunDir, "frozen") }

// freezable lists the groups below the root that are not frozen already.
func (a *Agent) freezable() ([]string, error) {
	entries, err := os.ReadDir(a.cfg.CgroupDir)
	if err != nil {
		return nil, vm.Errorf(vm.Unsupported, "", "the guest has no control groups (cgroup2): %w", err)
	}
	groups := []string{}
	for _, e := range entries {
		g := filepath.Join(a.cfg.CgroupDir, e.Name())
		if !e.IsDir() {
			continue
		}
		if b, err := os.ReadFile(filepath.Join(g, "cgroup.freeze")); err == nil && strings.TrimSpace(string(b)) == "0" {
			groups = append(groups, g)
		}
	}
	return groups, nil
}

// awaitFrozen waits until every group stands still, or time is up, and names
// those that don't.
func awaitFrozen(groups []string, until time.Time) (unfrozen []string) {
	for i := 0; i < len(groups); {
		b, err := os.ReadFile(filepath.Join(groups[i], "cgroup.events"))
		switch {
		case err != nil || strings.Contains(string(b), "frozen 1"):
			i++
		case time.Now().After(until):
			unfrozen = append(unfrozen, filepath.Base(groups[i]))
			i++
		default:
			time.Sleep(freezeLook)
		}
	}
	return unfrozen
}

// gather moves programs that live in the root group, where they cannot be
// frozen, into one of their own: whoever was started before there were groups.
func (a *Agent) gather() error {
	b, err := os.ReadFile(filepath.Join(a.cfg.CgroupDir, "cgroup.procs"))
	if err != nil {
		return vm.Errorf(vm.Unsupported, "", "the guest has no control groups (cgroup2): %w", err)
	}
	if a.freezer.threads == nil {
		a.freezer.threads = map[int]bool{}
	}
	// systemd has put whatever ran before it into its own scope: us, too.
	for _, pid := range []int{os.Getpid(), os.Getppid()} {
		if err := a.stepOut(pid); err != nil {
			return err
		}
	}
	misc := filepath.Join(a.cfg.CgroupDir, "warren.misc")
	for s := range strings.FieldsSeq(string(b)) {
		pid, err := strconv.Atoi(s)
		if err != nil || pid <= 1 || pid == os.Getpid() || pid == os.Getppid() || a.freezer.threads[pid] {
			continue
		}
		if a.isThread(pid) {
			a.freezer.threads[pid] = true
			continue
		}
		if err := os.Mkdir(misc, 0o755); err != nil && !errors.Is(err, os.ErrExist) {
			return err
		}
		err = os.WriteFile(filepath.Join(misc, "cgroup.procs"), []byte(s), 0)
		if err != nil && !errors.Is(err, syscall.ESRCH) {
			return vm.Errorf(vm.GuestFault, s, "a program cannot be frozen: %w", err)
		}
	}
	return nil
}

// stepOut moves the agent or its supervisor to the root group, which is never
// frozen. PID 1 stays where it is.
func (a *Agent) stepOut(pid int) error {
	s := strconv.Itoa(pid)
	b, err := os.ReadFile(filepath.Join(a.cfg.ProcDir, s, "cgroup"))
	if pid <= 1 || err != nil || strings.HasSuffix(strings.TrimSpace(string(b)), "0::/") {
		return nil
	}
	if err := os.WriteFile(filepath.Join(a.cfg.CgroupDir, "cgroup.procs"), []byte(s), 0); err != nil {
		return vm.Errorf(vm.GuestFault, s, "the agent cannot leave the group that is to be frozen: %w", err)
	}
	return nil
}

// isThread reports whether a process is one of the kernel's, or gone.
func (a *Agent) isThread(pid int) bool {
	b, err := os.ReadFile(filepath.Join(a.cfg.ProcDir, strconv.Itoa(pid), "stat"))
	if err != nil {
		return true
	}
	f := statFields(b)
	if len(f) < 7 {
		return true
	}
	flags, err := strconv.ParseUint(f[6], 10, 64)
	return err != nil || flags&kernelThread != 0
}

// rootIoctl freezes or thaws the root file system.
func (a *Agent) rootIoctl(what uintptr) error {
	f, err := os.Open("/")
	if err != nil {
		return err
	}
	defer f.Close()
	if _, _, e := syscall.Syscall(syscall.SYS_IOCTL, f.Fd(), what, 0); e != 0 {
		return e
	}
	return nil
}

// awake reports whether every reset was acknowledged.
func awake(report vm.ResetReport) bool {
	for _, name := range vm.Resets {
		if report[name] != "ok" {
			return false
		}
	}
	return true
}
