// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"cmp"
	"context"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/warren-vm/warren/internal/access"
	"github.com/warren-vm/warren/internal/program"
	"github.com/warren-vm/warren/internal/vault"
	"github.com/warren-vm/warren/vm"
)

// MountRequest asks to mount a volume at a path of a VM.
type MountRequest struct {
	vault.Ref
	Path  string
	RW    bool // else the host allows no writes
	Over  bool // also over a directory that is not empty
	Share bool // also while another VM writes to it
}

// mountDeadline bounds one mount, including the creation of a file system.
const mountDeadline = 2 * time.Minute

// Mount attaches a volume to a VM and mounts it there. It wakes a sleeping VM and
// continues when ctx ends. If it fails, nothing stays attached.
func (e *Engine) Mount(ctx context.Context, c *vm.Call, ref string, r MountRequest) (out Mounted, err error) {
	s, err := e.lookup(c, ref)
	if err != nil {
		return out, fail(vm.OpMount, ref, err)
	}
	if p := profileOf(e.recordOf(s)); !p.Volumes {
		return out, fail(vm.OpMount, ref, p.Forbids(ref, "volumes").WithHint("copy files in and out instead: `warren cp`; or make the VM with --profile agent"))
	}
	if err := checkMountPath(r.Path, r.Over); err != nil {
		return out, fail(vm.OpMount, ref, err)
	}
	act := access.Act{Verb: vm.OpMount, What: "mount the volume " + r.Volume + " at " + r.Path, All: r, Details: map[string]string{
		"project": r.Project, "may write": yesNo(r.RW), "over files": yesNo(r.Over), "while another VM writes": yesNo(r.Share),
	}}
	if err := e.approved(ctx, c, ref, e.cfg.Access.ApproveAsOwner, act); err != nil {
		return out, err
	}
	v, err := e.cfg.Vault.FindVolume(c, r.Ref)
	if err != nil {
		return out, fail(vm.OpMount, ref, err)
	}
	op, err := e.beginAwake(ctx, c, ref, vm.OpMount)
	if err != nil {
		return out, fail(vm.OpMount, ref, err)
	}
	defer func() { err = e.finish(op, err) }()
	e.used(op.slot)
	rec := v.Record()
	detail := map[string]any{"volume": string(rec.ID), "name": rec.Name, "rw": r.RW, "share": r.Share, "sensitive": true}
	if err := e.receiptFor(op.ctx, op, c, vm.AuditEntry{Subject: r.Path, Detail: detail}); err != nil {
		return out, err
	}
	bounded, stop := context.WithTimeout(op.ctx, mountDeadline)
	defer stop()
	v.Reserve()
	defer v.Release()
	m, err := e.attachVolume(bounded, op, v, r)
	if err != nil {
		return out, err
	}
	v.Emit("volume.mounted", map[string]any{"vm": op.slot.id, "path": r.Path, "rw": r.RW})
	return Mounted{VolumeMount: m, Volume: rec.ID, Name: rec.Name, Project: rec.Project}, nil
}

// used records activity of a VM.
func (e *Engine) used(s *slot) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.activeLocked(s, vm.ActivityFiles)
}

// beginAwake is begin for verbs that need a running guest: it wakes a sleeping VM.
func (e *Engine) beginAwake(ctx context.Context, c *vm.Call, ref string, verb vm.Op) (*operation, error) {
	s, err := e.lookup(c, ref)
	if err != nil {
		return nil, err
	}
	if err := c.Actor.OwnerOnly(string(s.id)); err != nil {
		return nil, err
	}
	if asleep(e.recordOf(s).State) {
		if err := e.wakeUp(ctx, c, s, vm.ActivityFiles); err != nil {
			return nil, err
		}
	}
	return e.begin(ctx, c, ref, verb)
}

// Paths in a guest that a volume never covers, and those that it covers only with Over.
var (
	neverOver  = []string{"/", "/proc", "/sys", "/dev", "/run"}
	seldomOver = []string{"/bin", "/boot", "/etc", "/lib", "/lib64", "/root", "/sbin", "/usr", "/var", "/home", "/tmp", "/opt"}
)

func checkMountPath(p string, over bool) error {
	bad := func(format string, args ...any) *vm.Error {
		return vm.Errorf(vm.Invalid, p, format, args...).WithCode("MOUNT_PATH_INVALID", "path", p).
			WithHint("give an absolute path of the guest, such as /workspace")
	}
	switch {
	case !path.IsAbs(p) || path.Clean(p) != p || strings.ContainsAny(p, "\x00\n") || len(p) > 4000:
		return bad("not an absolute path in its shortest form")
	case slices.ContainsFunc(neverOver, func(n string) bool { return p == n || n != "/" && strings.HasPrefix(p, n+"/") }):
		return bad("the guest needs its own files there")
	case !over && slices.Contains(seldomOver, p):
		return bad("the guest needs its own files there").WithHint("mount elsewhere, or hide those files with --over")
	}
	return nil
}

// attachVolume leases a volume to a VM, attaches its disk and mounts its file system. The
// caller has reserved the volume.
func (e *Engine) attachVolume(ctx context.Context, op *operation, v *vault.Volume, r MountRequest) (m vm.VolumeMount, err error) {
	s := op.slot
	run := e.runOf(s)
	if run == nil {
		return m, vm.Errorf(vm.Unavailable, string(s.id), "the VM's monitor does not answer").WithHint("try again")
	}
	rec, err := e.mayMount(s.id, v, r)
	if err != nil {
		return m, err
	}
	key, err := v.Key()
	if err != nil {
		return m, err
	}
	defer clear(key)
	m = vm.VolumeMount{VM: s.id, Path: r.Path, RW: r.RW, Share: r.Share, Since: e.now()}
	if err := e.step(ctx, "mount:lease"); err != nil {
		return m, err
	}
	if err := v.BeginMount(ctx, m); err != nil {
		return m, err
	}
	err = op.undo.add(ctx, "lease", func(ctx context.Context) error { return v.EndMount(ctx, s.id) })
	if err == nil {
		err = e.step(ctx, "mount:plug")
	}
	if err != nil {
		return m, err
	}
	beside := r.Share && !r.RW // a writer may join later
	disk := vm.PluggedVolume{ID: rec.ID, File: v.Disk(), SizeMiB: rec.SizeMiB, ReadOnly: !r.RW, Share: beside}
	err = op.undo.add(ctx, "plug", func(ctx context.Context) error { return run.machine.UnplugVolume(ctx, rec.ID) })
	if err == nil {
		err = e.seen(ctx, s, rec.ID)
	}
	if err == nil {
		err = run.machine.PlugVolume(ctx, disk, key)
	}
	if err == nil {
		err = e.step(ctx, "mount:guest")
	}
	if err == nil {
		err = e.mountInGuest(ctx, run.machine.Guest(), rec, r)
	}
	if err == nil {
		err = op.undo.add(ctx, "mount", func(ctx context.Context) error { return run.machine.Guest().Unmount(ctx, r.Path, true) })
	}
	if err == nil {
		err = e.step(ctx, "mount:commit")
	}
	if err != nil {
		return m, cause(ctx, err)
	}
	return m, v.MountDone(ctx, m)
}

// mayMount checks who else has the volume: it has one writer or many readers. A reader
// may share it with a writer if both sides ask for that. Two writers would destroy a file
// system that is not made for it.
func (e *Engine) mayMount(id vm.ID, v *vault.Volume, r MountRequest) (vm.Volume, error) {
	info := v.Info()
	if v.Gone() {
		return info.Volume, v.NotThere()
	}
	if info.Reverting != "" {
		return info.Volume, vm.Errorf(vm.WrongState, info.Name, "its rollback was not completed").WithCode("VOLUME_NOT_READY", "volume", string(info.ID)).
			WithHint("lock and unlock it, which completes the rollback: `warren volume lock %s`", info.Name)
	}
	if at, ok := e.cutAt(id, r.Path, string(info.ID)); ok {
		return info.Volume, vm.Errorf(vm.Exists, r.Path, "the remains of a mount of %s are at %s: the VM does not have that volume", at.Name, at.Path).
			WithCode("MOUNT_PATH_NOT_EMPTY", "path", at.Path).WithHint("unmount it first: `warren volume unmount %s %s`", id, at.Path)
	}
	if e.pathTaken(id, r.Path) {
		return info.Volume, vm.Errorf(vm.Exists, r.Path, "a volume is mounted there").WithCode("MOUNT_PATH_NOT_EMPTY", "path", r.Path).
			WithHint("unmount it first")
	}
	if m, ok := info.MountOf(id); ok {
		return info.Volume, vm.Errorf(vm.Exists, info.Name, "it is mounted in this VM already, at %s", m.Path).
			WithCode("VOLUME_IN_USE", "volume", string(info.ID), "vmId", string(m.VM), "path", m.Path, "rw", m.RW)
	}
	for _, m := range info.Mounts {
		who := cmp.Or(info.VMNames[m.VM], string(m.VM))
		inUse := func(format string, args ...any) *vm.Error {
			return vm.Errorf(vm.Busy, info.Name, format, args...).
				WithCode("VOLUME_IN_USE", "volume", string(info.ID), "vmId", string(m.VM), "path", m.Path, "rw", m.RW)
		}
		switch {
		case m.RW && r.RW && r.Share:
			return info.Volume, inUse("%s has it mounted to write, at %s, and --share lets no second VM write: the file system in it is ext4, which two kernels that write would destroy", who, m.Path).
				WithHint("give each VM a volume of its own and bring the results over with `warren cp`, or unmount it there: `warren volume unmount %s %s`", who, m.Path)
		case m.RW && r.RW:
			return info.Volume, inUse("%s has it mounted to write, at %s, and two writers would destroy it", who, m.Path).
				WithHint("unmount it there: `warren volume unmount %s %s`", who, m.Path)
		case m.RW && !r.Share:
			return info.Volume, inUse("%s has it mounted to write, at %s", who, m.Path).
				WithHint("unmount it there, or use --share to read beside a writer: the reader may see old or half-written data")
		case r.RW && !m.Share:
			return info.Volume, inUse("%s has it mounted to read, at %s", who, m.Path).
				WithHint("unmount it there: `warren volume unmount %s %s`", who, m.Path)
		}
	}
	return info.Volume, nil
}

func (e *Engine) pathTaken(id vm.ID, p string) bool {
	f, ok := e.folderAt(id, p)
	return ok && f.Path == p || slices.ContainsFunc(e.mountsOf(id), func(m Mounted) bool { return m.Path == p })
}

// Mounted is one mount of a VM, with its volume.
type Mounted struct {
	vm.VolumeMount
	Cut     bool // only a disk that fails all accesses is left; see VolumesCut
	Volume  vm.VolumeID
	Name    string
	Project string
	Host    string // for a directory of the host, its path there; "" = a volume
}

// mountsOf lists a VM's mounts in the order of mounting.
func (e *Engine) mountsOf(id vm.ID) []Mounted {
	var out []Mounted
	for _, v := range e.cfg.Vault.VolumesIn(id) {
		rec := v.Record()
		if m, ok := rec.MountOf(id); ok {
			out = append(out, Mounted{VolumeMount: m, Volume: rec.ID, Name: rec.Name, Project: rec.Project})
		}
	}
	slices.SortFunc(out, func(a, b Mounted) int { return cmp.Or(a.Since.Compare(b.Since), cmp.Compare(a.Path, b.Path)) })
	return out
}

// Mounts lists a VM's volumes in the order of mounting. Cut volumes come first,
// directories of the host last.
func (e *Engine) Mounts(_ context.Context, c *vm.Call, ref string) ([]Mounted, error) {
	s, err := e.lookup(c, ref)
	if err != nil {
		return nil, fail(vm.OpList, ref, err)
	}
	var list []Mounted
	for _, at := range e.recordOf(s).Cut {
		list = append(list, Mounted{VolumeMount: vm.VolumeMount{VM: s.id, Path: at.Path, RW: at.RW}, Cut: true, Volume: at.ID, Name: at.Name, Project: at.Project})
	}
	list = append(list, e.mountsOf(s.id)...)
	for _, f := range e.recordOf(s).Folders {
		list = append(list, mountedFolder(s.id, f))
	}
	return list, nil
}

// mountInGuest makes a file system if there is none and has the guest mount the disk.
func (e *Engine) mountInGuest(ctx context.Context, g Guest, rec vm.Volume, r MountRequest) error {
	dev, holds, err := g.Disk(ctx, rec.ID)
	if err != nil {
		return err
	}
	unready := func(format string, args ...any) *vm.Error {
		return vm.Errorf(vm.WrongState, rec.Name, format, args...).WithCode("VOLUME_NOT_READY", "volume", string(rec.ID))
	}
	switch {
	case holds == vm.DiskForeign || holds == vm.DiskEmpty && rec.Formatted:
		return vm.Errorf(vm.Corrupt, rec.Name, "its file system is gone").WithCode("VOLUME_DAMAGED").
			WithHint("restore the volume's directory from a backup")
	case holds == vm.DiskEmpty && !r.RW:
		return unready("it has no file system yet").WithHint("mount it with --rw once")
	case holds == vm.DiskDirty && !r.RW && !r.Share:
		return unready("its last VM did not unmount it, and its journal has to be read first").WithHint("mount it with --rw once")
	case holds == vm.DiskEmpty:
		if err := makeFileSystem(ctx, g, dev); err != nil {
			return err
		}
	}
	use := vm.VolumeUse{ID: rec.ID, Path: r.Path, RW: r.RW, Over: r.Over}
	if err := g.Mount(ctx, use); err != nil {
		return err
	}
	if r.RW && rec.Grown {
		return inGuest(ctx, g, "resize2fs", dev)
	}
	return nil
}

// makeFileSystem makes an ext4 file system. The kernel initialises most of its tables
// later, on use.
func makeFileSystem(ctx context.Context, g Guest, dev string) error {
	return inGuest(ctx, g, "mkfs.ext4", "-q", "-m", "0", "-E", "lazy_itable_init=1,lazy_journal_init=1,nodiscard,root_owner=0:0", dev)
}

func inGuest(ctx context.Context, g Guest, argv ...string) error {
	r, err := program.Run(ctx, g, vm.ExecSpec{Argv: argv, Cwd: "/"})
	if err != nil {
		return err
	}
	if r.Status.Code != 0 {
		return vm.Errorf(vm.GuestFault, "", "%s exited with %d: %s", argv[0], r.Status.Code, r.Why())
	}
	return nil
}

// Unmount removes a volume from a VM. If programs use it, it fails with kind Busy and
// names them; with force it kills them.
func (e *Engine) Unmount(ctx context.Context, c *vm.Call, ref, at string, force bool) (err error) {
	op, err := e.begin(ctx, c, ref, vm.OpUnmount)
	if err != nil {
		return fail(vm.OpUnmount, ref, err)
	}
	defer func() { err = e.finish(op, err) }()
	if cut, ok := e.cutAt(op.slot.id, at, at); ok {
		return e.unmountCut(op, c, cut, force)
	}
	if f, ok := e.folderAt(op.slot.id, at); ok {
		return e.unmountFolder(op, c, f, force)
	}
	v, m, err := e.mountAt(op.slot.id, at)
	if err != nil {
		return err
	}
	detail := map[string]any{"volume": string(v.ID()), "name": v.Record().Name, "force": force}
	if err := e.receiptFor(op.ctx, op, c, vm.AuditEntry{Subject: m.Path, Detail: detail}); err != nil {
		return err
	}
	v.Reserve()
	defer v.Release()
	bounded, stop := context.WithTimeout(op.ctx, mountDeadline)
	defer stop()
	if err := e.detachVolume(bounded, op.slot, v, m, force); err != nil {
		return err
	}
	v.Emit("volume.unmounted", map[string]any{"vm": op.slot.id, "path": m.Path})
	return nil
}

// cutAt finds a cut mount of a VM by its path, or by the volume's name or id.
func (e *Engine) cutAt(id vm.ID, at, volume string) (vm.VolumeAt, bool) {
	s := e.slotOf(id)
	if s == nil {
		return vm.VolumeAt{}, false
	}
	for _, c := range e.recordOf(s).Cut {
		if c.Path == path.Clean(at) || string(c.ID) == volume || c.Name == volume {
			return c, true
		}
	}
	return vm.VolumeAt{}, false
}

// unmountCut removes a cut mount from the VM.
func (e *Engine) unmountCut(op *operation, c *vm.Call, at vm.VolumeAt, force bool) error {
	detail := map[string]any{"volume": string(at.ID), "name": at.Name, "force": force, "cut": true}
	if err := e.receiptFor(op.ctx, op, c, vm.AuditEntry{Subject: at.Path, Detail: detail}); err != nil {
		return err
	}
	r := e.runOf(op.slot)
	if r == nil {
		return vm.Errorf(vm.Unavailable, string(op.slot.id), "the VM's monitor does not answer").WithHint("try again")
	}
	ctx, stop := context.WithTimeout(op.ctx, mountDeadline)
	defer stop()
	if err := r.machine.Guest().Unmount(ctx, at.Path, force); err != nil {
		return cause(ctx, err)
	}
	if err := r.machine.UnplugVolume(ctx, at.ID); err != nil {
		return cause(ctx, err)
	}
	_, err := e.update(ctx, op.slot, func(rec *vm.VM) {
		rec.Cut = slices.DeleteFunc(slices.Clone(rec.Cut), func(o vm.VolumeAt) bool { return o == at })
	})
	return err
}

// mountAt finds a VM's mount by its path, or by the volume's name or id.
func (e *Engine) mountAt(id vm.ID, at string) (*vault.Volume, vm.VolumeMount, error) {
	clean := path.Clean(at)
	for _, v := range e.cfg.Vault.VolumesIn(id) {
		rec := v.Record()
		if m, ok := rec.MountOf(id); ok && (m.Path == clean || rec.Name == at || string(rec.ID) == at) {
			return v, m, nil
		}
	}
	return nil, vm.VolumeMount{}, vm.Errorf(vm.NotFound, at, "no volume is mounted there").WithCode("MOUNT_NOT_FOUND", "path", at).
		WithHint("`warren volume ls NAME` lists them")
}

// detachVolume undoes attachVolume. The caller has reserved the volume.
func (e *Engine) detachVolume(ctx context.Context, s *slot, v *vault.Volume, m vm.VolumeMount, force bool) error {
	r := e.runOf(s)
	if r == nil {
		return vm.Errorf(vm.Unavailable, string(s.id), "the VM's monitor does not answer").WithHint("try again")
	}
	if err := e.step(ctx, "unmount:guest"); err != nil {
		return err
	}
	if err := r.machine.Guest().Unmount(ctx, m.Path, force); err != nil {
		return cause(ctx, err)
	}
	// From here on the volume counts as unmounted: after a crash the next engine finishes
	// the detach.
	if err := v.PendMount(ctx, s.id, true); err != nil {
		return err
	}
	if err := e.step(ctx, "unmount:plug"); err != nil {
		return err
	}
	if err := r.machine.UnplugVolume(ctx, v.ID()); err != nil {
		return cause(ctx, err)
	}
	if err := e.step(ctx, "unmount:lease"); err != nil {
		return err
	}
	return v.EndMount(ctx, s.id)
}

// recoverVolumes ends leases of VMs that have no machine, undoes unfinished mounts, and
// removes files without a record.
func (e *Engine) recoverVolumes(ctx context.Context) error {
	for _, v := range e.cfg.Vault.AllVolumes() {
		for _, m := range v.Record().Mounts {
			if e.doubtful(m.VM) {
				continue // decided when the doubt about its VM ends
			}
			if err := e.recoverLease(ctx, v, m); err != nil {
				return err
			}
		}
	}
	ids, err := e.cfg.Vault.Unrecorded()
	if err != nil {
		return err
	}
	for _, id := range ids {
		if err := e.setAside(e.cfg.Dir.Volume(id)); err != nil {
			return err
		}
	}
	return nil
}

func (e *Engine) recoverLease(ctx context.Context, v *vault.Volume, m vm.VolumeMount) error {
	s := e.slotOf(m.VM)
	state := vm.Stopped
	if s != nil {
		state = e.recordOf(s).State
	}
	switch {
	case state == vm.Running && e.left(ctx, s, v.ID()):
		return v.EndMount(ctx, m.VM) // a rollback replaced the memory that had it mounted
	case state == vm.Suspended || state == vm.Running && !m.Pending:
		return nil
	case state == vm.Running && e.runOf(s) != nil:
		ctx, stop := context.WithTimeout(ctx, machineDeadline)
		defer stop()
		if err := e.detachVolume(ctx, s, v, m, true); err != nil {
			e.log.Warn("an unfinished mount could not be undone", "vm", m.VM, "volume", v.ID(), "err", err)
		}
		return nil
	case state == vm.Running:
		return nil
	}
	return v.EndMount(ctx, m.VM)
}

// left reports whether a machine is known not to have a volume.
func (e *Engine) left(ctx context.Context, s *slot, id vm.VolumeID) bool {
	r := e.runOf(s)
	if r == nil {
		return false
	}
	ctx, stop := context.WithTimeout(ctx, machineDeadline)
	defer stop()
	st, err := r.machine.Status(ctx)
	return err == nil && !slices.ContainsFunc(st.Plugged.Volumes, func(p vm.PluggedVolume) bool { return p.ID == id && !p.Cut })
}
