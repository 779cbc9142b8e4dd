// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package qemu

import (
	"context"
	"encoding/binary"
	"errors"
	"hash/fnv"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/warren-vm/warren/internal/confine"
	"github.com/warren-vm/warren/internal/layout"
	"github.com/warren-vm/warren/internal/qcow"
	"github.com/warren-vm/warren/vm"
)

// maxLayers bounds the chain below a disk; the engine merges layers long before.
const maxLayers = 1000

// niceness of a QEMU: its monitor and serve have priority when a guest keeps every
// CPU busy.
const niceness = 2

// startConfined starts QEMU so that it reaches only its own files. It runs once the gate is open.
func startConfined(ctx context.Context, cmd *exec.Cmd, spec vm.MachineSpec) (*confine.Gate, error) {
	if err := prepareLent(spec); err != nil {
		return nil, err
	}
	if err := offerKeys(ctx, spec); err != nil {
		return nil, err
	}
	p, err := plan(spec)
	if err != nil {
		return nil, err
	}
	groups, ok := deviceGroups(spec)
	if ok && confine.MaySwitchUsers() {
		p.UID, p.GID = userOf(spec)
		p.Groups = groups
		if err := shareAll(p); err != nil {
			p.UID = 0 // some file systems cannot give files to a group
		}
	}
	return confine.Hold(cmd, p)
}

// maxThreads bounds the threads of a QEMU: those of its CPUs, and those that wait
// for the disk.
const maxThreads = 512

// Bound puts a machine's QEMU into a control group with limits, if serve has a
// group to subdivide. It is called again when the size has changed or another serve
// has adopted the machine. Without a group, the process's rlimits apply.
func Bound(id vm.ID, pid int, size vm.Size) {
	b := confine.Bounds{CPUs: size.VCPU + 1, Memory: dataLimit(size.MemoryMiB), Threads: maxThreads}
	_ = confine.Hierarchy{}.Enter(string(id), pid, b) // QEMU runs also without this limit
}

// If serve runs as root, each machine has a user id of its own, from a range that
// no system assigns (systemd.io/UIDS-GIDS). All machines share one group, to which
// the files that they open belong: QEMU opens even the memory that it maps
// privately for writing. The directories of these files are closed to the group; a
// machine sees only its own files, in its root.
const (
	firstUser   = 1879048192 + 1
	users       = 1 << 24
	sharedGroup = firstUser - 1
)

// userOf returns the user and groups of a machine's QEMU.
func userOf(spec vm.MachineSpec) (uid, gid int) {
	h := fnv.New32a()
	h.Write([]byte(spec.ID))
	return firstUser + int(h.Sum32()%users), sharedGroup
}

// deviceGroups returns the groups that a user needs for the machine's devices. If
// only root may open a device, the machine cannot have a user of its own.
func deviceGroups(spec vm.MachineSpec) (groups []int, ok bool) {
	if spec.Accel != vm.KVM {
		return nil, true
	}
	return confine.DeviceGroups("/dev/kvm")
}

// shareAll gives the machines' group access to what a plan's program may open.
func shareAll(p confine.Plan) error {
	for _, path := range p.Write {
		if err := give(path, 0o060); err != nil {
			return err
		}
	}
	for _, path := range p.Read {
		if strings.HasPrefix(path, "/usr/") || strings.HasPrefix(path, "/lib") || strings.HasPrefix(path, "/etc/") {
			continue
		}
		if err := give(path, 0o040); err != nil {
			return err
		}
	}
	return nil
}

// give gives the machines' group rights on one file, or on a directory with its
// content. All others lose theirs.
func give(path string, rights fs.FileMode) error {
	st, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // QEMU reports it
	}
	if err != nil {
		return err
	}
	if st.IsDir() {
		rights = 0o010
	}
	if st.Mode().Perm()&(rights>>3) == rights>>3 {
		return nil // every user has them
	}
	sys, ok := st.Sys().(*syscall.Stat_t)
	if !ok || sys.Gid != sharedGroup {
		if err := os.Chown(path, -1, sharedGroup); err != nil {
			return err
		}
	}
	if ok && sys.Gid == sharedGroup && st.Mode().Perm()&rights == rights {
		return nil // a chown, even to the same group, would invalidate the memory's checksum
	}
	return os.Chmod(path, st.Mode().Perm()&^0o070|rights)
}

// plan is everything that the machine's QEMU can reach by name. Its sockets and the
// device state that it starts on are descriptors.
func plan(spec vm.MachineSpec) (confine.Plan, error) {
	p := confine.Plan{
		Read:    confine.Runtime(spec.QEMU), // with its firmware and modules
		Write:   []string{layout.VMDir(spec.Dir).Lent(), RAMPath(spec)},
		Devices: []string{"/dev/null", "/dev/zero", "/dev/random", "/dev/urandom"},
		Root:    spec.RunDir, Nice: niceness, Limits: limits(spec),
	}
	if spec.Accel == vm.KVM {
		p.Devices = append(p.Devices, "/dev/kvm")
	}
	for i := range spec.Plugged.Modules {
		p.Write = append(p.Write, ModulePath(spec, i))
	}
	if spec.Generation == nil && spec.Boot.Kernel != "" {
		p.Read = append(p.Read, spec.Boot.Kernel)
		if spec.Boot.Initramfs != "" {
			p.Read = append(p.Read, spec.Boot.Initramfs)
		}
	}
	for _, v := range spec.Plugged.Volumes {
		if err := checkVolume(v); err != nil {
			return p, err
		}
		switch {
		case v.Cut:
		case v.ReadOnly:
			p.Read = append(p.Read, v.File)
		default:
			p.Write = append(p.Write, v.File)
		}
	}
	if spec.Disk != "" {
		layers, err := layersBelow(spec)
		if err != nil {
			return p, err
		}
		p.Write = append(p.Write, spec.Disk)
		p.Read = append(p.Read, layers...)
	}
	return p, nil
}

// layersBelow returns the files below a machine's disk, the next one first. The
// list ends at a missing file, which QEMU then reports. It refuses a disk that
// names anything but a disk of a generation or an image: a QEMU wrote that name,
// and a guest that has taken over QEMU could name any file of the host.
func layersBelow(spec vm.MachineSpec) (list []string, err error) {
	at := places(spec)
	for disk := spec.Disk; len(list) < maxLayers; {
		h, err := qcow.Check(disk, qcow.Layer)
		if vm.KindOf(err) == vm.Corrupt {
			return nil, tampered(spec, vm.AsError(err).Msg)
		}
		if err != nil || h.Backing == "" {
			return list, nil
		}
		backing := h.Backing
		if !filepath.IsAbs(backing) {
			// ".." is resolved from the directory without links.
			dir, err := filepath.EvalSymlinks(filepath.Dir(disk))
			if err != nil {
				return list, nil
			}
			backing = filepath.Join(dir, backing)
		}
		if err := mayLieOn(spec, at, backing); err != nil {
			return nil, err
		}
		list, disk = append(list, backing), backing
	}
	return list, nil
}

// mayLieOn wants a disk, and for a VM's disk one in the allowed places; an image in
// the making has none.
func mayLieOn(spec vm.MachineSpec, at []string, path string) error {
	real, err := filepath.EvalSymlinks(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fileError(path, err)
	}
	st, err := os.Lstat(real)
	ok := err == nil && st.Mode().IsRegular()
	if len(at) > 0 {
		name, disk := filepath.Clean(path), filepath.Base(layout.GenerationDir("").Disk())
		ok = ok && filepath.Base(real) == disk && slices.ContainsFunc(at, func(dir string) bool {
			return strings.HasPrefix(real, dir+"/") || strings.HasPrefix(name, dir+"/")
		})
	} else {
		_, err := BackingName(real)
		ok = ok && err == nil
	}
	if !ok {
		return tampered(spec, "it says that it lies on "+path)
	}
	return nil
}

func tampered(spec vm.MachineSpec, why string) error {
	return vm.Errorf(vm.Corrupt, string(spec.ID), "its disk: %s", why).
		WithHint("the disk was tampered with; go back to a generation from before: `warren tree %s`, `warren rollback %s`", spec.ID, spec.ID)
}

// places are the directories in which a VM's lower layers may be, as named and
// without links: the generations and images of its data directory. The operator may
// have moved images, or all of them, elsewhere.
func places(spec vm.MachineSpec) (list []string) {
	vms, err := filepath.EvalSymlinks(filepath.Dir(spec.Dir))
	if err != nil || filepath.Base(vms) != filepath.Base(layout.Dir("").VMs()) {
		return nil
	}
	dir := layout.Dir(filepath.Dir(vms))
	images, err := filepath.Glob(filepath.Join(dir.Images(), "*"))
	if err != nil {
		images = nil // of a pattern: then without links
	}
	list = []string{dir.Images(), dir.Generations()}
	for _, path := range append(images, list...) {
		if real, err := filepath.EvalSymlinks(path); err == nil {
			list = append(list, real)
		}
	}
	return list
}

// BackingName reads the name of the backing file from a qcow2's header: an offset
// at 8, a length at 16, both big-endian (QEMU, docs/interop/qcow2.txt). "" means
// none, or that the file is no qcow2.
func BackingName(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", fileError(path, err)
	}
	defer f.Close()
	var h [20]byte
	if _, err := f.ReadAt(h[:], 0); err != nil || string(h[:4]) != "QFI\xfb" {
		return "", vm.Errorf(vm.Corrupt, path, "not a qcow2 file")
	}
	name := make([]byte, min(binary.BigEndian.Uint32(h[16:]), 1023))
	if _, err := f.ReadAt(name, int64(binary.BigEndian.Uint64(h[8:]))); err != nil {
		return "", vm.Errorf(vm.Corrupt, path, "its backing name cannot be read: %w", err)
	}
	return string(name), nil
}

// prepareLent makes the directory of files lent to the machine, empty.
func prepareLent(spec vm.MachineSpec) error {
	dir := layout.VMDir(spec.Dir).Lent()
	if err := os.RemoveAll(dir); err != nil {
		return fileError(dir, err)
	}
	return fileError(dir, os.Mkdir(dir, 0o700))
}

// Lend makes a file accessible to the running machine, which otherwise reaches only
// the files of its start, and returns its name for QEMU. The file must be on the
// file system of the VM's directory. TakeBack ends the access.
func (p *Process) Lend(path string) (string, error) {
	name := p.lentName(path)
	if err := os.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", fileError(name, err)
	}
	if err := os.Link(path, name); err != nil {
		return "", fileError(path, err)
	}
	return name, p.allow(name)
}

// allow lets the machine open a file of its lent directory for writing.
func (p *Process) allow(path string) error {
	if os.Getuid() != 0 {
		return nil
	}
	return fileError(path, give(path, 0o060))
}

// TakeBack removes the name that Lend made. QEMU keeps the file if it has it open.
func (p *Process) TakeBack(path string) { os.Remove(p.lentName(path)) }

func (p *Process) lentName(path string) string {
	return filepath.Join(layout.VMDir(p.Spec.Dir).Lent(), filepath.Base(path))
}

// takeBackDisks removes the lent names of the disks that the machine wrote to
// before: they would keep the space of deleted layers.
func (p *Process) takeBackDisks(used string) {
	names, err := filepath.Glob(p.lentName(layout.VMDir("").NextOverlay("*")))
	if err != nil {
		return // fails only for a malformed pattern
	}
	for _, name := range names {
		if name != used {
			os.Remove(name)
		}
	}
}
