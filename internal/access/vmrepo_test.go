// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package access_test

import (
	"context"
	"slices"
	"testing"

	"github.com/warren-vm/warren/vm"
)

// A VM uses the repositories of its record as itself, and nothing else; the end of the
// right ends its sessions.
func TestVMRepo(t *testing.T) {
	w, r, c := site(t)
	ctx := t.Context()
	id := vm.NewUUID()
	w.repos[id] = vm.Repository{ID: id, Account: c.Actor.Account, Name: "app"}
	v, other := w.create(c, "box"), w.create(c, "other")
	self := &vm.Call{Actor: vm.Actor{Account: c.Actor.Account, VM: v.ID}}

	_, ok := r.RepoRight(self.Actor, id)
	is(t, "a VM without a grant has a right", ok, false)
	_, err := r.GrantVMRepo(ctx, c, "box", id, vm.GitWrite, nil)
	do(t, err)
	p, ok := r.RepoRight(self.Actor, id)
	is(t, "the granted VM has a right", ok, true)
	for branch, want := range map[string]bool{"agent/box/x": true, "agent/" + string(v.ID) + "/x": true, "agent/other/x": false, "agent/boxes/x": false, "main": false} {
		is(t, "it may push to "+branch, p.MayPush(branch, false), want)
	}
	_, ok = r.RepoRight(vm.Actor{Account: c.Actor.Account, VM: other.ID}, id)
	is(t, "another VM has a right", ok, false)
	_, ok = r.RepoRight(vm.Actor{Account: "another", VM: v.ID}, id)
	is(t, "the VM in another account has a right", ok, false)

	is(t, "a VM sees a VM", r.Reaches(self.Actor, v.ID), false)
	is(t, "a VM may enter itself", vm.KindOf(r.May(self.Actor, v.ID, vm.OpExec, "")), vm.Denied)
	_, err = r.GrantVMRepo(ctx, self, "box", id, vm.GitWrite, []string{"main"})
	is(t, "a VM widens its own right", vm.KindOf(err), vm.Denied)

	session, end := r.RepoSession(ctx, self, id)
	defer end()
	_, err = r.RevokeVMRepo(ctx, c, "box", id)
	do(t, err)
	is(t, "the session ended with the right", vm.KindOf(cause(session)), vm.Denied)
	_, err = r.RevokeVMRepo(ctx, c, "box", id)
	is(t, "revoking it again", vm.KindOf(err), vm.NotFound)
	audited := slices.ContainsFunc(auditOf(t, r, c), func(e vm.AuditRecord) bool {
		return e.Op == vm.OpRevoke && e.VM == v.ID && e.Detail["repo"] == id && e.Outcome == "ok"
	})
	is(t, "the revocation is in the audit trail", audited, true)

	_, err = r.GrantVMRepo(ctx, c, "box", id, vm.GitWrite, nil)
	do(t, err)
	session, end = r.RepoSession(ctx, self, id)
	defer end()
	_, err = r.GrantVMRepo(ctx, c, "box", id, vm.GitRead, nil)
	do(t, err)
	is(t, "a session with the right to write ended when only reading is left", vm.KindOf(cause(session)), vm.Denied)
	w.remove(v.ID)
	is(t, "a removed VM is who it was", vm.KindOf(r.Valid(self.Actor)), vm.Unauthenticated)
}

// cause is why a session has ended; nil = it has not.
func cause(ctx context.Context) error { return context.Cause(ctx) }

// Grants that are refused.
func TestVMRepoRefused(t *testing.T) {
	w, r, c := site(t)
	id, foreign := vm.NewUUID(), vm.NewUUID()
	w.repos[id] = vm.Repository{ID: id, Account: c.Actor.Account}
	w.repos[foreign] = vm.Repository{ID: foreign, Account: "another"}
	w.create(c, "box")
	for what, one := range map[string]struct {
		vm, repo string
		access   vm.GitAccess
		branches []string
		want     vm.Kind
	}{
		"another account's repository": {"box", foreign, vm.GitRead, nil, vm.Denied},
		"no such repository":           {"box", vm.NewUUID(), vm.GitRead, nil, vm.NotFound},
		"no such VM":                   {"nobody", id, vm.GitRead, nil, vm.NotFound},
		"no such access":               {"box", id, "admin", nil, vm.Invalid},
		"branches to read":             {"box", id, vm.GitRead, []string{"main"}, vm.Invalid},
		"a branch with a space":        {"box", id, vm.GitWrite, []string{"a b"}, vm.Invalid},
	} {
		_, err := r.GrantVMRepo(t.Context(), c, one.vm, one.repo, one.access, one.branches)
		is(t, what, vm.KindOf(err), one.want)
	}
}
