// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/warren-vm/warren/vm"
)

// disk waits for the disk of a serial number and says what it is called and
// what is on it.
func (a *Agent) disk(w *answer, r *request) error {
	dev, err := waitDisk(r)
	if err != nil {
		return err
	}
	holds, err := whatHolds(dev)
	if err != nil {
		return err
	}
	return w.bytes([]byte(dev + " " + holds))
}

// waitDisk finds a disk by its serial number: the order of names is not that
// of plugging.
func waitDisk(r *request) (dev string, err error) {
	serial := r.query.Get("serial")
	err = withinContext(r.ctx, func() error {
		names, _ := filepath.Glob("/sys/block/vd*/serial") // fails only for a bad pattern
		for _, name := range names {
			if serial != "" && sysLine(name) == serial {
				dev = "/dev/" + filepath.Base(filepath.Dir(name))
				_, err := os.Stat(dev)
				return err
			}
		}
		return vm.Errorf(vm.GuestFault, serial, "the kernel has not found the disk")
	})
	return dev, err
}

func whatHolds(dev string) (string, error) {
	f, err := os.Open(dev)
	if err != nil {
		return "", err
	}
	defer f.Close()
	head := make([]byte, 64<<10)
	if _, err := io.ReadFull(f, head); err != nil {
		return "", err
	}
	return holds(head), nil
}

// holds reads the beginning of a disk: the superblock of ext4 lies at 1024.
func holds(head []byte) string {
	super := head[1024:]
	switch {
	case binary.LittleEndian.Uint16(super[0x38:]) == 0xef53:
		const journal = 0x4 // of the incompatible features: there is something in it
		if binary.LittleEndian.Uint32(super[0x60:])&journal != 0 {
			return vm.DiskDirty
		}
		return vm.DiskClean
	case len(bytes.Trim(head, "\x00")) == 0:
		return vm.DiskEmpty
	}
	return vm.DiskForeign
}

// never are the places that a volume is not mounted on, whatever the host says.
var never = []string{"/", "/proc", "/sys", "/dev", "/run"}

// mount mounts the disk of a serial number: read-only unless rw, over a
// directory with something in it only with over.
func (a *Agent) mount(w *answer, r *request) error {
	dev, err := waitDisk(r)
	if err != nil {
		return err
	}
	path := filepath.Clean(r.query.Get("path"))
	if err := mountPoint(path, r.flag("over")); err != nil {
		return err
	}
	var flags uintptr = syscall.MS_NODEV | syscall.MS_NOSUID
	options := "noinit_itable,discard"
	if !r.flag("rw") {
		flags |= syscall.MS_RDONLY
		options = "noload"
	}
	if err := syscall.Mount(dev, path, "ext4", flags, options); err != nil {
		return vm.Errorf(vm.GuestFault, path, "the file system of the volume cannot be mounted: %w", err)
	}
	return w.done(nil)
}

// mountPoint makes the directory, or checks the one that is there.
func mountPoint(path string, over bool) error {
	if !filepath.IsAbs(path) || slices.Contains(never, path) {
		return vm.Errorf(vm.Invalid, path, "not a place for a volume").WithCode("MOUNT_PATH_INVALID")
	}
	if err := os.MkdirAll(path, 0o755); err != nil {
		return vm.Errorf(vm.Invalid, path, "%w", err).WithCode("MOUNT_PATH_INVALID")
	}
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		return err
	}
	if real != path && slices.Contains(never, real) {
		return vm.Errorf(vm.Invalid, path, "it leads to %s", real).WithCode("MOUNT_PATH_INVALID")
	}
	if over {
		return nil
	}
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	if names, _ := f.Readdirnames(1); len(names) > 0 {
		return vm.Errorf(vm.Exists, path, "the directory is not empty").WithCode("MOUNT_PATH_NOT_EMPTY").
			WithHint("mount elsewhere, or hide what is there with --over")
	}
	return nil
}

const (
	killRounds = 20
	killPause  = 25 * time.Millisecond
)

// unmount takes a mount away. One that is not there is no error. While programs
// use it, it stays and they are named; with force they are killed.
func (a *Agent) unmount(w *answer, r *request) error {
	path := filepath.Clean(r.query.Get("path"))
	if r.flag("left") {
		leave(path)
		return w.done(nil)
	}
	var err error
	for round := range killRounds {
		err = syscall.Unmount(path, 0)
		if !errors.Is(err, syscall.EBUSY) {
			break
		}
		users := usersOf(path)
		if !r.flag("force") || round == killRounds-1 {
			return vm.Errorf(vm.Busy, path, "it is in use by %s", listed(users)).WithCode("VOLUME_BUSY", "processes", users).
				WithHint("end them first, or use --force, which kills them")
		}
		for _, u := range users {
			if pid, _, _ := strings.Cut(u, " "); pid != strconv.Itoa(os.Getpid()) && pid != "1" {
				n, _ := strconv.Atoi(pid)
				_ = syscall.Kill(n, syscall.SIGKILL) // it may have ended
			}
		}
		pause(r.ctx, killPause)
	}
	if errors.Is(err, syscall.EINVAL) || errors.Is(err, syscall.ENOENT) {
		err = nil // nothing is mounted there
	}
	return w.done(err)
}

func listed(users []string) string {
	if len(users) == 0 {
		return "the kernel"
	}
	return strings.Join(users, ", ")
}

// maxUsers bounds how many programs a refusal names.
const maxUsers = 10

// usersOf names the processes that hold something below a mount, as "pid name".
func usersOf(mount string) (users []string) {
	names, _ := filepath.Glob("/proc/[0-9]*") // fails only for a bad pattern
	for _, dir := range names {
		if len(users) == maxUsers {
			break
		}
		if uses(dir, mount) {
			users = append(users, filepath.Base(dir)+" "+sysLine(dir+"/comm"))
		}
	}
	return users
}

func uses(proc, mount string) bool {
	below := func(p string) bool { return p == mount || strings.HasPrefix(p, mount+"/") }
	for _, link := range []string{"cwd", "root", "exe"} {
		if p, err := os.Readlink(proc + "/" + link); err == nil && below(p) {
			return true
		}
	}
	fds, _ := os.ReadDir(proc + "/fd") // empty when the process has ended
	for _, fd := range fds {
		if p, err := os.Readlink(proc + "/fd/" + fd.Name()); err == nil && below(p) {
			return true
		}
	}
	for _, l := range procLines(proc + "/maps") {
		if i := strings.IndexByte(l, '/'); i >= 0 && below(l[i:]) {
			return true
		}
	}
	return false
}
