// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package changes

import (
	"context"
	"strings"
	"time"

	"github.com/warren-vm/warren/internal/engine"
	"github.com/warren-vm/warren/internal/reader"
	"github.com/warren-vm/warren/vm"
)

// outsideShown is how many changed paths outside the working directory are named.
const outsideShown = 50

// Around watches what a command changes: it has the state of the disk before. Its owner
// calls Summary or Drop.
type Around struct {
	x       *Changes
	c       vm.Call
	ref     string
	before  engine.Frozen
	release func()
	cost    time.Duration
}

// Before keeps the state of a VM's disk before a command: the turn that was marked for it,
// else a capture without memory, for which the VM is paused for a moment.
func (x *Changes) Before(ctx context.Context, c *vm.Call, ref string, turn *vm.Turn) (*Around, error) {
	a := &Around{x: x, c: *c, ref: ref}
	start, state := time.Now(), engine.StateNow
	if turn != nil {
		state = string(turn.ID)
	}
	var err error
	a.before, a.release, err = x.side(ctx, &a.c, ref, state)
	a.cost = time.Since(start)
	return a, err
}

// Drop forgets the state.
func (a *Around) Drop() { a.release() }

// Summary compares the disk now with the state before. A comparison that fails is told in
// the summary: the command itself did not fail.
func (a *Around) Summary(ctx context.Context, cwd string) *vm.ExecSummary {
	defer a.release()
	start := time.Now()
	out := &vm.ExecSummary{Workdir: vm.GuestPath(cwd), Outside: []vm.GuestPath{}}
	d, err := a.compare(ctx, cwd)
	if err != nil {
		out.Error = a.x.cfg.Journal.ConcealText(vm.AsError(err).Error())
	} else {
		out.Stat, out.Alerts = d.Stat, d.Alerts
		var n int
		out.Outside, n, out.Noise = outsideOf(d, []vm.GuestPath{vm.GuestPath(cwd)})
		out.OutsideMore = n - len(out.Outside)
	}
	out.CostMs = float64((a.cost + time.Since(start)).Microseconds()) / 1000
	return out
}

func (a *Around) compare(ctx context.Context, cwd string) (*vm.Diff, error) {
	now, release, err := a.x.side(ctx, &a.c, a.ref, engine.StateNow)
	if err != nil {
		return nil, err
	}
	defer release()
	return a.x.cfg.Reader.Diff(ctx, a.before.Layers, now.Layers, reader.Options{Workdir: cwd})
}

// outsideOf lists the changed paths that are below none of some directories, without
// caches and logs: the first ones, how many there are, and how many in caches and logs.
// A directory whose changes are only counted is one path for the list.
func outsideOf(d *vm.Diff, in []vm.GuestPath) (shown []vm.GuestPath, n, noise int) {
	shown = []vm.GuestPath{}
	add := func(p vm.GuestPath, group string, files int) {
		for _, dir := range in {
			if p == dir || strings.HasPrefix(string(p), strings.TrimSuffix(string(dir), "/")+"/") {
				return
			}
		}
		if group == vm.GroupCaches || group == vm.GroupLogs {
			noise += files
			return
		}
		n += files
		if len(shown) < outsideShown {
			shown = append(shown, p)
		}
	}
	for _, c := range d.Changes {
		add(c.Path, c.Group, 1)
	}
	for _, h := range d.Hidden {
		if h.Own {
			continue
		}
		add(h.Path, h.Group, h.Stat.Files())
	}
	return shown, n, noise
}
