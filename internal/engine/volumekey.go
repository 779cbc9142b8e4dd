// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"slices"
	"time"

	"github.com/warren-vm/warren/vm"
)

// Keys of unlocked volumes are in the memory of this process and, for disks
// that are plugged in, of their QEMU; nowhere else. They end with the process.

// UnlockRequest asks for a volume's key.
type UnlockRequest struct {
	Secret     vm.VolumeSecret
	TTLSeconds int64 // it is locked again after so long; 0 = never
	// Keep leaves it unlocked when the last VM that had it mounted ends.
	Keep bool
}

// Of secrets that are refused.
const (
	freeTries  = 3               // before the first wait
	maxWait    = 5 * time.Minute // between two tries
	maxRefused = freeTries + 10  // are counted: it waits the longest by then
)

// UnlockVolume makes a volume ready to be mounted, until it is locked again.
// Unlocking it again changes when that is.
func (e *Engine) UnlockVolume(ctx context.Context, c *vm.Call, ref VolumeRef, r UnlockRequest) (info VolumeInfo, recovered bool, err error) {
	defer func() { err = fail(vm.OpVolumeUnlock, ref.Volume, err) }()
	if r.TTLSeconds < 0 || r.TTLSeconds > maxSeconds {
		return info, false, vm.Errorf(vm.Invalid, "ttlSeconds", "%d is out of range", r.TTLSeconds).WithCode("INVALID_REQUEST")
	}
	v, err := e.findVolume(c, ref)
	if err != nil {
		return info, false, err
	}
	rcpt, err := e.recordVolume(ctx, c, vm.OpVolumeUnlock, e.volumeRecord(v), map[string]any{"sensitive": true, "by": secretKind(r.Secret)})
	if err != nil {
		return info, false, err
	}
	defer func() { rcpt.End(err, nil) }()
	v.work.Lock()
	defer v.work.Unlock()
	if v.isGone(e) {
		return info, false, noVolume(ref.Project, ref.Volume)
	}
	key, recovered, err := e.trySecret(ctx, v, r.Secret)
	if err != nil {
		return info, recovered, err
	}
	if err := e.finishSnapshots(context.WithoutCancel(ctx), v, key); err != nil {
		clear(key)
		return info, recovered, err
	}
	if err := e.holdKey(v, key, r); err != nil {
		return info, recovered, err
	}
	e.emitVolume(v, "volume.unlocked", map[string]any{"sensitive": true, "recovered": recovered})
	return e.volumeInfo(v), recovered, nil
}

func secretKind(s vm.VolumeSecret) string {
	switch {
	case s.Passphrase != "":
		return vm.SlotPassphrase
	case s.Identity != "":
		return vm.SlotRecipient
	}
	return vm.SlotHost
}

// trySecret opens a volume. After some refusals in a row each further try has
// to wait longer; a try that comes too early is not looked at. One secret is
// tried at a time: what a passphrase costs is paid in memory, too.
func (e *Engine) trySecret(ctx context.Context, v *volume, secret vm.VolumeSecret) (vm.VolumeKey, bool, error) {
	rec := e.volumeRecord(v)
	guess := secretKind(secret) != vm.SlotHost
	if guess && rec.NotBefore.Sub(e.now()) > maxWait { // the host's clock was put back
		var err error
		if rec, err = e.updateVolume(ctx, v, func(rec *vm.Volume) { rec.NotBefore = e.now().Add(maxWait) }); err != nil {
			return nil, false, err
		}
	}
	if wait := rec.NotBefore.Sub(e.now()); guess && wait > 0 {
		seconds := int64(wait/time.Second) + 1
		return nil, false, vm.Errorf(vm.Limit, string(v.id), "too many refused secrets").
			WithCode("VOLUME_UNLOCK_RATE_LIMITED", "retryAfterSeconds", seconds).WithHint("try again in %d s", seconds)
	}
	key, recovered, err := e.cfg.Volumes.Open(ctx, v.id, secret, len(rec.Mounts) > 0)
	switch {
	case err == nil && rec.Refused > 0:
		if _, uerr := e.updateVolume(ctx, v, func(rec *vm.Volume) { rec.Refused, rec.NotBefore = 0, time.Time{} }); uerr != nil {
			clear(key)
			return nil, recovered, uerr
		}
	case guess && vm.KindOf(err) == vm.Denied:
		err = joinUndo(err, e.noteRefused(ctx, v))
	}
	return key, recovered, err
}

// noteRefused makes the next try of a volume wait. It is in the record: a restart
// of the server gives nobody more tries.
func (e *Engine) noteRefused(ctx context.Context, v *volume) error {
	_, err := e.updateVolume(ctx, v, func(rec *vm.Volume) {
		rec.Refused = min(rec.Refused+1, maxRefused)
		if n := rec.Refused - freeTries; n >= 0 {
			rec.NotBefore = e.now().Add(min(maxWait, time.Second<<n))
		}
	})
	return err
}

// holdKey keeps the key of an unlocked volume until it is locked.
func (e *Engine) holdKey(v *volume, key vm.VolumeKey, r UnlockRequest) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		clear(key)
		return errClosed
	}
	e.sealLocked(v)
	v.key, v.since, v.keep, v.relocked = key, e.now(), r.Keep, make(chan struct{})
	if r.TTLSeconds == 0 {
		return nil
	}
	ttl := time.Duration(r.TTLSeconds) * time.Second
	v.until = v.since.Add(ttl)
	after, stop := e.cfg.Clock.After(ttl)
	relocked := v.relocked
	e.tasks.Add(1)
	go func() { // ends with the time, the next lock or the engine
		defer e.tasks.Done()
		defer stop()
		select {
		case <-after:
			e.relock(v, relocked)
		case <-relocked:
		case <-e.life.Done():
		}
	}()
	return nil
}

// relock locks a volume whose time is up. VMs that have it mounted go on.
func (e *Engine) relock(v *volume, held chan struct{}) {
	e.mu.Lock()
	if v.relocked != held {
		e.mu.Unlock()
		return
	}
	e.sealLocked(v)
	e.mu.Unlock()
	e.lockedBy(v, "ttl")
}

// lockedBy tells of a lock that nobody asked for.
func (e *Engine) lockedBy(v *volume, reason string) {
	rec := e.volumeRecord(v)
	c := &vm.Call{Actor: vm.Actor{Account: rec.Account, System: "volume-lock"}}
	r, err := e.recordVolume(e.life, c, vm.OpVolumeLock, rec, map[string]any{"reason": reason})
	if err != nil {
		e.log.Warn("the lock of a volume was not recorded", "volume", v.id, "err", err)
	}
	r.End(nil, nil)
	e.emitVolume(v, "volume.locked", map[string]any{"reason": reason, "mounts": len(rec.Mounts)})
}

// sealLocked takes a volume's key out of memory. The caller holds mu.
func (e *Engine) sealLocked(v *volume) {
	clear(v.key)
	if v.relocked != nil {
		close(v.relocked)
	}
	v.key, v.since, v.until, v.keep, v.relocked = nil, time.Time{}, time.Time{}, false, nil
}

func (e *Engine) sealVolume(v *volume) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.sealLocked(v)
}

// forgetKeys locks every volume; VMs that have them mounted go on.
func (e *Engine) forgetKeys() {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, v := range e.vols {
		e.sealLocked(v)
	}
}

// volumeKey returns a copy of an unlocked volume's key, which the caller clears.
func (e *Engine) volumeKey(v *volume) (vm.VolumeKey, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if v.key == nil {
		return nil, lockedVolume(v.rec)
	}
	return slices.Clone(v.key), nil
}

func lockedVolume(rec vm.Volume) error {
	project := ""
	if rec.Project != vm.DefaultProject {
		project = " --project " + rec.Project
	}
	return vm.Errorf(vm.WrongState, rec.Name, "the volume is locked").
		WithCode("VOLUME_LOCKED", "volume", string(rec.ID), "name", rec.Name).
		WithHint("unlock it: `warren volume unlock %s%s`", rec.Name, project)
}

// LockVolume takes a volume's key out of memory. It is refused while a running
// VM has the volume mounted, unless force, which unmounts it first and kills the
// programs that use it. A suspended VM that has it needs it unlocked to go on.
// Locking a locked volume succeeds.
func (e *Engine) LockVolume(ctx context.Context, c *vm.Call, ref VolumeRef, force bool) (info VolumeInfo, err error) {
	defer func() { err = fail(vm.OpVolumeLock, ref.Volume, err) }()
	v, err := e.findVolume(c, ref)
	if err != nil {
		return info, err
	}
	rcpt, err := e.recordVolume(ctx, c, vm.OpVolumeLock, e.volumeRecord(v), map[string]any{"force": force})
	if err != nil {
		return info, err
	}
	defer func() { rcpt.End(err, nil) }()
	if force {
		if err := e.unmountAll(ctx, c, v); err != nil {
			return info, err
		}
	}
	v.work.Lock()
	defer v.work.Unlock()
	if err := e.lockUnused(v); err != nil {
		return info, err
	}
	e.emitVolume(v, "volume.locked", map[string]any{"reason": "asked"})
	return e.volumeInfo(v), nil
}

// lockUnused locks a volume that no VM uses or is about to. Of one that is
// suspended nothing can be read without unlocking.
func (e *Engine) lockUnused(v *volume) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, m := range v.rec.Mounts {
		s := e.vms[m.VM]
		switch {
		case s == nil:
		case s.op != nil && (s.op.verb == vm.OpStart || s.op.verb == vm.OpRollback):
			return mounted(v.rec, m, label(s.rec)).WithHint("it is being started: try again when it runs")
		case s.rec.State != vm.Suspended:
			return mounted(v.rec, m, label(s.rec)).WithHint("unmount it first, or use --force, which does and kills what uses it")
		}
	}
	e.sealLocked(v) // before a start that comes now can take the key
	return nil
}

// unmountAll takes a volume away from every running VM that has it.
func (e *Engine) unmountAll(ctx context.Context, c *vm.Call, v *volume) error {
	sub := &vm.Call{Actor: c.Actor, Request: c.Request}
	for _, m := range e.volumeRecord(v).Mounts {
		s := e.slotOf(m.VM)
		if s == nil || e.snapshot(s).State == vm.Suspended {
			continue
		}
		if err := e.Unmount(ctx, sub, string(m.VM), m.Path, true); err != nil && vm.KindOf(err) != vm.NotFound {
			return err
		}
	}
	return nil
}

func (e *Engine) slotOf(id vm.ID) *slot {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.vms[id]
}

// AddVolumeSlot makes one more way to unlock a volume that is unlocked.
func (e *Engine) AddVolumeSlot(ctx context.Context, c *vm.Call, ref VolumeRef, spec vm.VolumeSlotSpec) (slot vm.VolumeSlot, err error) {
	err = e.changeSlots(ctx, c, ref, map[string]any{"add": spec.Kind(), "slot": spec.Name}, func(v *volume) error {
		key, err := e.volumeKey(v)
		if err != nil {
			return err
		}
		defer clear(key)
		slot, err = e.cfg.Volumes.AddSlot(v.id, key, spec)
		return err
	})
	return slot, err
}

// RemoveVolumeSlot takes a way to unlock a volume away; the last one stays. The
// volume must be unlocked: who cannot open it has no say in who may.
func (e *Engine) RemoveVolumeSlot(ctx context.Context, c *vm.Call, ref VolumeRef, slot string) error {
	return e.changeSlots(ctx, c, ref, map[string]any{"remove": slot}, func(v *volume) error {
		key, err := e.volumeKey(v)
		if err != nil {
			return err
		}
		clear(key)
		return e.cfg.Volumes.RemoveSlot(v.id, slot)
	})
}

// RotateVolume gives an unlocked volume that no VM has mounted another key: copies
// of its slots that were taken before open nothing any more.
func (e *Engine) RotateVolume(ctx context.Context, c *vm.Call, ref VolumeRef) error {
	return e.changeSlots(ctx, c, ref, map[string]any{"rotate": true}, func(v *volume) error {
		if err := e.notMounted(v, "unmount it first"); err != nil {
			return err
		}
		key, err := e.volumeKey(v)
		if err != nil {
			return err
		}
		defer clear(key)
		next, err := e.cfg.Volumes.Rotate(context.WithoutCancel(ctx), v.id, key)
		e.mu.Lock()
		defer e.mu.Unlock()
		if next != nil && v.key != nil {
			clear(v.key)
			v.key = next
		}
		return err
	})
}

func (e *Engine) changeSlots(ctx context.Context, c *vm.Call, ref VolumeRef, detail map[string]any, change func(*volume) error) (err error) {
	defer func() { err = fail(vm.OpVolumeSlot, ref.Volume, err) }()
	v, err := e.findVolume(c, ref)
	if err != nil {
		return err
	}
	detail["sensitive"] = true
	rcpt, err := e.recordVolume(ctx, c, vm.OpVolumeSlot, e.volumeRecord(v), detail)
	if err != nil {
		return err
	}
	defer func() { rcpt.End(err, nil) }()
	v.work.Lock()
	defer v.work.Unlock()
	if v.isGone(e) {
		return noVolume(ref.Project, ref.Volume)
	}
	if err := change(v); err != nil {
		return err
	}
	e.emitVolume(v, "volume.slots", nil)
	return nil
}
