// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package changes

import (
	"context"
	"errors"

	"github.com/warren-vm/warren/internal/engine"
	"github.com/warren-vm/warren/vm"
)

// KeepRequest says what becomes of the VMs around the one that is kept.
type KeepRequest struct {
	Over         string // the VM that it replaces
	Remove       bool   // delete that VM afterwards
	RemoveOthers bool   // delete the other VMs that were forked from the same state
}

// KeptOver is the result of KeepOver.
type KeptOver struct {
	engine.Kept
	Removed []vm.VM // the others
}

// KeepOver makes a VM replace another, as engine.Keep does. The others of its fork are
// removed last, so that a failure loses none of them.
func (x *Changes) KeepOver(ctx context.Context, c *vm.Call, ref string, r KeepRequest) (out KeptOver, err error) {
	var others []vm.VM
	if r.RemoveOthers {
		if others, err = x.cfg.Engine.Siblings(ctx, c, ref); err != nil {
			return out, err
		}
	}
	if out.Kept, err = x.cfg.Engine.Keep(ctx, c, ref, r.Over, r.Remove); err != nil {
		return out, err
	}
	var errs []error
	for _, other := range others {
		if other.ID == out.Over.ID {
			continue // what becomes of the replaced VM is said by Remove
		}
		own := *c // each has a record of its own
		gone, err := x.cfg.Engine.Delete(ctx, &own, string(other.ID))
		switch {
		case err == nil:
			out.Removed = append(out.Removed, gone)
		case vm.KindOf(err) != vm.NotFound:
			errs = append(errs, err)
		}
	}
	return out, errors.Join(errs...)
}
