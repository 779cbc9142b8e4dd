// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package engine_test

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/warren-vm/warren/internal/engine"
	"github.com/warren-vm/warren/internal/spec"
	"github.com/warren-vm/warren/internal/vmtest"
	"github.com/warren-vm/warren/vm"
)

// site opens a simulated host and one engine on it.
func site(t *testing.T) (*vmtest.Site, *vmtest.House, *vm.Call) {
	t.Helper()
	s, err := vmtest.NewSite(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if testing.Verbose() {
		s.Log = slog.New(slog.NewTextHandler(t.Output(), nil))
	}
	e, c := open(t, s)
	return s, e, c
}

// open opens an engine; the test closes it at its end.
func open(t testing.TB, s *vmtest.Site) (*vmtest.House, *vm.Call) {
	t.Helper()
	e, err := s.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closeEngine(t, e) })
	return e, call(t, e)
}

func closeEngine(t testing.TB, e *vmtest.House) {
	t.Helper()
	ctx, stop := context.WithTimeout(context.Background(), 10*time.Second)
	defer stop()
	if err := e.Close(ctx); err != nil {
		t.Errorf("close: %v", err)
	}
}

// call returns a call of the admin's account.
func call(t testing.TB, e *vmtest.House) *vm.Call {
	t.Helper()
	c := &vm.Call{Actor: vm.Actor{Admin: true}}
	secret, created, err := e.EnsureAdmin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if created {
		if c.Actor, err = e.Authenticate(t.Context(), secret); err != nil {
			t.Fatal(err)
		}
		return c
	}
	list, err := e.Accounts(t.Context(), c)
	if err != nil || len(list) == 0 {
		t.Fatalf("accounts: %v, %v", list, err)
	}
	for _, a := range list {
		if a.Admin {
			c.Actor.Account = a.ID
		}
	}
	return c
}

// newAccount makes an account and returns it as a caller, and its key's secret.
func newAccount(t *testing.T, e *vmtest.House, admin *vm.Call, name string) (*vm.Call, string) {
	t.Helper()
	_, _, secret, err := e.CreateAccount(t.Context(), admin, name)
	if err != nil {
		t.Fatal(err)
	}
	actor, err := e.Authenticate(t.Context(), secret)
	if err != nil {
		t.Fatal(err)
	}
	return &vm.Call{Actor: actor}, secret
}

func create(t *testing.T, e *vmtest.House, c *vm.Call, r engine.CreateRequest) vm.VM {
	t.Helper()
	v, err := e.Create(t.Context(), c, r)
	if err != nil {
		t.Fatalf("create: %v", err)
	}
	return v
}

// sh runs a script and returns its output and exit status.
func sh(t *testing.T, e *vmtest.House, c *vm.Call, ref, script string) (string, int) {
	t.Helper()
	x, err := e.Exec(t.Context(), c, ref, vm.ExecSpec{Command: script})
	if err != nil {
		t.Fatalf("exec: %v", err)
	}
	var out bytes.Buffer
	st, err := x.Run(&out, &out)
	if err != nil {
		t.Fatalf("run: %v", err)
	}
	return out.String(), st.Code
}

// wantCode checks kind and contract code of an error.
func wantCode(t *testing.T, err error, kind vm.Kind, code string) {
	t.Helper()
	if vm.KindOf(err) != kind || vm.AsError(err).Code != code {
		t.Errorf("error %v: kind %q, code %q; want %q, %q", err, vm.KindOf(err), vm.AsError(err).Code, kind, code)
	}
}

// eventually waits for something that happens in the background.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	deadline := time.NewTimer(10 * time.Second)
	defer deadline.Stop()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-deadline.C:
			t.Fatalf("did not happen: %s", what)
		}
	}
}

// inTime is eventually with a clock that moves by 100 ms before each further look. A task may work out how
// long it will wait, be overtaken by a test that moves the clock, and set its timer only afterwards: on a
// clock that nobody moves again, that timer never fires.
func inTime(t *testing.T, clock *vmtest.Clock, what string, ok func() bool) {
	t.Helper()
	eventually(t, what, func() bool {
		if ok() {
			return true
		}
		clock.Advance(100 * time.Millisecond)
		return false
	})
}

// TestLife follows one VM through its life: files survive stop and start, memory does not
// and the answer says so, and the id stays.
func TestLife(t *testing.T) {
	s, e, c := site(t)
	v := create(t, e, c, engine.CreateRequest{Name: "box"})
	if v.Persistence.Type != vm.Sticky || *v.Persistence.Priority != 5 {
		t.Errorf("persistence %+v", v.Persistence)
	}
	if v.State != vm.Running || v.InstanceID == "" || v.Accel != vm.TCG || v.Network.Mode != vm.NetClosed {
		t.Errorf("created %+v", v)
	}
	spec, _ := s.World.Spec(v.ID)
	if spec.Generation == nil || spec.Reset.Hostname != "box" || spec.Reset.HostKeys["ssh_host_ed25519_key"] == "" {
		t.Errorf("not started on a warm generation with an identity: %+v", spec)
	}
	backing, err := os.ReadFile(s.Dir.Overlay(v.ID))
	if err != nil || !strings.HasPrefix(string(backing), "../../images/") {
		t.Errorf("backing name %q, %v: want a relative one", backing, err)
	}
	if out, code := sh(t, e, c, "box", "echo hi; echo data > /work/f; exit 3"); out != "hi\n" || code != 3 {
		t.Errorf("exec: %q, %d", out, code)
	}
	if v, err = e.Stop(t.Context(), c, "box"); err != nil || v.State != vm.Stopped || v.Reason != "stop" {
		t.Fatalf("stop: %+v, %v", v, err)
	}
	if n := s.World.Running(); len(n) != 0 {
		t.Errorf("machines after stop: %v", n)
	}
	_, err = e.Stats(t.Context(), c, "box") // looking at a VM does not wake it
	wantCode(t, err, vm.WrongState, "VM_NOT_RUNNING")
	old := v.InstanceID
	if v, err = e.Start(t.Context(), c, "box", engine.StartRequest{}); err != nil || v.State != vm.Running {
		t.Fatalf("start: %+v, %v", v, err)
	}
	cold, _ := s.World.Spec(v.ID)
	if cold.Generation != nil || !cold.WaitBooted || v.InstanceID == old || len(v.Losses) == 0 {
		t.Errorf("a stopped VM starts cold and says what was lost: %+v, %+v", cold, v)
	}
	if cold.Reset.MachineID != spec.Reset.MachineID || cold.Reset.BootID == spec.Reset.BootID {
		t.Error("the machine id stays with the VM, the boot id goes with the boot")
	}
	if out, _ := sh(t, e, c, string(v.ID), "cat /work/f"); out != "data\n" {
		t.Errorf("the disk did not survive: %q", out)
	}
	if _, err = e.Delete(t.Context(), c, "box"); err != nil {
		t.Fatalf("delete: %v", err)
	}
	_, err = e.Get(t.Context(), c, "box")
	wantCode(t, err, vm.NotFound, "VM_NOT_FOUND")
	nothingLeft(t, s)
}

// nothingLeft checks that a host has no trace of any VM.
func nothingLeft(t *testing.T, s *vmtest.Site) {
	t.Helper()
	if ids := s.World.Running(); len(ids) != 0 {
		t.Errorf("leaked machines: %v", ids)
	}
	for _, dir := range []string{s.Dir.VMs(), string(s.Run)} {
		entries, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, entry := range entries {
			t.Errorf("leaked %s/%s", dir, entry.Name())
		}
	}
	recs, err := vmtest.Stored[vm.VM](s.Backend, "vms")
	if err != nil || len(recs) != 0 {
		t.Errorf("leaked records: %v, %v", recs, err)
	}
}

func snapshotOf(t *testing.T, e *vmtest.House, c *vm.Call, ref, name string) vm.SnapshotID {
	t.Helper()
	g, err := e.Snapshot(t.Context(), c, ref, engine.SnapshotRequest{Name: name})
	if err != nil {
		t.Fatal(err)
	}
	return g.Snapshot
}

// records returns every audit record.
func records(t *testing.T, s *vmtest.Site) []vm.AuditRecord {
	t.Helper()
	list, err := s.Audit.List(t.Context(), vm.AuditFilter{})
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// TestReceipts: no record, no action; every action's record has its outcome.
func TestReceipts(t *testing.T) {
	s, e, c := site(t)
	c.Request = "ri-1"
	v := create(t, e, c, engine.CreateRequest{Name: "box"})
	if c.Receipt == "" {
		t.Error("create left no receipt")
	}
	sh(t, e, c, "box", "exit 7")
	if _, err := e.WriteFile(t.Context(), c, "box", "", "/work/a", vm.WriteOptions{Size: 3}, strings.NewReader("abc")); err != nil {
		t.Fatal(err)
	}
	recs, err := e.AuditList(t.Context(), c, vm.AuditFilter{VM: v.ID})
	if err != nil {
		t.Fatal(err)
	}
	got := map[vm.Op]vm.AuditRecord{}
	for _, r := range recs {
		got[r.Op] = r
		if r.Outcome != "ok" || r.Request != "ri-1" {
			t.Errorf("record %+v", r)
		}
	}
	if got[vm.OpExec].Subject != "exit 7" || got[vm.OpExec].Detail["exitCode"] != 7 {
		t.Errorf("exec record %+v", got[vm.OpExec])
	}
	if got[vm.OpWrite].Subject != "/work/a" || got[vm.OpWrite].Detail["bytes"] != int64(3) {
		t.Errorf("write record %+v", got[vm.OpWrite])
	}

	s.Audit.Fail(vm.Errorf(vm.NoSpace, "", "full"))
	n := len(records(t, s))
	for verb, do := range map[string]func() error{
		"create": func() error { _, err := e.Create(t.Context(), c, engine.CreateRequest{}); return err },
		"exec":   func() error { _, err := e.Exec(t.Context(), c, "box", vm.ExecSpec{Command: "true"}); return err },
		"stop":   func() error { _, err := e.Stop(t.Context(), c, "box"); return err },
		"delete": func() error { _, err := e.Delete(t.Context(), c, "box"); return err },
		"write": func() error {
			_, err := e.WriteFile(t.Context(), c, "box", "", "/work/b", vm.WriteOptions{Size: -1}, strings.NewReader(""))
			return err
		},
		"mkdir": func() error { return e.Mkdir(t.Context(), c, "box", "", "/work/d", 0, false) },
		"key":   func() error { _, _, err := e.CreateKey(t.Context(), c, "", "k"); return err },
	} {
		if err := do(); vm.KindOf(err) != vm.NoSpace {
			t.Errorf("%s without a record: %v", verb, err)
		}
	}
	if len(s.World.Running()) != 1 || len(records(t, s)) != n {
		t.Error("something was done without a record")
	}
	s.Audit.Fail(nil)
	if _, err := e.Stat(t.Context(), c, "box", "", "/work/d"); vm.KindOf(err) != vm.NotFound {
		t.Errorf("mkdir was done without a record: %v", err)
	}
}

// TestCreateRefuses checks each bad field and its contract code.
func TestCreateRefuses(t *testing.T) {
	s, e, c := site(t)
	eleven, uid := 11, 70000
	n := vm.Seconds(-time.Second)
	for name, tc := range map[string]struct {
		r    engine.CreateRequest
		kind vm.Kind
		code string
	}{
		"name":        {engine.CreateRequest{Name: "No Good"}, vm.Invalid, "CREATE_VM_BAD_REQUEST"},
		"image":       {engine.CreateRequest{Image: "nope"}, vm.NotFound, "SNAPSHOT_NOT_FOUND"},
		"snapshot":    {engine.CreateRequest{Image: "sc-aaaaaaaaaaaaaaaaaaaa"}, vm.NotFound, "SNAPSHOT_NOT_FOUND"},
		"cpus":        {engine.CreateRequest{Size: vm.Size{VCPU: 64}}, vm.Invalid, "CREATE_VM_VCPU_OUT_OF_RANGE"},
		"cpus odd":    {engine.CreateRequest{Size: vm.Size{VCPU: 3}}, vm.Invalid, "CREATE_VM_VCPU_NOT_POWER_OF_TWO"},
		"cpus minus":  {engine.CreateRequest{Size: vm.Size{VCPU: -1}}, vm.Invalid, "CREATE_VM_VCPU_OUT_OF_RANGE"},
		"memory":      {engine.CreateRequest{Size: vm.Size{MemoryMiB: 64}}, vm.Invalid, "CREATE_VM_MEM_OUT_OF_RANGE"},
		"memory odd":  {engine.CreateRequest{Size: vm.Size{MemoryMiB: 700}}, vm.Invalid, "CREATE_VM_MEM_NOT_POWER_OF_TWO"},
		"disk":        {engine.CreateRequest{Size: vm.Size{DiskMiB: 100}}, vm.Invalid, "CREATE_VM_ROOTFS_OUT_OF_RANGE"},
		"network":     {engine.CreateRequest{Network: "ajar"}, vm.Invalid, "CREATE_VM_BAD_REQUEST"},
		"persistence": {engine.CreateRequest{Persistence: &vm.Persistence{Type: "eternal"}}, vm.Invalid, "CREATE_VM_BAD_REQUEST"},
		"priority":    {engine.CreateRequest{Persistence: &vm.Persistence{Type: vm.Sticky, Priority: &eleven}}, vm.Invalid, "CREATE_VM_BAD_REQUEST"},
		"event":       {engine.CreateRequest{Persistence: &vm.Persistence{Type: vm.Ephemeral, DeleteEvent: "onTuesday"}}, vm.Invalid, "CREATE_VM_BAD_REQUEST"},
		"ttl":         {engine.CreateRequest{TTL: vm.Some(n)}, vm.Invalid, "CREATE_VM_BAD_REQUEST"},
		"idle":        {engine.CreateRequest{IdleTimeout: vm.Some(n)}, vm.Invalid, "CREATE_VM_BAD_REQUEST"},
		"workdir":     {engine.CreateRequest{Workdir: "rel"}, vm.Invalid, "CREATE_VM_BAD_REQUEST"},
		"file":        {engine.CreateRequest{Layers: []spec.Layer{{Files: []spec.File{{Path: "rel"}}}}}, vm.Invalid, "CREATE_VM_BAD_REQUEST"},
		"group":       {engine.CreateRequest{Layers: []spec.Layer{{Groups: []spec.Group{{Name: "A B"}}}}}, vm.Invalid, "GROUP_NAME_INVALID_CHARS"},
		"uid":         {engine.CreateRequest{Layers: []spec.Layer{{Users: []spec.User{{Name: "u", UID: &uid}}}}}, vm.Invalid, "USER_UID_OUT_OF_RANGE"},
		"twice":       {engine.CreateRequest{Layers: []spec.Layer{{Users: []spec.User{{Name: "u"}, {Name: "u"}}}}}, vm.Invalid, "DUPLICATE_USER_NAME"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := e.Create(t.Context(), c, tc.r)
			wantCode(t, err, tc.kind, tc.code)
		})
	}
	s.World.SetFree(600<<20, 1<<40)
	_, err := e.Create(t.Context(), c, engine.CreateRequest{})
	wantCode(t, err, vm.Limit, "")
	s.World.SetFree(64<<30, 100<<20)
	_, err = e.Create(t.Context(), c, engine.CreateRequest{})
	wantCode(t, err, vm.NoSpace, "NO_LOCAL_STORAGE_CAPACITY")
	s.World.SetFree(64<<30, 1<<40)
	s.World.RemoveImages()
	_, err = e.Create(t.Context(), c, engine.CreateRequest{})
	wantCode(t, err, vm.NotFound, "NO_DEFAULT_SNAPSHOT_AVAILABLE")
	nothingLeft(t, s)
}

// TestAdmissionNamesWhatToStop: the refusal names the account's own VMs that would have
// to stop.
func TestAdmissionNamesWhatToStop(t *testing.T) {
	s, e, c := site(t)
	create(t, e, c, engine.CreateRequest{Name: "big", Size: vm.Size{MemoryMiB: 2048}})
	s.World.SetFree(1300<<20, 1<<40) // 512 wanted + 512 reserve + a quarter of 2048
	_, err := e.Create(t.Context(), c, engine.CreateRequest{})
	if vm.KindOf(err) != vm.Limit || !strings.Contains(vm.AsError(err).Hint, "big (2048 MiB)") {
		t.Errorf("refusal %v, hint %q", err, vm.AsError(err).Hint)
	}
}

// TestSetup: users, groups and files exist when create returns, and a failing setup
// leaves no VM.
func TestSetup(t *testing.T) {
	s, e, c := site(t)
	create(t, e, c, engine.CreateRequest{Name: "box", Layers: []spec.Layer{{
		Groups: []spec.Group{{Name: "crew"}},
		Users:  []spec.User{{Name: "ann", Groups: []string{"crew"}}},
		Files:  []spec.File{{Path: "/opt/x/run.sh", Content: []byte("#!/bin/sh\n"), Executable: true}},
	}}})
	f, err := e.Stat(t.Context(), c, "box", "ann", "/opt/x/run.sh")
	if err != nil || f.Mode != 0o755 || f.Size != 10 {
		t.Errorf("file %+v, %v", f, err)
	}
	_, err = e.Stat(t.Context(), c, "box", "bob", "/")
	wantCode(t, err, vm.NotFound, "USER_NOT_FOUND")
	if _, err := e.Delete(t.Context(), c, "box"); err != nil {
		t.Fatal(err)
	}
	s.World.Fail("guest.exec", vm.Errorf(vm.GuestFault, "", "no"))
	_, err = e.Create(t.Context(), c, engine.CreateRequest{Layers: []spec.Layer{{Groups: []spec.Group{{Name: "crew"}}}}})
	wantCode(t, err, vm.GuestFault, "VM_SETUP_FAILED")
	nothingLeft(t, s)
}

// TestNames: names and ids work alike; ambiguous and malformed ones get different errors.
func TestNames(t *testing.T) {
	_, e, c := site(t)
	a := create(t, e, c, engine.CreateRequest{Name: "twin"})
	b := create(t, e, c, engine.CreateRequest{Name: "twin"})
	_, err := e.Get(t.Context(), c, "twin")
	wantCode(t, err, vm.Invalid, "INVALID_VM_ID")
	if !strings.Contains(err.Error(), string(a.ID)) || !strings.Contains(err.Error(), string(b.ID)) {
		t.Errorf("the ids are not named: %v", err)
	}
	_, err = e.Create(t.Context(), c, engine.CreateRequest{Name: "twin", UniqueName: true})
	wantCode(t, err, vm.Exists, "")
	_, err = e.Get(t.Context(), c, "Bad Name")
	wantCode(t, err, vm.Invalid, "INVALID_VM_ID")
	_, err = e.Get(t.Context(), c, string(vm.NewID()))
	wantCode(t, err, vm.NotFound, "VM_NOT_FOUND")
	long := create(t, e, c, engine.CreateRequest{Name: "abcdefghijabcdefghij"}) // a name of the form of an id
	if v, err := e.Get(t.Context(), c, "abcdefghijabcdefghij"); err != nil || v.ID != long.ID {
		t.Errorf("by a name like an id: %v, %v", v.ID, err)
	}
}

// TestList pages, filters and counts.
func TestList(t *testing.T) {
	_, e, c := site(t)
	for _, n := range []string{"x-a", "x-b", "y-b"} {
		create(t, e, c, engine.CreateRequest{Name: n})
	}
	if _, err := e.Stop(t.Context(), c, "x-b"); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		f     engine.Filter
		want  []string
		total int
	}{
		{engine.Filter{}, []string{"x-a", "x-b", "y-b"}, 3},
		{engine.Filter{Limit: 1, Offset: 1}, []string{"x-b"}, 3},
		{engine.Filter{Offset: 9}, nil, 3},
		{engine.Filter{Search: "x-"}, []string{"x-a", "x-b"}, 2},
		{engine.Filter{States: []vm.State{vm.Stopped}}, []string{"x-b"}, 1},
	} {
		vms, total, counts, err := e.List(t.Context(), c, tc.f)
		var names []string
		for _, v := range vms {
			names = append(names, v.Name)
		}
		if err != nil || !slices.Equal(names, tc.want) || total != tc.total {
			t.Errorf("%+v lists %v of %d (%v), want %v of %d", tc.f, names, total, err, tc.want, tc.total)
		}
		if counts[vm.Running] != 2 || counts[vm.Stopped] != 1 {
			t.Errorf("%+v counts %v, want 2 running and 1 stopped", tc.f, counts)
		}
	}
}

// TestStartAgain: start of a running VM succeeds and does nothing.
func TestStartAgain(t *testing.T) {
	s, e, c := site(t)
	v := create(t, e, c, engine.CreateRequest{Name: "box"})
	again, err := e.Start(t.Context(), c, "box", engine.StartRequest{IdleTimeout: vm.Some(vm.Seconds(90 * time.Second))})
	if err != nil || again.InstanceID != v.InstanceID || *again.IdleTimeout != vm.Seconds(90*time.Second) || s.World.Launches() != 1 {
		t.Errorf("%+v, %v, %d launches", again, err, s.World.Launches())
	}
}

// TestAwait returns when the VM has stopped or is gone.
func TestAwait(t *testing.T) {
	for _, verb := range []string{"stop", "delete"} {
		_, e, c := site(t)
		create(t, e, c, engine.CreateRequest{Name: "box"})
		done := make(chan error, 1)
		go func() {
			v, err := e.Await(t.Context(), &vm.Call{Actor: c.Actor}, "box")
			if err == nil && verb == "stop" && v.State != vm.Stopped {
				err = vm.Errorf(vm.Internal, "", "still %s", v.State)
			}
			done <- err
		}()
		if err := doVerb(t, e, c, verb); err != nil {
			t.Fatal(err)
		}
		if err := <-done; err != nil && vm.KindOf(err) != vm.NotFound { // deleted before it looked
			t.Errorf("await during %s: %v", verb, err)
		}
	}
}

// TestInspect describes a VM and its machine.
func TestInspect(t *testing.T) {
	s, e, c := site(t)
	create(t, e, c, engine.CreateRequest{Name: "box"})
	i, err := e.Inspect(t.Context(), c, "box")
	if err != nil {
		t.Fatal(err)
	}
	if i.Machine == nil || i.Image == nil || i.DiskBytes == 0 {
		t.Errorf("inspect gives the machine %+v, image %+v and %d bytes of disk, want all three", i.Machine, i.Image, i.DiskBytes)
	}
	if !slices.Contains(i.Warnings, vm.EmulatedWarning) {
		t.Errorf("the warnings %q lack that of an emulated machine", i.Warnings)
	}
	s.World.Fail("status", vm.Errorf(vm.Unavailable, "", "no"))
	if i, err = e.Inspect(t.Context(), c, "box"); err != nil || i.Machine != nil || i.MachineErr == nil {
		t.Errorf("a broken machine is described: %+v, %v", i, err)
	}
}
