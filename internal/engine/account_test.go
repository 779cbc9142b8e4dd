// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package engine_test

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/warren-vm/warren/internal/engine"
	"github.com/warren-vm/warren/internal/vmtest"
	"github.com/warren-vm/warren/vm"
)

func appendTo(t *testing.T, path, text string) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY|os.O_CREATE, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString(text); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}

func rotate(t *testing.T, path string) {
	t.Helper()
	if err := os.Rename(path, path+".1"); err != nil {
		t.Fatal(err)
	}
}

// TestRemoveAccount: an account with VMs is only removed with force.
func TestRemoveAccount(t *testing.T) {
	s, e, admin := site(t)
	ctx := t.Context()
	own, secret := newAccount(t, e, admin, "a")
	create(t, e, own, engine.CreateRequest{Name: "box"})
	if err := e.RemoveAccount(ctx, admin, own.Actor.Account, false); vm.KindOf(err) != vm.Busy {
		t.Errorf("with a VM: %v", err)
	}
	snapshotOf(t, e, own, "box", "kept")
	if _, err := e.Delete(ctx, own, "box"); err != nil {
		t.Fatal(err)
	}
	if err := e.RemoveAccount(ctx, admin, own.Actor.Account, false); vm.KindOf(err) != vm.Busy {
		t.Errorf("with a snapshot: %v", err)
	}
	if err := e.RemoveAccount(ctx, admin, "a", true); err != nil { // by its name
		t.Fatal(err)
	}
	if _, err := e.Authenticate(ctx, secret); vm.KindOf(err) != vm.Unauthenticated {
		t.Errorf("its key: %v", err)
	}
	eventually(t, "its snapshot goes", func() bool {
		left, err := os.ReadDir(s.Dir.Generations())
		return err == nil && len(left) == 0
	})
	nothingLeft(t, s)
}

// TestResults: stored answers are available to their account only, for an hour.
func TestResults(t *testing.T) {
	s, e, c, clock := clocked(t)
	ctx := t.Context()
	id := vm.NewRequestID()
	if err := e.SaveResult(ctx, c, engine.Result{Request: id}); err != nil {
		t.Fatal(err)
	}
	if err := e.SaveResult(ctx, c, engine.Result{Request: id, Done: true, Status: 200, Body: []byte("{}")}); err != nil {
		t.Fatal(err)
	}
	if r, err := e.Result(ctx, c, id); err != nil || !r.Done || string(r.Body) != "{}" {
		t.Errorf("the saved answer is %+v (%v), want it done with the body {}", r, err)
	}
	_, err := e.Result(ctx, &vm.Call{Actor: vm.Actor{Account: "else"}}, id)
	wantCode(t, err, vm.NotFound, "NOT_FOUND")
	clock.Advance(2 * time.Hour)
	_, err = e.Result(ctx, c, id)
	wantCode(t, err, vm.NotFound, "NOT_FOUND")
	if err := e.SaveResult(ctx, c, engine.Result{Request: vm.NewRequestID()}); err != nil {
		t.Fatal(err)
	}
	if files, err := os.ReadDir(s.Dir.Answers()); err != nil || len(files) != 0 {
		t.Errorf("files of answers that nobody can fetch any more: %v, %v", files, err)
	}
}

// TestAnswersAreFiles: the body of an answer is not in its record, and survives a
// restart. Bodies that an older warren stored in the record are still served. A file
// without a record is removed.
func TestAnswersAreFiles(t *testing.T) {
	s, e, c := site(t)
	ctx := t.Context()
	id, old := vm.NewRequestID(), vm.NewRequestID()
	body := strings.Repeat("x", 1<<20)
	if err := e.SaveResult(ctx, c, engine.Result{Request: id, Done: true, Status: 200, Body: []byte(body)}); err != nil {
		t.Fatal(err)
	}
	stored, err := vmtest.Stored[engine.Result](s.Backend, "results")
	if err != nil || len(stored) != 1 {
		t.Fatalf("the stored answers are %+v (%v), want one", stored, err)
	}
	if n := len(stored[0].Body); n != 0 {
		t.Errorf("the record has %d bytes of the body", n)
	}
	closeEngine(t, e)
	orphan := s.Dir.Answer(vm.NewRequestID())
	if err := os.WriteFile(orphan, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := vmtest.Put(s.Backend, "results", string(old), engine.Result{Request: old, Account: c.Actor.Account, Done: true, Body: []byte("old"), Created: time.Now()}); err != nil {
		t.Fatal(err)
	}
	e, c = open(t, s)
	if r, err := e.Result(ctx, c, id); err != nil || string(r.Body) != body {
		t.Errorf("after a restart: %d bytes, %v", len(r.Body), err)
	}
	if r, err := e.Result(ctx, c, old); err != nil || string(r.Body) != "old" {
		t.Errorf("of an older warren: %q, %v", r.Body, err)
	}
	if _, err := os.Stat(orphan); err == nil {
		t.Error("a file without a record is still there")
	}
}

// TestNetwork: the policy changes in both the machine and the record, or in neither.
func TestNetwork(t *testing.T) {
	s, e, c := site(t)
	ctx := t.Context()
	v := create(t, e, c, engine.CreateRequest{Name: "box"})
	got, err := e.SetNetwork(ctx, c, "box", "packages")
	if err != nil || got.Network.Mode != vm.NetPackages || len(got.Network.Hosts) == 0 {
		t.Errorf("the VM's network is %+v (%v), want packages with its hosts", got.Network, err)
	}
	if mode := s.World.Policy(v.ID).Mode; mode != vm.NetPackages {
		t.Errorf("the machine's policy is %q, want %q", mode, vm.NetPackages)
	}
	_, err = e.SetNetwork(ctx, c, "box", "ajar")
	wantCode(t, err, vm.Invalid, "INVALID_REQUEST")
	s.World.Fail("network", vm.Errorf(vm.Unavailable, "", "no"))
	if _, err := e.SetNetwork(ctx, c, "box", "open"); err == nil {
		t.Error("succeeded though the machine was not told")
	}
	if now, _ := e.Get(ctx, c, "box"); now.Network.Mode != vm.NetPackages {
		t.Errorf("record says %s", now.Network.Mode)
	}
}
