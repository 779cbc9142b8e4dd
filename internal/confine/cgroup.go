// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package confine

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Below the control group that was delegated to serve there are two: one for serve
// and its monitors, and one that contains a group for each machine. (A group with
// subgroups may contain no process itself.)
const (
	serveGroup    = "warren.serve"
	machinesGroup = "warren.vms"
)

// controllers are those that limit machines, as far as the host has them.
var controllers = []string{"cpu", "memory", "io", "pids"}

// serveWeight is the share of CPU and disk of serve and its monitors when guests
// keep them busy; all machines together have 100.
const serveWeight = "500"

// Hierarchy is where the control groups (version 2) are; the zero value is this
// host's.
type Hierarchy struct {
	root string                // "" = /
	may  func(dir string) bool // nil = delegated
}

// Bounds are the limits of a machine. 0 = none.
type Bounds struct {
	CPUs    int
	Memory  uint64 // bytes
	Threads int
}

// base is the directory of the group that was delegated to serve.
func (h Hierarchy) base() (string, error) {
	data, err := os.ReadFile(filepath.Join("/", h.root, "proc/self/cgroup"))
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(string(data)) {
		if path, ok := strings.CutPrefix(strings.TrimSpace(line), "0::"); ok {
			return filepath.Join("/", h.root, "sys/fs/cgroup", strings.TrimSuffix(path, "/"+serveGroup)), nil
		}
	}
	return "", errors.New("there are no control groups of version 2")
}

// Divide prepares the group of this process, serve, for groups of machines, and
// returns the controllers that limit them. It fails if the group was not delegated,
// or if other processes are in it.
func (h Hierarchy) Divide() ([]string, error) {
	dir, err := h.base()
	if err != nil {
		return nil, err
	}
	data, err := os.ReadFile(filepath.Join(dir, "cgroup.controllers"))
	if err != nil {
		return nil, err
	}
	offered := strings.Fields(string(data))
	have := slices.DeleteFunc(slices.Clone(controllers), func(c string) bool { return !slices.Contains(offered, c) })
	may := h.may
	if may == nil {
		may = delegated
	}
	if len(have) == 0 || !may(dir) {
		return nil, fmt.Errorf("%s was not delegated", dir)
	}
	for _, name := range []string{serveGroup, machinesGroup} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
			return nil, err
		}
	}
	self := strconv.Itoa(os.Getpid())
	if err := write(dir, serveGroup+"/cgroup.procs", self); err != nil {
		return nil, err
	}
	for _, in := range []string{dir, filepath.Join(dir, machinesGroup)} {
		if err := write(in, "cgroup.subtree_control", "+"+strings.Join(have, " +")); err != nil {
			_ = write(dir, "cgroup.procs", self) // back to its group
			return nil, err
		}
	}
	for _, weight := range []string{"cpu.weight", "io.weight"} {
		_ = write(dir, serveGroup+"/"+weight, serveWeight) // not every host has the disk controller
	}
	h.sweep(filepath.Join(dir, machinesGroup))
	return have, nil
}

// sweep removes groups without a process; the kernel keeps the others.
func (h Hierarchy) sweep(dir string) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return
	}
	for _, e := range entries {
		if e.IsDir() {
			_ = unix.Rmdir(filepath.Join(dir, e.Name()))
		}
	}
}

// delegated reports whether this process may subdivide a group: a user's own
// always, root's if the service manager has marked it.
func delegated(dir string) bool {
	if unix.Access(filepath.Join(dir, "cgroup.procs"), unix.W_OK) != nil {
		return false
	}
	if os.Getuid() != 0 {
		return true
	}
	var mark [8]byte
	for _, name := range []string{"trusted.delegate", "user.delegate"} {
		if n, err := unix.Getxattr(dir, name, mark[:]); err == nil && string(mark[:n]) == "1" {
			return true
		}
	}
	return false
}

// Enter puts a process into its machine's group and sets the limits. If serve has
// not subdivided its group, it does nothing. It may be called again with other
// limits.
func (h Hierarchy) Enter(machine string, pid int, b Bounds) error {
	dir, err := h.group(machine)
	if dir == "" || err != nil {
		return err
	}
	if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	if err := h.bound(dir, b); err != nil {
		return err
	}
	return write(dir, "cgroup.procs", strconv.Itoa(pid))
}

// bound sets the limits whose controllers exist.
func (h Hierarchy) bound(dir string, b Bounds) error {
	const period = 100_000 // µs
	for file, value := range map[string]int64{"cpu.max": int64(b.CPUs) * period, "memory.max": int64(b.Memory), "pids.max": int64(b.Threads)} {
		text := "max"
		if value > 0 {
			text = strconv.FormatInt(value, 10)
		}
		if file == "cpu.max" {
			text += " " + strconv.Itoa(period)
		}
		if err := write(dir, file, text); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// Leave removes the group of a machine that has ended.
func (h Hierarchy) Leave(machine string) {
	if dir, err := h.group(machine); err == nil && dir != "" {
		_ = unix.Rmdir(dir) // a group that is left or was never made does no harm
	}
}

// group names a machine's group; "" = machines have none here.
func (h Hierarchy) group(machine string) (string, error) {
	base, err := h.base()
	if err != nil {
		return "", nil //nolint:nilerr // no control groups: there are no limits
	}
	dir := filepath.Join(base, machinesGroup)
	if _, err := os.Stat(dir); err != nil {
		return "", nil //nolint:nilerr // not divided
	}
	return filepath.Join(dir, machine), nil
}

// write writes to a file of a group, which exists if its controller does.
func write(dir, name, text string) error {
	f, err := os.OpenFile(filepath.Join(dir, name), os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	return errors.Join(err, f.Close())
}
