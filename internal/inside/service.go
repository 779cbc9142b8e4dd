// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package inside

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/warren-vm/warren/internal/access"
	"github.com/warren-vm/warren/internal/program"
	"github.com/warren-vm/warren/internal/spec"
	"github.com/warren-vm/warren/vm"
)

// unitDeadline bounds the start or stop of systemd units.
const unitDeadline = 2 * time.Minute

// maxUnitLines bounds the lines read from a unit's journal at once.
const maxUnitLines = 10_000

// Services lists the services that the guest's systemd knows.
func (in *Inside) Services(ctx context.Context, c *vm.Call, ref, user string) ([]vm.UnitStatus, error) {
	return ask(ctx, in, c, ref, vm.OpService, user, func(ctx context.Context, v *visit) ([]vm.UnitStatus, error) {
		return program.UnitsOf(v.guest, user).List(ctx)
	})
}

// Service returns the state of one service.
func (in *Inside) Service(ctx context.Context, c *vm.Call, ref, user, name string) (vm.UnitStatus, error) {
	return ask(ctx, in, c, ref, vm.OpService, user, func(ctx context.Context, v *visit) (vm.UnitStatus, error) {
		if err := spec.CheckUnitName(name); err != nil {
			return vm.UnitStatus{}, err
		}
		return program.UnitsOf(v.guest, user).One(ctx, name)
	})
}

// ServiceLogs returns the last lines of a service's journal, oldest first; lines 0 = 100,
// since "" = no lower limit.
func (in *Inside) ServiceLogs(ctx context.Context, c *vm.Call, ref, user, name string, lines int, since string) ([]vm.UnitLog, error) {
	from, err := spec.Since(since)
	if err == nil {
		err = spec.CheckUnitName(name)
	}
	if err == nil && (lines < 0 || lines > maxUnitLines) {
		err = vm.Errorf(vm.Invalid, "lines", "%d is not within 1 to %d", lines, maxUnitLines).WithCode("INVALID_REQUEST")
	}
	return ask(ctx, in, c, ref, vm.OpService, user, func(ctx context.Context, v *visit) ([]vm.UnitLog, error) {
		if err != nil {
			return nil, err
		}
		u := program.UnitsOf(v.guest, user)
		if _, err := u.One(ctx, name); err != nil {
			return nil, err
		}
		return u.Journal(ctx, name, max(lines, 0), from)
	})
}

// AddService installs a unit and, if it is enabled, starts it. If the start fails, the
// result's message is systemd's.
func (in *Inside) AddService(ctx context.Context, c *vm.Call, ref, user string, u vm.Unit) (vm.UnitResult, error) {
	name := spec.UnitName(u.Name)
	entry := vm.AuditEntry{Op: vm.OpService, Subject: name, Detail: map[string]any{"do": "add"}}
	runs := strings.Join(u.Exec, "; ")
	if in.digest(entry.Detail, runs); in.showsArgs() {
		entry.Detail["exec"] = clip(runs)
	}
	what := access.Act{Verb: vm.OpService, User: user, What: "add the service " + name + ", which runs " + runs, All: u}
	if text, err := json.Marshal(u); err == nil {
		what.Details = map[string]string{"unit": string(text)}
	}
	return slowly(ctx, in, c, ref, user, spec.CheckUnit(u, false), what, entry, func(ctx context.Context, v *visit) (vm.UnitResult, error) {
		return program.UnitsOf(v.guest, user).Add(ctx, u)
	})
}

// RemoveService stops an added service and removes its unit.
func (in *Inside) RemoveService(ctx context.Context, c *vm.Call, ref, user, name string) (vm.UnitResult, error) {
	entry := vm.AuditEntry{Op: vm.OpService, Subject: spec.UnitName(name), Detail: map[string]any{"do": "remove"}}
	what := access.Act{Verb: vm.OpService, User: user, What: "remove the service " + name}
	return slowly(ctx, in, c, ref, user, spec.CheckUnitName(name), what, entry, func(ctx context.Context, v *visit) (vm.UnitResult, error) {
		return program.UnitsOf(v.guest, user).Remove(ctx, name)
	})
}

// SwitchServices starts, stops or restarts services, one after the other, and returns the
// result of each.
func (in *Inside) SwitchServices(ctx context.Context, c *vm.Call, ref, user, verb string, names []string) ([]vm.UnitResult, error) {
	entry := vm.AuditEntry{Op: vm.OpService, Subject: clip(strings.Join(names, " ")), Detail: map[string]any{"do": verb}}
	what := access.Act{Verb: vm.OpService, User: user, What: verb + " the services " + quoted(names)}
	return slowly(ctx, in, c, ref, user, checkSwitch(verb, names), what, entry, func(ctx context.Context, v *visit) ([]vm.UnitResult, error) {
		u := program.UnitsOf(v.guest, user)
		out := make([]vm.UnitResult, 0, len(names))
		for _, name := range names {
			r, err := u.Change(ctx, verb, name)
			if err != nil {
				return nil, err
			}
			r.ServiceID = name
			out = append(out, r)
		}
		return out, nil
	})
}

func checkSwitch(verb string, names []string) error {
	if !slices.Contains([]string{"start", "stop", "restart"}, verb) {
		return vm.Errorf(vm.Invalid, verb, "is not start, stop or restart").WithCode("INVALID_REQUEST")
	}
	for _, name := range names {
		if err := spec.CheckUnitName(name); err != nil {
			return err
		}
	}
	return nil
}

// slowly is act with a deadline long enough for services. refusal, if not nil, is
// returned to every caller that may see the VM.
func slowly[T any](ctx context.Context, in *Inside, c *vm.Call, ref, user string, refusal error, what access.Act, entry vm.AuditEntry, f func(context.Context, *visit) (T, error)) (out T, err error) {
	if refusal == nil {
		if err := in.approved(ctx, c, ref, what); err != nil {
			return out, err
		}
	}
	v, err := in.visit(ctx, c, ref, entry.Op, user)
	if err != nil {
		return out, err
	}
	ctx, stop := v.within(unitDeadline)
	defer stop()
	if err = refusal; err == nil {
		err = v.Begin(ctx, entry)
	}
	if err == nil {
		out, err = f(ctx, v)
	}
	err = v.Fail(ctx, err)
	v.End(err, nil)
	return out, err
}
