// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"reflect"

	"github.com/warren-vm/warren/vm"
)

// Reseat gives a VM a new base at once, as the reaper does for an unused VM.
func (e *Engine) Reseat(ctx context.Context, c *vm.Call, ref string) error {
	e.mu.Lock()
	s, err := e.lookupLocked(c.Actor, ref)
	e.mu.Unlock()
	if err != nil {
		return err
	}
	op, err := e.beginSlot(ctx, s, vm.OpCapture)
	if err != nil {
		return err
	}
	err = e.receiptFor(op.ctx, op, c, vm.AuditEntry{Subject: "reseat"})
	if err == nil {
		err = e.reseat(op)
	}
	return e.finish(op, err)
}

// Waiting counts the callers that wait to enter a VM with that name, and those of them
// that wait for its start.
func (e *Engine) Waiting(name string) (all, start int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, s := range e.vms {
		if s.rec.Name != name {
			continue
		}
		if s.waking != nil {
			start = s.waking.waiters
		}
		return s.waiting, start
	}
	return 0, 0
}

// Remembered counts what an engine holds in its maps and lists.
func (e *Engine) Remembered() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return held(reflect.ValueOf(e).Elem())
}

func held(v reflect.Value) (n int) {
	for i := range v.NumField() {
		switch f := v.Field(i); f.Kind() {
		case reflect.Map, reflect.Slice:
			n += f.Len()
		case reflect.Struct:
			n += held(f)
		}
	}
	return n
}

// Thin chooses the automatic generations of a VM that stay.
var Thin = thin
