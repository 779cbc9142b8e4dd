// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/warren-vm/warren/vm"
)

// Amendment changes what a VM is called by people and how long it is kept. What is absent stays.
type Amendment struct {
	DisplayName *string                 // "" removes it
	IdleTimeout vm.Optional[vm.Seconds] // null = never
	TTL         vm.Optional[vm.Seconds] // since it was made; null = no limit
	Persistence *vm.Persistence
}

// Empty reports whether it changes nothing.
func (a Amendment) Empty() bool {
	return a.DisplayName == nil && !a.IdleTimeout.Set && !a.TTL.Set && a.Persistence == nil
}

// apply changes a record.
func (a Amendment) apply(rec *vm.VM) error {
	if a.DisplayName != nil {
		if err := fillDisplayName(rec, CreateRequest{DisplayName: *a.DisplayName}, vm.Image{}); err != nil {
			return err
		}
	}
	if a.IdleTimeout.Set {
		if err := setIdle(rec, a.IdleTimeout); err != nil {
			return err
		}
	}
	if a.TTL.Set {
		if err := fillTTL(rec, a.TTL); err != nil {
			return err
		}
	}
	if a.Persistence != nil {
		return fillPersistence(rec, CreateRequest{Persistence: a.Persistence}, vm.Image{})
	}
	return nil
}

// detail is the record of it.
func (a Amendment) detail() map[string]any {
	out := map[string]any{}
	if a.DisplayName != nil {
		out["displayName"] = *a.DisplayName
	}
	for name, d := range map[string]vm.Optional[vm.Seconds]{"idleTimeoutSeconds": a.IdleTimeout, "ttlSeconds": a.TTL} {
		switch {
		case d.Set && d.Null:
			out[name] = nil
		case d.Set:
			out[name] = d.Value
		}
	}
	if a.Persistence != nil {
		out["persistence"] = string(a.Persistence.Type)
	}
	return out
}

// fillDisplayName sets what people read instead of the name.
func fillDisplayName(rec *vm.VM, r CreateRequest, _ vm.Image) error {
	name := r.DisplayName
	switch {
	case len(name) > vm.MaxDisplayName:
		return badCreate("displayName", "has %d bytes, and at most %d are allowed", len(name), vm.MaxDisplayName)
	case !utf8.ValidString(name) || strings.ContainsFunc(name, func(r rune) bool { return !unicode.IsPrint(r) }):
		return badCreate("displayName", "has characters that cannot be shown").WithHint("use letters, digits, signs and spaces")
	}
	rec.DisplayName = name
	return nil
}

// Amend changes what a VM is called by people and how long it is kept, in any state.
func (e *Engine) Amend(ctx context.Context, c *vm.Call, ref string, a Amendment) (v vm.VM, err error) {
	op, err := e.begin(ctx, c, ref, vm.OpAmend)
	if err != nil {
		return vm.VM{}, fail(vm.OpAmend, ref, err)
	}
	defer func() { err = e.finish(op, err) }()
	probe := op.before
	if err := a.apply(&probe); err != nil {
		return vm.VM{}, vm.AsError(err).WithCode("INVALID_REQUEST")
	}
	if err := e.receiptFor(op.ctx, op, c, vm.AuditEntry{Detail: a.detail()}); err != nil {
		return vm.VM{}, err
	}
	v, err = e.update(op.ctx, op.slot, func(rec *vm.VM) {
		rec.DisplayName, rec.IdleTimeout, rec.TTL, rec.ExpiresAt, rec.Persistence = probe.DisplayName, probe.IdleTimeout, probe.TTL, probe.ExpiresAt, probe.Persistence
	})
	if err == nil {
		e.cfg.Journal.EmitVM(v, "vm.amended", a.detail())
	}
	e.poke()
	return v, err
}
