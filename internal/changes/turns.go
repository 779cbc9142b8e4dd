// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package changes

import (
	"context"

	"github.com/warren-vm/warren/internal/engine"
	"github.com/warren-vm/warren/internal/reader"
	"github.com/warren-vm/warren/vm"
)

// Turns lists the turns of a VM, the oldest first. With compare each has what changed
// until the next turn, and the last what changed until now, for which a running VM is
// paused for a moment. What was compared once is kept with the turn. A comparison that
// fails is told in its turn.
func (x *Changes) Turns(ctx context.Context, c *vm.Call, ref string, compare bool) ([]vm.Turn, error) {
	rec, list, err := x.cfg.Engine.TurnGenerations(ctx, c, ref)
	if err != nil {
		return nil, err
	}
	turns := make([]vm.Turn, 0, len(list))
	for i, g := range list {
		next := vm.GenerationID("")
		if i+1 < len(list) {
			next = list[i+1].ID
		}
		t := engine.TurnOf(g, next)
		if t.Stat == nil && compare {
			stat, err := x.turnStat(ctx, c, string(rec.ID), g.ID, next)
			if ctx.Err() != nil {
				return nil, vm.WithOp(vm.OpTurn, ref, context.Cause(ctx))
			}
			if err != nil {
				t.StatError = x.cfg.Journal.ConcealText(vm.AsError(err).Error())
			} else {
				t.Stat = &stat
			}
		}
		turns = append(turns, t)
	}
	return turns, nil
}

// turnStat compares a turn with the next one, or with now, and keeps the result for the
// next one.
func (x *Changes) turnStat(ctx context.Context, c *vm.Call, ref string, id, next vm.GenerationID) (vm.DiffStat, error) {
	own := *c // a capture of the present is not what the caller asked for: its receipt is not theirs
	d, err := x.compareStates(ctx, &own, ref, string(id), string(next))
	if err != nil || next == "" {
		return d.Stat, err
	}
	return d.Stat, x.cfg.Engine.NoteTurnStat(ctx, id, next, d.Stat)
}

// compareStates compares two states of a VM without their changed lines.
func (x *Changes) compareStates(ctx context.Context, c *vm.Call, ref, from, to string, paths ...vm.GuestPath) (vm.Diff, error) {
	was, release, err := x.side(ctx, c, ref, from)
	if err != nil {
		return vm.Diff{}, err
	}
	defer release()
	now, releaseNow, err := x.side(ctx, c, ref, to)
	if err != nil {
		return vm.Diff{}, err
	}
	defer releaseNow()
	d, err := x.cfg.Reader.Diff(ctx, was.Layers, now.Layers, reader.Options{Workdir: now.Workdir, Paths: paths, All: len(paths) > 0})
	if err != nil {
		return vm.Diff{}, err
	}
	d.From, d.To, d.Workdir = was.Side, now.Side, now.Workdir
	return *d, nil
}
