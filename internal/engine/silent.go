// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"errors"

	"github.com/warren-vm/warren/vm"
)

// silentTries is how often a QEMU is asked before it counts as hung. The monitor waits
// some seconds each time.
const silentTries = 4

// answers fails if a VM's monitor or QEMU hangs: then no operation could be finished or
// undone. It takes at most machineDeadline. A VM without a machine passes.
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

// errSilent marks an error from before anything was begun, because the machine hangs. The
// VM keeps running if its machine does.
var errSilent = errors.New("it hangs")

// silent returns the error for a VM whose machine hangs.
func silent(id vm.ID, what string) error {
	return vm.Errorf(vm.Unavailable, string(id), "its %s does not answer: %w", what, errSilent).
		WithHint("try again; if it still hangs, kill it: `warren kill %s`", id)
}
