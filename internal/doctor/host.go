// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/warren-vm/warren/internal/confine"
	"github.com/warren-vm/warren/internal/image"
	"github.com/warren-vm/warren/internal/layout"
	"github.com/warren-vm/warren/vm"
)

const (
	gib          = 1 << 30
	leastSpace   = 4 * gib  // fewer bytes free: nothing can be built
	goodSpace    = 20 * gib // fewer: a warning
	leastMemory  = 1 * gib
	reserveHint  = "remove what is not needed: `warren image ls`, `warren ls`"
	createDirFix = "mkdir -p -m 700 %s"
)

// dataDir checks the data directory: writable, reflinks, space.
func (o Options) dataDir() []Check {
	where := o.Data
	for !exists(where) && filepath.Dir(where) != where {
		where = filepath.Dir(where) // a missing directory will be made below this
	}
	name := "data directory"
	dir, err := layout.Temp(where)
	if err != nil {
		fix := fmt.Sprintf(createDirFix, o.Data)
		if where != o.Data {
			fix += " && chown " + o.user + " " + o.Data
		}
		return []Check{{Name: name, Status: Fail, Detail: fmt.Sprintf("%s: %v", where, err), Fix: fix}}
	}
	defer os.RemoveAll(dir) // best effort; a sweep removes the name
	out := []Check{{Name: name, Status: OK, Detail: o.Data}}
	if where != o.Data {
		out[0].Detail += " (not there yet, will be made)"
	} else if st, err := os.Stat(o.Data); err == nil && st.Mode().Perm()&0o077 != 0 {
		out[0] = Check{
			Name: name, Status: Warn, Detail: fmt.Sprintf("%s is open to others (%v); memory of machines is in it", o.Data, st.Mode().Perm()),
			Fix: "chmod 700 " + o.Data,
		}
	}
	return append(out, reflink(dir), o.space(where))
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return !errors.Is(err, fs.ErrNotExist)
}

// reflink tries to clone a file. Reflinks save space and time; nothing needs them.
func reflink(dir string) Check {
	c := Check{Name: "reflinks", Status: OK, Detail: "not supported by this file system; memory is copied instead, which works and takes more space"}
	a, b := filepath.Join(dir, "a"), filepath.Join(dir, "b")
	err := os.WriteFile(a, make([]byte, 1<<16), 0o600)
	if err == nil {
		err = clone(a, b)
	}
	if err == nil {
		c.Detail = "supported: snapshots share space"
	} else if errors.Is(err, unix.ENOSPC) {
		c.Detail = "not known: the disk is full"
	}
	return c
}

func clone(from, to string) (err error) {
	src, err := os.Open(from)
	if err != nil {
		return err
	}
	defer src.Close() // only read
	dst, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, dst.Close()) }()
	return unix.IoctlFileClone(int(dst.Fd()), int(src.Fd()))
}

func (o Options) space(where string) Check {
	c := Check{Name: "free space", Status: OK}
	var st syscall.Statfs_t
	if err := syscall.Statfs(where, &st); err != nil {
		return Check{Name: c.Name, Status: Warn, Detail: "not known: " + err.Error()}
	}
	return spaceCheck(int64(st.Bavail) * st.Bsize)
}

func spaceCheck(free int64) Check {
	c := Check{Name: "free space", Status: OK, Detail: fmt.Sprintf("%.1f GiB", float64(free)/gib)}
	switch {
	case free < leastSpace:
		c.Status, c.Fix = Fail, reserveHint
		c.Detail += fmt.Sprintf("; an image and a machine need %d GiB", leastSpace/gib)
	case free < goodSpace:
		c.Status, c.Fix = Warn, reserveHint
		c.Detail += "; enough to begin with"
	}
	return c
}

// encryption reports whether the data directory is encrypted at rest.
func (o Options) encryption() Check {
	where := o.Data
	for !exists(where) && filepath.Dir(where) != where {
		where = filepath.Dir(where)
	}
	b := Backing{Sysfs: filepath.Join(o.root, "/sys"), Mountinfo: filepath.Join(o.root, "/proc/self/mountinfo")}
	v, why := b.Encrypted(where)
	c := Check{Name: "encryption at rest", Status: Warn, Detail: fmt.Sprintf("%s: %s", v, why)}
	switch v {
	case Encrypted:
		c.Status = OK
	default:
		c.Fix = "keep the data directory on an encrypted disk (LUKS) or directory (gocryptfs, fscrypt)"
	}
	if swap := b.Swap(filepath.Join(o.root, "/proc/swaps")); len(swap) > 0 {
		c.Status = Warn
		c.Detail += "; swap is not encrypted: " + strings.Join(swap, ", ")
		c.Fix = strings.TrimPrefix(c.Fix+"; encrypt swap or switch it off (swapoff)", "; ")
	}
	return c
}

// cold reports how many of the kept memories are encrypted, and checks the host
// key.
func (o Options) cold() Check {
	c := Check{Name: "sealed generations", Status: OK}
	data := layout.Dir(o.Data)
	count := func(name func(layout.GenerationDir) string) int {
		found, err := filepath.Glob(name(layout.GenerationDir(data.Generation("*"))))
		if err != nil { // fails if the data directory's own name is a bad pattern
			return 0
		}
		return len(found)
	}
	sealed, plain := count(layout.GenerationDir.SealedRAM), count(layout.GenerationDir.RAM)
	st, err := os.Lstat(data.HostKey())
	switch {
	case err == nil:
		c.Detail = fmt.Sprintf("%d encrypted, %d with plain memory; the host key is %s", sealed, plain, data.HostKey())
		if !st.Mode().IsRegular() || st.Mode().Perm()&0o077 != 0 {
			c.Status, c.Fix = Fail, "make it a file that only its owner may read: chmod 600 "+data.HostKey()
			c.Detail += fmt.Sprintf(", which is refused: its mode is %v", st.Mode())
		}
	case !errors.Is(err, fs.ErrNotExist):
		c.Status, c.Detail = Warn, err.Error()
	case sealed > 0:
		c.Status, c.Fix = Fail, "put back "+data.HostKey()+" from a backup"
		c.Detail = fmt.Sprintf("%d can't be opened: the host key is gone", sealed)
	default:
		c.Detail = fmt.Sprintf("none; %d with plain memory; the host key is made on first use as %s", plain, data.HostKey())
	}
	return c
}

func (o Options) memory() Check {
	c := Check{Name: "memory", Status: OK}
	total, avail, err := meminfo(filepath.Join(o.root, "/proc/meminfo"))
	if err != nil {
		return Check{Name: c.Name, Status: Warn, Detail: "not known: " + err.Error()}
	}
	c.Detail = fmt.Sprintf("%.1f GiB, %.1f available", float64(total)/gib, float64(avail)/gib)
	if avail < leastMemory {
		c.Status = Warn
		c.Detail += "; a machine has 512 MiB unless told otherwise"
		c.Fix = "end other programs, or start machines with less: --mem"
	}
	return c
}

func meminfo(path string) (total, avail int64, err error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return 0, 0, err
	}
	for _, line := range strings.Split(string(data), "\n") {
		f := strings.Fields(line)
		if len(f) < 2 {
			continue
		}
		kib, err := strconv.ParseInt(f[1], 10, 64)
		if err != nil {
			continue
		}
		switch f[0] {
		case "MemTotal:":
			total = kib << 10
		case "MemAvailable:":
			avail = kib << 10
		}
	}
	if total == 0 {
		return 0, 0, fmt.Errorf("%s says no total", path)
	}
	return total, avail, nil
}

// cgroup checks whether this process may limit its children.
func (o Options) cgroup() Check {
	c := Check{Name: "cgroup delegation", Status: Warn, Fix: "run `warren serve` as a systemd service with Delegate=yes"}
	data, err := os.ReadFile(filepath.Join(o.root, "/proc/self/cgroup"))
	path, ok := strings.CutPrefix(strings.TrimSpace(string(data)), "0::")
	if err != nil || !ok || strings.Contains(path, "\n") {
		c.Detail = "no cgroup v2 hierarchy; machines are limited by rlimits and niceness only"
		return c
	}
	dir := filepath.Join(o.root, "/sys/fs/cgroup", path)
	ctrl, err := os.ReadFile(filepath.Join(dir, "cgroup.controllers"))
	if err != nil {
		c.Detail = "not readable; machines are limited by rlimits and niceness only"
		return c
	}
	var missing []string
	for _, want := range []string{"cpu", "memory", "pids"} {
		if !strings.Contains(" "+strings.TrimSpace(string(ctrl))+" ", " "+want+" ") {
			missing = append(missing, want)
		}
	}
	switch {
	case len(missing) > 0:
		c.Detail = fmt.Sprintf("%s lacks the controllers %s; machines are limited by rlimits and niceness only", path, strings.Join(missing, ", "))
	case unix.Access(dir, unix.W_OK) != nil:
		c.Detail = path + " was not delegated to this process; machines are limited by rlimits and niceness only"
	default:
		return Check{Name: c.Name, Status: OK, Detail: path + "; machines are bounded by control groups (CPU, memory, threads, shares of the disk), rlimits and niceness"}
	}
	return c
}

// containment reports what confines a QEMU that its guest has taken over.
func (o Options) containment(ctx context.Context) Check {
	c := Check{Name: "containment of machines", Status: OK}
	held, err := o.confined(ctx, "")
	if err != nil {
		return Check{Name: c.Name, Status: Fail, Detail: "no program could be started confined: " + err.Error(), Fix: "mount /proc, and allow seccomp filters"}
	}
	c.Detail = strings.Join(held, ", ")
	var missing, fixes []string
	for _, want := range confine.All {
		if !slices.Contains(held, want) {
			missing = append(missing, want)
		}
	}
	if slices.Contains(missing, confine.OwnPIDs) {
		fixes = append(fixes, "let users make namespaces: sysctl -w kernel.unprivileged_userns_clone=1 user.max_user_namespaces=10000 (Ubuntu: kernel.apparmor_restrict_unprivileged_userns=0)")
	}
	if slices.Contains(missing, confine.Landlock) {
		fixes = append(fixes, "boot a kernel from 5.13 on with landlock in lsm=")
	}
	if len(missing) > 0 {
		c.Status = Warn
		c.Detail += "; missing: " + strings.Join(missing, ", ")
	}
	switch {
	case o.uid != 0:
		c.Detail += "; all machines have the user id of `warren serve`"
	case slices.Contains(held, confine.OwnRoot) && o.switches:
		c.Detail += "; each machine has a user id of its own"
		kvm := filepath.Join(o.root, "/dev/kvm")
		if _, open := confine.DeviceGroups(kvm); !open && unix.Access(kvm, unix.F_OK) == nil {
			c.Detail += ", but under KVM that of root, without its powers: /dev/kvm is open to root alone"
			fixes = append(fixes, "let a group open it: chgrp kvm /dev/kvm && chmod 660 /dev/kvm")
		}
	default:
		c.Detail += "; all machines have the user id of root, without its powers"
	}
	c.Fix = strings.Join(fixes, "; ")
	return c
}

// yama reports whether this process can read the memory of a QEMU that it did not
// start, which makes snapshots fast.
func (o Options) yama() Check {
	c := Check{Name: "memory of machines", Status: OK, Detail: "readable: snapshots take the short way"}
	scope := o.sysctl("kernel/yama/ptrace_scope")
	if scope == "" || scope == "0" || o.uid == 0 && scope != "3" {
		return c
	}
	c.Status = Warn
	c.Detail = fmt.Sprintf("kernel.yama.ptrace_scope is %s: once a monitor was replaced, snapshots of its machine take the long way (seconds)", scope)
	c.Fix = "sysctl -w kernel.yama.ptrace_scope=0"
	return c
}

// images checks for the default image and its warm generation.
func (o Options) images() []Check {
	c := Check{Name: "default image", Status: Warn, Fix: "warren image build " + image.DefaultName}
	dir := layout.Dir(o.Data)
	img, err := image.Find(dir, "")
	if errors.Is(err, vm.NotFound) {
		c.Detail = "not built yet"
		return []Check{c}
	}
	if err != nil {
		c.Status, c.Detail = Fail, err.Error()
		return []Check{c}
	}
	out := []Check{{Name: c.Name, Status: OK, Detail: fmt.Sprintf("%s, built %s", img.ID, img.CreatedAt.Format("2006-01-02"))}}
	warm := Check{Name: "warm generation", Status: Warn, Detail: "none: the first machine takes seconds longer", Fix: c.Fix}
	found, err := filepath.Glob(layout.GenerationDir(dir.Warm(img.ID, "*")).Manifest())
	n := 0
	for _, f := range found {
		if !layout.IsTemp(filepath.Base(filepath.Dir(f))) {
			n++
		}
	}
	if err == nil && n > 0 {
		warm = Check{Name: warm.Name, Status: OK, Detail: fmt.Sprintf("%d of the default image", n)}
	}
	return append(out, warm)
}
