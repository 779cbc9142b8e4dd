// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package access_test

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/warren-vm/warren/internal/access"
	"github.com/warren-vm/warren/internal/vmtest"
	"github.com/warren-vm/warren/vm"
)

// identity makes an identity with a token that lasts so many seconds, nil = until it
// is revoked, and returns a call of it.
func identity(t *testing.T, r *room, c *vm.Call, ttl *vm.Seconds) (vm.Identity, vm.IdentityToken, *vm.Call) {
	t.Helper()
	i, err := r.CreateIdentity(t.Context(), c, "")
	do(t, err)
	tok, secret, err := r.CreateToken(t.Context(), c, string(i.ID), access.TokenRequest{TTL: ttl})
	do(t, err)
	own := callOf(t, r, secret)
	is(t, "who holds the token", own.Actor, vm.Actor{Account: c.Actor.Account, Identity: i.ID, Token: tok.ID, Issued: tok.CreatedAt})
	return i, tok, own
}

func grantVM(t *testing.T, r *room, c *vm.Call, i vm.Identity, v vm.VM, users ...string) {
	t.Helper()
	_, err := r.GrantVM(t.Context(), c, string(i.ID), string(v.ID), users)
	do(t, err)
}

func auditOf(t *testing.T, r *room, c *vm.Call) []vm.AuditRecord {
	t.Helper()
	list, err := r.AuditList(t.Context(), c, vm.AuditFilter{Limit: 10000})
	do(t, err)
	return list
}

// A token's secret is kept nowhere. It works after a restart, and ends at once when
// it is revoked.
func TestTokens(t *testing.T) {
	w, r, c := site(t)
	ctx := t.Context()
	i, err := r.CreateIdentity(ctx, c, "ci")
	do(t, err)
	tok, secret, err := r.CreateToken(ctx, c, "ci", access.TokenRequest{})
	do(t, err)
	recs := stored[vm.IdentityToken](t, w, "tokens")
	is(t, "stored tokens", len(recs), 1)
	is(t, "the hash is stored", recs[0].Hash != "", true)
	data, err := json.Marshal([]any{recs, auditOf(t, r, c)})
	do(t, err)
	is(t, "the secret is kept", strings.Contains(string(data), secret), false)
	v := w.create(c, "box")
	grantVM(t, r, c, i, v)
	r = w.again(t, r)
	own := callOf(t, r, secret)
	is(t, "identity after a restart", own.Actor.Identity, i.ID)
	got, err := r.MayEnter(ctx, own.Actor, "box", "")
	do(t, err)
	is(t, "the VM that it enters after a restart", got.ID, v.ID)
	do(t, r.RevokeToken(ctx, c, "ci", tok.ID))
	_, err = r.Authenticate(ctx, secret)
	wantCode(t, err, vm.Unauthenticated, "")
	wantCode(t, r.RevokeToken(ctx, c, "ci", tok.ID), vm.NotFound, "NOT_FOUND")
	r = w.again(t, r)
	_, err = r.Authenticate(ctx, secret)
	wantCode(t, err, vm.Unauthenticated, "")
}

// A token ends at its time though nobody asks, and its record goes.
func TestTokenExpiry(t *testing.T) {
	w, r, c := site(t)
	v := w.create(c, "box")
	i, _, own := identity(t, r, c, new(vm.Seconds(time.Minute)))
	grantVM(t, r, c, i, v)
	held, stop := r.Session(t.Context(), own, string(v.ID), "")
	defer stop()
	w.clock.Advance(59 * time.Second)
	_, err := r.MayEnter(t.Context(), own.Actor, string(v.ID), "root")
	do(t, err)
	is(t, "the session lasts until the token's time", held.Err(), nil)
	w.clock.Advance(time.Second)
	eventually(t, "the session ends", func() bool {
		if held.Err() == nil {
			w.clock.Advance(time.Second) // the task may have begun to wait only now
		}
		return held.Err() != nil
	})
	wantCode(t, context.Cause(held), vm.Unauthenticated, "UNAUTHORIZED_ERROR")
	_, err = r.MayEnter(t.Context(), own.Actor, string(v.ID), "root")
	wantCode(t, err, vm.Unauthenticated, "UNAUTHORIZED_ERROR")
	eventually(t, "its record is gone", func() bool {
		recs := stored[vm.IdentityToken](t, w, "tokens")
		if len(recs) > 0 {
			w.clock.Advance(time.Second) // as above
		}
		return len(recs) == 0
	})
	eventually(t, "its end is recorded", func() bool {
		return slices.ContainsFunc(auditOf(t, r, c), func(r vm.AuditRecord) bool {
			return r.Op == vm.OpTokenRevoke && r.Detail["reason"] == "expired" && r.Actor.System == "expiry" && r.Outcome == "ok"
		})
	})
	for _, bad := range []access.TokenRequest{
		{TTL: new(vm.Seconds(0))},
		{TTL: new(vm.Seconds(-time.Second))},
		{TTL: new(vm.Seconds(vm.MaxDuration + time.Second))},
		{ExpiresAt: w.clock.Now()},
		{ExpiresAt: w.clock.Now().Add(time.Hour), TTL: new(vm.Seconds(time.Second))},
	} {
		_, _, err := r.CreateToken(t.Context(), c, string(i.ID), bad)
		wantCode(t, err, vm.Invalid, "INVALID_REQUEST")
	}
}

// A token ends at its time even when no audit record of its end can be written. Its
// record goes when one can.
func TestExpiryWithoutRecords(t *testing.T) {
	w, r, c := site(t)
	v := w.create(c, "box")
	i, err := r.CreateIdentity(t.Context(), c, "ci")
	do(t, err)
	grantVM(t, r, c, i, v)
	_, secret, err := r.CreateToken(t.Context(), c, "ci", access.TokenRequest{ExpiresAt: w.clock.Now().Add(time.Minute)})
	do(t, err)
	own := callOf(t, r, secret)
	held, stop := r.Session(t.Context(), own, "", "")
	defer stop()
	w.audit.Fail(vm.Errorf(vm.NoSpace, "", "the disk is full"))
	w.clock.Advance(time.Minute)
	eventually(t, "its session ends", func() bool {
		if held.Err() == nil {
			w.clock.Advance(time.Second) // the task may have begun to wait only now
		}
		return held.Err() != nil
	})
	_, err = r.Authenticate(t.Context(), secret)
	wantCode(t, err, vm.Unauthenticated, "")
	_, err = r.MayEnter(t.Context(), own.Actor, string(v.ID), "")
	wantCode(t, err, vm.Unauthenticated, "UNAUTHORIZED_ERROR")
	list, err := r.Tokens(t.Context(), c, "ci")
	do(t, err)
	is(t, "tokens that are listed", len(list), 0)
	w.audit.Fail(nil)
	eventually(t, "its record is gone", func() bool {
		w.clock.Advance(time.Minute)
		return len(stored[vm.IdentityToken](t, w, "tokens")) == 0
	})
}

// An identity changes nothing of the account, and nothing is done without an audit
// record.
func TestNoRecordNoAction(t *testing.T) {
	w, r, c := site(t)
	ctx := t.Context()
	v := w.create(c, "box")
	i, tok, own := identity(t, r, c, nil)
	grantVM(t, r, c, i, v)
	verbs := func(c *vm.Call) map[string]error {
		id, ref := string(i.ID), string(v.ID)
		errs := map[string]error{"revoke a token": r.RevokeToken(ctx, c, id, tok.ID), "revoke a VM": r.RevokeVM(ctx, c, id, ref)}
		_, errs["create an identity"] = r.CreateIdentity(ctx, c, "x")
		_, errs["delete an identity"] = r.DeleteIdentity(ctx, c, id)
		_, _, errs["create a token"] = r.CreateToken(ctx, c, id, access.TokenRequest{})
		_, errs["change a grant"] = r.ChangeGrant(ctx, c, id, ref, nil, nil)
		_, errs["add an SSH key"] = r.AddSSHKey(ctx, c, id, "k", newSSHKey(t), false)
		_, _, errs["create a key"] = r.CreateKey(ctx, c, "", "k")
		return errs
	}
	before := w.revision(t)
	for what, err := range verbs(own) {
		is(t, what+" as an identity", vm.AsError(err).Code, "FORBIDDEN")
	}
	_, err := r.Tokens(ctx, own, string(i.ID))
	wantCode(t, err, vm.Denied, "FORBIDDEN")
	_, err = r.Keys(ctx, own, "")
	wantCode(t, err, vm.Denied, "FORBIDDEN")
	w.audit.Fail(vm.Errorf(vm.NoSpace, "", "the disk is full"))
	for what, err := range verbs(c) {
		is(t, what+" without a record", vm.KindOf(err), vm.NoSpace)
	}
	is(t, "revision of the store", w.revision(t), before)
}

// A permission for some Linux users is for them only. A session ends when its user
// is no longer allowed, and at once when there is no permission.
func TestGrants(t *testing.T) {
	w, r, c := site(t)
	ctx := t.Context()
	v := w.create(c, "box")
	i, _, own := identity(t, r, c, nil)
	id, ref := string(i.ID), string(v.ID)
	_, err := r.ChangeGrant(ctx, c, id, ref, nil, nil)
	wantCode(t, err, vm.NotFound, "VM_PERMISSION_NOT_FOUND")
	_, err = r.GrantVM(ctx, own, id, ref, nil)
	wantCode(t, err, vm.Denied, "FORBIDDEN")
	grantVM(t, r, c, i, v)
	_, err = r.GrantVM(ctx, c, id, ref, nil)
	wantCode(t, err, vm.Exists, "PERMISSION_ALREADY_EXISTS")
	session := func(user string) context.Context {
		held, stop := r.Session(ctx, own, ref, user)
		t.Cleanup(stop)
		return held
	}
	root, alice := session("root"), session("alice")
	p, err := r.ChangeGrant(ctx, c, id, ref, nil, nil)
	do(t, err)
	is(t, "any user is still allowed", p.AllowedUsers == nil, true)
	_, err = r.ChangeGrant(ctx, c, id, ref, &[]string{"alice"}, nil)
	do(t, err)
	wantCode(t, context.Cause(root), vm.Denied, "VM_ACCESS_DENIED")
	is(t, "the session of the allowed user", alice.Err(), nil)
	for _, user := range []string{"", "root", "bob"} {
		_, err := r.MayEnter(ctx, own.Actor, ref, user)
		wantCode(t, err, vm.Denied, "VM_ACCESS_DENIED")
	}
	_, err = r.MayEnter(ctx, own.Actor, ref, "alice")
	do(t, err)
	do(t, r.May(own.Actor, v.ID, vm.OpDial, "root")) // acts as no user
	for _, bad := range []string{"", "0", "a b", "x:y", "../etc", strings.Repeat("x", 40)} {
		_, err := r.ChangeGrant(ctx, c, id, ref, &[]string{bad}, nil)
		wantCode(t, err, vm.Invalid, "INVALID_REQUEST")
	}
	do(t, r.RevokeVM(ctx, c, id, ref))
	wantCode(t, context.Cause(alice), vm.Denied, "VM_ACCESS_DENIED")
	is(t, "a session begins without a permission", session("alice").Err() != nil, true)
	wantCode(t, r.RevokeVM(ctx, c, id, ref), vm.NotFound, "VM_PERMISSION_NOT_FOUND")
	is(t, "the VM is reached", r.Reaches(own.Actor, v.ID), false)
}

// With an identity goes all that it has, also when the server dies half way. With a
// VM go the permissions for it.
func TestIdentityGone(t *testing.T) {
	w, r, c := site(t)
	ctx := t.Context()
	v, other, lost := w.create(c, ""), w.create(c, ""), w.create(c, "")
	i, tok, own := identity(t, r, c, nil)
	grantVM(t, r, c, i, v)
	grantVM(t, r, c, i, other)
	_, err := r.AddSSHKey(ctx, c, string(i.ID), "k", newSSHKey(t), false)
	do(t, err)
	w.remove(other.ID)
	do(t, r.DropGrantsOf(ctx, other.ID))
	list, total, err := r.VMPermissions(ctx, c, string(i.ID), access.Page{})
	do(t, err)
	is(t, "permissions after the VM's end", total, 1)
	is(t, "the VM that it may still use", list[0].VM, v.ID)
	is(t, "tokens for the VM", len(r.TokensFor(v.ID)), 1)

	stays, _, _ := identity(t, r, c, nil)
	grantVM(t, r, c, stays, v)
	grantVM(t, r, c, stays, lost)
	r.close(t)
	do(t, vmtest.Erase(w.backend, "identities", string(i.ID))) // a death after the first record was removed
	w.remove(lost.ID)                                          // and one before the permissions for a VM were
	r = w.open(t, "here")
	nothingOf(t, w, i, tok)
	is(t, "permissions that stay", len(stored[vm.VMPermission](t, w, "vm-permissions")), 1)
	_, err = r.MayEnter(ctx, own.Actor, string(v.ID), "")
	wantCode(t, err, vm.Denied, "VM_ACCESS_DENIED")

	i, tok, own = identity(t, r, c, nil)
	grantVM(t, r, c, i, v)
	held, stop := r.Session(ctx, own, "", "")
	defer stop()
	_, err = r.DeleteIdentity(ctx, c, string(i.ID))
	do(t, err)
	is(t, "its session has ended", held.Err() != nil, true)
	nothingOf(t, w, i, tok)
	_, err = r.DeleteIdentity(ctx, c, string(i.ID))
	wantCode(t, err, vm.NotFound, "IDENTITY_NOT_FOUND")
}

// What an identity has stays while its record cannot be read: a newer warren, which
// wrote it, may read it again.
func TestUnreadableIdentity(t *testing.T) {
	w, r, c := site(t)
	i, _, _ := identity(t, r, c, nil)
	grantVM(t, r, c, i, w.create(c, ""))
	tokens, grants := len(stored[vm.IdentityToken](t, w, "tokens")), len(stored[vm.VMPermission](t, w, "vm-permissions"))
	w.backend.Damage("identities", string(i.ID), func([]byte) []byte { return []byte(`{"id":`) })
	w.again(t, r)
	is(t, "tokens after a start", len(stored[vm.IdentityToken](t, w, "tokens")), tokens)
	is(t, "permissions after a start", len(stored[vm.VMPermission](t, w, "vm-permissions")), grants)
}

// nothingOf checks that nothing of an identity is stored.
func nothingOf(t *testing.T, w *world, i vm.Identity, tok vm.IdentityToken) {
	t.Helper()
	for _, kind := range []string{"identities", "tokens", "ssh-keys", "vm-permissions", "git-permissions"} {
		entries, _, err := w.backend.ReadAll(t.Context(), kind)
		do(t, err)
		for _, e := range entries {
			if strings.Contains(string(e.Value), string(i.ID)) || e.ID == string(tok.ID) {
				t.Errorf("left in %s: %s", kind, e.Value)
			}
		}
	}
}

// Permissions for repositories are kept, and only for those that are there and the
// account's own.
func TestRepoPermissions(t *testing.T) {
	w, r, c := site(t)
	ctx := t.Context()
	i, _, _ := identity(t, r, c, nil)
	id := string(i.ID)
	w.repos["mine"] = vm.Repository{ID: "mine", Account: c.Actor.Account, Name: "code"}
	w.repos["theirs"] = vm.Repository{ID: "theirs", Account: "x"}
	wantCode(t, r.GrantRepo(ctx, c, id, "none", vm.GitRead, false), vm.NotFound, "GIT_REPOSITORY_NOT_FOUND")
	wantCode(t, r.GrantRepo(ctx, c, id, "theirs", vm.GitRead, false), vm.Denied, "GIT_REPOSITORY_ACCESS_DENIED")
	wantCode(t, r.GrantRepo(ctx, c, id, "mine", "admin", false), vm.Invalid, "INVALID_REQUEST")
	wantCode(t, r.GrantRepo(ctx, c, id, "mine", vm.GitRead, true), vm.NotFound, "PERMISSION_NOT_FOUND")
	do(t, r.GrantRepo(ctx, c, id, "mine", vm.GitRead, false))
	wantCode(t, r.GrantRepo(ctx, c, id, "mine", vm.GitRead, false), vm.Exists, "PERMISSION_ALREADY_EXISTS")
	do(t, r.GrantRepo(ctx, c, id, "mine", vm.GitWrite, true))
	r = w.again(t, r)
	p, err := r.RepoAccess(ctx, c, id, "mine")
	do(t, err)
	is(t, "access after a restart", p.Access, vm.GitWrite)
	list, err := r.RepoPermissions(ctx, c, id, access.Page{})
	do(t, err)
	is(t, "permissions", len(list), 1)
	is(t, "its repository", list[0].Repository.Name, "code")
	do(t, r.RevokeRepo(ctx, c, id, "mine"))
	wantCode(t, r.RevokeRepo(ctx, c, id, "mine"), vm.NotFound, "PERMISSION_NOT_FOUND")
	p, err = r.RepoAccess(ctx, c, id, "mine")
	do(t, err)
	is(t, "access after the end", p.Access, "")
}
