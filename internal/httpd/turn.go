// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package httpd

import (
	"github.com/warren-vm/warren/api"
	"github.com/warren-vm/warren/internal/engine"
	"github.com/warren-vm/warren/vm"
)

func (s *server) turnRoutes() []route {
	return []route{
		{"POST", "/v1/vms/{vm}/turns", granted, s.turn, "Mark a turn: a state of memory and disk to which undo returns.", api.MarkTurn{}, vm.Turn{}, false, ""},
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

// markFirst marks the turn that a command asks for, and removes from spec what the guest
// does not get.
func (s *server) markFirst(q *request, spec *vm.ExecSpec) (*vm.Turn, error) {
	note := spec.Turn
	spec.Turn = ""
	if note == "" {
		return nil, nil
	}
	c := *q.call // the receipt of the answer is the command's
	t, err := s.Engine.Turn(q.Context(), &c, q.ref(), engine.TurnRequest{Note: note})
	if err != nil {
		return nil, err
	}
	return &t, nil
}
