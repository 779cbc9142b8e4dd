// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

// Package confine starts a program that is not trusted, QEMU, so that it reaches
// only the files that it was given and the descriptors that it inherits: in mount,
// pid, net and ipc namespaces of its own (and a user namespace, if only that makes
// the others possible), under Landlock and a seccomp filter, without capabilities
// and without a way to new privileges. Measures that a host does not allow are left
// out; Of and Probe report which apply. The program that calls Start starts itself
// again as a shim, which sets this up and then executes the program. So every
// program that imports this package can be such a shim.
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

// Plan lists what the program may reach. All paths are absolute; a missing one is
// left out.
type Plan struct {
	// Read are files and directories that may be read and executed.
	Read []string `json:"read,omitempty"`
	// Write are files that may be written, and directories whose files may be:
	// nothing can be created, removed or renamed in them.
	Write []string `json:"write,omitempty"`
	// Devices may be opened and controlled (ioctl).
	Devices []string `json:"devices,omitempty"`
	// Root is an empty or unimportant directory. The program's root is built there,
	// in its own mount namespace.
	Root string `json:"root"`
	// UID, GID and Groups are the program's ids, if root starts it and it has a
	// root of its own; 0 = root, without its powers.
	UID    int   `json:"uid,omitempty"`
	GID    int   `json:"gid,omitempty"`
	Groups []int `json:"groups,omitempty"`
	// Nice is added to the program's niceness.
	Nice   int     `json:"nice,omitempty"`
	Limits []Limit `json:"limits,omitempty"`
	// Gate is the descriptor from which the shim reads that the program may run; 0 = it may
	// at once. Hold sets it.
	Gate int `json:"gate,omitempty"`
}

// Limit is one resource limit of the program (setrlimit).
type Limit struct {
	What int    `json:"what"` // such as unix.RLIMIT_DATA
	Cur  uint64 `json:"cur"`
	Max  uint64 `json:"max"`
}

// check refuses paths that are not plain absolute paths.
func (p Plan) check() error {
	for _, path := range slices.Concat(p.Read, p.Write, p.Devices, []string{p.Root}) {
		if !filepath.IsAbs(path) || filepath.Clean(path) == "/" {
			return fmt.Errorf("confine: %q is no absolute path of a file", path)
		}
	}
	return nil
}

// shimName is the program name of the shim.
const shimName = "warren-confined"

// namespaces are those that a confined program has of its own.
const namespaces = unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWNET | unix.CLONE_NEWIPC

// Start starts cmd, which must not have been started, under the plan. Its
// descriptors, directory and environment are kept. If the kernel gives this user no
// namespaces, the program runs without them, but under everything else; the kernel
// is asked once. Standard streams must be files: the first start, if refused, would
// close pipes that cmd has made.
func Start(cmd *exec.Cmd, p Plan) error { return startIn(cmd, p, spaces) }

// Gate keeps a program from running that Hold has started.
type Gate struct{ w *os.File }

// Open lets the program run.
func (g *Gate) Open() error {
	_, err := g.w.Write([]byte{1})
	return errors.Join(err, g.w.Close())
}

// Close ends a program whose gate was not opened, without waiting for its end. After Open it
// does nothing.
func (g *Gate) Close() { _ = g.w.Close() } // Open may have closed it

// Hold is Start of a program that does not run before its gate is opened: until then the
// process is the shim. It ends when this process ends before that, even between fork and
// exec, where nobody finds the new process by its name. The caller closes the gate.
func Hold(cmd *exec.Cmd, p Plan) (*Gate, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer r.Close()
	p.Gate = 3 + len(cmd.ExtraFiles)
	cmd.ExtraFiles = append(slices.Clip(cmd.ExtraFiles), r)
	if err := Start(cmd, p); err != nil {
		w.Close()
		return nil, err
	}
	return &Gate{w}, nil
}

// startIn is Start with the function that adds the namespaces.
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
		return err // an error of the shim would come too late
	}
	data, err := json.Marshal(p)
	if err != nil {
		return err
	}
	cmd.Args = slices.Concat([]string{shimName, string(data), cmd.Path}, cmd.Args[1:])
	cmd.Path = "/proc/self/exe"
	return nil
}

// refused reports whether the kernel gives no namespaces, for which it has several
// errors.
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
