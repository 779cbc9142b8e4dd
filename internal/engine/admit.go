// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"

	"github.com/warren-vm/warren/vm"
)

// growth is the part of its memory by which a running VM is expected to grow
// beyond what it holds now: guests use far less than they are given, and pages
// of the image are shared between them.
const growth = 0.25

// admit refuses a new machine that the host cannot hold. The rule: what is
// available now, less the expected growth of the VMs that run or start, less
// the new VM's whole size, must leave the reserve.
// Machines of the pool are given up for it, one after the other.
func (e *Engine) admit(ctx context.Context, c *vm.Call, size vm.Size) error {
	for {
		err := e.admitNow(ctx, c, size)
		if err == nil || !e.pool.giveUp(ctx) {
			return err
		}
	}
}

func (e *Engine) admitNow(ctx context.Context, c *vm.Call, size vm.Size) error {
	have, err := e.cfg.Host.Capacity(ctx)
	if err != nil {
		return err
	}
	if have.DiskFree < e.cfg.Settings.DiskReserve {
		return vm.Errorf(vm.NoSpace, "", "%d MiB of disk are free, %d MiB are kept in reserve",
			have.DiskFree>>20, e.cfg.Settings.DiskReserve>>20).
			WithCode("NO_LOCAL_STORAGE_CAPACITY").
			WithHint("free some disk: delete VMs (`warren rm NAME`) or images (`warren image rm NAME`)")
	}
	grow, own := e.expectedGrowth(c.Actor.Account)
	need := int64(size.MemoryMiB) << 20
	left := have.MemAvailable - grow - need
	if left >= e.cfg.Settings.MemoryReserve {
		return nil
	}
	refusal := vm.Errorf(vm.Limit, "", "%d MiB of memory are available, %d MiB of it for running VMs to grow; %d MiB and a reserve of %d MiB are needed",
		have.MemAvailable>>20, grow>>20, size.MemoryMiB, e.cfg.Settings.MemoryReserve>>20)
	if len(own) > 0 {
		return refusal.WithHint("stop or delete some of %s, or ask for less memory", strings.Join(own, ", "))
	}
	return refusal.WithHint("ask for less memory, or free some on the host")
}

// expectedGrowth sums the growth of all VMs and of the pool, and names the VMs
// of one account, largest first, at most five.
func (e *Engine) expectedGrowth(account vm.AccountID) (grow int64, own []string) {
	grow = e.pool.growth()
	e.mu.Lock()
	defer e.mu.Unlock()
	var mine []vm.VM
	for _, s := range e.vms {
		if s.rec.State != vm.Running && s.rec.State != vm.Starting {
			continue
		}
		grow += expected(s.rec.Size)
		if s.account == account {
			mine = append(mine, s.rec)
		}
	}
	slices.SortFunc(mine, func(a, b vm.VM) int { return b.Size.MemoryMiB - a.Size.MemoryMiB })
	for _, v := range mine[:min(5, len(mine))] {
		own = append(own, fmt.Sprintf("%s (%d MiB)", label(v), v.Size.MemoryMiB))
	}
	return grow, own
}

// expected is by how much a VM is expected to grow.
func expected(size vm.Size) int64 { return int64(growth * float64(int64(size.MemoryMiB)<<20)) }

// label is what people call a VM.
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
