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

const (
	fiFreeze = 0xc0045877
	fiThaw   = 0xc0045878

	cgroup2Magic = 0x63677270
	sysSyncfs    = 306 // which package syscall lacks

	// diskFreezePatience is how long a file system may take to freeze
	diskFreezePatience = 10 * time.Second
)

const cgroupRoot = "/sys/fs/cgroup"

// Cgroups returns the mount point of the cgroup hierarchy. If there is none,
// it mounts the hierarchy in the agent's own directory.
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

// OwnGroup returns the cgroup v2 path of this process.
func (kernel) OwnGroup() string {
	for _, l := range procLines("/proc/self/cgroup") {
		if g, ok := strings.CutPrefix(l, "0::"); ok {
			return g
		}
	}
	return "/"
}

// Disks returns the writable mounts of virtual disks, one per disk.
func (kernel) Disks() []string {
	var dirs []string
	seen := make(map[string]bool) // one disk may be mounted at several places
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

// unescapeMount decodes the octal escapes of a path in mountinfo.
func unescapeMount(s string) string {
	return strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`).Replace(s)
}

// SyncDisk writes the file system's dirty pages to its disk.
func (kernel) SyncDisk(dir string) error {
	return patiently(func() error { return onDir(dir, func(fd uintptr) error { return system(sysSyncfs, fd, 0) }) }, func() {})
}

// FreezeDisk freezes the file system, or fails after diskFreezePatience.
func (k kernel) FreezeDisk(dir string) error {
	return patiently(
		func() error {
			return onDir(dir, func(fd uintptr) error { return system(syscall.SYS_IOCTL, fd, fiFreeze) })
		},
		func() { _ = k.ThawDisk(dir) })
}

// patiently waits a limited time for a system call that cannot be interrupted.
// If the call succeeds later, undo is called.
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

// output runs a short program for the agent. It never starts the program
// while a freeze searches for processes.
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
// would block on its own logs before the exec.
func (f *freezer) upgradable() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.held.disks) > 0 {
		return vm.Errorf(vm.WrongState, "", "the disk is frozen").WithHint("thaw the guest first")
	}
	return nil
}
