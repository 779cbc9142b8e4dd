// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"bytes"
	"context"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/warren-vm/warren/internal/egress"
	"github.com/warren-vm/warren/internal/program"
	"github.com/warren-vm/warren/internal/spec"
	"github.com/warren-vm/warren/vm"
)

// setup carries out one layer in a guest that has just started.
type setup struct {
	e     *Engine
	m     Machine
	rec   vm.VM
	image vm.Image
	ready time.Duration // for units that signal readiness
	wait  bool          // whether to wait for those
}

// setUp carries out a layer in a new VM before anybody else can use it.
func (e *Engine) setUp(ctx context.Context, m Machine, p *createPlan) error {
	if p.layer.Empty() {
		return nil
	}
	limit := e.cfg.Settings.BuildDeadline
	ctx, stop := context.WithTimeoutCause(ctx, limit, vm.Errorf(vm.Timeout, string(p.rec.ID), "not set up within %v", limit).
		WithCode("BUILD_BUDGET_EXCEEDED", "durationSecs", int64(limit.Seconds())))
	defer stop()
	s := setup{e: e, m: m, rec: p.rec, image: p.image, ready: p.deadline, wait: !p.impatient}
	return cause(ctx, s.apply(ctx, p.layer))
}

func (s setup) apply(ctx context.Context, l spec.Layer) error {
	if err := s.dockerfile(ctx, l.Run); err != nil {
		return err
	}
	if err := s.accounts(ctx, l); err != nil {
		return err
	}
	for _, f := range l.Files {
		mode := uint32(0o644)
		if f.Executable {
			mode = 0o755
		}
		o := vm.WriteOptions{Mode: mode, Parents: true, Size: int64(len(f.Content))}
		if _, err := s.m.Guest().WriteFile(ctx, "", f.Path, o, bytes.NewReader(f.Content)); err != nil {
			return setupFailed("file "+f.Path, err.Error(), err)
		}
	}
	for _, do := range []func(context.Context, spec.Layer) error{s.apt, s.git, s.units} {
		if err := do(ctx, l); err != nil {
			return err
		}
	}
	return nil
}

// run runs one program of the setup to its end.
func (s setup) run(ctx context.Context, what string, x vm.ExecSpec) error {
	r, err := program.Run(ctx, s.m.Guest(), x)
	if err != nil {
		return setupFailed(what, err.Error(), err)
	}
	if r.Status.Code != 0 {
		name := "the command"
		if len(x.Argv) > 0 {
			name = x.Argv[0]
		}
		return setupFailed(what, fmt.Sprintf("%s exited with %d: %s", name, r.Status.Code, r.Why()), nil)
	}
	return nil
}

// dockerfile runs the RUN commands of a base image.
func (s setup) dockerfile(ctx context.Context, commands []string) error {
	for _, command := range commands {
		r, err := program.Run(ctx, s.m.Guest(), vm.ExecSpec{Command: command, Cwd: "/"})
		if err != nil {
			return setupFailed("RUN "+clip(command), err.Error(), err)
		}
		if r.Status.Code != 0 {
			return vm.Errorf(vm.GuestFault, "RUN "+clip(command), "exited with %d: %s", r.Status.Code, r.Why()).
				WithCode("BUILD_FAILED", "exitCode", r.Status.Code, "stderr", strings.ToValidUTF8(r.Err, "�"))
		}
	}
	return nil
}

func (s setup) accounts(ctx context.Context, l spec.Layer) error {
	for _, g := range l.Groups {
		if err := s.run(ctx, "group "+g.Name, vm.ExecSpec{Argv: g.Argv()}); err != nil {
			return err
		}
	}
	for _, u := range l.Users {
		if err := s.run(ctx, "user "+u.Name, vm.ExecSpec{Argv: u.Argv()}); err != nil {
			return err
		}
	}
	return nil
}

// apt installs Debian packages. Meanwhile the package registries are reachable, even if
// the VM's network policy excludes them.
func (s setup) apt(ctx context.Context, l spec.Layer) (err error) {
	if len(l.Apt) == 0 {
		return nil
	}
	if s.rec.Network.Mode == vm.NetClosed {
		opened := s.rec.Network
		opened.Mode, opened.Hosts = vm.NetPackages, s.image.Registries
		if err := s.m.SetNetwork(ctx, opened); err != nil {
			return err
		}
		defer func() {
			if back := s.m.SetNetwork(context.WithoutCancel(ctx), s.rec.Network); err == nil {
				err = back
			}
		}()
	}
	env := map[string]string{"DEBIAN_FRONTEND": "noninteractive"}
	what := "aptDeps " + strings.Join(l.Apt, " ")
	if err := s.run(ctx, what, vm.ExecSpec{Argv: []string{"apt-get", "update", "-q"}, Env: env}); err != nil {
		return err
	}
	argv := []string{"apt-get", "install", "-y", "-q", "-o", "Dpkg::Options::=--force-confold", "--"}
	return s.run(ctx, what, vm.ExecSpec{Argv: append(argv, l.Apt...), Env: env})
}

// git sets the identity for commits, and clones repositories.
func (s setup) git(ctx context.Context, l spec.Layer) error {
	for _, kv := range [][2]string{{"user.name", l.GitUser.Name}, {"user.email", l.GitUser.Email}, {"user.signingkey", l.GitUser.SigningKey}} {
		if kv[1] == "" {
			continue
		}
		if err := s.run(ctx, "git config "+kv[0], vm.ExecSpec{Argv: []string{"git", "config", "--system", kv[0], kv[1]}}); err != nil {
			return err
		}
	}
	for _, r := range l.Repos {
		if err := s.clone(ctx, r); err != nil {
			return err
		}
	}
	return nil
}

// reachable fails at once if the network policy blocks a host, instead of letting git
// time out.
func (s setup) reachable(what, repo string) error {
	u, err := url.Parse(repo)
	if err == nil && u.Scheme == "file" {
		return nil
	}
	q := vm.NetQuestion{Host: repo, Port: 443}
	if err == nil && u.Hostname() != "" {
		q.Host = u.Hostname()
		if port, err := strconv.Atoi(u.Port()); err == nil {
			q.Port = port
		} else if u.Scheme == "http" {
			q.Port = 80
		}
	}
	a := egress.Answer(s.rec.Network, q, nil)
	if a.Allowed {
		return nil
	}
	reason := fmt.Sprintf("%s is not reachable: %s", q.Host, a.Reason)
	return vm.AsError(setupFailed(what, reason, nil)).WithHint("create the VM with a network that allows it, such as \"packages,%s\"", q.Host)
}

// withoutSecret removes the user and password from a URL.
func withoutSecret(repo string) string {
	u, err := url.Parse(repo)
	if err != nil || u.User == nil {
		return repo
	}
	u.User = nil
	return u.String()
}

// units installs units and starts the enabled ones, one after the other.
func (s setup) units(ctx context.Context, l spec.Layer) error {
	if len(l.Units)+len(l.Patches) == 0 {
		return nil
	}
	sys := program.UnitsOf(s.m.Guest(), "")
	var enable, patched []string
	for _, u := range l.Units {
		if err := sys.Write(ctx, spec.UnitPath(u.Name), spec.RenderUnit(u)); err != nil {
			return setupFailed("service "+u.Name, err.Error(), err)
		}
		if u.Enabled() {
			enable = append(enable, spec.UnitName(u.Name))
		}
	}
	for _, u := range l.Patches {
		if err := sys.Write(ctx, spec.PatchPath(u.Name), spec.RenderPatch(u)); err != nil {
			return setupFailed("service "+u.Name, err.Error(), err)
		}
		patched = append(patched, spec.UnitName(u.Name))
	}
	argv := []string{"systemctl", "daemon-reload"}
	if len(enable) > 0 {
		argv = append([]string{"systemctl", "enable", "--quiet", "--"}, enable...) // this also reloads systemd
	}
	if _, err := sys.Must(ctx, argv...); err != nil {
		return setupFailed("services", err.Error(), err)
	}
	if len(patched) > 0 {
		if _, err := sys.Must(ctx, append([]string{"systemctl", "try-restart", "--"}, patched...)...); err != nil {
			return s.unitFailed(ctx, l, "the patched services do not start: "+err.Error(), err)
		}
	}
	for _, u := range l.Units {
		if !u.Enabled() {
			continue
		}
		if err := s.start(ctx, sys, l, u); err != nil {
			return err
		}
	}
	return s.allUp(ctx, sys, l)
}

// start starts one unit and waits for the end of a oneshot, or for the readiness signal
// of a service that sends one.
func (s setup) start(ctx context.Context, sys program.Units, l spec.Layer, u vm.Unit) error {
	verb := "start"
	if u.Notifies() {
		if !s.wait {
			verb = "start-later"
		}
		var stop context.CancelFunc
		ctx, stop = context.WithTimeoutCause(ctx, s.ready, startTimeout(s.rec.ID, s.ready))
		defer stop()
	}
	r, err := sys.Change(ctx, verb, u.Name)
	if err != nil {
		return cause(ctx, setupFailed("service "+u.Name, err.Error(), err))
	}
	if !r.Success {
		return s.unitFailed(ctx, l, fmt.Sprintf("service %s: %s", spec.UnitName(u.Name), firstLine(r.Message)), nil)
	}
	return nil
}

func firstLine(s string) string {
	line, _, _ := strings.Cut(s, "\n")
	return line
}

// allUp checks that no unit failed after its start.
func (s setup) allUp(ctx context.Context, sys program.Units, l spec.Layer) error {
	list, err := sys.Show(ctx, unitNames(l)...)
	if err != nil {
		return setupFailed("services", err.Error(), err)
	}
	for _, u := range list {
		if u.ActiveState == "failed" {
			return s.unitFailed(ctx, l, fmt.Sprintf("service %s has failed", u.Name), nil)
		}
	}
	return nil
}

func unitNames(l spec.Layer) []string {
	var names []string
	for _, u := range slices.Concat(l.Units, l.Patches) {
		names = append(names, spec.UnitName(u.Name))
	}
	return names
}

// diagnoseWithin bounds the diagnosis of a failed setup.
const diagnoseWithin = 20 * time.Second

// unitFailed returns the error for a failed unit, with the state of all units and the
// logs of the failed ones.
func (s setup) unitFailed(ctx context.Context, l spec.Layer, reason string, err error) error {
	if isCancel(err) || ctx.Err() != nil {
		return context.Cause(ctx)
	}
	ctx, stop := context.WithTimeout(ctx, diagnoseWithin)
	defer stop()
	sys := program.UnitsOf(s.m.Guest(), "")
	list, showErr := sys.Show(ctx, unitNames(l)...)
	if showErr != nil {
		s.e.log.Warn("a failed setup could not be diagnosed", "vm", s.rec.ID, "err", showErr)
	}
	logs := map[string][]vm.UnitLog{}
	for _, u := range list {
		if u.ActiveState != "failed" {
			continue
		}
		if lines, err := sys.Journal(ctx, u.Name, diagnosisLines, ""); err == nil {
			logs[u.Name] = lines
		}
	}
	out := &vm.Error{Kind: vm.GuestFault, Msg: reason}
	return out.WithCode("VM_SETUP_FAILED", "failedReason", reason, "snapshotId", nil, "diagnostics", spec.Diagnose(list, logs)).
		WithHint("the VM was removed; the diagnostics hold the service's log")
}

// diagnosisLines is how many lines of a failed unit's journal are shown.
const diagnosisLines = 50

func setupFailed(what, reason string, err error) error {
	if isCancel(err) || vm.KindOf(err) == vm.Timeout {
		return err
	}
	// The cause is left out because it has its own code; the reason contains its text.
	out := &vm.Error{Kind: vm.GuestFault, Subject: what, Msg: reason}
	return out.WithCode("VM_SETUP_FAILED", "failedReason", what+": "+reason, "snapshotId", nil)
}
