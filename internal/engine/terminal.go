// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"time"

	"github.com/warren-vm/warren/vm"
)

// terminalsDeadline bounds the listing of terminals before a VM falls asleep.
const terminalsDeadline = 3 * time.Second

// terminalsNow lists the terminals of a VM that is about to fall asleep.
func (e *Engine) terminalsNow(op *operation) []vm.TerminalSession {
	r := e.runOf(op.slot)
	if r == nil {
		return nil
	}
	ctx, stop := context.WithTimeout(op.ctx, terminalsDeadline)
	defer stop()
	list, err := r.machine.Guest().Terminals(ctx)
	if err != nil {
		e.log.Warn("the terminals of a VM that falls asleep could not be listed", "vm", op.slot.id, "error", err)
	}
	return list
}
