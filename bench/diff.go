// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/warren-vm/warren/vm"
)

// treeScript makes a git repository with 100,000 files in 100 directories. Many are
// alike, so git stores few objects; its status reads every file's metadata.
const treeScript = `set -e; mkdir -p /work/tree; cd /work/tree
for d in $(seq 100); do mkdir d$d; (cd d$d; seq 1000 | split -l 1 -a 3 -d - f); done
git init -q; git -c gc.auto=0 add -A; git -c gc.auto=0 -c user.name=b -c user.email=b@b commit -q -m tree; sync`

// changeScript changes a number of files all over the tree.
const changeScript = `cd /work/tree; i=0; while [ $i -lt %d ]; do echo changed >> d$((i %% 100 + 1))/f$(printf %%03d $((i / 100 * 7))); i=$((i+1)); done`

// diff compares two generations of a VM with 100,000 files, beside git's status of the
// same tree in the guest, and measures the pause of a turn beside that of a fork.
func (b *bench) diff(ctx context.Context) (err error) {
	id, err := b.server.createVM(ctx, vm.NetClosed)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.server.remove(context.WithoutCancel(ctx), id)) }()
	if err := b.turnPauses(ctx, id); err != nil {
		return err
	}
	if err := b.server.exec(ctx, id, "sh", "-c", treeScript); err != nil {
		return err
	}
	status := b.rep.series("git status of 100,000 files in the guest", "ms", bound{})
	memory := b.rep.series("diff: the reader's memory", "MB", bound{Max: 64})
	for _, c := range []struct {
		files int
		max   float64
	}{{10, 200}, {1000, 600}} {
		from, err := b.turn(ctx, id)
		if err != nil {
			return err
		}
		if err := b.server.exec(ctx, id, "sh", "-c", fmt.Sprintf(changeScript, c.files)); err != nil {
			return err
		}
		to, err := b.turn(ctx, id)
		if err != nil {
			return err
		}
		took := b.rep.series(fmt.Sprintf("diff: %d of 100,000 files changed", c.files), "ms", bound{Max: c.max})
		for i := range b.n + 1 {
			seen := watchReader()
			begun := time.Now()
			var d vm.Diff
			err := b.server.call(ctx, "POST", "/v1/vms/"+id+"/diff", vm.DiffRequest{From: string(from.ID), To: string(to.ID), Paths: []vm.GuestPath{"/work"}}, &d)
			took1 := time.Since(begun)
			peak := seen()
			if err != nil {
				return err
			}
			if n := d.Stat.Files(); n < c.files {
				return fmt.Errorf("the difference has %d files, %d were changed", n, c.files)
			}
			if i == 0 {
				continue // a warm-up
			}
			took.took(took1)
			if peak > 0 {
				memory.add(float64(peak) / 1e6)
			}
			begun = time.Now()
			if err := b.server.exec(ctx, id, "git", "-C", "/work/tree", "status", "--porcelain"); err != nil {
				return err
			}
			status.took(time.Since(begun))
		}
		b.rep.ratio(fmt.Sprintf("diff of %d files : git status in the guest", c.files), took, status, bound{Max: 1})
	}
	return nil
}

func (b *bench) turn(ctx context.Context, id string) (t vm.Turn, err error) {
	return t, b.server.call(ctx, "POST", "/v1/vms/"+id+"/turns", map[string]any{"note": "bench"}, &t)
}

// turnPauses marks turns and forks a VM in which as much was written before each.
func (b *bench) turnPauses(ctx context.Context, id string) error {
	const write = `dd if=/dev/urandom of=/work/noise bs=64k count=16 conv=notrunc status=none`
	turns := b.rep.series("turn: the VM's pause", "ms", bound{})
	forks := b.rep.series("fork: the parent's pause, as a turn's", "ms", bound{})
	for i := range min(b.n, 7) + 1 {
		if err := b.server.exec(ctx, id, "sh", "-c", "mkdir -p /work; "+write); err != nil {
			return err
		}
		t, err := b.turn(ctx, id)
		if err != nil {
			return err
		}
		if err := errors.Join(pause(ctx, time.Second), b.server.exec(ctx, id, "sh", "-c", write)); err != nil {
			return err
		}
		f, err := b.fork(ctx, id, 1)
		if err != nil {
			return err
		}
		if i > 0 {
			turns.add(t.PauseMs)
			forks.add(f.PauseMs)
		}
		if err := errors.Join(b.drop(ctx, f), pause(ctx, time.Second)); err != nil {
			return err
		}
	}
	b.rep.ratio("pause of a turn : of a fork", turns, forks, bound{Max: 1.5})
	return nil
}

// watchReader notes the greatest resident memory of warren-reader until the returned
// function is called, which returns it in bytes; 0 = it was not seen.
func watchReader() func() int64 {
	stop, done := make(chan struct{}), sync.WaitGroup{}
	var peak int64
	done.Go(func() {
		for {
			select {
			case <-stop:
				return
			case <-time.After(4 * time.Millisecond):
				peak = max(peak, readerMemory())
			}
		}
	})
	return func() int64 {
		close(stop)
		done.Wait()
		return peak
	}
}

// readerMemory is the greatest resident memory so far of a warren-reader that runs now.
func readerMemory() (most int64) {
	names, err := filepath.Glob("/proc/[0-9]*/comm")
	if err != nil {
		return 0
	}
	for _, name := range names {
		if data, err := os.ReadFile(name); err != nil || strings.TrimSpace(string(data)) != "warren-reader" {
			continue
		}
		data, err := os.ReadFile(filepath.Join(filepath.Dir(name), "status"))
		if err != nil {
			continue
		}
		for line := range strings.Lines(string(data)) {
			if value, ok := strings.CutPrefix(line, "VmHWM:"); ok {
				if kib, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(value), " kB"), 10, 64); err == nil {
					most = max(most, kib<<10)
				}
			}
		}
	}
	return most
}
