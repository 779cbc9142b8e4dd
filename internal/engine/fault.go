// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"errors"
	"slices"

	"github.com/warren-vm/warren/vm"
)

// ErrDied is what a Config.Fault returns to play the death of the process at
// a label: the engine stops where it is, undoes nothing and writes nothing
// any more. A new Open on the same records and directories follows.
var ErrDied = errors.New("the engine died")

// labels lists the steps of each operation in order. A fault at a label comes
// before that step is carried out; "done" comes after the last.
var labels = map[vm.Op][]string{
	vm.OpCreate: {"create:audit", "create:record", "create:warm", "create:dir", "create:overlay", "create:launch", "create:setup", "create:commit", "create:done"},
	vm.OpStart:  {"start:audit", "start:record", "start:launch", "start:commit", "start:done"},
	vm.OpSuspend: {
		"suspend:audit", "suspend:record", "capture:record", "capture:files", "capture:machine", "capture:commit", "capture:advance", "capture:publish",
		"suspend:commit", "suspend:machine",
	},
	vm.OpFork:     {"fork:audit", "fork:record", "fork:dir", "fork:launch", "fork:commit"},
	vm.OpSnapshot: {"snapshot:audit"},
	vm.OpRollback: {"rollback:audit", "start:disk"},
	vm.OpCapture:  {"capture:audit", "collect:files"},
	vm.OpStop:     {"stop:audit", "stop:machine", "stop:commit", "stop:done"},
	vm.OpKill:     {"kill:audit", "kill:machine", "kill:commit", "kill:done"},
	vm.OpDelete:   {"delete:audit", "delete:record", "delete:machine", "delete:dir", "delete:forget", "delete:done"},
}

// Labels lists every fault label, in a fixed order.
func Labels() []string {
	var out []string
	for _, op := range []vm.Op{
		vm.OpCreate, vm.OpStart, vm.OpStop, vm.OpKill, vm.OpDelete, vm.OpSuspend, vm.OpFork, vm.OpSnapshot, vm.OpRollback, vm.OpCapture,
	} {
		out = append(out, labels[op]...)
	}
	return slices.Clip(out)
}

// step is called before each step of an operation: it ends the operation when
// its context has ended, and it is where faults come in.
func (e *Engine) step(ctx context.Context, label string) error {
	if e.dead.Load() {
		return ErrDied
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if e.cfg.Fault == nil {
		return nil
	}
	err := e.cfg.Fault(label)
	if errors.Is(err, ErrDied) {
		e.dead.Store(true)
		e.cancel(ErrDied)
	}
	return err
}

func died(err error) bool { return errors.Is(err, ErrDied) }
