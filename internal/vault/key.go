// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package vault

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/warren-vm/warren/vm"
)

// The keys of unlocked volumes are only in the memory of this process and, for an
// attached disk, of its QEMU. They are gone when the process ends.

// UnlockRequest asks for a volume's key.
type UnlockRequest struct {
	Secret vm.VolumeSecret
	TTL    vm.Seconds // time until it is locked again; 0 = no limit
	// Keep leaves the volume unlocked when the last VM that had it mounted ends.
	Keep bool
}

// The cost of refused secrets.
const (
	freeTries  = 3               // before the first wait
	maxWait    = 5 * time.Minute // between two tries
	maxRefused = freeTries + 10  // the count stops here: the wait is at its maximum
)

// UnlockVolume makes a volume ready to be mounted until it is locked again. Unlocking an
// unlocked volume changes only when it is locked again. recovered reports that the disk's
// header was damaged and was restored. Kinds: Denied for a wrong secret, Limit after too
// many of them, NotFound, Corrupt.
func (vt *Vault) UnlockVolume(ctx context.Context, c *vm.Call, ref Ref, r UnlockRequest) (info Info, recovered bool, err error) {
	defer func() { err = vt.fail(vm.OpVolumeUnlock, ref.Volume, err) }()
	if r.TTL < 0 || r.TTL > vm.Seconds(vm.MaxDuration) {
		return info, false, vm.Errorf(vm.Invalid, "ttlSeconds", "%s is out of range", r.TTL).WithCode("INVALID_REQUEST")
	}
	v, err := vt.FindVolume(c, ref)
	if err != nil {
		return info, false, err
	}
	end, err := vt.record(ctx, c, vm.OpVolumeUnlock, v.Record(), map[string]any{"sensitive": true, "by": secretKind(r.Secret)})
	if err != nil {
		return info, false, err
	}
	defer func() { end(err, nil) }()
	v.Reserve()
	defer v.Release()
	if v.Gone() {
		return info, false, NoVolume(ref.Project, ref.Volume)
	}
	key, recovered, err := v.try(ctx, r.Secret)
	if err != nil {
		return info, recovered, err
	}
	if err := v.finishSnapshots(context.WithoutCancel(ctx), key); err != nil {
		clear(key)
		return info, recovered, err
	}
	if err := v.hold(key, r); err != nil {
		return info, recovered, err
	}
	v.Emit("volume.unlocked", map[string]any{"sensitive": true, "recovered": recovered})
	return v.Info(), recovered, nil
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

// try opens the volume with a secret. After some refusals in a row the caller must wait
// before the next try, longer each time; a try that comes too early is refused unchecked.
// Only one secret of a volume is tried at a time, because checking a passphrase takes
// much memory.
func (v *Volume) try(ctx context.Context, secret vm.VolumeSecret) (vm.VolumeKey, bool, error) {
	now := v.vault.now
	rec := v.Record()
	guess := secretKind(secret) != vm.SlotHost
	if guess && rec.NotBefore.Sub(now()) > maxWait { // the host's clock was set back
		var err error
		if rec, err = v.update(ctx, func(rec *vm.Volume) { rec.NotBefore = now().Add(maxWait) }); err != nil {
			return nil, false, err
		}
	}
	if wait := rec.NotBefore.Sub(now()); guess && wait > 0 {
		seconds := int64(wait/time.Second) + 1
		return nil, false, vm.Errorf(vm.Limit, string(rec.ID), "too many refused secrets").
			WithCode("VOLUME_UNLOCK_RATE_LIMITED", "retryAfterSeconds", seconds).WithHint("try again in %d s", seconds)
	}
	key, recovered, err := v.vault.files.Open(ctx, rec.ID, secret, len(rec.Mounts) > 0)
	switch {
	case err == nil && rec.Refused > 0:
		if _, uerr := v.update(ctx, func(rec *vm.Volume) { rec.Refused, rec.NotBefore = 0, time.Time{} }); uerr != nil {
			clear(key)
			return nil, recovered, uerr
		}
	case guess && vm.KindOf(err) == vm.Denied:
		err = errors.Join(err, v.noteRefused(ctx))
	}
	return key, recovered, err
}

// noteRefused makes the next try of the volume wait. The count is in the record, so that
// restarting the server allows no more tries.
func (v *Volume) noteRefused(ctx context.Context) error {
	_, err := v.update(ctx, func(rec *vm.Volume) {
		rec.Refused = min(rec.Refused+1, maxRefused)
		if n := rec.Refused - freeTries; n >= 0 {
			rec.NotBefore = v.vault.now().Add(min(maxWait, time.Second<<n))
		}
	})
	return err
}

// hold keeps the key of an unlocked volume until it is locked.
func (v *Volume) hold(key vm.VolumeKey, r UnlockRequest) error {
	vt := v.vault
	vt.mu.Lock()
	defer vt.mu.Unlock()
	if vt.closed {
		clear(key)
		return errClosed
	}
	if v.Gone() {
		clear(key)
		return v.NotThere()
	}
	v.lockLocked()
	v.key, v.since, v.keep, v.relocked = key, vt.now(), r.Keep, make(chan struct{})
	if r.TTL == 0 {
		return nil
	}
	ttl := time.Duration(r.TTL)
	v.until = v.since.Add(ttl)
	after, stop := vt.clock.After(ttl)
	relocked := v.relocked
	vt.tasks.Add(1)
	go func() { // ends when the time is up, when the volume is locked or unlocked again, or when the vault is closed
		defer vt.tasks.Done()
		defer stop()
		select {
		case <-after:
			v.relock(relocked)
		case <-relocked:
		}
	}()
	return nil
}

// relock locks a volume whose time is up. VMs that have it mounted can still use it.
func (v *Volume) relock(held chan struct{}) {
	v.vault.mu.Lock()
	if v.relocked != held {
		v.vault.mu.Unlock()
		return
	}
	v.lockLocked()
	v.vault.mu.Unlock()
	v.lockedBy("ttl")
}

// lockedBy records a lock that no caller requested.
func (v *Volume) lockedBy(reason string) {
	vt := v.vault
	if vt.vms.Alive() != nil {
		return
	}
	rec := v.Record()
	c := &vm.Call{Actor: vm.Actor{Account: rec.Account, System: "volume-lock"}}
	end, err := vt.record(vt.life, c, vm.OpVolumeLock, rec, map[string]any{"reason": reason})
	if err != nil {
		vt.log.Warn("the lock of a volume was not recorded", "volume", rec.ID, "err", err)
	} else {
		end(nil, nil)
	}
	v.Emit("volume.locked", map[string]any{"reason": reason, "mounts": len(rec.Mounts)})
}

// lockLocked removes the key from memory. The caller holds Vault.mu.
func (v *Volume) lockLocked() {
	clear(v.key)
	if v.relocked != nil {
		close(v.relocked)
	}
	v.key, v.since, v.until, v.keep, v.relocked = nil, time.Time{}, time.Time{}, false, nil
}

// forgetKey is lockLocked for a caller without the mutex.
func (v *Volume) forgetKey() {
	v.vault.mu.Lock()
	defer v.vault.mu.Unlock()
	v.lockLocked()
}

// Key returns a copy of an unlocked volume's key, which the caller clears. Kind
// WrongState, code VOLUME_LOCKED, for a locked volume.
func (v *Volume) Key() (vm.VolumeKey, error) {
	v.vault.mu.Lock()
	defer v.vault.mu.Unlock()
	if v.key != nil {
		return slices.Clone(v.key), nil
	}
	project := ""
	if v.first.Project != vm.DefaultProject {
		project = " --project " + v.first.Project
	}
	return nil, vm.Errorf(vm.WrongState, v.first.Name, "the volume is locked").
		WithCode("VOLUME_LOCKED", "volume", string(v.first.ID), "name", v.first.Name).
		WithHint("unlock it: `warren volume unlock %s%s`", v.first.Name, project)
}

// LockVolume removes a volume's key from memory. While a running VM has the volume
// mounted, it is refused, except with force: that first unmounts the volume and kills the
// programs that use it. A suspended VM can only start when its volumes are unlocked
// again. Locking a locked volume is no error.
func (vt *Vault) LockVolume(ctx context.Context, c *vm.Call, ref Ref, force bool) (info Info, err error) {
	defer func() { err = vt.fail(vm.OpVolumeLock, ref.Volume, err) }()
	v, err := vt.FindVolume(c, ref)
	if err != nil {
		return info, err
	}
	end, err := vt.record(ctx, c, vm.OpVolumeLock, v.Record(), map[string]any{"force": force})
	if err != nil {
		return info, err
	}
	defer func() { end(err, nil) }()
	if force {
		if err := v.unmountAll(ctx, c); err != nil {
			return info, err
		}
	}
	v.Reserve()
	defer v.Release()
	if err := v.lockUnused(); err != nil {
		return info, err
	}
	v.Emit("volume.locked", map[string]any{"reason": "asked"})
	return v.Info(), nil
}

// lockUnused locks a volume that no VM uses or is about to use. The memory of a
// suspended VM cannot be read without the key.
func (v *Volume) lockUnused() error {
	rec := v.Record()
	m, starting := v.vault.vms.WhileIdle(rec.Mounts, v.forgetKey) // no start can take the key in between
	switch {
	case m == nil:
		return nil
	case starting:
		return v.inUse(rec, *m).WithHint("it is being started: try again when it runs")
	}
	return v.inUse(rec, *m).WithHint("unmount it first, or use --force, which kills the programs that use it and unmounts it")
}

// unmountAll unmounts the volume from every running VM that has it.
func (v *Volume) unmountAll(ctx context.Context, c *vm.Call) error {
	sub := &vm.Call{Actor: c.Actor, Request: c.Request}
	for _, m := range v.Record().Mounts {
		if err := v.vault.vms.Unmount(ctx, sub, m); err != nil && vm.KindOf(err) != vm.NotFound {
			return err
		}
	}
	return nil
}

func (vt *Vault) now() time.Time { return vt.clock.Now().UTC() }

// fail adds verb and subject to an error, except to a simulated death of the server in a
// test.
func (vt *Vault) fail(op vm.Op, subject string, err error) error {
	if err == nil || vt.vms.Alive() != nil {
		return err
	}
	return vm.WithOp(op, subject, err)
}
