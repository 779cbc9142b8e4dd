// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/warren-vm/warren/vm"
)

// herdWork is the work of each VM of the herd: it writes 64 MiB to its disk, and
// byte-compiles and packs a part of Python's library.
const herdWork = `set -e; cd /root
python3 -c 'import os
piece, f = os.urandom(1 << 20), open("data", "wb", 0)
for _ in range(64): f.write(piece)
os.fsync(f.fileno())'
mkdir src; cp -r /usr/lib/python3.*/json /usr/lib/python3.*/http src; find src -name __pycache__ -exec rm -r {} +
python3 -m compileall -q src; tar -cf - src | gzip > src.tar.gz; sync`

// herdStarts bounds the time for making VMs; the VMs that exist then are measured.
const herdStarts = 5 * time.Minute

// herd measures many VMs after their work: the memory, processors and disk that
// they take while idle.
func (b *bench) herd(ctx context.Context) error {
	before, err := memoryTaken()
	if err != nil {
		return err
	}
	began := time.Now()
	ids, work, err := b.makeHerd(ctx) // the section's end removes what a failure leaves
	if err != nil {
		return err
	}
	took := time.Since(began)
	row := func(what, unit string) *series {
		return b.rep.series(fmt.Sprintf("%d VMs after work: %s", len(ids), what), unit, bound{})
	}
	row("create and work, of one", "s").Samples = work
	row("create and work, of all, two at a time", "s").took(took)
	if err := pause(ctx, 20*time.Second); err != nil {
		return err
	}
	if err := b.herdUse(ctx, ids, row); err != nil {
		return err
	}
	after, err := memoryTaken()
	if err != nil {
		return err
	}
	row("memory of the host that is taken, all in all", "MB").add(after - before)
	if err := b.trueIn(ctx, ids[0], row("exec true in the first", "ms")); err != nil {
		return err
	}
	began = time.Now()
	if err := b.server.removeVMs(ctx, ids); err != nil {
		return err
	}
	row("delete of all, two at a time", "s").took(time.Since(began))
	return nil
}

// makeHerd makes VMs, makes each work, and returns how long each took, in seconds.
// It makes fewer when the time is over or the host has no memory for one more.
func (b *bench) makeHerd(ctx context.Context) (ids []string, work []float64, err error) {
	var mu sync.Mutex
	var full error // the host's refusal
	err = twoAtATime(b.many, time.Now().Add(herdStarts), func() error {
		began := time.Now()
		id, err := b.server.createVM(ctx, vm.NetClosed)
		if err != nil && strings.Contains(err.Error(), "VM_LIMIT_EXCEEDED") {
			mu.Lock()
			defer mu.Unlock()
			full = err
			return nil // the remaining calls are refused, too
		}
		if err == nil {
			err = b.server.exec(ctx, id, "sh", "-c", herdWork)
		}
		if err != nil {
			return err
		}
		mu.Lock()
		defer mu.Unlock()
		ids, work = append(ids, id), append(work, time.Since(began).Seconds())
		return nil
	})
	switch {
	case err != nil:
		return nil, nil, fmt.Errorf("after %d VMs: %w", len(ids), err)
	case len(ids) == 0:
		return nil, nil, errors.Join(errors.New("not one VM was made"), full)
	case full != nil:
		b.rep.note("herd: %d VMs, not %d: %v", len(ids), b.many, full)
	case len(ids) < b.many:
		b.rep.note("herd: %d VMs, not %d, were made in %v", len(ids), b.many, herdStarts)
	}
	return ids, work, nil
}

// twoAtATime calls f at most n times, in two goroutines, until one fails or the
// time is over.
func twoAtATime(n int, end time.Time, f func() error) error {
	var left, failed atomic.Int64
	left.Store(int64(n))
	var wg sync.WaitGroup
	var errs [2]error
	for i := range errs {
		wg.Go(func() {
			for errs[i] == nil && failed.Load() == 0 && time.Now().Before(end) && left.Add(-1) >= 0 {
				if errs[i] = f(); errs[i] != nil {
					failed.Add(1)
				}
			}
		})
	}
	wg.Wait()
	return errors.Join(errs[:]...)
}

// herdUse notes what idle VMs take.
func (b *bench) herdUse(ctx context.Context, ids []string, row func(what, unit string) *series) error {
	monitor, pss := row("a monitor, resident", "MB"), row("a QEMU's PSS", "MB")
	private, disk := row("a QEMU's memory of its own", "MB"), row("disk of one", "MB")
	sum := 0.0
	for _, id := range ids {
		if err := errors.Join(b.machineMemory(id, monitor, pss), b.anonymous(id, private)); err != nil {
			return err
		}
		used, err := diskUse(b.server.dir.VM(vm.ID(id)))
		if err != nil {
			return err
		}
		disk.add(used)
		sum += used
	}
	row("disk of all", "MB").add(sum)
	total := 0.0
	for _, v := range pss.Samples {
		total += v
	}
	row("PSS of all QEMUs", "MB").add(total)
	serve, err := procField(b.server.cmd.Process.Pid, "status", "VmRSS")
	if err != nil {
		return err
	}
	row("serve, resident", "MB").add(serve)
	use, idle := row("share of all CPUs that they take, left alone", "%"), row("share of all CPUs that is idle", "%")
	return b.idleUse(ctx, ids, use, idle)
}

// idleUse notes which share of the host's processors the VMs' processes take in 20
// seconds, and which share is idle.
func (b *bench) idleUse(ctx context.Context, ids []string, use, idle *series) error {
	ours := func(line []byte) bool {
		return slices.ContainsFunc(ids, func(id string) bool { return bytes.Contains(line, []byte(id)) })
	}
	h0, err := readHost()
	if err != nil {
		return err
	}
	t0, before, err := cpuTime(ours)
	if err != nil {
		return err
	}
	if err := pause(ctx, 20*time.Second); err != nil {
		return err
	}
	h1, err := readHost()
	if err != nil {
		return err
	}
	t1, after, err := cpuTime(ours)
	use.add(100 * (after - before) / t1.Sub(t0).Seconds() / float64(cpus()))
	idle.add(h1.idleSince(h0))
	return err
}

// memoryTaken is the memory in MB that the host no longer has for new programs.
func memoryTaken() (float64, error) {
	data, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return 0, err
	}
	total, err1 := kilobytes(data, "MemTotal")
	free, err2 := kilobytes(data, "MemAvailable")
	return total - free, errors.Join(err1, err2)
}
