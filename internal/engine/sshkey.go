// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"cmp"
	"context"
	"crypto/rsa"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/crypto/ssh"

	"github.com/warren-vm/warren/vm"
)

var sshKeyName = regexp.MustCompile(`^[a-zA-Z0-9][a-zA-Z0-9._@-]{0,62}$`)

// AddSSHKey lets whoever holds the private half of an SSH key act as an
// identity. line is one line of an authorized_keys file; the key's own comment
// is its name when none is given.
func (e *Engine) AddSSHKey(ctx context.Context, c *vm.Call, identity, name, line string, forwardAgent bool) (k vm.IdentityKey, err error) {
	defer func() { err = fail(vm.OpSSHKeyAdd, identity, err) }()
	i, err := e.ownIdentity(c, identity)
	if err != nil {
		return k, err
	}
	if k, err = readSSHKey(line); err != nil {
		return vm.IdentityKey{}, err
	}
	k.ID, k.Identity, k.Account, k.ForwardAgent = vm.SSHKeyID(vm.NewUUID()), i.ID, i.Account, forwardAgent
	k.Name = cmp.Or(name, k.Name, "key")
	if !sshKeyName.MatchString(k.Name) {
		return vm.IdentityKey{}, vm.Errorf(vm.Invalid, k.Name, "not a name for a key").
			WithCode("INVALID_REQUEST").WithHint("give it one: letters, digits and . _ @ -")
	}
	r, err := e.record(ctx, c, vm.AuditEntry{Op: vm.OpSSHKeyAdd, Subject: string(i.ID), Detail: map[string]any{"fingerprint": k.Fingerprint, "name": k.Name}})
	if err != nil {
		return vm.IdentityKey{}, err
	}
	defer func() { r.End(err, map[string]any{"key": string(k.ID)}) }()
	e.idWrite.Lock()
	defer e.idWrite.Unlock()
	if _, err = e.ownIdentity(c, string(i.ID)); err != nil { // as it is now
		return vm.IdentityKey{}, err
	}
	for _, o := range e.sshKeys(i.ID) {
		if o.Name == k.Name || o.Fingerprint == k.Fingerprint {
			return vm.IdentityKey{}, vm.Errorf(vm.Exists, o.Name, "the identity has this key, or one of this name").WithHint("remove it first")
		}
	}
	k.CreatedAt = e.now()
	if k.Revision, err = saved(ctx, k, e.cfg.Records.SSHKeys.Create); err != nil {
		return vm.IdentityKey{}, err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.rights.keys[k.ID] = k
	return k, nil
}

// minRSA is the shortest RSA key that is taken.
const minRSA = 2048

// readSSHKey reads one line of an authorized_keys file. Options before the key
// are refused: they would seem to bind and do not.
func readSSHKey(line string) (k vm.IdentityKey, err error) {
	bad := func(why string) error {
		return vm.Errorf(vm.Invalid, clip(line), "%s", why).WithCode("INVALID_REQUEST").
			WithHint("give the content of a .pub file, such as ~/.ssh/id_ed25519.pub")
	}
	line = strings.TrimSpace(line)
	pub, comment, options, rest, err := ssh.ParseAuthorizedKey([]byte(line))
	switch {
	case strings.ContainsAny(line, "\r\n"):
		return k, bad("more than one line")
	case err != nil || len(rest) > 0:
		return k, bad("not an SSH public key")
	case len(options) > 0:
		return k, bad("options before the key are not supported")
	case strings.HasSuffix(pub.Type(), "@openssh.com") && strings.Contains(pub.Type(), "-cert-"):
		return k, bad("a certificate, not a key")
	case pub.Type() == "ssh-dss":
		return k, bad("DSA keys are not secure")
	}
	if c, ok := pub.(ssh.CryptoPublicKey); ok {
		if key, ok := c.CryptoPublicKey().(*rsa.PublicKey); ok && key.N.BitLen() < minRSA {
			return k, bad("an RSA key that is too short")
		}
	}
	text := strings.TrimSpace(string(ssh.MarshalAuthorizedKey(pub)))
	k = vm.IdentityKey{Line: strings.TrimSpace(text + " " + comment), Fingerprint: ssh.FingerprintSHA256(pub)}
	if sshKeyName.MatchString(comment) {
		k.Name = comment
	}
	return k, nil
}

// sshKeys lists the keys of an identity, oldest first.
func (e *Engine) sshKeys(i vm.IdentityID) []vm.IdentityKey {
	e.mu.Lock()
	defer e.mu.Unlock()
	var list []vm.IdentityKey
	for _, k := range e.rights.keys {
		if k.Identity == i {
			list = append(list, k)
		}
	}
	slices.SortFunc(list, func(a, b vm.IdentityKey) int {
		return cmp.Or(a.CreatedAt.Compare(b.CreatedAt), cmp.Compare(a.ID, b.ID))
	})
	return list
}

// SSHKeys lists the SSH keys of an identity, oldest first.
func (e *Engine) SSHKeys(_ context.Context, c *vm.Call, identity string) ([]vm.IdentityKey, error) {
	i, err := e.ownIdentity(c, identity)
	if err != nil {
		return nil, fail(vm.OpList, identity, err)
	}
	return e.sshKeys(i.ID), nil
}

// RemoveSSHKey removes a key, named by id, name or fingerprint, from an
// identity; what goes on by it is cut.
func (e *Engine) RemoveSSHKey(ctx context.Context, c *vm.Call, identity, ref string) (err error) {
	defer func() { err = fail(vm.OpSSHKeyRemove, ref, err) }()
	i, err := e.ownIdentity(c, identity)
	if err != nil {
		return err
	}
	list := e.sshKeys(i.ID)
	at := slices.IndexFunc(list, func(k vm.IdentityKey) bool { return string(k.ID) == ref || k.Name == ref || k.Fingerprint == ref })
	if at < 0 {
		return vm.Errorf(vm.NotFound, ref, "the identity has no such key").
			WithCode("NOT_FOUND").WithHint("`warren identity key ls %s` lists its keys", cmp.Or(i.Name, string(i.ID)))
	}
	k := list[at]
	r, err := e.record(ctx, c, vm.AuditEntry{Op: vm.OpSSHKeyRemove, Subject: string(k.ID), Detail: map[string]any{"fingerprint": k.Fingerprint}})
	if err != nil {
		return err
	}
	defer func() { r.End(err, nil) }()
	e.idWrite.Lock()
	defer e.idWrite.Unlock()
	return e.dropSSHKey(ctx, k)
}

// dropSSHKey removes a key durably, then from memory, and cuts what goes on by
// it. The caller holds idWrite.
func (e *Engine) dropSSHKey(ctx context.Context, k vm.IdentityKey) error {
	if _, err := saved(ctx, k, deleting(e.cfg.Records.SSHKeys)); err != nil {
		return err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.rights.keys, k.ID)
	e.cutLocked()
	return nil
}

// AuthenticateSSHKey says as which identity the holder of an SSH key, given by
// its SHA256 fingerprint, enters a VM as a Linux user; "" = root. A key may be
// registered with several identities: the oldest that may enter is taken. When
// they are of several accounts the VM must be named by its id, so that nobody
// is led to a stranger's VM of the same name. Kinds Unauthenticated (the key is
// nobody's) and those of MayEnter.
func (e *Engine) AuthenticateSSHKey(ctx context.Context, fingerprint, ref, user string) (vm.Actor, vm.IdentityKey, error) {
	e.mu.Lock()
	var known []vm.IdentityKey
	accounts := map[vm.AccountID]bool{}
	for _, k := range e.rights.keys {
		if _, ok := e.rights.identities[k.Identity]; ok && k.Fingerprint == fingerprint {
			known = append(known, k)
			accounts[k.Account] = true
		}
	}
	e.mu.Unlock()
	if len(known) == 0 {
		return vm.Actor{}, vm.IdentityKey{}, &vm.Error{Kind: vm.Unauthenticated, Msg: "no identity has this SSH key"}
	}
	if len(accounts) > 1 && !vm.IsID(ref) {
		return vm.Actor{}, vm.IdentityKey{}, fail(vm.OpGet, ref, (&vm.Error{
			Kind: vm.Denied, Msg: "the SSH key is known to several accounts", Hint: "name the VM by its id",
		}).WithCode("VM_ACCESS_DENIED"))
	}
	slices.SortFunc(known, func(a, b vm.IdentityKey) int {
		return cmp.Or(a.CreatedAt.Compare(b.CreatedAt), cmp.Compare(a.ID, b.ID))
	})
	var refusal error
	for _, k := range known {
		a := vm.Actor{Account: k.Account, Identity: k.Identity, SSHKey: k.ID}
		_, err := e.MayEnter(ctx, a, ref, user)
		if err == nil {
			return a, k, nil
		}
		if refusal == nil {
			refusal = err
		}
	}
	return vm.Actor{}, vm.IdentityKey{}, refusal
}
