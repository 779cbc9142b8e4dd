// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"

	"github.com/warren-vm/warren/internal/access"
	"github.com/warren-vm/warren/vm"
)

// approved has an identity's verb on a VM approved where that is needed; see
// access.Approve and access.ApproveAsOwner. It holds nothing while it waits.
func (e *Engine) approved(ctx context.Context, c *vm.Call, ref string, approve func(context.Context, *vm.Call, vm.VM, access.Act) error, act access.Act) error {
	if c.Actor.Identity == "" {
		return nil
	}
	s, err := e.lookup(c, ref)
	if err == nil {
		err = approve(ctx, c, e.recordOf(s), act)
	}
	if err != nil {
		return fail(act.Verb, ref, err)
	}
	return nil
}

func yesNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}
