// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/warren-vm/warren/internal/vault"
	"github.com/warren-vm/warren/vm"
)

// How mounted volumes are treated when a VM's memory is copied; "" = the copy is refused.
const (
	VolumesCut    = "cut"    // copies get disks in their place that fail all accesses
	VolumesRO     = "ro"     // children of a fork keep reading what their parent reads
	VolumesDetach = "detach" // volumes are unmounted for the capture and mounted again

	volumesOwn = "own" // only the same VM resumes
)

// attached is the reason of a conflict. The API's contract has no code for it.
const attached = "VOLUMES_ATTACHED"

func checkVolumesMode(mode string, modes ...string) error {
	if mode == "" || slices.Contains(modes, mode) {
		return nil
	}
	return vm.Errorf(vm.Invalid, mode, "not a volume mode for this request").WithCode("INVALID_REQUEST").
		WithHint("use %s, or leave it out", strings.Join(modes, " or "))
}

// volumesAttached refuses to capture the memory of a VM with volumes, since the memory
// holds their data. A suspend is allowed: only the same VM resumes from it, and it is
// encrypted.
func (e *Engine) volumesAttached(rec vm.VM) error {
	list := e.mountsOf(rec.ID)
	if len(list) == 0 {
		return nil
	}
	var names, paths []string
	for _, m := range list {
		names, paths = append(names, m.Name), append(paths, m.Path)
	}
	return vm.Errorf(vm.WrongState, string(rec.ID), "the volume %s is mounted at %s, and its files would be in the copy of the memory", names[0], paths[0]).
		WithCode("CONFLICT", "reason", attached, "vmId", string(rec.ID), "volumes", names, "paths", paths).
		WithHint("unmount it: `warren volume unmount %s %s`; --volumes detach unmounts it during the capture, --volumes cut leaves it out of the copies", label(rec), paths[0])
}

// volumesGiven refuses to copy the memory of a VM with volumes if the mode is missing or
// impossible.
func (e *Engine) volumesGiven(rec vm.VM, mode string) error {
	switch mode {
	case VolumesCut, volumesOwn:
		return nil
	case VolumesRO:
		return e.onlyReads(rec)
	}
	return e.volumesAttached(rec)
}

// onlyReads refuses children that read a volume to which the VM writes: its file system
// would change below them.
func (e *Engine) onlyReads(rec vm.VM) error {
	for _, m := range e.mountsOf(rec.ID) {
		if m.RW {
			return vm.Errorf(vm.WrongState, string(rec.ID), "it writes to the volume %s at %s, and a child cannot read a file system that changes below it", m.Name, m.Path).
				WithCode("CONFLICT", "reason", attached, "vmId", string(rec.ID), "volumes", []string{m.Name}, "paths", []string{m.Path}).
				WithHint("mount it without --rw, or use --volumes cut or detach")
		}
	}
	return nil
}

// clearMemory checks the mode for volumes and scrubs their data from free memory if none
// is mounted.
func (e *Engine) clearMemory(ctx context.Context, s *slot, mode string) error {
	rec := e.recordOf(s)
	if err := e.volumesGiven(rec, mode); err != nil {
		return err
	}
	if len(e.mountsOf(rec.ID)) > 0 {
		return nil // memory in use cannot be scrubbed
	}
	return e.scrub(ctx, s)
}

// mountedIn lists the volumes mounted in a VM's memory, including those that it no longer
// has.
func (e *Engine) mountedIn(rec vm.VM) []vm.VolumeAt {
	list := slices.Clone(rec.Cut)
	for _, m := range e.mountsOf(rec.ID) {
		list = append(list, vm.VolumeAt{ID: m.Volume, Name: m.Name, Project: m.Project, Path: m.Path, RW: m.RW})
	}
	return list
}

// withoutVolumes runs do, a capture. With mode VolumesDetach it first unmounts the VM's
// volumes, which fails while programs use them, and mounts them again afterwards, even if
// do fails.
func (e *Engine) withoutVolumes(op *operation, mode string, do func() error) (err error) {
	list := e.mountsOf(op.slot.id)
	if len(list) == 0 || mode != VolumesDetach || op.before.State != vm.Running {
		return do()
	}
	away, err := e.detachAll(op)
	defer func() { err = e.reattachAll(op, away, err) }()
	if err != nil {
		return err
	}
	return do()
}

// detachAll unmounts all volumes of a VM. It returns those that it has unmounted even
// when it fails.
func (e *Engine) detachAll(op *operation) (away []Mounted, err error) {
	for _, m := range slices.Backward(e.mountsOf(op.slot.id)) {
		v := e.cfg.Vault.VolumeByID(m.Volume)
		if v == nil {
			continue
		}
		key, err := v.Key() // it must be possible to mount it again
		clear(key)
		if err == nil {
			err = e.detachNow(op.ctx, op.slot, v, m.VolumeMount)
		}
		if err != nil {
			return away, err
		}
		away = append(away, m)
	}
	return away, nil
}

// reattachAll mounts what detachAll has unmounted; err is the result so far.
func (e *Engine) reattachAll(op *operation, away []Mounted, err error) error {
	for _, m := range slices.Backward(away) {
		if back := e.reattach(op, m); back != nil && !died(err) {
			err = errors.Join(err, vm.Errorf(vm.KindOf(back), m.Name, "the volume could not be mounted again at %s: %w", m.Path, back))
		}
	}
	return err
}

// scrubDeadline bounds the scrubbing of a guest's memory.
const scrubDeadline = time.Minute

// scrub makes a guest that had volumes mounted write zeros over its free memory, which
// may hold parts of their files. It does so once after the last mount.
func (e *Engine) scrub(ctx context.Context, s *slot) error {
	e.mu.Lock()
	due := len(s.rec.VolumesSeen) > 0 && !s.scrubbed && s.run != nil
	e.mu.Unlock()
	if !due {
		return nil
	}
	ctx, stop := context.WithTimeout(ctx, scrubDeadline)
	defer stop()
	err := e.runOf(s).machine.Guest().Scrub(ctx)
	if vm.KindOf(err) == vm.Unsupported { // an older agent
		e.log.Warn("free memory was not scrubbed", "vm", s.id, "err", err)
		return nil
	}
	if err != nil {
		return cause(ctx, err)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	s.scrubbed = true
	return nil
}

func (e *Engine) detachNow(ctx context.Context, s *slot, v *vault.Volume, m vm.VolumeMount) error {
	v.Reserve()
	defer v.Release()
	return e.detachVolume(ctx, s, v, m, false)
}

func (e *Engine) reattach(op *operation, m Mounted) error {
	v := e.cfg.Vault.VolumeByID(m.Volume)
	if v == nil {
		return vault.NoVolume(m.Project, m.Name)
	}
	ctx, stop := context.WithTimeout(context.WithoutCancel(op.ctx), mountDeadline)
	defer stop()
	v.Reserve()
	defer v.Release()
	part := &operation{slot: op.slot} // undone on its own
	_, err := e.attachVolume(ctx, part, v, MountRequest{Path: m.Path, RW: m.RW, Share: m.Share, Over: true})
	if err != nil {
		return joinUndo(err, part.undo.run(ctx))
	}
	return nil
}

// owns reports whether a VM that continues a generation has one of its volumes: it is the
// VM that was suspended with it, or a child that reads on.
func (e *Engine) owns(rec vm.VM, g vm.Generation, id vm.VolumeID) bool {
	v := e.cfg.Vault.VolumeByID(id)
	if v == nil || rec.Generation != g.ID {
		return false
	}
	_, ok := v.Record().MountOf(rec.ID)
	return ok
}

// cutFrom lists the volumes that are mounted in a generation's memory and that rec, which
// continues it, does not have.
func (e *Engine) cutFrom(rec vm.VM, g vm.Generation) []vm.VolumeAt {
	return slices.DeleteFunc(slices.Clone(g.Mounts), func(at vm.VolumeAt) bool { return e.owns(rec, g, at.ID) })
}

// fillVolumes gives a machine that continues a generation as rec the disks of the volumes
// mounted in its memory: with their keys if rec has them, else, if allowed, as disks that
// fail all accesses.
func (e *Engine) fillVolumes(spec *vm.MachineSpec, rec vm.VM, g vm.Generation) error {
	spec.Plugged.Volumes = slices.Clone(spec.Plugged.Volumes)
	spec.VolumeKeys = make(map[vm.VolumeID]vm.VolumeKey, len(spec.Plugged.Volumes))
	for i := range spec.Plugged.Volumes {
		p := &spec.Plugged.Volumes[i]
		switch {
		case p.Cut:
		case e.owns(rec, g, p.ID):
			key, err := e.keyToStart(p.ID)
			if err != nil {
				return err
			}
			p.File, spec.VolumeKeys[p.ID] = e.cfg.Vault.VolumeByID(p.ID).Disk(), key
		case g.Cut:
			p.Cut, p.Share, p.File = true, false, ""
		default:
			return vm.Errorf(vm.WrongState, string(rec.ID), "the memory of %s was captured with a volume mounted that the VM does not have", g.ID).
				WithCode("CONFLICT", "reason", attached, "vmId", string(rec.ID), "volumes", []string{string(p.ID)}).
				WithHint("go back to it with --volumes cut, or start from the disk alone: `warren start %s --disk-only`", label(rec))
		}
	}
	return nil
}

// keyToStart returns the key of a volume for a machine that continues with it.
func (e *Engine) keyToStart(id vm.VolumeID) (vm.VolumeKey, error) {
	v := e.cfg.Vault.VolumeByID(id)
	key, err := v.Key()
	if err != nil {
		return nil, vm.AsError(err).WithCode("CONFLICT", "reason", "VOLUME_LOCKED", "volume", string(id), "name", v.Record().Name)
	}
	return key, nil
}

// unlockedFor checks that the volumes that rec needs to continue a generation are
// unlocked.
func (e *Engine) unlockedFor(rec vm.VM, g vm.Generation) error {
	for _, at := range g.Mounts {
		if !e.owns(rec, g, at.ID) {
			continue
		}
		key, err := e.keyToStart(at.ID)
		clear(key)
		if err != nil {
			return err
		}
	}
	return nil
}

// openSeenLocked reports whether any memory that may hold volume data is decrypted.
func (e *Engine) openSeenLocked() bool {
	for _, g := range e.gens {
		if len(g.info.VolumesSeen) > 0 && g.info.Whole() && !g.info.Sealed {
			return true
		}
	}
	return false
}

// shareVolumes makes a child a reader of the volumes that its parent reads.
func (e *Engine) shareVolumes(ctx context.Context, b *childStart, g vm.Generation) error {
	if !b.share {
		return nil
	}
	rec := e.recordOf(b.op.slot)
	for _, at := range g.Mounts {
		if slices.Contains(rec.Cut, at) {
			continue // its parent does not have it either
		}
		v := e.cfg.Vault.VolumeByID(at.ID)
		if v == nil {
			return vault.NoVolume(at.Project, at.Name)
		}
		if err := e.shareVolume(ctx, b, v, rec); err != nil {
			return err
		}
		b.reads = append(b.reads, v)
	}
	return nil
}

// shareVolume gives a child a lease next to its parent's. While the parent has its lease,
// nobody else can have begun to write.
func (e *Engine) shareVolume(ctx context.Context, b *childStart, v *vault.Volume, child vm.VM) error {
	v.Reserve()
	defer v.Release()
	m, ok := v.Record().MountOf(child.Parent)
	if !ok || m.RW {
		rec := v.Record()
		return vm.Errorf(vm.WrongState, rec.Name, "it was unmounted meanwhile").WithCode("CONFLICT", "reason", attached).WithHint("fork again")
	}
	m.VM, m.Since = child.ID, e.now()
	if err := v.BeginMount(ctx, m); err != nil {
		return err
	}
	return b.op.undo.add(ctx, "lease", func(ctx context.Context) error { return v.EndMount(ctx, child.ID) })
}

// sharedVolumes completes the leases of a running child.
func (e *Engine) sharedVolumes(ctx context.Context, b *childStart) error {
	for _, v := range b.reads {
		if err := v.PendMount(ctx, b.op.slot.id, false); err != nil {
			return err
		}
	}
	return nil
}

// sealSeen encrypts memory that is kept and may hold volume data. If a machine runs on
// it, collect does so after the machine has ended.
func (e *Engine) sealSeen(ctx context.Context, g vm.Generation) {
	if !g.Memory || len(g.VolumesSeen) == 0 {
		return
	}
	if err := e.seal(ctx, g.ID); err != nil && !died(err) && vm.KindOf(err) != vm.Busy {
		e.log.Warn("memory that may hold parts of a volume stays in the clear", "generation", g.ID, "err", err)
	}
}

// seen records that a VM's memory may hold volume data, from the mount until the next
// boot; see vm.VM.VolumesSeen.
func (e *Engine) seen(ctx context.Context, s *slot, id vm.VolumeID) error {
	e.mu.Lock()
	s.scrubbed = false
	e.mu.Unlock()
	if slices.Contains(e.recordOf(s).VolumesSeen, id) {
		return nil
	}
	_, err := e.update(ctx, s, func(rec *vm.VM) { rec.VolumesSeen = append(slices.Clone(rec.VolumesSeen), id) })
	return err
}
