// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"errors"
	"slices"
)

// ErrDied is returned by a Config.Fault to simulate the death of the process at a label:
// the engine stops there, undoes nothing and writes nothing more. The test then calls
// Open on the same records and directories.
var ErrDied = errors.New("the engine died")

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

// step is called before each step of an operation. It fails if ctx has ended, or with an
// injected fault.
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
