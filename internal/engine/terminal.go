// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"time"

	"github.com/warren-vm/warren/vm"
)

// terminalsDeadline bounds the question for the terminals of a VM that is about
// to fall asleep.
const terminalsDeadline = 3 * time.Second

// terminalsNow returns the terminals that a VM has before it falls asleep.
func (e *Engine) terminalsNow(op *operation) []vm.TerminalSession {
	r := e.runOf(op.slot)
	if r == nil {
		return nil
	}
	ctx, stop := context.WithTimeout(op.ctx, terminalsDeadline)
	defer stop()
	list, err := r.machine.Guest().Terminals(ctx)
	if err != nil {
		e.log.Warn("the list of terminals of a VM that falls asleep is not known", "vm", op.slot.id, "error", err)
	}
	return list
}
