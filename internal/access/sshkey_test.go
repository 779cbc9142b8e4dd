// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package access_test

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/rsa"
	"strings"
	"testing"

	"golang.org/x/crypto/ssh"

	"github.com/warren-vm/warren/vm"
)

func newSSHKey(t *testing.T) string {
	t.Helper()
	pub, _, err := ed25519.GenerateKey(rand.Reader)
	do(t, err)
	return sshLine(t, pub)
}

func sshLine(t *testing.T, pub any) string {
	t.Helper()
	k, err := ssh.NewPublicKey(pub)
	do(t, err)
	return strings.TrimSpace(string(ssh.MarshalAuthorizedKey(k)))
}

// A key opens the VMs of its identity, for its Linux users, until it is removed.
// Nobody is led to a stranger's VM by its name.
func TestSSHKeys(t *testing.T) {
	w, r, c := site(t)
	ctx := t.Context()
	v := w.create(c, "box")
	i, _, _ := identity(t, r, c, nil)
	line := newSSHKey(t)
	k, err := r.AddSSHKey(ctx, c, string(i.ID), "", line+" me@laptop", true)
	do(t, err)
	is(t, "name", k.Name, "me@laptop")
	is(t, "line", k.Line, line+" me@laptop")
	is(t, "form of the fingerprint", strings.HasPrefix(k.Fingerprint, "SHA256:"), true)
	is(t, "agent forwarding", k.ForwardAgent, true)
	refused := func(fingerprint, ref, user string, kind vm.Kind, code string) {
		t.Helper()
		_, _, err := r.AuthenticateSSHKey(ctx, fingerprint, ref, user)
		wantCode(t, err, kind, code)
	}
	refused(k.Fingerprint, "box", "", vm.Denied, "VM_ACCESS_DENIED")
	refused("SHA256:none", "box", "", vm.Unauthenticated, "")
	grantVM(t, r, c, i, v, "alice")
	r = w.again(t, r)
	refused(k.Fingerprint, "box", "", vm.Denied, "VM_ACCESS_DENIED")
	actor, got, err := r.AuthenticateSSHKey(ctx, k.Fingerprint, "box", "alice")
	do(t, err)
	is(t, "who holds the key", actor, vm.Actor{Account: c.Actor.Account, Identity: i.ID, SSHKey: k.ID})
	is(t, "agent forwarding after a restart", got.ForwardAgent, true)

	// A stranger registers the same key for a VM of the same name.
	stranger, _ := newAccount(t, r, c, "stranger")
	trap := w.create(stranger, "box")
	j, err := r.CreateIdentity(ctx, stranger, "trap")
	do(t, err)
	_, err = r.AddSSHKey(ctx, stranger, string(j.ID), "k", line, false)
	do(t, err)
	grantVM(t, r, stranger, j, trap)
	for _, user := range []string{"", "alice"} {
		refused(k.Fingerprint, "box", user, vm.Denied, "VM_ACCESS_DENIED")
	}
	actor, _, err = r.AuthenticateSSHKey(ctx, k.Fingerprint, string(v.ID), "alice")
	do(t, err)
	is(t, "account by the VM's id", actor.Account, c.Actor.Account)
	_, err = r.DeleteIdentity(ctx, stranger, string(i.ID))
	wantCode(t, err, vm.Denied, "IDENTITY_ACCESS_DENIED")

	held, stop := r.Session(ctx, &vm.Call{Actor: actor}, string(v.ID), "alice")
	defer stop()
	do(t, r.RemoveSSHKey(ctx, c, string(i.ID), k.Fingerprint))
	is(t, "the key's session has ended", held.Err() != nil, true)
	_, _, err = r.AuthenticateSSHKey(ctx, k.Fingerprint, string(v.ID), "alice")
	is(t, "the removed key is refused", err != nil, true)
	wantCode(t, r.RemoveSSHKey(ctx, c, string(i.ID), "me@laptop"), vm.NotFound, "NOT_FOUND")
}

// A line that is no safe public key is refused.
func TestBadSSHKeys(t *testing.T) {
	_, r, c := site(t)
	i, _, _ := identity(t, r, c, nil)
	weak, err := rsa.GenerateKey(rand.Reader, 1024)
	do(t, err)
	good := newSSHKey(t)
	for _, line := range []string{
		"", "no key", good + "\n" + newSSHKey(t), `command="rm -rf /" ` + good, sshLine(t, &weak.PublicKey),
		"-----BEGIN OPENSSH PRIVATE KEY-----", strings.Fields(good)[1], good[:40],
	} {
		_, err := r.AddSSHKey(t.Context(), c, string(i.ID), "", line, false)
		wantCode(t, err, vm.Invalid, "INVALID_REQUEST")
	}
	_, err = r.AddSSHKey(t.Context(), c, string(i.ID), "a b", good, false)
	wantCode(t, err, vm.Invalid, "INVALID_REQUEST")
	_, err = r.AddSSHKey(t.Context(), c, string(i.ID), "", good+"\r\n", false)
	do(t, err)
	_, err = r.AddSSHKey(t.Context(), c, string(i.ID), "again", good, false)
	wantCode(t, err, vm.Exists, "")
}
