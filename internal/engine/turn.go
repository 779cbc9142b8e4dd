// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"cmp"
	"context"
	"slices"
	"strconv"

	"github.com/warren-vm/warren/internal/access"
	"github.com/warren-vm/warren/vm"
)

// How many turns of a VM are kept, and how many of these, the newest, with their memory.
const (
	turnsKept    = 50
	turnMemories = 5
)

// Turn captures a generation that marks what its caller tries next, with the memory of a
// running or suspended VM. The VM's state does not change. The generation becomes durable
// soon after Turn has returned. An identity needs a permission for root.
func (e *Engine) Turn(ctx context.Context, c *vm.Call, ref string, r TurnRequest) (t vm.Turn, err error) {
	if err := e.approved(ctx, c, ref, e.cfg.Access.Approve, access.Act{Verb: vm.OpTurn, What: "mark a turn: " + r.Note}); err != nil {
		return t, err
	}
	op, err := e.begin(ctx, c, ref, vm.OpTurn)
	if err != nil {
		return t, fail(vm.OpTurn, ref, err)
	}
	op.cancelWith(ctx)
	defer func() { err = e.finish(op, err) }()
	if err := e.cfg.Access.May(c.Actor, op.slot.id, vm.OpTurn, ""); err != nil {
		return t, err
	}
	if err := e.roomForKept(op, !r.DiskOnly); err != nil {
		return t, err
	}
	o := captureOptions{why: vm.WhyTurn, note: r.Note, diskOnly: r.DiskOnly, ran: true, turn: e.nextTurn(op.slot.id), actor: actorName(c.Actor)}
	if err := e.receiptFor(op.ctx, op, c, vm.AuditEntry{Subject: clip(r.Note), Detail: map[string]any{"turn": o.turn, "diskOnly": r.DiskOnly}}); err != nil {
		return t, err
	}
	g, err := e.takeSoon(op, o)
	if err != nil {
		return t, err
	}
	e.collectLater() // an older turn may be one too many
	return TurnOf(g, ""), nil
}

// takeSoon is take, but the generation becomes durable in the background.
func (e *Engine) takeSoon(op *operation, o captureOptions) (vm.Generation, error) {
	if op.before.State != vm.Running {
		return e.take(op, o)
	}
	g, err := e.capture(op.ctx, op, o)
	if err != nil {
		return g, err
	}
	e.publishLater(g.ID)
	e.cfg.Journal.EmitVM(op.before, "vm.captured", map[string]any{"generation": string(g.ID), "why": string(g.Why), "pauseMs": g.PauseMs})
	return g, nil
}

// TurnGenerations lists the turns of a VM that are kept, the oldest first. An identity needs a
// permission for root.
func (e *Engine) TurnGenerations(_ context.Context, c *vm.Call, ref string) (vm.VM, []vm.Generation, error) {
	s, err := e.lookup(c, ref)
	if err == nil {
		err = e.cfg.Access.May(c.Actor, s.id, vm.OpTurn, "")
	}
	if err != nil {
		return vm.VM{}, nil, fail(vm.OpTurn, ref, err)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	list := e.turnsLocked()[s.id]
	list = list[:min(len(list), turnsKept)]
	slices.Reverse(list)
	return s.shownLocked(), list, nil
}

// FindTurn finds a generation of a VM: by the number of a turn, by an id, or as a
// snapshot by its name; "" is the newest turn.
func (e *Engine) FindTurn(ctx context.Context, c *vm.Call, ref, which string) (vm.Generation, error) {
	rec, list, err := e.TurnGenerations(ctx, c, ref)
	if err != nil {
		return vm.Generation{}, err
	}
	if which == "" && len(list) > 0 {
		return list[len(list)-1], nil
	}
	for _, g := range list {
		if strconv.Itoa(g.Turn) == which {
			return g, nil
		}
	}
	if _, err := strconv.Atoi(which); err == nil || which == "" {
		return vm.Generation{}, vm.Errorf(vm.NotFound, label(rec), "the VM has no turn %s", which).
			WithCode("SNAPSHOT_NOT_FOUND", "snapshotId", which).
			WithHint("`warren turns %s` lists them; `warren turn %s NOTE` marks one", label(rec), label(rec))
	}
	g, err := e.findGeneration(rec.Account, which)
	return g, fail(vm.OpTurn, ref, err)
}

// NoteTurnStat keeps the result of a comparison of a turn with a later generation.
func (e *Engine) NoteTurnStat(ctx context.Context, id, to vm.GenerationID, stat vm.DiffStat) error {
	_, err := e.changeGeneration(ctx, id, func(g *vm.Generation) { g.StatTo, g.Stat = to, &stat })
	return fail(vm.OpTurn, string(id), err)
}

// TurnOf describes a generation as a turn. It has what changed until the generation next,
// if the two were compared.
func TurnOf(g vm.Generation, next vm.GenerationID) vm.Turn {
	t := vm.Turn{
		ID: g.ID, VM: g.VM, Number: g.Turn, Note: g.Note, Actor: g.Actor, At: g.CreatedAt,
		PauseMs: g.PauseMs, Memory: g.Whole() && !g.NoMemory, CommitRepo: g.CommitRepo, Commit: g.Commit,
	}
	if g.Stat != nil && g.StatTo == next && next != "" {
		stat := *g.Stat
		t.Stat = &stat
	}
	return t
}

// nextTurn is the number of the VM's next turn.
func (e *Engine) nextTurn(id vm.ID) int {
	n := 0
	for _, g := range e.generations(func(g *vm.Generation) bool { return g.VM == id }) {
		n = max(n, g.Turn)
	}
	return n + 1
}

// isTurnLocked reports whether a generation is a turn that its VM keeps.
func (e *Engine) isTurnLocked(g vm.Generation) bool {
	return g.Why == vm.WhyTurn && g.State == vm.GenReady && !g.Deleted && !g.Gone && e.vms[g.VM] != nil
}

// turnsLocked returns the turns of each VM, the newest first.
func (e *Engine) turnsLocked() map[vm.ID][]vm.Generation {
	turns := map[vm.ID][]vm.Generation{}
	for _, g := range e.gens {
		if e.isTurnLocked(g.info) {
			turns[g.info.VM] = append(turns[g.info.VM], g.info)
		}
	}
	for _, list := range turns {
		slices.SortFunc(list, func(a, b vm.Generation) int { return cmp.Compare(b.Turn, a.Turn) })
	}
	return turns
}

// newestTurnsLocked returns the newest turn of each VM that has any.
func (e *Engine) newestTurnsLocked() map[vm.ID]vm.GenerationID {
	newest := map[vm.ID]vm.GenerationID{}
	for id, list := range e.turnsLocked() {
		newest[id] = list[0].ID
	}
	return newest
}

// actorName names a caller as lists of audit records do.
func actorName(a vm.Actor) string {
	return cmp.Or(a.System, string(a.VM), string(a.Identity), string(a.Key), string(a.Account))
}
