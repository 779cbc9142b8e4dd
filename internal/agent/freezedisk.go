// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/warren-vm/warren/vm"
)

// This is the kernel's part of freezing.

const (
	fiFreeze = 0xc0045877
	fiThaw   = 0xc0045878

	cgroup2Magic = 0x63677270
	sysSyncfs    = 306 // which package syscall lacks

	// diskFreezePatience is how long a file system may take to become still.
	diskFreezePatience = 10 * time.Second
)

const cgroupRoot = "/sys/fs/cgroup"

// Cgroups finds where the hierarchy is mounted, and mounts it in the agent's
// own directory if it is nowhere.
func (k kernel) Cgroups() (string, error) {
	if os.Geteuid() != 0 {
		return "", errors.New("the agent is not root")
	}
	own := filepath.Join(or(k.runDir, runDir), "cgroup")
	for _, dir := range []string{cgroupRoot, own} {
		if isCgroup2(dir) {
			return dir, nil
		}
	}
	if exe, err := os.Readlink("/proc/1/exe"); err == nil && filepath.Base(exe) == "systemd" && Initial() == "" {
		return "", errors.New("its init system is still starting")
	}
	if err := os.MkdirAll(own, 0o700); err != nil {
		return "", err
	}
	if err := syscall.Mount("cgroup2", own, "cgroup2", syscall.MS_NOSUID|syscall.MS_NODEV|syscall.MS_NOEXEC, ""); err != nil {
		return "", fmt.Errorf("mount cgroup2: %w", err)
	}
	return own, nil
}

func isCgroup2(dir string) bool {
	var st syscall.Statfs_t
	return syscall.Statfs(dir, &st) == nil && st.Type == cgroup2Magic
}

// OwnGroup reads the line of version 2 for this process.
func (kernel) OwnGroup() string {
	for _, l := range procLines("/proc/self/cgroup") {
		if g, ok := strings.CutPrefix(l, "0::"); ok {
			return g
		}
	}
	return "/"
}

// Disks reads which file systems on virtual disks are mounted to be written.
func (kernel) Disks() []string {
	var dirs []string
	seen := make(map[string]bool) // one disk may be mounted in many places
	for _, l := range procLines("/proc/self/mountinfo") {
		// 25 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw
		mount, super, ok := strings.Cut(l, " - ")
		m, s := strings.Fields(mount), strings.Fields(super)
		if !ok || len(m) < 6 || len(s) < 3 || !strings.HasPrefix(s[1], "/dev/vd") && m[4] != "/" || seen[m[2]] {
			continue
		}
		if !strings.HasPrefix(s[1], "/dev/") || strings.HasPrefix(s[2], "ro") {
			continue
		}
		seen[m[2]] = true
		dirs = append(dirs, unescapeMount(m[4]))
	}
	return dirs
}

// unescapeMount undoes how mountinfo writes what would break its lines.
func unescapeMount(s string) string {
	return strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`).Replace(s)
}

// SyncDisk writes what the file system holds in memory to its disk.
func (kernel) SyncDisk(dir string) error {
	return patiently(func() error { return onDir(dir, func(fd uintptr) error { return system(sysSyncfs, fd, 0) }) }, func() {})
}

// FreezeDisk gives up when the file system does not become still in time.
func (k kernel) FreezeDisk(dir string) error {
	return patiently(
		func() error {
			return onDir(dir, func(fd uintptr) error { return system(syscall.SYS_IOCTL, fd, fiFreeze) })
		},
		func() { _ = k.ThawDisk(dir) })
}

// patiently waits for a system call that nothing can interrupt. undo is called
// if it succeeds when nobody waits for it any more.
func patiently(do func() error, undo func()) error {
	done := make(chan error)
	late := make(chan struct{})
	go func() { // ends with the system call
		err := do()
		select {
		case done <- err:
		case <-late:
			if err == nil {
				undo()
			}
		}
	}()
	t := time.NewTimer(diskFreezePatience)
	defer t.Stop()
	select {
	case err := <-done:
		return err
	case <-t.C:
		close(late)
		return fmt.Errorf("it took more than %v", diskFreezePatience)
	}
}

// ThawDisk undoes FreezeDisk.
func (kernel) ThawDisk(dir string) error {
	return onDir(dir, func(fd uintptr) error { return system(syscall.SYS_IOCTL, fd, fiThaw) })
}

func system(call, fd, request uintptr) error {
	if _, _, e := syscall.Syscall(call, fd, request, 0); e != 0 {
		return e
	}
	return nil
}

func onDir(dir string, do func(fd uintptr) error) error {
	fd, err := syscall.Open(dir, syscall.O_RDONLY|syscall.O_DIRECTORY|syscall.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	return errors.Join(do(uintptr(fd)), syscall.Close(fd))
}

// output runs a short program of the agent's own. It is started at no time
// at which a freeze looks for programs.
func (f *freezer) output(cmd *exec.Cmd) ([]byte, error) {
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	f.mu.Lock()
	err := cmd.Start()
	f.mu.Unlock()
	if err == nil {
		err = cmd.Wait()
	}
	return out.Bytes(), err
}

// upgradable refuses an upgrade while a file system is frozen: the agent
// would wait for its own logs before it becomes the next one.
func (f *freezer) upgradable() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.held.disks) > 0 {
		return vm.Errorf(vm.WrongState, "", "the disk is frozen").WithHint("thaw the guest first")
	}
	return nil
}
