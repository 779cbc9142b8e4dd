// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package program

import (
	"context"
	"errors"
	"strconv"
	"strings"

	"github.com/warren-vm/warren/internal/spec"
	"github.com/warren-vm/warren/vm"
)

// Units is the systemd of a guest, as a Linux user of the guest may use it.
type Units struct {
	files Files
	exec  func(ctx context.Context, s vm.ExecSpec) (Ran, error)
	user  string
}

// UnitsOf returns the systemd of a guest for a Linux user; "" = root.
func UnitsOf[X Exec](g Guest[X], user string) Units {
	return Units{files: g, user: user, exec: func(ctx context.Context, s vm.ExecSpec) (Ran, error) { return Run(ctx, g, s) }}
}

// run runs a program to its end.
func (u Units) run(ctx context.Context, argv ...string) (Ran, error) {
	return u.exec(ctx, vm.ExecSpec{Argv: argv, User: u.user})
}

// Must runs a program and returns its output. It fails if the program does.
func (u Units) Must(ctx context.Context, argv ...string) (string, error) {
	r, err := u.run(ctx, argv...)
	if err != nil {
		return "", err
	}
	return r.Out, u.failed(r)
}

// failed is the error of a systemd program, or nil if it succeeded.
func (u Units) failed(r Ran) error {
	switch why := r.Why(); {
	case r.Status.Code == 0:
		return nil
	case u.user != "" && (strings.Contains(why, "uthentication required") || strings.Contains(why, "ccess denied") || strings.Contains(why, "ermission denied")):
		return vm.Errorf(vm.Denied, u.user, "this Linux user may not do that: %s", why).WithCode("VM_ACCESS_DENIED").
			WithHint("leave the Linux user out to do it as root")
	case r.Status.Code == 127:
		return vm.Errorf(vm.Unsupported, "", "the guest has no systemd: %s", why)
	default:
		return vm.Errorf(vm.GuestFault, "", "%s", why)
	}
}

// List returns every service that the guest's systemd knows.
func (u Units) List(ctx context.Context) ([]vm.UnitStatus, error) {
	out, err := u.Must(ctx, "systemctl", "list-units", "--type=service", "--all", "--no-pager", "--output=json")
	if err != nil {
		return nil, err
	}
	return spec.ParseUnits([]byte(out))
}

// Show returns the state of units; not-found for unknown ones.
func (u Units) Show(ctx context.Context, names ...string) ([]vm.UnitStatus, error) {
	if len(names) == 0 {
		return nil, nil
	}
	argv := []string{"systemctl", "show", "--no-pager", "--property=" + spec.ShowProperties, "--"}
	for _, n := range names {
		argv = append(argv, spec.UnitName(n))
	}
	out, err := u.Must(ctx, argv...)
	if err != nil {
		return nil, err
	}
	return spec.ParseShow(out), nil
}

// One returns the state of one unit; kind NotFound when there is no such unit.
func (u Units) One(ctx context.Context, name string) (vm.UnitStatus, error) {
	list, err := u.Show(ctx, name)
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

// Journal reads the last lines of a unit's journal; lines 0 = 100, since "" = no limit.
func (u Units) Journal(ctx context.Context, name string, lines int, since string) ([]vm.UnitLog, error) {
	if lines == 0 {
		lines = 100
	}
	argv := []string{"journalctl", "--no-pager", "--output=json", "--unit=" + spec.UnitName(name), "--lines=" + strconv.Itoa(lines)}
	if since != "" {
		argv = append(argv, "--since="+since)
	}
	out, err := u.Must(ctx, argv...)
	if err != nil {
		return nil, err
	}
	return spec.ParseJournal([]byte(out)), nil
}

// Write writes a file of mode 0644 and the missing directories above it.
func (u Units) Write(ctx context.Context, path, text string) error {
	o := vm.WriteOptions{Mode: 0o644, Parents: true, Size: int64(len(text))}
	_, err := u.files.WriteFile(ctx, u.user, path, o, strings.NewReader(text))
	return err
}

// Add installs a unit and, if it is enabled, starts it. Kind Exists when there is a
// service with this name.
func (u Units) Add(ctx context.Context, unit vm.Unit) (vm.UnitResult, error) {
	name := spec.UnitName(unit.Name)
	out := vm.UnitResult{ServiceID: name, Success: true, Message: "installed"}
	switch _, err := u.One(ctx, name); {
	case err == nil:
		return out, vm.Errorf(vm.Exists, name, "a service with this name exists").WithCode("SERVICE_ALREADY_EXISTS", "serviceName", name).
			WithHint("remove it first: `warren service rm NAME %s`", name)
	case vm.KindOf(err) != vm.NotFound:
		return out, err
	}
	if err := u.Write(ctx, spec.UnitPath(name), spec.RenderUnit(unit)); err != nil {
		return out, err
	}
	do := "daemon-reload"
	argv := []string{"systemctl", do}
	if unit.Enabled() {
		argv = []string{"systemctl", "enable", "--quiet", "--", name} // this also reloads systemd
	}
	if _, err := u.Must(ctx, argv...); err != nil {
		if vm.KindOf(err) == vm.Unsupported { // no systemd, which could start it later
			err = errors.Join(err, u.files.Remove(ctx, u.user, spec.UnitPath(name), false))
		}
		return out, err
	}
	if !unit.Enabled() {
		return out, nil
	}
	verb := "start"
	if unit.Oneshot() {
		verb = "start-later" // its commands may take any time
	}
	return u.Change(ctx, verb, name)
}

// Change starts, stops or restarts a unit. The verb "start-later" does not wait for the
// start. The result contains systemd's refusal.
func (u Units) Change(ctx context.Context, verb, name string) (vm.UnitResult, error) {
	name = spec.UnitName(name)
	argv := []string{"systemctl", verb, "--", name}
	if verb == "start-later" {
		verb, argv = "start", []string{"systemctl", "start", "--no-block", "--", name}
	}
	r, err := u.run(ctx, argv...)
	if err != nil {
		return vm.UnitResult{}, err
	}
	if r.Status.Code == exitNotLoaded {
		return vm.UnitResult{ServiceID: name, Message: "no such service: " + name}, nil
	}
	if err := u.failed(r); err != nil {
		if k := vm.KindOf(err); k == vm.Denied || k == vm.Unsupported {
			return vm.UnitResult{}, err
		}
		return vm.UnitResult{ServiceID: name, Message: r.Why()}, nil
	}
	done := map[string]string{"start": "started", "stop": "stopped", "restart": "restarted"}[verb]
	return vm.UnitResult{ServiceID: name, Success: true, Message: done}, nil
}

// exitNotLoaded is systemctl's exit status for an unknown unit.
const exitNotLoaded = 5

// Remove stops a unit and removes its file. Kind Unsupported when the unit was not
// added with Add.
func (u Units) Remove(ctx context.Context, name string) (vm.UnitResult, error) {
	name = spec.UnitName(name)
	out := vm.UnitResult{ServiceID: name, Success: true, Message: "removed"}
	if _, err := u.One(ctx, name); err != nil {
		return out, err
	}
	switch f, err := u.files.Stat(ctx, u.user, spec.UnitPath(name)); {
	case vm.KindOf(err) == vm.NotFound || err == nil && f.Kind != vm.FileRegular: // or the image has masked it
		return out, vm.Errorf(vm.Unsupported, name, "is part of the image; only services that were added are removed").
			WithHint("stop it with `warren service stop NAME %s`", name)
	case err != nil:
		return out, err
	}
	if _, err := u.Must(ctx, "systemctl", "disable", "--now", "--quiet", "--", name); err != nil {
		return out, err
	}
	if err := u.files.Remove(ctx, u.user, spec.UnitPath(name), false); err != nil && vm.KindOf(err) != vm.NotFound {
		return out, err
	}
	if _, err := u.Must(ctx, "systemctl", "daemon-reload"); err != nil {
		return out, err
	}
	// A failed unit would stay in the lists. For others the command fails, since systemd
	// no longer knows them.
	_, err := u.run(ctx, "systemctl", "reset-failed", "--", name)
	return out, err
}
