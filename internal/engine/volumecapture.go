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

// What becomes of the volumes that a VM has mounted when its memory is copied;
// "" = that is refused.
const (
	VolumesCut    = "cut"    // copies have disks in their place on which everything fails
	VolumesRO     = "ro"     // children of a fork read on what their parent reads
	VolumesDetach = "detach" // they are unmounted for the capture and mounted again

	volumesOwn = "own" // only the same VM continues
)

// attached is the reason of a conflict; the routes that answer with it are the
// contract's, which knows no code for it.
const attached = "VOLUMES_ATTACHED"

func checkVolumesMode(mode string, modes ...string) error {
	if mode == "" || slices.Contains(modes, mode) {
		return nil
	}
	return vm.Errorf(vm.Invalid, mode, "not a way to treat volumes here").WithCode("INVALID_REQUEST").
		WithHint("use %s, or leave it out", strings.Join(modes, " or "))
}

// volumesAttached refuses to write down the memory of a VM that has volumes:
// it holds what is in them. A suspend does, since only the same VM continues
// from it, and encrypts it.
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
		WithHint("unmount it: `warren volume unmount %s %s`; --volumes detach does it for the moment, --volumes cut leaves it out of the copies", label(rec), paths[0])
}

// volumesGiven refuses to copy the memory of a VM that has volumes, where
// nothing is said about them, or what is said cannot be.
func (e *Engine) volumesGiven(rec vm.VM, mode string) error {
	switch mode {
	case VolumesCut, volumesOwn:
		return nil
	case VolumesRO:
		return e.onlyReads(rec)
	}
	return e.volumesAttached(rec)
}

// onlyReads refuses readers of what the VM writes: a file system that changes
// below them is none.
func (e *Engine) onlyReads(rec vm.VM) error {
	for _, m := range e.mountsOf(rec.ID) {
		if m.RW {
			return vm.Errorf(vm.WrongState, string(rec.ID), "it writes to the volume %s at %s, and nobody can continue reading what changes below", m.Name, m.Path).
				WithCode("CONFLICT", "reason", attached, "vmId", string(rec.ID), "volumes", []string{m.Name}, "paths", []string{m.Path}).
				WithHint("mount it without --rw, or use --volumes cut or detach")
		}
	}
	return nil
}

// clearMemory sees to it that a capture of memory holds of volumes what it may:
// nothing that can be avoided where they are not part of it.
func (e *Engine) clearMemory(ctx context.Context, s *slot, mode string) error {
	rec := e.snapshot(s)
	if err := e.volumesGiven(rec, mode); err != nil {
		return err
	}
	if len(e.mountsOf(rec.ID)) > 0 {
		return nil // what is in use cannot be scrubbed
	}
	return e.scrub(ctx, s)
}

// mountedIn is what a VM's memory has mounted, whether it has it or not.
func (e *Engine) mountedIn(rec vm.VM) []vm.VolumeAt {
	list := slices.Clone(rec.Cut)
	for _, m := range e.mountsOf(rec.ID) {
		list = append(list, vm.VolumeAt{ID: m.Volume, Name: m.Name, Project: m.Project, Path: m.Path, RW: m.RW})
	}
	return list
}

// withoutVolumes captures a VM. With mode VolumesDetach its volumes are
// unmounted before, which fails while programs use them, and mounted again
// after, whatever the capture came to.
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

// detachAll unmounts all that a VM has, and says what it has unmounted also
// when it fails.
func (e *Engine) detachAll(op *operation) (away []Mounted, err error) {
	for _, m := range slices.Backward(e.mountsOf(op.slot.id)) {
		v := e.cfg.Vault.VolumeByID(m.Volume)
		if v == nil {
			continue
		}
		key, err := v.Key() // else it could not come back
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

// reattachAll mounts again what detachAll has unmounted; err is the result of
// the rest.
func (e *Engine) reattachAll(op *operation, away []Mounted, err error) error {
	for _, m := range slices.Backward(away) {
		if back := e.reattach(op, m); back != nil && !died(err) {
			err = errors.Join(err, vm.Errorf(vm.KindOf(back), m.Name, "it could not be mounted again at %s: %w", m.Path, back))
		}
	}
	return err
}

// scrubDeadline bounds the scrubbing of a guest's memory.
const scrubDeadline = time.Minute

// scrub has a guest that had volumes mounted write zeros over its free memory,
// where parts of their files stand, once after the last of them was mounted.
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
	if vm.KindOf(err) == vm.Unsupported { // an agent of before
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
	part := &operation{slot: op.slot} // taken back alone
	_, err := e.attachVolume(ctx, part, v, MountRequest{Path: m.Path, RW: m.RW, Share: m.Share, Over: true})
	if err != nil {
		return joinUndo(err, part.undo.run(ctx))
	}
	return nil
}

// owns reports whether a VM that continues a generation has one of its volumes:
// it is the VM that was put down with it, or a child that reads on.
func (e *Engine) owns(rec vm.VM, g vm.Generation, id vm.VolumeID) bool {
	v := e.cfg.Vault.VolumeByID(id)
	if v == nil || rec.Generation != g.ID {
		return false
	}
	_, ok := v.Record().MountOf(rec.ID)
	return ok
}

// cutFrom is what a generation's memory has mounted and rec, which continues
// it, does not have.
func (e *Engine) cutFrom(rec vm.VM, g vm.Generation) []vm.VolumeAt {
	return slices.DeleteFunc(slices.Clone(g.Mounts), func(at vm.VolumeAt) bool { return e.owns(rec, g, at.ID) })
}

// fillVolumes gives a machine that continues a generation as rec the disks of
// the volumes that its memory has mounted: with their keys where rec has them,
// else, where that may be, in name only.
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
			return vm.Errorf(vm.WrongState, string(rec.ID), "the memory of %s was written down with a volume mounted that the VM does not have", g.ID).
				WithCode("CONFLICT", "reason", attached, "vmId", string(rec.ID), "volumes", []string{string(p.ID)}).
				WithHint("go back to it with --volumes cut, or start from the disk alone: `warren start %s --disk-only`", label(rec))
		}
	}
	return nil
}

// keyToStart is the key of a volume that a machine continues with.
func (e *Engine) keyToStart(id vm.VolumeID) (vm.VolumeKey, error) {
	v := e.cfg.Vault.VolumeByID(id)
	key, err := v.Key()
	if err != nil {
		return nil, vm.AsError(err).WithCode("CONFLICT", "reason", "VOLUME_LOCKED", "volume", string(id), "name", v.Record().Name)
	}
	return key, nil
}

// unlockedFor checks that the volumes are unlocked that rec continues with when
// it continues a generation.
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

// openSeenLocked reports whether memory that may hold what is in a volume lies
// open.
func (e *Engine) openSeenLocked() bool {
	for _, g := range e.gens {
		if len(g.info.VolumesSeen) > 0 && g.info.Whole() && !g.info.Sealed {
			return true
		}
	}
	return false
}

// shareVolumes makes a child a reader of what its parent reads.
func (e *Engine) shareVolumes(ctx context.Context, b *birth, g vm.Generation) error {
	if !b.share {
		return nil
	}
	rec := e.snapshot(b.op.slot)
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

// shareVolume gives a child a lease beside its parent's. As long as that is
// there nobody else has begun to write.
func (e *Engine) shareVolume(ctx context.Context, b *birth, v *vault.Volume, child vm.VM) error {
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

// sharedVolumes completes the leases of a child that runs.
func (e *Engine) sharedVolumes(ctx context.Context, b *birth) error {
	for _, v := range b.reads {
		if err := v.PendMount(ctx, b.op.slot.id, false); err != nil {
			return err
		}
	}
	return nil
}

// sealSeen encrypts memory that is kept and may hold what is in a volume, unless
// a machine runs on it: then collect does when that has ended.
func (e *Engine) sealSeen(ctx context.Context, g vm.Generation) {
	if !g.Memory || len(g.VolumesSeen) == 0 {
		return
	}
	if err := e.seal(ctx, g.ID); err != nil && !died(err) && vm.KindOf(err) != vm.Busy {
		e.log.Warn("memory that may hold parts of a volume stays in the clear", "generation", g.ID, "err", err)
	}
}

// seen notes that a VM's memory may hold what is in a volume, from the mount
// until the VM is booted afresh; see vm.VM.VolumesSeen.
func (e *Engine) seen(ctx context.Context, s *slot, id vm.VolumeID) error {
	e.mu.Lock()
	s.scrubbed = false
	e.mu.Unlock()
	if slices.Contains(e.snapshot(s).VolumesSeen, id) {
		return nil
	}
	_, err := e.update(ctx, s, func(rec *vm.VM) { rec.VolumesSeen = append(slices.Clone(rec.VolumesSeen), id) })
	return err
}
