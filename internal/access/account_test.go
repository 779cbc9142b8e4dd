// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package access_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/warren-vm/warren/internal/vmtest"
	"github.com/warren-vm/warren/vm"
)

// A key's secret is shown once and not kept. Rotation and revocation take effect at
// once, and last over a restart.
func TestKeys(t *testing.T) {
	w, r, admin := site(t)
	ctx := t.Context()
	a, k, secret, err := r.CreateAccount(ctx, admin, "team")
	do(t, err)
	own := callOf(t, r, secret)
	is(t, "account", own.Actor.Account, a.ID)
	is(t, "key", own.Actor.Key, k.ID)
	is(t, "admin", own.Actor.Admin, false)
	for _, rec := range stored[vm.APIKey](t, w, "keys") {
		is(t, "the hash is there", rec.Hash != "", true)
		is(t, "the secret is kept", strings.Contains(rec.Hash, secret), false)
	}
	held, stop := r.Session(ctx, own, "", "")
	defer stop()
	w.clock.Advance(time.Second)
	_, rotated, err := r.RotateKey(ctx, own, k.ID)
	do(t, err)
	is(t, "the session of the old secret has ended", held.Err() != nil, true)
	_, err = r.Authenticate(ctx, secret)
	wantCode(t, err, vm.Unauthenticated, "")
	own = callOf(t, r, rotated)
	k2, second, err := r.CreateKey(ctx, own, "", "ci")
	do(t, err)
	keys, err := r.Keys(ctx, own, "")
	do(t, err)
	is(t, "keys", len(keys), 2)
	held, stop = r.Session(ctx, callOf(t, r, second), "", "")
	defer stop()
	do(t, r.RevokeKey(ctx, own, k2.ID))
	is(t, "the session of the revoked key has ended", held.Err() != nil, true)
	_, err = r.Authenticate(ctx, second)
	wantCode(t, err, vm.Unauthenticated, "")
	r = w.again(t, r)
	is(t, "account after a restart", callOf(t, r, rotated).Actor.Account, a.ID)
}

// Accounts belong to admins, keys to their account.
func TestRights(t *testing.T) {
	_, r, admin := site(t)
	ctx := t.Context()
	own, _ := newAccount(t, r, admin, "a")
	adminKeys, err := r.Keys(ctx, admin, "")
	do(t, err)
	last := adminKeys[0].ID
	refused := func(what string, want vm.Kind, err error) {
		t.Helper()
		is(t, what, vm.KindOf(err), want)
	}
	_, _, _, err = r.CreateAccount(ctx, own, "b")
	refused("create an account", vm.Denied, err)
	_, _, err = r.CreateKey(ctx, own, admin.Actor.Account, "k")
	refused("create another's key", vm.Denied, err)
	_, err = r.Keys(ctx, own, admin.Actor.Account)
	refused("list another's keys", vm.Denied, err)
	_, err = r.AuditVerify(ctx, own, nil)
	refused("verify the audit chain", vm.Denied, err)
	refused("accept a new audit log", vm.Denied, r.AuditAccept(ctx, own))
	refused("remove an account", vm.Denied, r.RemoveAccount(ctx, own, own.Actor.Account, true))
	_, _, err = r.RotateKey(ctx, own, last)
	refused("rotate another's key", vm.NotFound, err)
	refused("revoke another's key", vm.NotFound, r.RevokeKey(ctx, own, last))
	refused("revoke the last admin key", vm.Denied, r.RevokeKey(ctx, admin, last))
	refused("remove one's own account", vm.Denied, r.RemoveAccount(ctx, admin, admin.Actor.Account, true))
	list, err := r.Accounts(ctx, own)
	do(t, err)
	is(t, "accounts that others than admins see", len(list), 1)
	is(t, "the account that it sees", list[0].ID, own.Actor.Account)
	_, err = r.AccountOf(own, admin.Actor.Account)
	refused("find another's account", vm.NotFound, err)
	_, _, _, err = r.CreateAccount(ctx, admin, "a")
	wantCode(t, err, vm.Exists, "")
	for _, bad := range []string{"", "A", "a b", "-a", strings.Repeat("x", 64)} {
		_, _, _, err := r.CreateAccount(ctx, admin, bad)
		wantCode(t, err, vm.Invalid, "INVALID_REQUEST")
	}
}

// An account goes with its keys and identities, after other rooms have let it go.
func TestRemoveAccount(t *testing.T) {
	w, r, admin := site(t)
	ctx := t.Context()
	own, secret := newAccount(t, r, admin, "a")
	i, tok, member := identity(t, r, own, nil)
	held, stop := r.Session(ctx, member, "", "")
	defer stop()
	do(t, r.RemoveAccount(ctx, admin, "a", false)) // by its name
	is(t, "the session of its identity has ended", held.Err() != nil, true)
	_, err := r.Authenticate(ctx, secret)
	wantCode(t, err, vm.Unauthenticated, "")
	_, ok := r.Lookup(own.Actor.Account)
	is(t, "the account is there", ok, false)
	is(t, "stored accounts", len(stored[vm.Account](t, w, "accounts")), 1)
	is(t, "stored keys", len(stored[vm.APIKey](t, w, "keys")), 1)
	nothingOf(t, w, i, tok)
	wantCode(t, r.RemoveAccount(ctx, admin, "a", false), vm.NotFound, "NOT_FOUND")
}

// Without a key of an admin account a start makes one; else it makes nothing.
func TestEnsureAdmin(t *testing.T) {
	w, r, admin := site(t)
	_, created, err := r.EnsureAdmin(t.Context())
	do(t, err)
	is(t, "created again", created, false)
	is(t, "first admin", r.FirstAdmin(), admin.Actor.Account)
	entries, _, err := w.backend.ReadAll(t.Context(), "keys")
	do(t, err)
	r.close(t)
	do(t, vmtest.Erase(w.backend, "keys", entries[0].ID))
	r = w.open(t, "here")
	secret, created, err := r.EnsureAdmin(t.Context())
	do(t, err)
	is(t, "a new key is made", created, true)
	is(t, "account of the new key", callOf(t, r, secret).Actor.Account, admin.Actor.Account)
}

// The last use of a key is written at most once a minute. While it cannot be
// written, it is tried once a minute and callers are let in.
func TestLastUsed(t *testing.T) {
	w, r, c := site(t)
	ctx := t.Context()
	k, secret, err := r.CreateKey(ctx, c, "", "k")
	do(t, err)
	revision := func() int64 {
		e, err := w.backend.Read(context.Background(), "keys", string(k.ID))
		do(t, err)
		return e.Revision
	}
	made := revision()
	callOf(t, r, secret)
	first := revision()
	is(t, "the first use is written", first > made, true)
	w.clock.Advance(30 * time.Second)
	callOf(t, r, secret)
	is(t, "revision after half a minute", revision(), first)
	w.clock.Advance(40 * time.Second)
	callOf(t, r, secret)
	is(t, "written after a minute", revision() > first, true)

	tries := w.fail(vm.Errorf(vm.NoSpace, "", "the store is full"))
	w.clock.Advance(2 * time.Minute)
	for range 3 {
		callOf(t, r, secret)
	}
	is(t, "tries while the store is full", tries(), 1)
	w.answers()
	w.clock.Advance(2 * time.Minute)
	before := revision()
	callOf(t, r, secret)
	is(t, "written when there is room again", revision() > before, true)
}
