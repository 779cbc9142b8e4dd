// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package inside_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/warren-vm/warren/internal/engine"
	"github.com/warren-vm/warren/vm"
)

// TestDiagnose: findings of the two samples are reported. A diagnosis leaves nothing in
// the guest and no audit record, and refuses bad times.
func TestDiagnose(t *testing.T) {
	_, e, c := site(t)
	create(t, e, c, engine.CreateRequest{Name: "box"})
	ctx := t.Context()
	if _, err := e.StartProcess(ctx, c, "box", vm.ExecSpec{Command: "echo listen EADDRINUSE: address already in use 0.0.0.0:81; sleep 60"}); err != nil {
		t.Fatal(err)
	}
	before, err := e.AuditList(ctx, c, vm.AuditFilter{})
	if err != nil {
		t.Fatal(err)
	}
	var d vm.Diagnosis
	for { // until the command has written its line
		if d, err = e.Diagnose(ctx, c, "box", 20*time.Millisecond); err != nil {
			t.Fatal(err)
		}
		if len(d.Findings) > 2 {
			break
		}
	}
	if !d.Live || d.Name != "box" {
		t.Errorf("the diagnosis is of %q, live %v, want the running box", d.Name, d.Live)
	}
	if d.Seconds < 0.02 {
		t.Errorf("the diagnosis looked for %v s, want 0.02 or more", d.Seconds)
	}
	if d.Findings[0].Severity != vm.SeverityError {
		t.Errorf("the first finding is %+v, want an error", d.Findings[0])
	}
	found := map[string]vm.Finding{}
	for _, f := range d.Findings {
		found[f.Code] = f
	}
	if f := found["oom-kill"]; f.Subject != "node" {
		t.Errorf("the killed process is not found: %+v", d.Findings)
	}
	if f := found["unit-failed"]; f.Subject != "unit app" {
		t.Errorf("the failed unit is not found: %+v", d.Findings)
	}
	if f := found["port-taken"]; f.Subject != "port 81" || !strings.Contains(f.Says, "command p1 wants port 81") {
		t.Errorf("the command that wants a taken port is not found: %+v", d.Findings)
	}
	if list, err := e.Processes(ctx, c, "box"); err != nil || len(list) != 1 {
		t.Errorf("the looks left commands behind: %+v, %v", list, err)
	}
	if after, err := e.AuditList(ctx, c, vm.AuditFilter{}); err != nil || len(after) != len(before) {
		t.Errorf("looking left %d audit records", len(after)-len(before))
	}
	for _, apart := range []time.Duration{-1, 2 * time.Minute} {
		_, err := e.Diagnose(ctx, c, "box", apart)
		wantCode(t, err, vm.Invalid, "INVALID_REQUEST")
		_, err = e.Top(ctx, c, "box", apart, true)
		wantCode(t, err, vm.Invalid, "INVALID_REQUEST")
	}
	_, err = e.Diagnose(ctx, c, "none", 0)
	wantCode(t, err, vm.NotFound, "VM_NOT_FOUND")
	gone, cancel := context.WithCancel(ctx)
	time.AfterFunc(20*time.Millisecond, cancel)
	if _, err := e.Diagnose(gone, c, "box", time.Minute); vm.KindOf(err) != vm.Cancelled {
		t.Errorf("a caller who went away: %v", err)
	}
}

// TestTop: one sample has no CPU shares, two have; brief starts no program in the guest.
func TestTop(t *testing.T) {
	_, e, c := site(t)
	create(t, e, c, engine.CreateRequest{Name: "box"})
	ctx := t.Context()
	p, err := e.StartProcess(ctx, c, "box", vm.ExecSpec{Command: "echo hello; sleep 60"})
	if err != nil {
		t.Fatal(err)
	}
	top, err := e.Top(ctx, c, "box", 0, true)
	if err != nil {
		t.Fatal(err)
	}
	if !top.Live {
		t.Error("the brief top of a running VM is not live")
	}
	if top.CPUPercent != nil || len(top.Services) != 0 || len(top.Logs) != 0 {
		t.Errorf("a brief top measures CPU (%v), services (%v) or logs (%v)", top.CPUPercent, top.Services, top.Logs)
	}
	if len(top.Ports) != 3 || len(top.Mounts) != 1 {
		t.Errorf("a brief top has the ports %+v and mounts %+v, want 3 and 1", top.Ports, top.Mounts)
	}
	if top.Blocked == nil || top.Problems == nil || top.Services == nil {
		t.Errorf("a list is null: %+v", top)
	}
	for {
		if top, err = e.Top(ctx, c, "box", 20*time.Millisecond, false); err != nil {
			t.Fatal(err)
		}
		if len(top.Logs) > 0 {
			break
		}
	}
	// The simulated guest spends half a second of CPU a second.
	if top.CPUPercent == nil {
		t.Fatal("top does not measure the CPU")
	}
	if cpu := *top.CPUPercent * float64(top.VCPU); cpu < 49 || cpu > 51 {
		t.Errorf("top measures %v %% of a CPU, want 50", cpu)
	}
	if len(top.Services) != 2 || len(top.Processes) != 2 {
		t.Errorf("top has the services %+v and processes %+v, want 2 and 2", top.Services, top.Processes)
	}
	if !slices.Contains(top.Logs, vm.TopLog{Source: p.ID, Text: "hello"}) {
		t.Errorf("top's logs %+v lack the command's hello", top.Logs)
	}
}

// TestDiagnoseAsleep: a diagnosis wakes no VM, and says why it sleeps.
func TestDiagnoseAsleep(t *testing.T) {
	_, e, c := site(t)
	v := create(t, e, c, engine.CreateRequest{Name: "box"})
	ctx := t.Context()
	if _, err := e.Suspend(ctx, c, "box", engine.SuspendRequest{}); err != nil {
		t.Fatal(err)
	}
	d, err := e.Diagnose(ctx, c, "box", 0)
	if err != nil {
		t.Fatal(err)
	}
	if d.Live || d.State != vm.Suspended {
		t.Errorf("the diagnosis of a suspended VM says %q, live %v", d.State, d.Live)
	}
	if len(d.Findings) != 1 || d.Findings[0].Code != "not-running" || !strings.Contains(d.Findings[0].Says, "it was suspended") {
		t.Errorf("the findings are %+v, want not-running alone, because it was suspended", d.Findings)
	}
	top, err := e.Top(ctx, c, string(v.ID), time.Second, false)
	if err != nil {
		t.Fatal(err)
	}
	if top.Live || top.State != vm.Suspended || !strings.Contains(top.Why, "it was suspended") {
		t.Errorf("the top of a suspended VM says %q, live %v, because %q", top.State, top.Live, top.Why)
	}
	if top.Processes == nil {
		t.Error("the processes of a suspended VM's top are null, want an empty list")
	}
	if now, err := e.Get(ctx, c, "box"); err != nil || now.State != vm.Suspended {
		t.Errorf("looking has woken it: %+v, %v", now, err)
	}
}

// TestFollowService: existing lines arrive, each once; a failing reader ends the follow,
// and an unknown unit is refused at once.
func TestFollowService(t *testing.T) {
	_, e, c := site(t)
	create(t, e, c, engine.CreateRequest{Name: "box"})
	ctx := t.Context()
	if r, err := e.AddService(ctx, c, "box", "", vm.Unit{Name: "job", Mode: vm.UnitOneshot, Exec: []string{"echo done"}}); err != nil || !r.Success {
		t.Fatalf("the service was not added: %+v, %v", r, err)
	}
	f, err := e.FollowService(ctx, c, "box", "", "job", 5, "")
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	if err := f.Run(func(l vm.UnitLog) error { got = append(got, l.Message); return nil }); err != nil || !slices.Contains(got, "done") {
		t.Errorf("following the service gave %q (%v), want done among it", got, err)
	}
	if f, err = e.FollowService(ctx, c, "box", "", "job", 5, ""); err != nil {
		t.Fatal(err)
	}
	broken := errors.New("the reader went away")
	if err := f.Run(func(vm.UnitLog) error { return broken }); !errors.Is(err, broken) {
		t.Errorf("after its reader failed the follower ends with %v, want the reader's error", err)
	}
	for name, kind := range map[string]vm.Kind{"none": vm.NotFound, "../x": vm.Invalid} {
		if _, err := e.FollowService(ctx, c, "box", "", name, 5, ""); vm.KindOf(err) != kind {
			t.Errorf("following the service %q gives %v, want kind %s", name, err, kind)
		}
	}
	if _, err := e.FollowService(ctx, c, "box", "", "job", -1, ""); vm.KindOf(err) != vm.Invalid {
		t.Errorf("following from -1 lines gives %v, want it invalid", err)
	}
	if list, err := e.Processes(ctx, c, "box"); err != nil || slices.ContainsFunc(list, func(p vm.Process) bool { return slices.Contains(p.Argv, "--follow") }) {
		t.Errorf("a journalctl is left: %+v, %v", list, err)
	}
}
