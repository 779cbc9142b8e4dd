// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/warren-vm/warren/internal/spec"
	"github.com/warren-vm/warren/vm"
)

// unitDeadline bounds the start or stop of systemd units.
const unitDeadline = 2 * time.Minute

// maxUnitLines bounds what is read of a unit's journal at once.
const maxUnitLines = 10_000

// Services lists the services that the guest's systemd knows.
func (e *Engine) Services(ctx context.Context, c *vm.Call, ref, user string) ([]vm.UnitStatus, error) {
	c.User = user
	return ask(ctx, e, c, ref, vm.OpService, func(ctx context.Context, v *visit) ([]vm.UnitStatus, error) {
		return units{v.guest, user}.list(ctx)
	})
}

// Service says how one service is.
func (e *Engine) Service(ctx context.Context, c *vm.Call, ref, user, name string) (vm.UnitStatus, error) {
	c.User = user
	return ask(ctx, e, c, ref, vm.OpService, func(ctx context.Context, v *visit) (vm.UnitStatus, error) {
		if err := spec.CheckUnitName(name); err != nil {
			return vm.UnitStatus{}, err
		}
		return units{v.guest, user}.one(ctx, name)
	})
}

// ServiceLogs returns the last lines of a service's journal, oldest first;
// lines 0 = 100, since "" = all there is.
func (e *Engine) ServiceLogs(ctx context.Context, c *vm.Call, ref, user, name string, lines int, since string) ([]vm.UnitLog, error) {
	c.User = user
	from, err := spec.Since(since)
	if err == nil {
		err = spec.CheckUnitName(name)
	}
	if err == nil && (lines < 0 || lines > maxUnitLines) {
		err = vm.Errorf(vm.Invalid, "lines", "%d is not within 1 to %d", lines, maxUnitLines).WithCode("INVALID_REQUEST")
	}
	return ask(ctx, e, c, ref, vm.OpService, func(ctx context.Context, v *visit) ([]vm.UnitLog, error) {
		if err != nil {
			return nil, err
		}
		u := units{v.guest, user}
		if _, err := u.one(ctx, name); err != nil {
			return nil, err
		}
		return u.journal(ctx, name, max(lines, 0), from)
	})
}

// AddService installs a unit, and, where it is enabled, starts it. What systemd
// says of a start that failed is the result's message.
func (e *Engine) AddService(ctx context.Context, c *vm.Call, ref, user string, u vm.Unit) (vm.UnitResult, error) {
	c.User = user
	name := spec.UnitName(u.Name)
	entry := vm.AuditEntry{Op: vm.OpService, Subject: name, Detail: map[string]any{"do": "add", "exec": clip(strings.Join(u.Exec, "; "))}}
	return slowly(ctx, e, c, ref, spec.CheckUnit(u, false), entry, func(ctx context.Context, v *visit) (vm.UnitResult, error) {
		return units{v.guest, user}.add(ctx, u)
	})
}

// RemoveService stops a service that was added and removes its unit.
func (e *Engine) RemoveService(ctx context.Context, c *vm.Call, ref, user, name string) (vm.UnitResult, error) {
	c.User = user
	entry := vm.AuditEntry{Op: vm.OpService, Subject: spec.UnitName(name), Detail: map[string]any{"do": "remove"}}
	return slowly(ctx, e, c, ref, spec.CheckUnitName(name), entry, func(ctx context.Context, v *visit) (vm.UnitResult, error) {
		return units{v.guest, user}.remove(ctx, name)
	})
}

// SwitchServices starts, stops or restarts services, one after the other, and
// says of each what came of it.
func (e *Engine) SwitchServices(ctx context.Context, c *vm.Call, ref, user, verb string, names []string) ([]vm.UnitResult, error) {
	c.User = user
	entry := vm.AuditEntry{Op: vm.OpService, Subject: clip(strings.Join(names, " ")), Detail: map[string]any{"do": verb}}
	return slowly(ctx, e, c, ref, checkSwitch(verb, names), entry, func(ctx context.Context, v *visit) ([]vm.UnitResult, error) {
		u := units{v.guest, user}
		out := make([]vm.UnitResult, 0, len(names))
		for _, name := range names {
			r, err := u.change(ctx, verb, name)
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

// slowly is act with the time that a service may take. refusal, where it is not
// nil, is the answer to whoever may know that there is such a VM.
func slowly[T any](ctx context.Context, e *Engine, c *vm.Call, ref string, refusal error, entry vm.AuditEntry, f func(context.Context, *visit) (T, error)) (out T, err error) {
	v, err := e.visit(ctx, c, ref, entry.Op)
	if err != nil {
		return out, err
	}
	ctx, stop := context.WithTimeoutCause(v.ctx, unitDeadline, v.noAnswer(unitDeadline))
	defer stop()
	if err = refusal; err == nil {
		err = v.recordAs(ctx, c, entry)
	}
	if err == nil {
		out, err = f(ctx, v)
	}
	err = v.fail(ctx, err)
	v.end(err, nil)
	return out, err
}

// units is the systemd of a guest, spoken to as a Linux user; "" = root.
type units struct {
	guest Guest
	user  string
}

// run runs a program to its end and returns what it wrote.
func (u units) run(ctx context.Context, argv ...string) (ran, error) {
	return runGuest(ctx, u.guest, vm.ExecSpec{Argv: argv, User: u.user})
}

// must is run for a program whose failure is one of the guest.
func (u units) must(ctx context.Context, argv ...string) (string, error) {
	r, err := u.run(ctx, argv...)
	if err != nil {
		return "", err
	}
	return r.out, u.failed(r)
}

// failed explains why a program of systemd's failed; nil when it did not.
func (u units) failed(r ran) error {
	switch why := r.why(); {
	case r.status.Code == 0:
		return nil
	case u.user != "" && (strings.Contains(why, "uthentication required") || strings.Contains(why, "ccess denied") || strings.Contains(why, "ermission denied")):
		return vm.Errorf(vm.Denied, u.user, "this Linux user may not do that: %s", why).WithCode("VM_ACCESS_DENIED").
			WithHint("leave the Linux user out to do it as root")
	case r.status.Code == 127:
		return vm.Errorf(vm.Unsupported, "", "the guest has no systemd: %s", why)
	default:
		return vm.Errorf(vm.GuestFault, "", "%s", why)
	}
}

func (u units) list(ctx context.Context) ([]vm.UnitStatus, error) {
	out, err := u.must(ctx, "systemctl", "list-units", "--type=service", "--all", "--no-pager", "--output=json")
	if err != nil {
		return nil, err
	}
	return spec.ParseUnits([]byte(out))
}

// show says how units are, each by its name; unknown ones are not-found.
func (u units) show(ctx context.Context, names ...string) ([]vm.UnitStatus, error) {
	if len(names) == 0 {
		return nil, nil
	}
	argv := []string{"systemctl", "show", "--no-pager", "--property=" + spec.ShowProperties, "--"}
	for _, n := range names {
		argv = append(argv, spec.UnitName(n))
	}
	out, err := u.must(ctx, argv...)
	if err != nil {
		return nil, err
	}
	return spec.ParseShow(out), nil
}

// one is show of one unit that must be there.
func (u units) one(ctx context.Context, name string) (vm.UnitStatus, error) {
	list, err := u.show(ctx, name)
	if err != nil {
		return vm.UnitStatus{}, err
	}
	if len(list) != 1 || list[0].LoadState == "not-found" {
		return vm.UnitStatus{}, noService(name)
	}
	return list[0], nil
}

func noService(name string) error {
	return vm.Errorf(vm.NotFound, name, "no such service").WithCode("SERVICE_NOT_FOUND").
		WithHint("`warren service ls NAME --all` lists them")
}

// journal reads the last lines of a unit's journal; 0 = 100.
func (u units) journal(ctx context.Context, name string, lines int, since string) ([]vm.UnitLog, error) {
	if lines == 0 {
		lines = 100
	}
	argv := []string{"journalctl", "--no-pager", "--output=json", "--unit=" + spec.UnitName(name), "--lines=" + strconv.Itoa(lines)}
	if since != "" {
		argv = append(argv, "--since="+since)
	}
	out, err := u.must(ctx, argv...)
	if err != nil {
		return nil, err
	}
	return spec.ParseJournal([]byte(out)), nil
}

// write puts a file in place.
func (u units) write(ctx context.Context, path, text string) error {
	o := vm.WriteOptions{Mode: 0o644, Parents: true, Size: int64(len(text))}
	_, err := u.guest.WriteFile(ctx, u.user, path, o, strings.NewReader(text))
	return err
}

// add installs a unit that is not there yet.
func (u units) add(ctx context.Context, unit vm.Unit) (vm.UnitResult, error) {
	name := spec.UnitName(unit.Name)
	out := vm.UnitResult{ServiceID: name, Success: true, Message: "installed"}
	switch _, err := u.one(ctx, name); {
	case err == nil:
		return out, vm.Errorf(vm.Exists, name, "there is a service of this name").WithCode("SERVICE_ALREADY_EXISTS", "serviceName", name).
			WithHint("remove it first: `warren service rm NAME %s`", name)
	case vm.KindOf(err) != vm.NotFound:
		return out, err
	}
	if err := u.write(ctx, spec.UnitPath(name), spec.RenderUnit(unit)); err != nil {
		return out, err
	}
	do := "daemon-reload"
	argv := []string{"systemctl", do}
	if unit.Enabled() {
		argv = []string{"systemctl", "enable", "--quiet", "--", name} // reloads too
	}
	if _, err := u.must(ctx, argv...); err != nil {
		return out, err
	}
	if !unit.Enabled() {
		return out, nil
	}
	verb := "start"
	if unit.Oneshot() {
		verb = "start-later" // its commands may take as long as they like
	}
	return u.change(ctx, verb, name)
}

// change starts, stops or restarts a unit that is there.
func (u units) change(ctx context.Context, verb, name string) (vm.UnitResult, error) {
	name = spec.UnitName(name)
	argv := []string{"systemctl", verb, "--", name}
	if verb == "start-later" {
		verb, argv = "start", []string{"systemctl", "start", "--no-block", "--", name}
	}
	r, err := u.run(ctx, argv...)
	if err != nil {
		return vm.UnitResult{}, err
	}
	if r.status.Code == exitNotLoaded {
		return vm.UnitResult{ServiceID: name, Message: "no such service: " + name}, nil
	}
	if err := u.failed(r); err != nil {
		if k := vm.KindOf(err); k == vm.Denied || k == vm.Unsupported {
			return vm.UnitResult{}, err
		}
		return vm.UnitResult{ServiceID: name, Message: r.why()}, nil
	}
	done := map[string]string{"start": "started", "stop": "stopped", "restart": "restarted"}[verb]
	return vm.UnitResult{ServiceID: name, Success: true, Message: done}, nil
}

// exitNotLoaded is systemctl's exit status for a unit that is not there.
const exitNotLoaded = 5

// remove stops a unit and removes its file, which must be one that was added.
func (u units) remove(ctx context.Context, name string) (vm.UnitResult, error) {
	name = spec.UnitName(name)
	out := vm.UnitResult{ServiceID: name, Success: true, Message: "removed"}
	if _, err := u.one(ctx, name); err != nil {
		return out, err
	}
	switch f, err := u.guest.Stat(ctx, u.user, spec.UnitPath(name)); {
	case vm.KindOf(err) == vm.NotFound || err == nil && f.Kind != vm.FileRegular: // or the image has masked it
		return out, vm.Errorf(vm.Unsupported, name, "is part of the image; only services that were added are removed").
			WithHint("stop it with `warren service stop NAME %s`", name)
	case err != nil:
		return out, err
	}
	if _, err := u.must(ctx, "systemctl", "disable", "--now", "--quiet", "--", name); err != nil {
		return out, err
	}
	if err := u.guest.Remove(ctx, u.user, spec.UnitPath(name), false); err != nil && vm.KindOf(err) != vm.NotFound {
		return out, err
	}
	if _, err := u.must(ctx, "systemctl", "daemon-reload"); err != nil {
		return out, err
	}
	// A unit that had failed would stay in the lists; one that had not is no
	// longer known here.
	_, err := u.run(ctx, "systemctl", "reset-failed", "--", name)
	return out, err
}

// ran is what came of a program in the guest.
type ran struct {
	out, err string
	status   vm.ExitStatus
}

// why is what a program said of its failure.
func (r ran) why() string {
	text := strings.TrimSpace(r.err)
	if text == "" {
		text = strings.TrimSpace(r.out)
	}
	if text == "" {
		text = "exit status " + strconv.Itoa(r.status.Code)
	}
	return strings.ToValidUTF8(text, "�")
}

// Bounds of what is kept of a program's output.
const (
	maxRanOut = 4 << 20
	maxRanErr = 16 << 10
)

// runGuest runs a program to its end.
func runGuest(ctx context.Context, g Guest, s vm.ExecSpec) (ran, error) {
	x, err := g.Exec(ctx, s)
	if err != nil {
		return ran{}, err
	}
	out, errs := headBuffer{max: maxRanOut}, tailBuffer{max: maxRanErr}
	st, err := x.Run(&out, &errs)
	return ran{out.String(), errs.String(), st}, err
}
