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

// TestKeys: secrets are shown once and not kept; rotation and revocation work
// at once.
func TestKeys(t *testing.T) {
	s, e, admin := site(t)
	ctx := t.Context()
	a, k, secret, err := e.CreateAccount(ctx, admin, "team")
	if err != nil {
		t.Fatal(err)
	}
	actor, err := e.Authenticate(ctx, secret)
	if err != nil || actor.Account != a.ID || actor.Key != k.ID || actor.Admin {
		t.Errorf("%+v, %v", actor, err)
	}
	recs, err := s.Records.Keys.List(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range recs {
		if strings.Contains(r.Hash, secret) || r.Hash == "" {
			t.Errorf("the secret is kept: %+v", r)
		}
	}
	own := &vm.Call{Actor: actor}
	_, rotated, err := e.RotateKey(ctx, own, k.ID)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := e.Authenticate(ctx, secret); vm.KindOf(err) != vm.Unauthenticated {
		t.Errorf("the old secret: %v", err)
	}
	if _, err := e.Authenticate(ctx, rotated); err != nil {
		t.Errorf("the new secret: %v", err)
	}
	k2, second, err := e.CreateKey(ctx, own, "", "ci")
	if err != nil {
		t.Fatal(err)
	}
	if keys, err := e.Keys(ctx, own, ""); err != nil || len(keys) != 2 {
		t.Errorf("keys %v, %v", keys, err)
	}
	if err := e.RevokeKey(ctx, own, k2.ID); err != nil {
		t.Fatal(err)
	}
	if _, err := e.Authenticate(ctx, second); vm.KindOf(err) != vm.Unauthenticated {
		t.Errorf("the revoked secret: %v", err)
	}
	closeEngine(t, e)
	e, _ = open(t, s)
	if got, err := e.Authenticate(ctx, rotated); err != nil || got.Account != a.ID {
		t.Errorf("after a restart: %+v, %v", got, err)
	}
}

// TestRights: accounts belong to admins, keys to their account.
func TestRights(t *testing.T) {
	_, e, admin := site(t)
	ctx := t.Context()
	own, _ := newAccount(t, e, admin, "a")
	a := own.Actor.Account
	adminKeys, err := e.Keys(ctx, admin, "")
	if err != nil {
		t.Fatal(err)
	}
	_, _, _, errCreate := e.CreateAccount(ctx, own, "b")
	_, _, errKey := e.CreateKey(ctx, own, admin.Actor.Account, "k")
	_, errKeys := e.Keys(ctx, own, admin.Actor.Account)
	_, errVerify := e.AuditVerify(ctx, own)
	for i, err := range []error{errCreate, errKey, errKeys, errVerify, e.RemoveAccount(ctx, own, a, true)} {
		if vm.KindOf(err) != vm.Denied {
			t.Errorf("%d: %v, want Denied", i, err)
		}
	}
	_, _, errRotate := e.RotateKey(ctx, own, adminKeys[0].ID)
	for i, err := range []error{errRotate, e.RevokeKey(ctx, own, adminKeys[0].ID)} {
		if vm.KindOf(err) != vm.NotFound {
			t.Errorf("%d: %v, want NotFound", i, err)
		}
	}
	if err := e.RevokeKey(ctx, admin, adminKeys[0].ID); vm.KindOf(err) != vm.Denied {
		t.Errorf("the last admin key: %v", err)
	}
	if list, err := e.Accounts(ctx, own); err != nil || len(list) != 1 || list[0].ID != a {
		t.Errorf("accounts %v, %v", list, err)
	}
	_, _, _, err = e.CreateAccount(ctx, admin, "a")
	wantCode(t, err, vm.Exists, "")
}

// TestRemoveAccount: refused while it has VMs, unless forced.
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

// TestLastUsed is written at most once a minute.
func TestLastUsed(t *testing.T) {
	s, e, c, clock := clocked(t)
	ctx := t.Context()
	_, secret, err := e.CreateKey(ctx, c, "", "k")
	if err != nil {
		t.Fatal(err)
	}
	writes := func() (at time.Time, rev int64) {
		keys, err := s.Records.Keys.List(ctx)
		if err != nil {
			t.Fatal(err)
		}
		for _, k := range keys {
			if k.Name == "k" {
				return k.LastUsed, k.Revision
			}
		}
		return
	}
	use := func() {
		if _, err := e.Authenticate(ctx, secret); err != nil {
			t.Fatal(err)
		}
	}
	use()
	at, rev := writes()
	clock.Advance(30 * time.Second)
	use()
	if _, again := writes(); again != rev || at.IsZero() {
		t.Errorf("written twice within a minute, or never: %v, %d, %d", at, rev, again)
	}
	clock.Advance(40 * time.Second)
	use()
	if _, again := writes(); again == rev {
		t.Error("not written after a minute")
	}
}

// TestResults keeps answers for their account, for an hour.
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
		t.Errorf("%+v, %v", r, err)
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

// TestAnswersAreFiles: the body of an answer is no part of its record, and
// survives a restart; one that an older warren stored in the record is answered,
// too. A file without a record is removed.
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
		t.Fatal(stored, err)
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

// TestNetwork: the policy changes in the machine and in the record, or in
// neither.
func TestNetwork(t *testing.T) {
	s, e, c := site(t)
	ctx := t.Context()
	v := create(t, e, c, engine.CreateRequest{Name: "box"})
	got, err := e.SetNetwork(ctx, c, "box", "packages")
	if err != nil || got.Network.Mode != vm.NetPackages || len(got.Network.Hosts) == 0 || s.World.Policy(v.ID).Mode != vm.NetPackages {
		t.Errorf("%+v, %v", got.Network, err)
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
