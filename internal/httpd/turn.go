// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package httpd

import (
	"context"

	"github.com/warren-vm/warren/api"
	"github.com/warren-vm/warren/internal/changes"
	"github.com/warren-vm/warren/internal/engine"
	"github.com/warren-vm/warren/vm"
)

func (s *server) turnRoutes() []route {
	return []route{
		{"POST", "/v1/vms/{vm}/turns", granted, s.turn, "Mark a turn: a state of memory and disk to which undo returns.", api.MarkTurn{}, vm.Turn{}, false, ""},
		{"GET", "/v1/vms/{vm}/turns", granted, s.turns, "The turns of the VM, oldest first; with compare what changed in each.", nil, api.TurnList{}, false, "compare"},
		{"POST", "/v1/vms/{vm}/undo", key, s.undo, "Put memory, processes and disk back to a turn.", api.UndoVM{}, api.UndoneVM{}, false, ""},
		{"POST", "/v1/vms/{vm}/restore", key, s.restore, "Bring one path back from an older state; the VM keeps running.", vm.RestoreRequest{}, vm.Restored{}, false, ""},
		{"POST", "/v1/compare", key, s.compare, "Compare VMs with what they were forked from, and run a command in each.", vm.CompareRequest{}, vm.ForkComparison{}, false, ""},
	}
}

func (s *server) turn(q *request) error {
	var in api.MarkTurn
	if err := q.decode(&in, maxBody); err != nil {
		return err
	}
	t, err := s.Engine.Turn(q.Context(), q.call, q.ref(), engine.TurnRequest{Note: in.Note, DiskOnly: in.DiskOnly})
	if err != nil {
		return err
	}
	return q.ok(t)
}

func (s *server) turns(q *request) error {
	compare, err := q.bool("compare")
	if err != nil {
		return err
	}
	list, err := s.Changes.Turns(q.Context(), q.call, q.ref(), compare)
	if err != nil {
		return err
	}
	return q.ok(api.TurnList{Turns: list})
}

func (s *server) undo(q *request) error {
	var in api.UndoVM
	if err := q.decode(&in, maxBody); err != nil {
		return err
	}
	r, err := s.Changes.Undo(q.Context(), q.call, q.ref(), in.Turn, in.Volumes)
	if err != nil {
		return err
	}
	return q.ok(api.UndoneVM{ID: r.VM.ID, VM: shown(&r.VM), Turn: engine.TurnOf(r.To, ""), Before: r.Before.ID, NotUndone: r.NotUndone})
}

func (s *server) restore(q *request) error {
	var in vm.RestoreRequest
	if err := q.decode(&in, maxBody); err != nil {
		return err
	}
	r, err := s.Changes.Restore(q.Context(), q.call, q.ref(), in)
	if err != nil {
		return err
	}
	return q.ok(r)
}

func (s *server) compare(q *request) error {
	var in vm.CompareRequest
	if err := q.decode(&in, maxBody); err != nil {
		return err
	}
	r, err := s.Changes.Compare(q.Context(), q.call, in)
	if err != nil {
		return err
	}
	return q.ok(r)
}

// around is what the server does before and after a command.
type around struct {
	turn  *vm.Turn        // marked before; nil = none
	watch *changes.Around // nil = no summary
}

// before marks the turn and keeps the state that a command asks for, and removes from spec
// what the guest does not get. The caller calls after, or drop.
func (s *server) before(q *request, spec *vm.ExecSpec) (a around, err error) {
	note, summary := spec.Turn, spec.Summary
	spec.Turn, spec.Summary = "", false
	if summary && spec.Background {
		return a, vm.Errorf(vm.Invalid, "summary", "a command in the background has no summary").WithCode("INVALID_REQUEST").
			WithHint("mark a turn instead, and compare with it later: `warren diff NAME`")
	}
	c := *q.call // the receipt of the answer is the command's
	if note != "" {
		t, err := s.Engine.Turn(q.Context(), &c, q.ref(), engine.TurnRequest{Note: note})
		if err != nil {
			return a, err
		}
		a.turn = &t
	}
	if summary {
		a.watch, err = s.Changes.Before(q.Context(), &c, q.ref(), a.turn)
	}
	return a, err
}

// after returns the summary of a command that ran in a directory; nil = none was asked for.
func (a around) after(ctx context.Context, cwd string) *vm.ExecSummary {
	if a.watch == nil {
		return nil
	}
	return a.watch.Summary(ctx, cwd)
}

// drop ends the watch. It may be called after after.
func (a around) drop() {
	if a.watch != nil {
		a.watch.Drop()
	}
}
