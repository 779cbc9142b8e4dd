// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"reflect"
	"slices"

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

// Label is a step of an operation at which a Fault may occur.
type Label struct {
	Verb string // of the request; "resume" is a start of a suspended VM, "pool" a create from the pool
	At   string
}

// captured are the steps of a capture, which several verbs share.
var captured = []string{"capture:record", "capture:files", "capture:machine", "capture:commit", "capture:advance"}

// steps lists the steps of each verb in order. A fault occurs before the labelled step;
// "done" comes after the last step.
var steps = []struct {
	verb   string
	labels []string
}{
	{"create", []string{"create:audit", "create:record", "create:warm", "create:dir", "create:overlay", "create:launch", "create:setup", "create:commit", "create:done"}},
	{"pool", []string{"create:pool", "create:setup", "create:commit", "create:done"}},
	{"start", []string{"start:audit", "start:record", "start:disk", "start:launch", "start:commit", "start:done"}},
	{"stop", []string{"stop:audit", "stop:machine", "stop:commit", "stop:done"}},
	{"kill", []string{"kill:audit", "kill:machine", "kill:commit", "kill:done"}},
	{"delete", []string{"delete:audit", "delete:record", "delete:machine", "delete:dir", "delete:forget", "delete:done"}},
	{"suspend", slices.Concat([]string{"suspend:audit", "suspend:record"}, captured, []string{"capture:publish", "suspend:commit", "suspend:machine"})},
	{"resume", []string{"start:audit", "start:record", "start:disk", "start:launch", "start:commit", "start:done"}},
	{"cold", []string{"cold:seal"}},
	{"resume cold", []string{"cold:open", "start:disk", "start:launch"}},
	{"fork", slices.Concat([]string{"fork:audit"}, captured, []string{"fork:record", "fork:dir", "fork:launch", "fork:commit", "fork:done"})},
	{"snapshot", slices.Concat([]string{"snapshot:audit"}, captured, []string{"capture:publish"})},
	{"turn", slices.Concat([]string{"turn:audit"}, captured)},
	{"resize", []string{"resize:audit", "resize:machine", "resize:record"}},
	{"resize stopped", []string{"resize:audit", "resize:record", "resize:disk"}},
	{"resize by start", []string{
		"resize:audit", "resize:machine", "resize:stopped", "resize:record", "start:record", "start:disk", "start:launch", "start:commit", "start:done",
	}},
	{"reseat", slices.Concat([]string{"reseat:record"}, captured, []string{"reseat:machine", "reseat:commit"})},
	{"mount", []string{"mount:audit", "mount:lease", "mount:plug", "mount:guest", "mount:commit"}},
	{"folder", []string{"folder:mount", "folder:unmount"}},
	{"unmount", []string{"unmount:audit", "unmount:guest", "unmount:plug", "unmount:lease"}},
	{"volume-snapshot", []string{"volume-snapshot:disk", "volume-snapshot:commit"}},
	{"volume-snapshot mounted", []string{"volume-snapshot:disk", "volume-snapshot:commit"}},
	{"volume-rollback", []string{"volume-rollback:disk", "volume-rollback:commit"}},
	{"rollback volumes", []string{"capture:publish", "suspend:commit", "suspend:machine", "start:record", "start:disk", "start:launch", "start:commit", "start:done"}},
	{"rollback disk", slices.Concat([]string{"rollback:audit"}, captured, []string{
		"capture:publish", "rollback:record", "rollback:disk", "start:record", "start:disk", "start:launch", "start:commit", "start:done",
	})},
	{"rollback", slices.Concat([]string{"rollback:audit"}, captured, []string{
		"capture:publish", "suspend:commit", "suspend:machine", "start:record", "start:disk", "start:launch", "start:commit", "start:done",
	})},
}

// Labels lists every fault label, in a fixed order.
func Labels() []Label {
	var out []Label
	for _, s := range steps {
		for _, at := range s.labels {
			out = append(out, Label{s.verb, at})
		}
	}
	return out
}

// Continues says why the memory of a bundle cannot be continued; "" = it can.
func (e *Engine) Continues(ctx context.Context, u Unpacking) string {
	return e.continues(ctx, u, vm.VM{ID: "box"})
}
