// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"

	"github.com/warren-vm/warren/internal/vault"
	"github.com/warren-vm/warren/vm"
)

// vaultVMs is the engine as the vault sees it: vault.VMs.
type vaultVMs struct{ e *Engine }

func (v vaultVMs) Alive() error {
	if v.e.dead.Load() {
		return ErrDied
	}
	return nil
}

func (v vaultVMs) Step(ctx context.Context, label string) error { return v.e.step(ctx, label) }

func (v vaultVMs) DiskSpace(ctx context.Context) error {
	have, err := v.e.cfg.Host.Capacity(ctx)
	if err != nil {
		return err
	}
	if reserve := v.e.cfg.Settings.DiskReserve; have.DiskFree < reserve {
		return vm.Errorf(vm.NoSpace, "", "%d MiB of disk are free, %d MiB are kept in reserve", have.DiskFree>>20, reserve>>20).
			WithCode("NO_LOCAL_STORAGE_CAPACITY").WithHint("delete VMs or volumes: `warren storage` shows what deleting each VM frees, `warren volume ls` lists volumes")
	}
	return nil
}

func (v vaultVMs) Find(c *vm.Call, ref string) (vm.ID, error) {
	s, err := v.e.lookup(c, ref)
	if err != nil {
		return "", err
	}
	return s.id, nil
}

func (v vaultVMs) Name(id vm.ID) string {
	s := v.e.slotOf(id)
	if s == nil {
		return ""
	}
	return label(v.e.recordOf(s))
}

func (v vaultVMs) WhileIdle(list []vm.VolumeMount, do func()) (inUse *vm.VolumeMount, starting bool) {
	v.e.mu.Lock()
	defer v.e.mu.Unlock()
	for _, m := range list {
		s := v.e.vms[m.VM]
		switch {
		case s == nil:
		case s.op != nil && (s.op.verb == vm.OpStart || s.op.verb == vm.OpRollback):
			return &m, true
		case s.rec.State != vm.Suspended:
			return &m, false
		}
	}
	do()
	return nil, false
}

func (v vaultVMs) Unmount(ctx context.Context, c *vm.Call, m vm.VolumeMount) error {
	s := v.e.slotOf(m.VM)
	if s == nil || v.e.recordOf(s).State == vm.Suspended {
		return nil
	}
	return v.e.Unmount(ctx, c, string(m.VM), m.Path, true)
}

func (v vaultVMs) Plugged(id vm.VolumeID, m vm.VolumeMount) (d vault.Disk, running bool) {
	s := v.e.slotOf(m.VM)
	if s == nil || v.e.recordOf(s).State != vm.Running {
		return nil, false
	}
	if r := v.e.runOf(s); r != nil {
		d = pluggedDisk{r.machine, id, m.Path}
	}
	return d, true
}

// slotOf returns the slot of a VM, or nil.
func (e *Engine) slotOf(id vm.ID) *slot {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.vms[id]
}

// pluggedDisk is a volume's disk in a running machine.
type pluggedDisk struct {
	machine Machine
	volume  vm.VolumeID
	path    string // its mount point in the guest
}

func (d pluggedDisk) Snapshot(ctx context.Context, id string) error {
	ctx, stop := context.WithTimeout(ctx, mountDeadline)
	defer stop()
	if err := inGuest(ctx, d.machine.Guest(), "sync", "-f", d.path); err != nil {
		return cause(ctx, err)
	}
	return cause(ctx, d.machine.SnapshotVolume(ctx, d.volume, id))
}

func (d pluggedDisk) DropSnapshot(ctx context.Context, id string) error {
	return d.machine.DropVolumeSnapshot(ctx, d.volume, id)
}
