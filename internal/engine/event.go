// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"

	"github.com/warren-vm/warren/vm"
)

// emit appends an event about a VM. Events are for watching, not for truth:
// one that cannot be written is logged and nothing else.
func (e *Engine) emit(rec vm.VM, kind string, data map[string]any) {
	if data == nil {
		data = map[string]any{}
	}
	data["state"] = string(rec.State)
	if rec.Name != "" {
		data["name"] = rec.Name
	}
	e.append(vm.Event{Type: kind, VM: rec.ID, Account: rec.Account, Data: data})
}

func (e *Engine) append(ev vm.Event) {
	if e.dead.Load() {
		return
	}
	if _, err := e.cfg.Events.Append(ev); err != nil {
		e.log.Warn("an event was lost", "type", ev.Type, "vm", ev.VM, "err", err)
	}
}

// Events follows the stream from after the event with that id (negative = only
// new ones): the account's own events, for admins everybody's.
func (e *Engine) Events(ctx context.Context, c *vm.Call, after int64) (EventStream, error) {
	if err := ownerOnly(c.Actor, ""); err != nil {
		return nil, err
	}
	s, err := e.cfg.Events.Subscribe(ctx, after)
	if err != nil {
		return nil, err
	}
	if c.Actor.Admin {
		return s, nil
	}
	return ownEvents{s, c.Actor.Account}, nil
}

// ownEvents passes on one account's events.
type ownEvents struct {
	EventStream
	account vm.AccountID
}

func (s ownEvents) Next(ctx context.Context) (vm.Event, error) {
	for {
		ev, err := s.EventStream.Next(ctx)
		if err != nil || ev.Account == s.account {
			return ev, err
		}
	}
}
