// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/warren-vm/warren/vm"
)

// growth is the part of its memory by which a running VM is expected to grow beyond what
// it holds now. Guests use far less than they are given, and they share the pages of the
// image.
const growth = 0.25

// stalled is the highest percentage of the last seconds in which all programs of the host
// may have waited for memory when a VM is admitted.
const stalled = 10

// admission asks for memory for machines: for all of them or none.
type admission struct {
	account vm.AccountID
	wants   []*claim
	each    int64 // bytes of memory that must be available for each
	forks   bool  // the machines are children of one VM
}

// admit refuses machines for which the account's quota, the disk or the host's memory has
// no room. The rule for memory: the available memory, less the expected growth of the VMs
// that run or start, less the needs of the new ones, must leave the reserve. It gives up
// machines of the pool if that helps. If it succeeds, the claims stand until releaseClaims.
func (e *Engine) admit(ctx context.Context, a admission) error {
	e.mu.Lock()
	err := error(errDraining)
	if !e.draining {
		err = e.claimLocked(a.account, a.wants)
	}
	e.mu.Unlock()
	if err != nil {
		return err
	}
	err = e.admitMemory(ctx, a)
	for err != nil && e.pool.giveUp(ctx) {
		err = e.admitMemory(ctx, a)
	}
	if err == nil { // last: it may evict VMs, in vain if another check refuses
		err = e.roomOnDisk(ctx, a)
	}
	if err != nil {
		e.releaseClaims(a.wants...)
	}
	return err
}

// admitOne is admit for one VM and all the memory that it is given.
func (e *Engine) admitOne(ctx context.Context, account vm.AccountID, id vm.ID, size vm.Size) (*claim, error) {
	c := &claim{id: id, size: size, grows: expected(size)}
	return c, e.admit(ctx, admission{account: account, wants: []*claim{c}, each: int64(size.MemoryMiB) << 20})
}

// admitMore is admit for a running VM that gets more CPUs or memory. The claim is for the
// whole VM at its new size; only the additional memory must be available.
func (e *Engine) admitMore(ctx context.Context, rec vm.VM, to vm.Size) (*claim, error) {
	c := &claim{id: rec.ID, size: to, grows: expected(to)}
	more := int64(max(0, to.MemoryMiB-rec.Size.MemoryMiB)) << 20
	return c, e.admit(ctx, admission{account: rec.Account, wants: []*claim{c}, each: more})
}

// roomOnDisk refuses machines for which the disk, or the account's disk quota, has no
// room. It first evicts what may be evicted.
func (e *Engine) roomOnDisk(ctx context.Context, a admission) error {
	more := vm.Quota{}
	e.mu.Lock()
	for _, c := range a.wants {
		if e.vms[c.id] == nil {
			more.Disk += newVMRoom
		}
	}
	short := e.looked != nil && e.over(e.looked) > 0
	e.mu.Unlock()
	if more.Disk > 0 {
		if err := e.roomInQuota(ctx, a.account, more); err != nil {
			return err
		}
	}
	have, err := e.cfg.Host.Capacity(ctx)
	if err != nil {
		return err
	}
	reserve := e.cfg.Settings.DiskReserve
	if !short && have.DiskFree >= reserve {
		return nil
	}
	who := hostAccount
	e.mu.Lock()
	if e.looked != nil && e.above(e.looked)[a.account] > 0 {
		who = a.account // an account above its fair share makes room from its own
	}
	e.mu.Unlock()
	done, err := e.freeFor(ctx, who, e.over)
	if err != nil {
		return err
	}
	if have, err = e.cfg.Host.Capacity(ctx); err != nil {
		return err
	}
	hint := "free some disk: delete VMs (`warren rm NAME`), snapshots or images; `warren storage` shows who uses what"
	switch {
	case have.DiskFree < reserve && (more.Disk > 0 || have.DiskFree < captureRoom): // small creates still run, so that somebody can free some disk
		return vm.Errorf(vm.NoSpace, "", "%d MiB of disk are free, %d MiB are kept in reserve", have.DiskFree>>20, reserve>>20).
			WithCode("NO_LOCAL_STORAGE_CAPACITY").WithHint("%s", hint)
	case done.Left > 0 && more.Disk > 0:
		return vm.Errorf(vm.NoSpace, "", "the data directory takes %d MiB more than its budget, and nothing more may be evicted", done.Left>>20).
			WithCode("NO_LOCAL_STORAGE_CAPACITY").WithHint("%s", hint)
	}
	return nil
}

// admitMemory is the part of admit that checks the host's memory.
func (e *Engine) admitMemory(ctx context.Context, a admission) error {
	have, err := e.cfg.Host.Capacity(ctx)
	if err != nil {
		return err
	}
	reserve, need := e.cfg.Settings.MemoryReserve, a.each*int64(len(a.wants))
	grow := e.expectedGrowth(a)
	if have.MemoryStalled < stalled && have.MemAvailable-grow-need >= reserve {
		return nil
	}
	weights := e.weigh(ctx)
	grow -= grown(weights) // VMs that have grown already will not grow again
	left := have.MemAvailable - grow - reserve
	var refusal *vm.Error
	first := ""
	switch {
	case have.MemoryStalled >= stalled:
		refusal = vm.Errorf(vm.Limit, "", "the host's programs wait for memory %.0f %% of the time", have.MemoryStalled)
	case need <= left:
		return nil
	case a.forks:
		fit := max(0, left/a.each)
		refusal = vm.Errorf(vm.Limit, "", "there is memory for %d more such children, not for %d", fit, len(a.wants)).
			WithCode("VM_LIMIT_EXCEEDED", "limit", fit, "current", 0, "requested", len(a.wants))
		first = fmt.Sprintf("fork %d at most, or ", fit)
	default:
		refusal = vm.Errorf(vm.Limit, "", "%d MiB of memory are available, %d MiB of it for running VMs to grow; %d MiB and a reserve of %d MiB are needed",
			have.MemAvailable>>20, grow>>20, need>>20, reserve>>20)
	}
	which, enough := wouldStop(a.account, weights, max(need-left, 1))
	refusal = refusal.WithHint("%s%s", first, stopHint(which, enough))
	if refusal.Fields == nil {
		refusal.Fields = map[string]any{}
	}
	refusal.Fields["wouldStop"] = ids(which)
	return refusal
}

// expectedGrowth sums the expected growth of all VMs, of admitted ones and of the pool,
// without the machines of a.
func (e *Engine) expectedGrowth(a admission) int64 {
	grow := e.pool.growth()
	e.mu.Lock()
	defer e.mu.Unlock()
	claimed := map[vm.ID]bool{}
	for c := range e.claims {
		if !slices.Contains(a.wants, c) {
			claimed[c.id] = true
			grow += c.grows
		}
	}
	for id, s := range e.vms {
		if (s.rec.State == vm.Running || s.rec.State == vm.Starting) && !claimed[id] {
			grow += expected(s.rec.Size)
		}
	}
	return grow
}

// weight is the host memory that a running VM takes.
type weight struct {
	rec vm.VM
	pss int64 // proportional set size; 0 = unknown
}

// weigh asks every running machine for its weight. It is slow, and only called before a
// refusal.
func (e *Engine) weigh(ctx context.Context) []weight {
	ctx, stop := context.WithTimeout(ctx, weighDeadline)
	defer stop()
	e.mu.Lock()
	var list []weight
	var machines []Machine
	for _, s := range e.vms {
		if s.rec.State == vm.Running && s.run != nil {
			list, machines = append(list, weight{rec: s.rec}), append(machines, s.run.machine)
		}
	}
	e.mu.Unlock()
	var wg sync.WaitGroup
	for i := range list {
		wg.Go(func() {
			if st, err := machines[i].Status(ctx); err == nil {
				list[i].pss = st.PSS
			}
		})
	}
	wg.Wait()
	return list
}

const weighDeadline = 2 * time.Second

// grown is the part of the expected growth that cannot happen any more: a VM takes at
// most its size plus its QEMU's own memory.
func grown(list []weight) (bytes int64) {
	for _, w := range list {
		left := int64(w.rec.Size.MemoryMiB)<<20 + childOverhead - w.pss
		bytes += max(0, expected(w.rec.Size)-max(0, left))
	}
	return bytes
}

// wouldStop returns the account's own running VMs that would have to stop to free so many
// bytes, the longest unused first, and whether they are enough.
func wouldStop(account vm.AccountID, list []weight, bytes int64) (which []vm.VM, enough bool) {
	own := slices.DeleteFunc(slices.Clone(list), func(w weight) bool { return w.rec.Account != account })
	slices.SortFunc(own, func(a, b weight) int {
		return cmp.Or(a.rec.LastActive.Compare(b.rec.LastActive), cmp.Compare(a.rec.ID, b.rec.ID))
	})
	for _, w := range own {
		if bytes <= 0 || len(which) == maxNamed {
			break
		}
		bytes -= w.pss + expected(w.rec.Size)
		which = append(which, w.rec)
	}
	return which, bytes <= 0
}

func ids(list []vm.VM) []vm.ID {
	out := make([]vm.ID, 0, len(list))
	for _, v := range list {
		out = append(out, v.ID)
	}
	return out
}

// stopHint words the result of wouldStop as a hint.
func stopHint(which []vm.VM, enough bool) string {
	if len(which) == 0 {
		return "ask for less memory, or free some on the host"
	}
	names := make([]string, 0, len(which))
	for _, v := range which {
		names = append(names, fmt.Sprintf("%s (%d MiB)", label(v), v.Size.MemoryMiB))
	}
	more := ""
	if !enough {
		more = " and more"
	}
	return "stop or suspend " + strings.Join(names, ", ") + more + ", or ask for less memory"
}

// maxNamed bounds the VMs that a refusal names.
const maxNamed = 8

// expected is the memory by which a VM is expected to grow.
func expected(size vm.Size) int64 { return int64(growth * float64(int64(size.MemoryMiB)<<20)) }

// label is a VM's name, or its id if it has none.
func label(v vm.VM) string {
	if v.Name != "" {
		return v.Name
	}
	return string(v.ID)
}

// diskError gives a failed write its kind.
func diskError(path string, err error) error {
	var known *vm.Error
	switch {
	case errors.As(err, &known):
		return err
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return vm.Errorf(vm.NoSpace, path, "the disk is full: %w", err).
			WithCode("NO_LOCAL_STORAGE_CAPACITY").WithHint("free some disk and try again")
	case errors.Is(err, os.ErrPermission):
		return vm.Errorf(vm.Denied, path, "%w", err).WithHint("the data directory must belong to the user that runs `warren serve`")
	}
	return vm.Errorf(vm.Internal, path, "%w", err)
}
