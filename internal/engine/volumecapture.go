// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/warren-vm/warren/vm"
)

// What a capture does with the volumes that a VM has mounted; "" = it is
// refused.
const VolumesDetach = "detach" // they are unmounted for the capture and mounted again

// attached is the reason of a conflict; the routes that answer with it are the
// contract's, which knows no code for it.
const attached = "VOLUMES_ATTACHED"

func checkVolumesMode(mode string) error {
	switch mode {
	case "", VolumesDetach:
		return nil
	}
	return vm.Errorf(vm.Invalid, mode, "not a way to treat volumes").WithCode("INVALID_REQUEST").WithHint("use detach, or leave it out")
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
		WithHint("unmount it: `warren volume unmount %s %s`; fork and snapshot do it for the moment with --volumes detach", label(rec), paths[0])
}

// withoutVolumes captures a VM. With mode VolumesDetach its volumes are
// unmounted before, which fails while programs use them, and mounted again
// after, whatever the capture came to.
func (e *Engine) withoutVolumes(op *operation, mode string, do func() error) (err error) {
	list := e.mountsOf(op.slot.id)
	if len(list) == 0 || mode != VolumesDetach || op.before.State != vm.Running {
		return do()
	}
	var away []Mounted
	defer func() {
		for _, m := range slices.Backward(away) {
			if back := e.reattach(op, m); back != nil && !died(err) {
				err = errors.Join(err, vm.Errorf(vm.KindOf(back), m.Name, "it could not be mounted again at %s: %w", m.Path, back))
			}
		}
	}()
	for _, m := range slices.Backward(list) {
		v := e.volumeByID(m.Volume)
		if v == nil {
			continue
		}
		key, err := e.volumeKey(v) // else it could not come back
		clear(key)
		if err == nil {
			err = e.detachNow(op.ctx, op.slot, v, m.VolumeMount)
		}
		if err != nil {
			return err
		}
		away = append(away, m)
	}
	return do()
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

func (e *Engine) volumeByID(id vm.VolumeID) *volume {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.vols[id]
}

func (e *Engine) detachNow(ctx context.Context, s *slot, v *volume, m vm.VolumeMount) error {
	v.work.Lock()
	defer v.work.Unlock()
	return e.detachVolume(ctx, s, v, m, false)
}

func (e *Engine) reattach(op *operation, m Mounted) error {
	v := e.volumeByID(m.Volume)
	if v == nil {
		return noVolume(m.Project, m.Name)
	}
	ctx, stop := context.WithTimeout(context.WithoutCancel(op.ctx), mountDeadline)
	defer stop()
	v.work.Lock()
	defer v.work.Unlock()
	part := &operation{slot: op.slot} // taken back alone
	_, err := e.attachVolume(ctx, part, v, MountRequest{Path: m.Path, RW: m.RW, Share: m.Share, Over: true})
	if err != nil {
		return joinUndo(err, part.undo.run(ctx))
	}
	return nil
}

// fillVolumes gives a machine that continues the memory of rec the volumes that
// were mounted then, with their keys. They are rec's own: nobody else continues
// such memory.
func (e *Engine) fillVolumes(spec *vm.MachineSpec, rec vm.VM) error {
	spec.Plugged.Volumes = slices.Clone(spec.Plugged.Volumes)
	spec.VolumeKeys = make(map[vm.VolumeID]vm.VolumeKey, len(spec.Plugged.Volumes))
	for i, p := range spec.Plugged.Volumes {
		v := e.volumeByID(p.ID)
		if v == nil {
			return vm.Errorf(vm.WrongState, string(p.ID), "its memory was written down with this volume, which is gone").
				WithHint("start from its disk alone: `warren start %s --disk-only`", label(rec))
		}
		if _, own := e.volumeRecord(v).MountOf(rec.ID); !own {
			return vm.Errorf(vm.WrongState, string(rec.ID), "its memory was written down with a volume mounted that it no longer has").
				WithCode("CONFLICT", "reason", attached, "vmId", string(rec.ID), "volumes", []string{e.volumeRecord(v).Name}).
				WithHint("start from its disk alone: `warren start %s --disk-only`", label(rec))
		}
		key, err := e.volumeKey(v)
		if err != nil {
			return vm.AsError(err).WithCode("CONFLICT", "reason", "VOLUME_LOCKED", "volume", string(p.ID), "name", e.volumeRecord(v).Name)
		}
		spec.Plugged.Volumes[i].File = e.cfg.Volumes.Disk(p.ID)
		spec.VolumeKeys[p.ID] = key
	}
	return nil
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
