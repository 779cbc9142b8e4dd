// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"os"
	"path/filepath"
	"syscall"

	"github.com/warren-vm/warren/internal/meter"
	"github.com/warren-vm/warren/vm"
)

// openMeter opens the meter with the existing VMs.
func (e *Engine) openMeter(ctx context.Context) error {
	e.mu.Lock()
	recs := make([]vm.VM, 0, len(e.vms))
	for _, s := range e.vms {
		recs = append(recs, s.rec)
	}
	e.mu.Unlock()
	return e.cfg.Meter.Open(ctx, meter.Source{
		Find:    func(c *vm.Call, ref string) (vm.VM, error) { return e.Find(c.Actor, ref) },
		Account: func(id vm.AccountID) string { return e.account(id).Name },
		Running: e.countable,
		Disk:    e.diskUsed,
	}, recs)
}

// countable returns the machines of the VMs that have no operation in progress.
func (e *Engine) countable() map[vm.ID]meter.Machine {
	e.mu.Lock()
	defer e.mu.Unlock()
	machines := map[vm.ID]meter.Machine{}
	if e.dead.Load() {
		return nil
	}
	for _, s := range e.vms {
		if s.run != nil && s.op == nil {
			machines[s.id] = s.run.machine
		}
	}
	return machines
}

// countLast reads the counters of a machine that is about to end.
func (e *Engine) countLast(ctx context.Context, id vm.ID, r *run) {
	if r != nil && !e.dead.Load() {
		e.cfg.Meter.Last(ctx, id, r.machine)
	}
}

// diskUsed is the disk space that only this VM takes: its own files, and those of
// generations captured from it.
func (e *Engine) diskUsed(id vm.ID) int64 {
	n := allocated(e.cfg.Dir.VM(id))
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, g := range e.gens {
		if g.info.VM == id && !g.info.Gone {
			n += g.info.DataBytes
		}
	}
	return n
}

// allocated is the disk space that the files of a directory take.
func allocated(dir string) (bytes int64) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return 0
	}
	for _, entry := range entries {
		var st syscall.Stat_t
		if syscall.Lstat(filepath.Join(dir, entry.Name()), &st) == nil {
			bytes += st.Blocks * 512
		}
	}
	return bytes
}
