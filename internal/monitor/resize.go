// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package monitor

import (
	"context"
	"time"

	"github.com/warren-vm/warren/internal/layout"
	"github.com/warren-vm/warren/internal/qemu"
	"github.com/warren-vm/warren/vm"
)

// growWait bounds the wait until the guest uses new memory or CPUs.
const growWait = 30 * time.Second

// resize changes the size of the running machine. For each part that differs it
// returns "live", or why it cannot. If one part cannot change, the parts not yet
// begun stay as they are, since a start has to change them anyway. Capture and
// resize exclude each other.
func (m *machine) resize(ctx context.Context, want vm.Size) (map[string]string, error) {
	if !closed(m.started) {
		return nil, vm.Errorf(vm.Unavailable, string(m.spec.ID), "the machine is still being started")
	}
	m.capturing.Lock()
	defer m.capturing.Unlock()
	now := m.qemu().Machine()
	goal, how := planResize(now, want)
	pid := m.qemu().Ident.PID
	qemu.Bound(now.ID, pid, vm.Size{VCPU: max(now.Size.VCPU, want.VCPU), MemoryMiB: max(now.Size.MemoryMiB, want.MemoryMiB)})
	defer func() { qemu.Bound(now.ID, pid, m.qemu().Machine().Size) }()
	for _, part := range []struct {
		name string
		do   func(context.Context, vm.Size, vm.Plugged) error
	}{{vm.PartDisk, m.resizeDisk}, {vm.PartMemory, m.resizeMemory}, {vm.PartCPU, m.resizeCPUs}} {
		if how[part.name] != vm.Live {
			continue
		}
		if failed(how) {
			how[part.name] = "another part needs a start"
			continue
		}
		if err := part.do(ctx, want, goal); err != nil {
			if ctx.Err() != nil {
				return how, ctx.Err()
			}
			m.log.Warn("resize", "part", part.name, "err", err)
			how[part.name] = vm.AsError(err).Error()
		}
	}
	return how, nil
}

// planResize returns what a machine of the new size has plugged in, and for each
// part that differs whether a resize can change it.
func planResize(now vm.MachineSpec, want vm.Size) (vm.Plugged, map[string]string) {
	how := make(map[string]string)
	if want.DiskMiB != now.Size.DiskMiB {
		how[vm.PartDisk] = vm.Live
	}
	if want.DiskMiB < now.Size.DiskMiB {
		how[vm.PartDisk] = "a disk cannot shrink"
	}
	grow := func(part string, size vm.Size) {
		goal, err := qemu.MorePlugged(now, size)
		if how[part] = vm.Live; err != nil {
			how[part] = vm.AsError(err).Msg
			return
		}
		now.Plugged = goal
	}
	size := now.Size
	if want.MemoryMiB > size.MemoryMiB {
		grow(vm.PartMemory, vm.Size{VCPU: size.VCPU, MemoryMiB: want.MemoryMiB})
	}
	if want.MemoryMiB < size.MemoryMiB {
		how[vm.PartMemory] = "memory that a guest uses cannot be taken from it"
	}
	if want.VCPU != size.VCPU {
		grow(vm.PartCPU, vm.Size{VCPU: want.VCPU, MemoryMiB: size.MemoryMiB})
	}
	return now.Plugged, how
}

func failed(how map[string]string) bool {
	for _, h := range how {
		if h != vm.Live {
			return true
		}
	}
	return false
}

func (m *machine) resizeDisk(ctx context.Context, want vm.Size, _ vm.Plugged) error {
	if err := m.qemu().ResizeDisk(ctx, want.DiskMiB); err != nil {
		return err
	}
	size := m.qemu().Machine().Size
	size.DiskMiB = want.DiskMiB
	if err := m.changed(size, m.qemu().Machine().Plugged); err != nil {
		return err
	}
	return m.growGuest(ctx, vm.Size{DiskMiB: want.DiskMiB})
}

// resizeMemory plugs one module after the other, each after the guest uses the
// previous one.
func (m *machine) resizeMemory(ctx context.Context, _ vm.Size, goal vm.Plugged) error {
	now := m.qemu().Machine()
	for i := len(now.Plugged.Modules); i < len(goal.Modules); i++ {
		next := now.Plugged
		next.BootVCPU, next.BootMemoryMiB, next.Modules = goal.BootVCPU, goal.BootMemoryMiB, goal.Modules[:i+1]
		if err := m.qemu().PlugModule(ctx, next, i); err != nil {
			return err
		}
		size := now.Size
		size.MemoryMiB = goal.BootMemoryMiB + next.MemoryMiB()
		if err := m.changed(size, next); err != nil {
			return err
		}
		if err := m.growGuest(ctx, vm.Size{MemoryMiB: size.MemoryMiB}); err != nil {
			return err
		}
	}
	return nil
}

// resizeCPUs plugs in missing CPUs. Surplus CPUs stay in the machine, and the guest
// sets them offline.
func (m *machine) resizeCPUs(ctx context.Context, want vm.Size, goal vm.Plugged) error {
	now := m.qemu().Machine()
	next := now.Plugged
	next.BootVCPU, next.BootMemoryMiB = goal.BootVCPU, goal.BootMemoryMiB
	for next.CPUs < goal.CPUs {
		if err := m.qemu().PlugCPU(ctx, goal.BootVCPU+next.CPUs); err != nil {
			return err
		}
		next.CPUs++
		if err := m.changed(now.Size, next); err != nil {
			return err
		}
	}
	if err := m.growGuest(ctx, vm.Size{VCPU: want.VCPU}); err != nil {
		return err
	}
	now.Size.VCPU = want.VCPU
	return m.changed(now.Size, next)
}

func (m *machine) growGuest(ctx context.Context, size vm.Size) error {
	ctx, cancel := context.WithTimeout(ctx, growWait)
	defer cancel()
	return m.guest.Grow(ctx, size)
}

// changed notes the machine's new size, also for a monitor that re-attaches.
func (m *machine) changed(size vm.Size, plugged vm.Plugged) error {
	m.qemu().SetMachine(size, plugged)
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.save(m.spec.Network)
}

// save writes the machine's spec as it is now. The caller holds mu.
func (m *machine) save(p vm.NetworkPolicy) error {
	spec := m.spec
	spec.Network = p
	if closed(m.started) {
		now := m.qemu().Machine()
		spec.Size, spec.Plugged = now.Size, now.Plugged
	}
	return writeJSON(layout.VMDir(spec.Dir).Machine(), spec)
}

// readPlugged asks QEMU what the previous monitor has plugged in: it may have died
// before it noted that.
func (m *machine) readPlugged(ctx context.Context) {
	if err := m.qemu().ReadPlugged(ctx); err != nil {
		m.log.Warn("what is plugged in is not known", "err", err)
	}
}

// fillDisk grows the root file system of a booted guest to its disk, which may have
// grown while the VM was stopped.
func (m *machine) fillDisk(ctx context.Context) {
	if m.spec.Generation != nil || m.spec.Disk == "" {
		return
	}
	if err := m.growGuest(ctx, vm.Size{DiskMiB: m.spec.Size.DiskMiB}); err != nil {
		m.log.Warn("the root file system does not fill its disk", "err", err)
	}
}
