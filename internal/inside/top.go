// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package inside

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/warren-vm/warren/internal/diagnose"
	"github.com/warren-vm/warren/internal/spec"
	"github.com/warren-vm/warren/vm"
)

// Limits of Top.
const (
	topCommands = 4 // whose logs are shown
	topLines    = 3 // of each
	topJournal  = 6 // lines
)

// Top reports what a VM does now. With apart it takes two samples and reports how busy
// each process was in between. Brief leaves out services and the journal, which cost the
// guest a program each. It does not wake the VM.
func (in *Inside) Top(ctx context.Context, c *vm.Call, ref string, apart time.Duration, brief bool) (vm.Top, error) {
	if apart < 0 || apart > maxLook {
		return vm.Top{}, vm.WithOp(vm.OpState, ref, vm.Errorf(vm.Invalid, "seconds", "%v is not within 0 and %v", apart, maxLook).WithCode("INVALID_REQUEST"))
	}
	rec, v, err := in.look(ctx, c, ref)
	if err != nil {
		return vm.Top{}, err
	}
	if v == nil {
		out := topOf(rec, vm.Evidence{})
		out.Time, out.Why = in.now(), diagnose.Why(rec)
		return out, nil
	}
	bounded, stop := v.bounded(apart)
	defer stop()
	out, err := v.top(bounded, apart, brief)
	err = v.Fail(bounded, err)
	v.End(err, nil)
	return out, err
}

// top takes one or two samples.
func (v *visit) top(ctx context.Context, apart time.Duration, brief bool) (vm.Top, error) {
	ev, err := v.guest.Evidence(ctx, false)
	if err != nil {
		return vm.Top{}, err
	}
	v.evidence(&ev)
	out := topOf(v.rec, ev)
	out.Live = true
	k := &collector{visit: v}
	var list []vm.GuestService
	var logs []vm.TopLog
	done, stop := v.in.cfg.Clock.After(apart)
	defer stop()
	if !brief {
		list, err = services(ctx, v)
		k.failed("services", err)
		logs = k.lastLines(ctx)
	}
	if apart > 0 {
		select {
		case <-done:
		case <-ctx.Done():
			return vm.Top{}, context.Cause(ctx)
		}
		if ev, err = v.guest.Evidence(ctx, false); err != nil {
			return vm.Top{}, err
		}
		v.evidence(&ev)
		before := out
		out = topOf(v.rec, ev)
		out.Live = true
		out.Rate(before)
	}
	out.Services, out.Logs = append(out.Services, list...), append(out.Logs, logs...)
	out.Problems = append(append(out.Problems, ev.State.Problems...), k.problems...)
	return out, nil
}

// topOf converts one sample. Lists are never nil.
func topOf(rec vm.VM, ev vm.Evidence) vm.Top {
	out := vm.Top{
		ID: rec.ID, Name: rec.Name, State: rec.State, Time: ev.State.Time, UptimeSeconds: ev.State.UptimeSeconds,
		CPUSeconds: ev.CPUSeconds, VCPU: ev.VCPU, Load1: ev.Load1, MemTotal: ev.MemTotal, MemAvailable: ev.MemAvailable,
		Mounts: append([]vm.GuestMount{}, ev.State.Mounts...), Processes: []vm.TopProcess{}, Blocked: diagnose.Blocked(ev),
		Ports: []vm.ListeningPort{}, Services: []vm.GuestService{}, Logs: []vm.TopLog{}, Problems: []string{},
	}
	for _, p := range ev.State.Processes {
		out.Processes = append(out.Processes, vm.TopProcess{GuestProcess: p})
	}
	for _, p := range ev.State.Ports {
		out.Ports = append(out.Ports, p.ListeningPort)
	}
	return out
}

// lastLines returns the ends of the logs of the newest running commands and of the
// guest's journal, which only root may read.
func (k *collector) lastLines(ctx context.Context) (out []vm.TopLog) {
	list, err := k.guest.Processes(ctx)
	k.failed("commands", err)
	n := 0
	for _, p := range slices.Backward(list) {
		if p.ExitCode != nil || p.LogBytes == 0 || n == topCommands || k.hides(p.User) {
			continue
		}
		n++
		lines, err := tail(ctx, k.guest, p, topLines)
		k.failed("log of "+p.ID, err)
		for _, l := range lines {
			out = append(out, vm.TopLog{Source: p.ID, Text: l})
		}
	}
	if !k.mayBeRoot() {
		return out
	}
	text, err := k.quietly(ctx, "journalctl", "--no-pager", "--output=json", "--lines="+strconv.Itoa(topJournal))
	k.failed("journal", err)
	for _, l := range spec.ParseJournal([]byte(text)) {
		out = append(out, vm.TopLog{Source: cmp.Or(strings.TrimSuffix(l.Unit, ".service"), "journal"), Text: diagnose.Clip(l.Message)})
	}
	return out
}

// Stats returns the machine's resource use as the guest sees it.
func (in *Inside) Stats(ctx context.Context, c *vm.Call, ref string) (vm.Stats, error) {
	return ask(ctx, in, c, ref, vm.OpStats, "", func(ctx context.Context, v *visit) (vm.Stats, error) {
		st, err := v.guest.Stats(ctx)
		v.stats(&st)
		return st, err
	})
}
