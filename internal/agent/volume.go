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

// disk waits for the disk with a serial number and answers with its device name and contents.
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

// waitDisk finds a disk by its serial number, because device names do not
// follow the order of attachment.
func waitDisk(r *request) (dev string, err error) {
	serial := r.query.Get("serial")
	err = withinContext(r.ctx, func() error {
		names, _ := filepath.Glob("/sys/block/vd*/serial") // fails only for an invalid pattern
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

// holds identifies the contents of a disk by its first bytes: the superblock
// of ext4 is at offset 1024.
func holds(head []byte) string {
	super := head[1024:]
	switch {
	case binary.LittleEndian.Uint16(super[0x38:]) == 0xef53:
		const journal = 0x4 // incompatible feature: the journal must be replayed
		if binary.LittleEndian.Uint32(super[0x60:])&journal != 0 {
			return vm.DiskDirty
		}
		return vm.DiskClean
	case len(bytes.Trim(head, "\x00")) == 0:
		return vm.DiskEmpty
	}
	return vm.DiskForeign
}

// never are the paths on which the agent refuses to mount a volume.
var never = []string{"/", "/proc", "/sys", "/dev", "/run"}

// mount mounts the disk with a serial number: read-only unless rw. A
// directory that is not empty needs over.
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

// mountPoint creates the directory, or checks an existing one.
func mountPoint(path string, over bool) error {
	if !filepath.IsAbs(path) || slices.Contains(never, path) {
		return vm.Errorf(vm.Invalid, path, "a volume cannot be mounted there").WithCode("MOUNT_PATH_INVALID")
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
			WithHint("mount elsewhere, or use --over, which hides its contents")
	}
	return nil
}

const (
	killRounds = 20
	killPause  = 25 * time.Millisecond
)

// unmount removes a mount. A missing one is no error. If programs use it, the
// error names them; with force they are killed.
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

// maxUsers limits how many programs an error names.
const maxUsers = 10

// usersOf returns the processes that use something below a mount, as "pid name".
func usersOf(mount string) (users []string) {
	names, _ := filepath.Glob("/proc/[0-9]*") // fails only for an invalid pattern
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
	fds, _ := os.ReadDir(proc + "/fd") // empty if the process has ended
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
