// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"cmp"
	"context"
	"fmt"

	"github.com/warren-vm/warren/vm"
)

// Shred is Delete, and reports which data can never be read again: sealed memory that
// nothing else needs, whose key is destroyed before the answer. Everything else is
// reported as readable.
func (e *Engine) Shred(ctx context.Context, c *vm.Call, ref string) (v vm.VM, out vm.Shredded, err error) {
	op, err := e.begin(ctx, c, ref, vm.OpDelete)
	if err != nil {
		return v, out, fail(vm.OpDelete, ref, err)
	}
	before := e.generations(func(g *vm.Generation) bool { return g.VM == op.slot.id && !g.Gone })
	v, err = e.deleteSlot(op, c, "shred")
	if err = e.finish(op, err); err != nil {
		return v, out, err
	}
	e.collect(ctx) // destroys the keys now, not soon
	return v, e.shredded(v, before), nil
}

// shredded compares what existed of a VM with what is left.
func (e *Engine) shredded(v vm.VM, before []vm.Generation) vm.Shredded {
	out := vm.Shredded{Unreadable: []string{}, Readable: []string{}}
	plain := []string{"its disk"}
	for _, g := range before {
		now, there := e.generationInfo(g.ID)
		memory := fmt.Sprintf("memory of %s (%s, %s)", g.ID, g.Why, g.CreatedAt.Format("2006-01-02 15:04:05"))
		switch {
		case there && !now.Gone && now.Whole():
			out.Readable = append(out.Readable, fmt.Sprintf("%s and its disk: %s", memory, e.neededBy(now)))
		case there && !now.Gone:
			out.Readable = append(out.Readable, fmt.Sprintf("disk of %s: %s", g.ID, e.neededBy(now)))
		}
		if gone := !there || len(now.SealKey) == 0; gone && len(g.SealKey) > 0 && g.Sealed {
			out.Unreadable = append(out.Unreadable, memory)
		} else if gone && g.Memory && !g.DiskOnly && (!there || !now.Whole()) {
			plain = append(plain, memory)
		}
	}
	for _, what := range plain {
		out.Readable = append(out.Readable, what+": it was never encrypted; the file is deleted, its blocks stay on the drive until they are overwritten")
	}
	out.Readable = append(out.Readable, "audit records, events and usage records")
	return out
}

// neededBy returns why a generation of a deleted VM still exists.
func (e *Engine) neededBy(g vm.Generation) string {
	if g.Snapshot != "" && !g.Deleted {
		return fmt.Sprintf("it is the snapshot %s; `warren snapshot rm %s`", cmp.Or(g.Name, string(g.Snapshot)), g.Snapshot)
	}
	return "it is in use, or VMs or snapshots made from it need it"
}
