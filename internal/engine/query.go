// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"cmp"
	"context"
	"os"
	"slices"
	"strings"
	"syscall"

	"github.com/warren-vm/warren/vm"
)

// Get returns a VM's record as it is now.
func (e *Engine) Get(_ context.Context, c *vm.Call, ref string) (vm.VM, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	s, err := e.lookupLocked(c.Actor, ref)
	if err != nil {
		return vm.VM{}, fail(vm.OpGet, ref, err)
	}
	return s.shownLocked(), nil
}

// List returns those of the account's VMs that the caller reaches and that pass
// the filter, oldest first, one page of them; total counts those that pass, counts those of each state before the
// filter.
func (e *Engine) List(_ context.Context, c *vm.Call, f Filter) (vms []vm.VM, total int, counts map[vm.State]int, err error) {
	if f.Limit < 0 || f.Offset < 0 {
		return nil, 0, nil, fail(vm.OpList, "", vm.Errorf(vm.Invalid, "", "limit and offset must not be negative").WithCode("INVALID_REQUEST"))
	}
	if f.All {
		if err := c.Actor.AdminOnly(); err != nil {
			return nil, 0, nil, fail(vm.OpList, "", err)
		}
	}
	counts = make(map[vm.State]int, len(vm.States))
	e.mu.Lock()
	defer e.mu.Unlock()
	page := make([]*slot, 0, len(e.vms))
	for _, s := range e.vms {
		if (s.account != c.Actor.Account || s.rec.Layer != "" || !e.cfg.Access.Reaches(c.Actor, s.id)) && !f.All {
			continue
		}
		counts[s.rec.State]++
		if f.matches(&s.rec) {
			page = append(page, s)
		}
	}
	slices.SortFunc(page, func(a, b *slot) int {
		return cmp.Or(a.rec.CreatedAt.Compare(b.rec.CreatedAt), cmp.Compare(a.id, b.id))
	})
	total = len(page)
	page = page[min(f.Offset, total):]
	if f.Limit > 0 {
		page = page[:min(f.Limit, len(page))]
	}
	vms = make([]vm.VM, len(page))
	for i, s := range page {
		vms[i] = s.shownLocked()
	}
	return vms, total, counts, nil
}

func (f Filter) matches(v *vm.VM) bool {
	if len(f.States) > 0 && !slices.Contains(f.States, v.State) {
		return false
	}
	if slices.ContainsFunc(f.Labels, func(l vm.LabelSelector) bool { return !l.Matches(v.Labels) }) {
		return false
	}
	return f.Search == "" || strings.Contains(v.Name, f.Search) || strings.HasPrefix(string(v.ID), f.Search)
}

// Await returns when the VM is no longer running: stopped, suspended or
// deleted. The result is its record as it then is, or last was.
func (e *Engine) Await(ctx context.Context, c *vm.Call, ref string) (vm.VM, error) {
	s, err := e.lookup(c, ref)
	if err != nil {
		return vm.VM{}, fail(vm.OpAwait, ref, err)
	}
	for {
		e.mu.Lock()
		rec, gone, changed := s.rec, s.gone, s.changed
		e.mu.Unlock()
		switch rec.State {
		case vm.Building, vm.Starting, vm.Running, vm.Suspending:
		default:
			return rec, nil
		}
		if gone {
			return rec, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return vm.VM{}, fail(vm.OpAwait, ref, context.Cause(ctx))
		case <-e.life.Done():
			return vm.VM{}, fail(vm.OpAwait, ref, context.Cause(e.life))
		}
	}
}

// Inspect returns all that is known of a VM. A broken VM is described, it does
// not fail.
func (e *Engine) Inspect(ctx context.Context, c *vm.Call, ref string) (Inspection, error) {
	e.mu.Lock()
	s, err := e.lookupLocked(c.Actor, ref)
	if err != nil {
		e.mu.Unlock()
		return Inspection{}, fail(vm.OpGet, ref, err)
	}
	out := Inspection{VM: s.shownLocked()}
	if s.doubt != nil {
		out.Warnings = append(out.Warnings, "not recovered yet, it is tried again: "+clip(s.doubt.Error()))
	}
	r := s.run
	if s.op != nil {
		out.Operation = s.op.verb
	}
	e.mu.Unlock()
	switch {
	case r != nil:
		bounded, stop := context.WithTimeout(ctx, machineDeadline)
		st, err := e.cfg.Meter.Ask(bounded, s.id, r.machine)
		stop()
		if err == nil {
			out.Machine = &st
		}
		out.MachineErr = err
	case out.VM.State == vm.Running:
		out.MachineErr = vm.Errorf(vm.Unavailable, string(s.id), "its monitor does not answer")
	}
	out.Usage = e.cfg.Meter.UsageNow([]vm.VM{out.VM})[0]
	out.DiskBytes, out.LogBytes = e.diskUse(s.id)
	if img, err := e.cfg.Images.Find(ctx, string(out.VM.Image)); err == nil {
		out.Image = &img
	}
	if out.VM.Accel == vm.TCG {
		out.Warnings = append(out.Warnings, vm.EmulatedWarning)
	}
	return out, nil
}

// diskUse is how many bytes of the host's disk a VM's own disk layer and the logs of
// it take.
func (e *Engine) diskUse(id vm.ID) (disk, logs int64) {
	var st syscall.Stat_t
	if syscall.Stat(e.cfg.Dir.Overlay(id), &st) == nil {
		disk = st.Blocks * 512
	}
	return disk, sizeOf(e.cfg.Dir.Logs(id))
}

// Images lists the images that VMs can be made of.
func (e *Engine) Images(ctx context.Context, _ *vm.Call) ([]vm.Image, error) {
	return e.cfg.Images.List(ctx)
}

// FindImage resolves a name, an image id or a snapshot id; "" is the default.
func (e *Engine) FindImage(ctx context.Context, _ *vm.Call, ref string) (vm.Image, error) {
	img, err := e.cfg.Images.Find(ctx, ref)
	if err != nil {
		return vm.Image{}, fail(vm.OpGet, ref, noImage(ref, err))
	}
	return img, nil
}

// Host describes this host; the VMs counted are the caller's, for admins
// everybody's.
func (e *Engine) Host(ctx context.Context, c *vm.Call) (HostInfo, error) {
	p, err := e.cfg.Host.Platform(ctx)
	if err != nil {
		return HostInfo{}, err
	}
	have, err := e.cfg.Host.Capacity(ctx)
	if err != nil {
		return HostInfo{}, err
	}
	out := HostInfo{Platform: p, Capacity: have, VMs: map[vm.State]int{}, Pool: e.pool.info(), Warnings: slices.Clone(p.Warnings)}
	if p.Accel == vm.TCG && !slices.Contains(out.Warnings, vm.EmulatedWarning) {
		out.Warnings = append(out.Warnings, vm.EmulatedWarning)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, s := range e.vms {
		if c.Actor.Admin || s.account == c.Actor.Account {
			out.VMs[s.rec.State]++
		}
	}
	return out, nil
}

// sizeOf adds up the files of a directory; one that cannot be read counts as
// empty.
func sizeOf(dir string) (bytes int64) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return 0
	}
	for _, e := range entries {
		if info, err := e.Info(); err == nil {
			bytes += info.Size()
		}
	}
	return bytes
}
