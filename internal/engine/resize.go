// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"fmt"
	"math/bits"
	"time"

	"github.com/warren-vm/warren/vm"
)

// How a part of a size was changed, if not vm.Live.
const (
	Restarted   = "restart"
	AtNextStart = "at-next-start"
)

// resizeDeadline bounds a resize of a running machine.
const resizeDeadline = 2 * time.Minute

// Resize changes a VM's size: while it runs if the guest supports that, else by a stop
// and a start, which keep the disk and lose the memory. A stopped VM gets the size with
// its next start. It continues when ctx ends. If the start fails, the VM is stopped with
// its new size.
func (e *Engine) Resize(ctx context.Context, c *vm.Call, ref string, r ResizeRequest) (out Resized, err error) {
	op, err := e.begin(ctx, c, ref, vm.OpResize)
	if err != nil {
		return out, fail(vm.OpResize, ref, err)
	}
	defer func() { err = e.finish(op, err) }()
	from := op.before.Size
	to, err := newSize(from, r.Size)
	if err != nil {
		return out, err
	}
	if to == from {
		return Resized{VM: op.before, How: map[string]string{}}, nil
	}
	if op.before.State == vm.Running && (to.MemoryMiB > from.MemoryMiB || to.VCPU > from.VCPU) {
		claim, err := e.admitMore(op.ctx, op.before, to)
		if err != nil {
			return out, err
		}
		defer e.releaseClaims(claim)
	}
	detail := map[string]any{"from": from.String(), "to": to.String()}
	if err := e.receiptFor(op.ctx, op, c, vm.AuditEntry{Detail: detail}); err != nil {
		return out, err
	}
	if op.before.State == vm.Stopped {
		out, err = e.resizeStopped(op, to)
	} else {
		out, err = e.resizeRunning(op, to, r.Deadline)
	}
	if err == nil {
		detail["how"] = out.How
		e.cfg.Journal.EmitVM(out.VM, "vm.resized", detail)
	}
	return out, err
}

// newSize checks the requested size and fills in the parts that do not change.
func newSize(now, want vm.Size) (vm.Size, error) {
	if want == (vm.Size{}) {
		return now, vm.Errorf(vm.Invalid, "", "no size is given").WithCode("RESIZE_VM_EMPTY_REQUEST").
			WithHint("give at least one of CPUs, memory and disk")
	}
	bad := func(code, format string, args ...any) func(pairs ...any) error {
		return func(pairs ...any) error {
			return vm.Errorf(vm.Invalid, "", format, args...).WithCode(code, pairs...).
				WithHint("use 1 to %d CPUs, %d to %d MiB of memory (powers of two) and at most %d MiB of disk",
					vm.MaxVCPU, vm.MinMemoryMiB, vm.MaxMemoryMiB, vm.MaxDiskMiB)
		}
	}
	to := now
	if n := want.VCPU; n != 0 {
		to.VCPU = n
		switch {
		case n < 1 || n > vm.MaxVCPU:
			return now, bad("RESIZE_VM_VCPU_OUT_OF_RANGE", "%d CPUs are out of range", n)("got", n, "max", vm.MaxVCPU)
		case bits.OnesCount(uint(n)) != 1:
			return now, bad("RESIZE_VM_VCPU_NOT_POWER_OF_TWO", "%d CPUs are not a power of two", n)("got", n)
		}
	}
	if n := want.MemoryMiB; n != 0 {
		to.MemoryMiB = n
		switch {
		case n < vm.MinMemoryMiB || n > vm.MaxMemoryMiB:
			return now, bad("RESIZE_VM_MEM_OUT_OF_RANGE", "%d MiB of memory are out of range", n)("got", n, "min", vm.MinMemoryMiB, "max", vm.MaxMemoryMiB)
		case bits.OnesCount(uint(n)) != 1:
			return now, bad("RESIZE_VM_MEM_NOT_POWER_OF_TWO", "%d MiB of memory are not a power of two", n)("got", n)
		}
	}
	if n := want.DiskMiB; n != 0 {
		to.DiskMiB = n
		switch {
		case n > vm.MaxDiskMiB || n < 0:
			return now, bad("INVALID_PARAMETERS", "%d MiB of disk are out of range", n)()
		case n < now.DiskMiB:
			return now, vm.Errorf(vm.Invalid, "", "the disk has %d MiB and cannot shrink to %d", now.DiskMiB, n).
				WithCode("RESIZE_VM_ROOTFS_SHRINK_NOT_SUPPORTED", "currentMb", now.DiskMiB, "requestedMb", n).
				WithHint("make a VM with a smaller disk and copy your files into it")
		}
	}
	return to, nil
}

// parts maps every part in which two sizes differ to how.
func parts(from, to vm.Size, how string) map[string]string {
	out := make(map[string]string)
	for name, differs := range map[string]bool{
		vm.PartCPU: from.VCPU != to.VCPU, vm.PartMemory: from.MemoryMiB != to.MemoryMiB, vm.PartDisk: from.DiskMiB != to.DiskMiB,
	} {
		if differs {
			out[name] = how
		}
	}
	return out
}

// resizeStopped records the size and grows the disk. The next start grows the guest's
// file system.
func (e *Engine) resizeStopped(op *operation, to vm.Size) (Resized, error) {
	s, from := op.slot, op.before.Size
	rec, err := e.recordSize(op.ctx, op, to)
	if err != nil {
		return Resized{}, err
	}
	err = op.undo.add(op.ctx, "size", func(ctx context.Context) error {
		_, err := e.update(ctx, s, func(rec *vm.VM) { rec.Size = from })
		return err
	})
	if err != nil {
		return Resized{}, err
	}
	if err := e.growDisk(op.ctx, "resize:disk", rec); err != nil {
		return Resized{}, err
	}
	return Resized{VM: rec, How: parts(from, to, AtNextStart)}, nil
}

func (e *Engine) recordSize(ctx context.Context, op *operation, to vm.Size) (vm.VM, error) {
	if err := e.step(ctx, "resize:record"); err != nil {
		return vm.VM{}, err
	}
	return e.update(ctx, op.slot, func(rec *vm.VM) { rec.Size = to })
}

// growDisk grows the disk of a VM without a machine to the recorded size.
func (e *Engine) growDisk(ctx context.Context, label string, rec vm.VM) error {
	if err := e.step(ctx, label); err != nil {
		return err
	}
	return e.cfg.Generations.GrowDisk(rec.ID, rec.Size.DiskMiB)
}

// resizeRunning asks the machine to change its size, and restarts it if it cannot.
func (e *Engine) resizeRunning(op *operation, to vm.Size, limit time.Duration) (Resized, error) {
	r := e.runOf(op.slot)
	if r == nil {
		return Resized{}, vm.Errorf(vm.Unavailable, string(op.slot.id), "the VM's monitor does not answer").WithHint("try again")
	}
	if err := e.step(op.ctx, "resize:machine"); err != nil {
		return Resized{}, err
	}
	ctx, stop := context.WithTimeout(op.ctx, resizeDeadline)
	how, err := r.machine.Resize(ctx, to)
	stop()
	if err != nil {
		return Resized{}, resizeFailed(joinUndo(err, e.adoptSize(op.ctx, op.slot, r.machine)))
	}
	why := make(map[string]string)
	for part, h := range how {
		if h != vm.Live {
			why[part] = e.cfg.Journal.ConcealText(h)
		}
	}
	if len(why) > 0 {
		return e.resizeByStart(op, to, why, limit)
	}
	rec, err := e.recordSize(op.ctx, op, to)
	if err != nil {
		return Resized{}, resizeFailed(joinUndo(err, e.adoptSize(op.ctx, op.slot, r.machine)))
	}
	return Resized{VM: rec, How: how}, nil
}

// resizeByStart stops the VM and starts it with its new size.
func (e *Engine) resizeByStart(op *operation, to vm.Size, why map[string]string, limit time.Duration) (Resized, error) {
	from := op.before.Size
	exit, err := e.powerOff(op)
	if err != nil {
		return Resized{}, resizeFailed(err)
	}
	if err := e.step(op.ctx, "resize:stopped"); err != nil {
		return Resized{}, err
	}
	if _, err := e.nowStopped(op.ctx, op.slot, "resize", exit); err != nil {
		return Resized{}, resizeFailed(err)
	}
	if op.before, err = e.recordSize(op.ctx, op, to); err != nil {
		return Resized{}, resizeFailed(err)
	}
	if limit <= 0 {
		limit = e.cfg.Settings.StartDeadline
	}
	op.next = vm.Next{During: vm.Starting, After: vm.Running}
	rec, err := e.boot(op, limit, func(*vm.VM) error { return nil })
	if err != nil {
		return Resized{}, resizeFailed(vm.AsError(err).WithHint("the VM is stopped, with its new size; start it: `warren start %s`", label(op.before)))
	}
	return Resized{VM: rec, How: parts(from, to, Restarted), Why: why}, nil
}

func resizeFailed(err error) error {
	if err == nil || died(err) {
		return err
	}
	e := vm.AsError(err)
	if e.Code != "" {
		return err
	}
	return e.WithCode("RESIZE_FAILED", "message", e.Error())
}

// adoptSize records the size of a machine, which may have been changed just before the
// server died.
func (e *Engine) adoptSize(ctx context.Context, s *slot, m Machine) error {
	if e.dead.Load() {
		return nil
	}
	ctx, stop := context.WithTimeout(ctx, machineDeadline)
	defer stop()
	st, err := m.Status(ctx)
	if err != nil {
		return nil //nolint:nilerr // asked again at the next attach
	}
	return e.takeSize(ctx, s, st.Size)
}

func (e *Engine) takeSize(ctx context.Context, s *slot, size vm.Size) error {
	if size == (vm.Size{}) || size == e.recordOf(s).Size {
		return nil
	}
	_, err := e.update(ctx, s, func(rec *vm.VM) { rec.Size = size })
	if err != nil {
		return fmt.Errorf("record the size: %w", err)
	}
	return nil
}
