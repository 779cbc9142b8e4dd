// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"time"

	"github.com/warren-vm/warren/vm"
)

// ChangeSandbox changes what a VM has as a sandbox, in one step. It does not wait for an
// operation in progress. Kind NotFound when it is no sandbox.
func (e *Engine) ChangeSandbox(ctx context.Context, c *vm.Call, ref string, change func(*vm.Sandbox)) (v vm.VM, err error) {
	defer func() { err = fail(vm.OpSandbox, ref, err) }()
	if err := c.Actor.OwnerOnly(ref); err != nil {
		return vm.VM{}, err
	}
	s, err := e.lookup(c, ref)
	if err != nil {
		return vm.VM{}, err
	}
	old := e.recordOf(s).Sandbox
	if old == nil {
		return vm.VM{}, notFound(ref)
	}
	probe := old.Clone()
	change(probe)
	if err := probe.Check(); err != nil {
		return vm.VM{}, err
	}
	rcpt, err := e.record(ctx, c, vm.AuditEntry{Op: vm.OpSandbox, VM: s.id, Detail: map[string]any{"endsAt": probe.EndsAt, "onEnd": string(probe.OnEnd)}})
	if err != nil {
		return vm.VM{}, err
	}
	v, err = e.update(ctx, s, func(rec *vm.VM) {
		if rec.Sandbox != nil {
			rec.Sandbox = rec.Sandbox.Clone()
			change(rec.Sandbox)
		}
	})
	rcpt.End(err, nil)
	e.poke()
	return v, err
}

// startedSandbox gives a sandbox whose end has passed its time-out again.
func startedSandbox(s *vm.Sandbox, now time.Time) *vm.Sandbox {
	if s == nil || s.EndsAt.After(now) {
		return s
	}
	s = s.Clone()
	s.EndsAt = now.Add(time.Duration(s.Timeout))
	return s
}
