// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package api

import "github.com/warren-vm/warren/vm"

// MarkTurn is the body of POST turns.
type MarkTurn struct {
	Note     string `json:"note,omitempty"`     // what is tried
	DiskOnly bool   `json:"diskOnly,omitempty"` // without memory: going back to it boots the VM
}

// StartedProcess answers POST processes.
type StartedProcess struct {
	vm.Process
	Turn *vm.Turn `json:"turn,omitempty"` // marked before the start
}

// TurnList answers GET turns.
type TurnList struct {
	Turns []vm.Turn `json:"turns"` // the oldest first
}

// UndoVM is the body of an undo.
type UndoVM struct {
	Turn    string `json:"turn,omitempty"`    // a turn's number or id; "" = the newest
	Volumes string `json:"volumes,omitempty"` // as in RollbackVM
}

// UndoneVM answers an undo.
type UndoneVM struct {
	ID        vm.ID           `json:"id"`
	VM        VM              `json:"vm"`
	Turn      vm.Turn         `json:"turn"`
	Before    vm.GenerationID `json:"before"`    // undo to it undoes the undo
	NotUndone []string        `json:"notUndone"` // what happened outside the VM since then
}
