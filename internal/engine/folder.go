// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"path"
	"slices"

	"github.com/warren-vm/warren/vm"
)

// FolderRequest asks to mount a directory of the host, or objects, at a path of a VM.
type FolderRequest struct {
	Name string // the folder's name; "" = none
	Host string // absolute path on the host, or s3://BUCKET/PREFIX
	Path string // in the guest
	RW   bool   // for the profile dev only; else the host allows no writes
	Over bool   // also over a directory that is not empty
	// Fixture marks given data, not a volume: it needs no encryption.
	Fixture bool
}

// What children of a fork get of their parent's folders; "" = read-only.
const (
	FoldersRW   = "rw"   // with the parent's access
	FoldersNone = "none" // nothing: accesses to the paths fail
)

func checkFoldersMode(mode string) error {
	if mode == "" || mode == "ro" || mode == FoldersRW || mode == FoldersNone {
		return nil
	}
	return vm.Errorf(vm.Invalid, mode, "not an access mode for folders of the host").WithCode("INVALID_REQUEST").WithHint("use ro, rw or none")
}

// MountFolder mounts a directory of the host, or objects, in a VM. It wakes a sleeping VM and
// continues when ctx ends. If it fails, nothing stays mounted.
func (e *Engine) MountFolder(ctx context.Context, c *vm.Call, ref string, r FolderRequest) (out Mounted, err error) {
	s, err := e.lookup(c, ref)
	if err != nil {
		return out, fail(vm.OpMount, ref, err)
	}
	f, err := e.planFolder(c, e.recordOf(s), r)
	if err != nil {
		return out, fail(vm.OpMount, ref, err)
	}
	op, err := e.beginAwake(ctx, c, ref, vm.OpMount)
	if err != nil {
		return out, fail(vm.OpMount, ref, err)
	}
	defer func() { err = e.finish(op, err) }()
	e.used(op.slot)
	detail := map[string]any{"host": f.Host, "name": f.Name, "rw": f.RW, "fixture": r.Fixture, "sensitive": true}
	if err := e.receiptFor(op.ctx, op, c, vm.AuditEntry{Subject: f.Path, Detail: detail}); err != nil {
		return out, err
	}
	bounded, stop := context.WithTimeout(op.ctx, mountDeadline)
	defer stop()
	if err := e.letRead(bounded, op, c, f); err != nil {
		return out, err
	}
	if err := e.attachFolder(bounded, op, f); err != nil {
		return out, err
	}
	e.cfg.Journal.EmitVM(e.recordOf(op.slot), "folder.mounted", map[string]any{"path": f.Path, "host": f.Host, "rw": f.RW})
	return mountedFolder(op.slot.id, f), nil
}

func mountedFolder(id vm.ID, f vm.Folder) Mounted {
	return Mounted{VolumeMount: vm.VolumeMount{VM: id, Path: f.Path, RW: f.RW, Since: f.Since}, Name: f.Name, Host: f.Host}
}

// planObjects checks whether a VM may have objects as files.
func (e *Engine) planObjects(c *vm.Call, rec vm.VM, r FolderRequest) (f vm.Folder, err error) {
	if err := c.Actor.OwnerOnly(string(rec.ID)); err != nil {
		return f, err
	}
	bucket, prefix, err := vm.ParseObjects(r.Host)
	switch {
	case err != nil:
		return f, err
	case e.cfg.Objects == nil:
		return f, vm.Errorf(vm.Unsupported, r.Host, "this server has no objects")
	case r.RW:
		return f, vm.Errorf(vm.Invalid, r.Host, "objects are mounted to be read, never written").WithCode("INVALID_REQUEST").
			WithHint("mount them with :ro; write them with an S3 client at https://%s", vm.S3Host)
	}
	if err := checkMountPath(r.Path, r.Over); err != nil {
		return f, err
	}
	return vm.Folder{Name: r.Name, Host: "s3://" + bucket + "/" + prefix, Path: r.Path, Over: r.Over, Since: e.now()}, nil
}

// letRead gives the VM of op the right to read the objects of a folder.
func (e *Engine) letRead(ctx context.Context, op *operation, c *vm.Call, f vm.Folder) error {
	if !vm.IsObjects(f.Host) {
		return nil
	}
	bucket, prefix, err := vm.ParseObjects(f.Host)
	if err != nil {
		return err
	}
	undo, err := e.cfg.Objects.LetRead(ctx, c, op.slot.id, bucket, prefix)
	if err != nil {
		return err
	}
	return op.undo.add(ctx, "right to objects", undo)
}

// planFolder checks whether a VM may have a folder.
func (e *Engine) planFolder(c *vm.Call, rec vm.VM, r FolderRequest) (f vm.Folder, err error) {
	if vm.IsObjects(r.Host) {
		return e.planObjects(c, rec, r)
	}
	if err := c.Actor.OwnerOnly(string(rec.ID)); err != nil {
		return f, err
	}
	if !c.Actor.Admin {
		return f, vm.Errorf(vm.Denied, r.Host, "only an administrator may mount directories of the host").WithCode("FORBIDDEN", "reason", "ADMIN_ONLY").
			WithHint("copy files in and out instead: `warren cp`; or use a volume: `warren volume create VOLUME`")
	}
	if r.Name != "" {
		if err := vm.CheckName(r.Name); err != nil {
			return f, vm.AsError(err).WithCode("VOLUME_NAME_INVALID", "name", r.Name)
		}
	}
	if err := checkMountPath(r.Path, r.Over); err != nil {
		return f, err
	}
	if err := mayHaveFolder(profileOf(rec), rec, r); err != nil {
		return f, err
	}
	if e.cfg.Folders == nil {
		return f, vm.Errorf(vm.Unsupported, r.Host, "this server mounts no directories of its host")
	}
	is, sealed, why, err := e.cfg.Folders.Check(r.Host)
	if err != nil {
		return f, err
	}
	if !r.Fixture && !sealed {
		return f, notSealed(r.Host, why)
	}
	return vm.Folder{Name: r.Name, Host: r.Host, Path: r.Path, RW: r.RW, Over: r.Over, Is: is, Sealed: !r.Fixture, Since: e.now()}, nil
}

func mayHaveFolder(p vm.Profile, rec vm.VM, r FolderRequest) error {
	switch {
	case !p.Volumes && !r.Fixture:
		return p.Forbids(string(rec.ID), "volumes").WithHint("give it data to read with --add-dir %s:%s:ro, or make the VM with --profile agent", r.Host, r.Path)
	case r.RW && !p.Folders:
		return p.Forbids(string(rec.ID), "writing to directories of the host").
			WithHint("mount it read-only, make the VM with --profile %s, or let it write to a volume: `warren volume create VOLUME`", vm.ProfileDev)
	}
	return nil
}

func notSealed(host, why string) error {
	return vm.Errorf(vm.Denied, host, "it is not known to be encrypted at rest: %s", why).WithCode("HOST_PATH_NOT_ENCRYPTED", "path", host, "why", why).
		WithHint("use a directory on dm-crypt, fscrypt, gocryptfs, eCryptfs or encrypted ZFS; a volume (`warren volume create VOLUME`); or, for data to read, --add-dir %s:PATH:ro", host)
}

// attachFolder records a folder and then has the machine mount it.
func (e *Engine) attachFolder(ctx context.Context, op *operation, f vm.Folder) error {
	s := op.slot
	r := e.runOf(s)
	if r == nil {
		return vm.Errorf(vm.Unavailable, string(s.id), "the VM's monitor does not answer").WithHint("try again")
	}
	if err := e.folderFits(s, f); err != nil {
		return err
	}
	if f.Sealed {
		if err := e.seen(ctx, s, vm.FolderSeen); err != nil {
			return err
		}
	}
	if _, err := e.update(ctx, s, func(rec *vm.VM) { rec.Folders = append(slices.Clone(rec.Folders), f) }); err != nil {
		return err
	}
	err := op.undo.add(ctx, "folder", func(ctx context.Context) error { return e.dropFolder(ctx, s, f.Path) })
	if err == nil {
		err = e.step(ctx, "folder:mount")
	}
	if err == nil { // a failed mount may have reached the guest, too
		err = op.undo.add(ctx, "folder mount", func(ctx context.Context) error {
			ctx, stop := context.WithTimeout(ctx, machineDeadline)
			defer stop()
			return r.machine.UnmountFolder(ctx, f.Path, true)
		})
	}
	if err == nil {
		err = r.machine.MountFolder(ctx, f)
	}
	return cause(ctx, err)
}

func (e *Engine) folderFits(s *slot, f vm.Folder) error {
	rec := e.recordOf(s)
	taken := slices.ContainsFunc(rec.Folders, func(o vm.Folder) bool { return o.Path == f.Path })
	if _, cut := e.cutAt(s.id, f.Path, ""); cut || taken || e.pathTaken(s.id, f.Path) {
		return vm.Errorf(vm.Exists, f.Path, "something is mounted there").WithCode("MOUNT_PATH_NOT_EMPTY", "path", f.Path).
			WithHint("unmount it first: `warren volume unmount %s %s`", label(rec), f.Path)
	}
	if len(rec.Folders) >= vm.MaxFolders {
		return vm.Errorf(vm.Limit, string(s.id), "the VM has %d directories of the host, which is the maximum", len(rec.Folders)).
			WithCode("VOLUME_LIMIT_EXCEEDED").WithHint("unmount one first")
	}
	return nil
}

func (e *Engine) dropFolder(ctx context.Context, s *slot, at string) error {
	_, err := e.update(ctx, s, func(rec *vm.VM) { rec.Folders = withoutFolder(rec.Folders, at) })
	return err
}

func withoutFolder(list []vm.Folder, at string) []vm.Folder {
	return slices.DeleteFunc(slices.Clone(list), func(f vm.Folder) bool { return f.Path == at })
}

// folderAt finds a VM's folder by its path in the guest, its name or its path on the
// host.
func (e *Engine) folderAt(id vm.ID, at string) (vm.Folder, bool) {
	s := e.slotOf(id)
	if s == nil {
		return vm.Folder{}, false
	}
	for _, f := range e.recordOf(s).Folders {
		if f.Path == path.Clean(at) || at != "" && (f.Name == at || f.Host == at) {
			return f, true
		}
	}
	return vm.Folder{}, false
}

// unmountFolder removes a folder from the VM of op.
func (e *Engine) unmountFolder(op *operation, c *vm.Call, f vm.Folder, force bool) error {
	detail := map[string]any{"host": f.Host, "name": f.Name, "force": force}
	if err := e.receiptFor(op.ctx, op, c, vm.AuditEntry{Subject: f.Path, Detail: detail}); err != nil {
		return err
	}
	r := e.runOf(op.slot)
	if r == nil {
		return vm.Errorf(vm.Unavailable, string(op.slot.id), "the VM's monitor does not answer").WithHint("try again")
	}
	ctx, stop := context.WithTimeout(op.ctx, mountDeadline)
	defer stop()
	if err := r.machine.UnmountFolder(ctx, f.Path, force); err != nil {
		return cause(ctx, err)
	}
	if err := e.step(op.ctx, "folder:unmount"); err != nil {
		return err
	}
	if err := e.dropFolder(op.ctx, op.slot, f.Path); err != nil {
		return err
	}
	e.cfg.Journal.EmitVM(e.recordOf(op.slot), "folder.unmounted", map[string]any{"path": f.Path, "host": f.Host})
	return nil
}

// fillFolders gives a machine that continues a generation the folders of rec that are
// still the same. Other mounts in its memory fail.
func (e *Engine) fillFolders(spec *vm.MachineSpec, rec vm.VM, g vm.Generation) {
	for _, f := range rec.Folders {
		if err := e.stillGiven(f); err != nil {
			e.log.Warn("a directory of the host is no longer mounted", "vm", rec.ID, "path", f.Path, "host", f.Host, "err", err)
			e.cfg.Journal.EmitVM(rec, "folder.lost", map[string]any{"path": f.Path, "host": f.Host, "reason": vm.AsError(err).Msg})
			continue
		}
		spec.Folders = append(spec.Folders, f)
	}
	for _, at := range g.Folders {
		if !slices.ContainsFunc(spec.Folders, func(f vm.Folder) bool { return f.Path == at }) {
			spec.LostFolders = append(spec.LostFolders, at)
		}
	}
}

// stillGiven repeats the checks that MountFolder made.
func (e *Engine) stillGiven(f vm.Folder) error {
	if vm.IsObjects(f.Host) { // each request of the VM is checked
		return nil
	}
	if e.cfg.Folders == nil {
		return vm.Errorf(vm.Unsupported, f.Host, "this server mounts no directories of its host")
	}
	is, sealed, why, err := e.cfg.Folders.Check(f.Host)
	switch {
	case err != nil:
		return err
	case f.Sealed && !sealed:
		return notSealed(f.Host, why)
	case is != f.Is:
		return vm.Errorf(vm.WrongState, f.Host, "another directory has taken its place")
	}
	return nil
}

// childFolders returns the folders that a child of a fork gets from its parent.
func childFolders(list []vm.Folder, mode string) []vm.Folder {
	if mode == FoldersNone {
		return nil
	}
	list = slices.Clone(list)
	for i := range list {
		list[i].RW = list[i].RW && mode == FoldersRW
	}
	return list
}

func foldersIn(rec vm.VM) (paths []string) {
	for _, f := range rec.Folders {
		paths = append(paths, f.Path)
	}
	return paths
}

// reconcileFolders makes a machine's folders agree with its record after an engine died
// between changing the two.
func (e *Engine) reconcileFolders(ctx context.Context, s *slot, m Machine, has []string) error {
	rec := e.recordOf(s)
	for _, at := range has {
		if !slices.ContainsFunc(rec.Folders, func(f vm.Folder) bool { return f.Path == at }) {
			if err := m.UnmountFolder(ctx, at, true); err != nil {
				e.log.Warn("a directory of the host stays mounted", "vm", s.id, "path", at, "err", err)
			}
		}
	}
	for _, f := range rec.Folders {
		if !slices.Contains(has, f.Path) {
			if err := e.dropFolder(ctx, s, f.Path); err != nil {
				return err
			}
		}
	}
	return nil
}
