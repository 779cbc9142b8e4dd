// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package access_test

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"fmt"
	"testing"

	"golang.org/x/crypto/ssh"

	"github.com/warren-vm/warren/internal/access"
	"github.com/warren-vm/warren/vm"
)

// A lost answer of the store leaves no record stale: the next change of it succeeds.
// Where the store can be asked, the change itself succeeds.
func TestLostAnswers(t *testing.T) {
	w, r, c := site(t)
	ctx := t.Context()
	key, _, err := r.CreateKey(ctx, c, "", "mine")
	do(t, err)
	v := w.create(c, "box")
	i, _, _ := identity(t, r, c, nil)
	grantVM(t, r, c, i, v)
	w.repos["code"] = vm.Repository{ID: "code", Account: c.Actor.Account}
	do(t, r.GrantRepo(ctx, c, string(i.ID), "code", vm.GitRead, false))
	n := 0
	name := func() string { n++; return fmt.Sprint("n", n) }
	verbs := map[string]func() error{
		"create an account": func() error { _, _, _, err := r.CreateAccount(ctx, c, name()); return err },
		"set a quota":       func() error { return r.PutQuota(ctx, c.Actor.Account, vm.Quota{VMs: 100}) },
		"create a key":      func() error { _, _, err := r.CreateKey(ctx, c, "", name()); return err },
		"rotate a key":      func() error { _, _, err := r.RotateKey(ctx, c, key.ID); return err },
		"create an identity": func() error {
			_, err := r.CreateIdentity(ctx, c, name())
			return err
		},
		"create a token": func() error { _, _, err := r.CreateToken(ctx, c, string(i.ID), access.TokenRequest{}); return err },
		"add an SSH key": func() error { _, err := r.AddSSHKey(ctx, c, string(i.ID), name(), newSSHKey(t), false); return err },
		"change a grant": func() error {
			_, err := r.ChangeGrant(ctx, c, string(i.ID), "box", &[]string{"alice"}, nil)
			return err
		},
		"change a repo's grant": func() error { return r.GrantRepo(ctx, c, string(i.ID), "code", vm.GitWrite, true) },
	}
	for what, verb := range verbs {
		for _, step := range []struct {
			lost, mute bool
			want       vm.Kind
		}{{want: ""}, {lost: true, want: ""}, {lost: true, mute: true, want: vm.Unavailable}, {want: ""}} {
			if step.lost {
				w.loses(step.mute)
			}
			err := verb()
			w.answers()
			is(t, fmt.Sprintf("%s, %+v", what, step), vm.KindOf(err), step.want)
		}
	}
}

// A revocation whose answer was lost ends the sessions as soon as the store tells of
// it.
func TestLostRevocation(t *testing.T) {
	w, r, c := site(t)
	i, tok, own := identity(t, r, c, nil)
	held, stop := r.Session(t.Context(), own, "", "")
	defer stop()
	w.loses(true)
	is(t, "revoke without an answer", vm.KindOf(r.RevokeToken(t.Context(), c, string(i.ID), tok.ID)), vm.Unavailable)
	w.answers()
	eventually(t, "the session ends", func() bool { return held.Err() != nil })
	_, err := r.Tokens(t.Context(), c, string(i.ID))
	do(t, err)
}

// Two servers on one store share accounts and identities. A right that one of them
// ends is ended on the other, which shows no permissions for VMs that are not its own.
func TestOtherServer(t *testing.T) {
	w, r, c := site(t)
	ctx := t.Context()
	v := w.create(c, "box")
	i, tok, own := identity(t, r, c, nil)
	grantVM(t, r, c, i, v)
	held, stop := r.Session(ctx, own, "", "")
	defer stop()
	w.remove(v.ID) // it is none of the other server's
	other := w.open(t, "there")
	is(t, "permissions that are stored", len(stored[vm.VMPermission](t, w, "vm-permissions")), 1)
	_, total, err := other.VMPermissions(ctx, c, string(i.ID), access.Page{})
	do(t, err)
	is(t, "permissions that the other server shows", total, 0)
	_, err = other.CreateIdentity(ctx, c, "theirs")
	do(t, err)
	do(t, other.RevokeToken(ctx, c, string(i.ID), tok.ID))
	eventually(t, "the session ends", func() bool { return held.Err() != nil })
	wantCode(t, context.Cause(held), vm.Unauthenticated, "UNAUTHORIZED_ERROR")
	eventually(t, "the other's identity is known", func() bool {
		_, err := r.Tokens(ctx, c, "theirs")
		return err == nil
	})
}

// An account may have so many records of each kind. The refusal says what makes
// room; with room again, and to another account, records may be added.
func TestLimits(t *testing.T) {
	w, r, c := site(t)
	ctx := t.Context()
	i, err := r.CreateIdentity(ctx, c, "ci")
	do(t, err)
	many, err := r.CreateIdentity(ctx, c, "many")
	do(t, err)
	n := 0
	name := func() string { n++; return fmt.Sprint("n", n) }
	fill := func(what string, most int, add func() error) {
		t.Helper()
		made := 0
		var err error
		for ; err == nil && made <= most; made++ {
			err = add()
		}
		e := vm.AsError(err)
		is(t, what+": kind", e.Kind, vm.Limit)
		is(t, what+": code", e.Code, "LIMIT_EXCEEDED")
		is(t, what+": limit", e.Fields["limit"], any(most))
		is(t, what+": has a hint", e.Hint != "", true)
	}
	var token vm.IdentityToken
	addToken := func() (err error) {
		made, _, err := r.CreateToken(ctx, c, "ci", access.TokenRequest{})
		if err == nil {
			token = made
		}
		return err
	}
	fill("tokens", 1000, addToken)
	r = w.again(t, r)
	is(t, "one more after a restart", vm.KindOf(addToken()), vm.Limit)
	do(t, r.RevokeToken(ctx, c, string(i.ID), token.ID))
	do(t, addToken())
	other, _ := newAccount(t, r, c, "other")
	_, err = r.CreateIdentity(ctx, other, "ci")
	do(t, err)
	_, _, err = r.CreateToken(ctx, other, "ci", access.TokenRequest{})
	do(t, err)

	fill("keys", 1000, func() error { _, _, err := r.CreateKey(ctx, c, "", name()); return err })
	fill("identities", 1000, func() error { _, err := r.CreateIdentity(ctx, c, name()); return err })
	fill("SSH keys", 1000, func() error {
		pub := make(ed25519.PublicKey, ed25519.PublicKeySize)
		_, _ = rand.Read(pub)
		k, err := ssh.NewPublicKey(pub)
		do(t, err)
		_, err = r.AddSSHKey(ctx, c, "ci", name(), string(ssh.MarshalAuthorizedKey(k)), false)
		return err
	})
	fill("accounts", 1000, func() error { _, _, _, err := r.CreateAccount(ctx, c, name()); return err })
	fill("permissions for repositories", 10_000, func() error {
		repo := name()
		w.repos[repo] = vm.Repository{ID: repo, Account: c.Actor.Account}
		return r.GrantRepo(ctx, c, string(many.ID), repo, vm.GitRead, false)
	})
	v := w.create(c, "box")
	fill("permissions for VMs", 10_000, func() error {
		w.mu.Lock()
		v.ID = vm.NewID() // another VM, in its place
		w.vms[0] = v
		w.mu.Unlock()
		_, err := r.GrantVM(ctx, c, string(many.ID), string(v.ID), nil)
		return err
	})
}
