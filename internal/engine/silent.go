// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"errors"

	"github.com/warren-vm/warren/vm"
)

// silentTries is how often a QEMU is asked before it counts as silent; the
// monitor gives it some seconds each time.
const silentTries = 4

// answers refuses what needs a VM's machine when that hangs, its monitor or its
// QEMU: while it does, nothing that is begun could be finished or taken back. It
// takes machineDeadline at most. A VM without a machine needs no answer.
func (e *Engine) answers(ctx context.Context, s *slot) error {
	r := e.runOf(s)
	if r == nil {
		return nil
	}
	bounded, stop := context.WithTimeout(ctx, machineDeadline)
	defer stop()
	for range silentTries {
		st, err := r.machine.Status(bounded)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil:
			e.log.Warn("a monitor does not answer", "vm", s.id, "err", err)
			return e.orGone(ctx, s, r, silent(s.id, "monitor"))
		case st.RunState != "":
			return nil
		}
	}
	return e.orGone(ctx, s, r, silent(s.id, "QEMU"))
}

// errSilent is in the error of what a machine that hangs was not even asked for:
// nothing was begun, and the VM keeps running when its machine does.
var errSilent = errors.New("it hangs")

// silent is the error of a VM whose machine hangs.
func silent(id vm.ID, what string) error {
	return vm.Errorf(vm.Unavailable, string(id), "its %s does not answer: %w", what, errSilent).
		WithHint("try again; if it stays so, end it: `warren kill %s`", id)
}
