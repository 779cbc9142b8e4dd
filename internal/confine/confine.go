// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

// Package confine starts a program that is not trusted, QEMU, where it reaches
// nothing but the files that it was given and the descriptors that it inherits:
// in mount, pid, net and ipc namespaces of its own (and a user namespace, where
// only that makes the others possible), under Landlock and a seccomp filter,
// without capabilities and without a way to new privileges. What a host does
// not allow is left out; Of and Probe say what holds. The program that calls
// Start is started again as the shim that sets all this up and then becomes
// the program: whoever imports this package is such a shim.
package confine

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"

	"golang.org/x/sys/unix"
)

// Plan says what the program may reach. All paths are absolute; one that does
// not exist is left out.
type Plan struct {
	// Read are files and directories that may be read and executed.
	Read []string `json:"read,omitempty"`
	// Write are files that may be written, and directories whose files may be:
	// nothing can be made, removed or renamed in them.
	Write []string `json:"write,omitempty"`
	// Devices may be opened and told what to do (ioctl).
	Devices []string `json:"devices,omitempty"`
	// Root is an empty, or unimportant, directory. The program's root is built
	// there, in its own mount namespace.
	Root string `json:"root"`
	// UID, GID and Groups are who the program is, where it is started by root and
	// has a root of its own; 0 = root, without its powers.
	UID    int   `json:"uid,omitempty"`
	GID    int   `json:"gid,omitempty"`
	Groups []int `json:"groups,omitempty"`
	// Nice is added to the program's niceness.
	Nice   int     `json:"nice,omitempty"`
	Limits []Limit `json:"limits,omitempty"`
}

// Limit is one bound of what the program may take (setrlimit).
type Limit struct {
	What int    `json:"what"` // such as unix.RLIMIT_DATA
	Cur  uint64 `json:"cur"`
	Max  uint64 `json:"max"`
}

// check refuses paths that would mean more than they say.
func (p Plan) check() error {
	for _, path := range slices.Concat(p.Read, p.Write, p.Devices, []string{p.Root}) {
		if !filepath.IsAbs(path) || filepath.Clean(path) == "/" {
			return fmt.Errorf("confine: %q is no absolute path of a file", path)
		}
	}
	return nil
}

// shimName is the name that the shim is started by.
const shimName = "warren-confined"

// namespaces are those that a confined program has of its own.
const namespaces = unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWNET | unix.CLONE_NEWIPC

// Start makes of cmd, which must not have been started, the start of its
// program under the plan. Its descriptors, directory and environment are kept.
// A kernel that gives this user no namespaces is asked once; the program then
// runs without them, but under all the rest. Its standard streams must be files:
// pipes of cmd's own making are closed when the kernel refuses the first start.
func Start(cmd *exec.Cmd, p Plan) error { return startIn(cmd, p, spaces) }

// startIn is Start with what gives the program namespaces of its own.
func startIn(cmd *exec.Cmd, p Plan, spaces func(*syscall.SysProcAttr) *syscall.SysProcAttr) error {
	if err := shim(cmd, p); err != nil {
		return err
	}
	without := *cmd
	cmd.SysProcAttr = spaces(cmd.SysProcAttr)
	err := cmd.Start()
	if err == nil || !refused(err) {
		return err
	}
	*cmd = without
	return cmd.Start()
}

// shim makes cmd start the shim, which becomes cmd's program.
func shim(cmd *exec.Cmd, p Plan) error {
	if err := errors.Join(cmd.Err, p.check()); err != nil {
		return err
	}
	if _, err := os.Stat(cmd.Path); err != nil {
		return err // what the shim could say would come too late
	}
	data, err := json.Marshal(p)
	if err != nil {
		return err
	}
	cmd.Args = slices.Concat([]string{shimName, string(data), cmd.Path}, cmd.Args[1:])
	cmd.Path = "/proc/self/exe"
	return nil
}

// refused reports whether the kernel gives no namespaces, which it has several
// ways to say.
func refused(err error) bool {
	return errors.Is(err, unix.EPERM) || errors.Is(err, unix.EACCES) || errors.Is(err, unix.ENOSPC) ||
		errors.Is(err, unix.EINVAL) || errors.Is(err, unix.EUSERS)
}

// spaces adds the namespaces to what the process is started with. Without root
// a user namespace is needed, in which the shim may mount.
func spaces(old *syscall.SysProcAttr) *syscall.SysProcAttr {
	attr := new(syscall.SysProcAttr)
	if old != nil {
		*attr = *old
	}
	attr.Cloneflags |= namespaces
	if uid, gid := os.Geteuid(), os.Getegid(); uid != 0 {
		attr.Cloneflags |= unix.CLONE_NEWUSER
		attr.UidMappings = []syscall.SysProcIDMap{{ContainerID: uid, HostID: uid, Size: 1}}
		attr.GidMappings = []syscall.SysProcIDMap{{ContainerID: gid, HostID: gid, Size: 1}}
		attr.AmbientCaps = []uintptr{unix.CAP_SYS_ADMIN, unix.CAP_SETPCAP}
	}
	return attr
}
