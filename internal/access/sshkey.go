// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package access

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

// AddSSHKey lets the holder of an SSH key act as an identity. line is one line of an
// authorized_keys file. Without a name the key is named by its comment.
func (a *Access) AddSSHKey(ctx context.Context, c *vm.Call, identity, name, line string, forwardAgent bool) (k vm.IdentityKey, err error) {
	defer func() { err = vm.WithOp(vm.OpSSHKeyAdd, identity, err) }()
	i, err := a.ownIdentity(c, identity)
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
	end, err := a.record(ctx, c, vm.AuditEntry{Op: vm.OpSSHKeyAdd, Subject: string(i.ID), Detail: map[string]any{"fingerprint": k.Fingerprint, "name": k.Name}})
	if err != nil {
		return vm.IdentityKey{}, err
	}
	defer func() { end(err, map[string]any{"key": string(k.ID)}) }()
	a.idWrite.Lock()
	defer a.idWrite.Unlock()
	if _, err = a.ownIdentity(c, string(i.ID)); err != nil { // it may have been deleted meanwhile
		return vm.IdentityKey{}, err
	}
	for _, o := range a.sshKeys.By(byIdentity, string(i.ID)) {
		if o.Name == k.Name || o.Fingerprint == k.Fingerprint {
			return vm.IdentityKey{}, vm.Errorf(vm.Exists, o.Name, "the identity has this key, or another with this name").WithHint("remove it first")
		}
	}
	k.CreatedAt = a.now()
	if err = a.sshKeys.Create(ctx, k); err != nil {
		return vm.IdentityKey{}, err
	}
	return k, nil
}

// minRSA is the size of the shortest accepted RSA key in bits.
const minRSA = 2048

// maxShownLine bounds how many bytes of a line an error repeats.
const maxShownLine = 1024

// readSSHKey parses one line of an authorized_keys file. It refuses options before the
// key, because they would have no effect.
func readSSHKey(line string) (k vm.IdentityKey, err error) {
	bad := func(why string) error {
		return vm.Errorf(vm.Invalid, vm.Clip(line, maxShownLine), "%s", why).WithCode("INVALID_REQUEST").
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
			return k, bad("the RSA key is too short")
		}
	}
	text := strings.TrimSpace(string(ssh.MarshalAuthorizedKey(pub)))
	k = vm.IdentityKey{Line: strings.TrimSpace(text + " " + comment), Fingerprint: ssh.FingerprintSHA256(pub)}
	if sshKeyName.MatchString(comment) {
		k.Name = comment
	}
	return k, nil
}

// SSHKeys lists the SSH keys of an identity, oldest first.
func (a *Access) SSHKeys(_ context.Context, c *vm.Call, identity string) ([]vm.IdentityKey, error) {
	i, err := a.ownIdentity(c, identity)
	if err != nil {
		return nil, vm.WithOp(vm.OpList, identity, err)
	}
	list := a.sshKeys.By(byIdentity, string(i.ID))
	slices.SortStableFunc(list, func(a, b vm.IdentityKey) int { return a.CreatedAt.Compare(b.CreatedAt) })
	return list, nil
}

// RemoveSSHKey removes a key from an identity and ends the sessions that were opened with
// it. ref is the key's id, name or fingerprint.
func (a *Access) RemoveSSHKey(ctx context.Context, c *vm.Call, identity, ref string) (err error) {
	defer func() { err = vm.WithOp(vm.OpSSHKeyRemove, ref, err) }()
	i, err := a.ownIdentity(c, identity)
	if err != nil {
		return err
	}
	list := a.sshKeys.By(byIdentity, string(i.ID))
	at := slices.IndexFunc(list, func(k vm.IdentityKey) bool { return string(k.ID) == ref || k.Name == ref || k.Fingerprint == ref })
	if at < 0 {
		return vm.Errorf(vm.NotFound, ref, "the identity has no such key").
			WithCode("NOT_FOUND").WithHint("`warren identity key ls %s` lists its keys", cmp.Or(i.Name, string(i.ID)))
	}
	k := list[at]
	end, err := a.record(ctx, c, vm.AuditEntry{Op: vm.OpSSHKeyRemove, Subject: string(k.ID), Detail: map[string]any{"fingerprint": k.Fingerprint}})
	if err != nil {
		return err
	}
	defer func() { end(err, nil) }()
	return a.dropSSHKey(ctx, k)
}

// dropSSHKey removes a key and ends its sessions.
func (a *Access) dropSSHKey(ctx context.Context, k vm.IdentityKey) error {
	if err := a.sshKeys.Drop(ctx, k.ID); err != nil {
		return err
	}
	a.recheck()
	return nil
}

// SSHKeyHolders returns the identities that have an SSH key, given by its SHA256
// fingerprint, as actors, oldest key first.
func (a *Access) SSHKeyHolders(fingerprint string) []vm.Actor {
	list := a.sshKeys.By(byFingerprint, fingerprint)
	slices.SortStableFunc(list, func(a, b vm.IdentityKey) int { return a.CreatedAt.Compare(b.CreatedAt) })
	var out []vm.Actor
	for _, k := range list {
		if _, ok := a.identities.Get(k.Identity); ok {
			out = append(out, vm.Actor{Account: k.Account, Identity: k.Identity, SSHKey: k.ID})
		}
	}
	return out
}

// AuthenticateSSHKey returns the identity as which the holder of an SSH key, given by its
// SHA256 fingerprint, enters a VM as a Linux user; "" = root. If several identities have
// the key, the oldest key that may enter is used. If they belong to several accounts, ref
// must be the VM's id, so that the caller does not enter a stranger's VM of the same
// name. Kind Unauthenticated when nobody has the key, and the kinds of MayEnter.
func (a *Access) AuthenticateSSHKey(ctx context.Context, fingerprint, ref, user string) (vm.Actor, vm.IdentityKey, error) {
	known := slices.DeleteFunc(a.sshKeys.By(byFingerprint, fingerprint), func(k vm.IdentityKey) bool {
		_, ok := a.identities.Get(k.Identity)
		return !ok
	})
	if len(known) == 0 {
		return vm.Actor{}, vm.IdentityKey{}, &vm.Error{Kind: vm.Unauthenticated, Msg: "no identity has this SSH key"}
	}
	other := func(k vm.IdentityKey) bool { return k.Account != known[0].Account }
	if slices.ContainsFunc(known, other) && !vm.IsID(ref) {
		return vm.Actor{}, vm.IdentityKey{}, vm.WithOp(vm.OpGet, ref, (&vm.Error{
			Kind: vm.Denied, Msg: "several accounts have this SSH key", Hint: "name the VM by its id",
		}).WithCode("VM_ACCESS_DENIED"))
	}
	slices.SortStableFunc(known, func(a, b vm.IdentityKey) int { return a.CreatedAt.Compare(b.CreatedAt) })
	var refusal error
	for _, k := range known {
		who := vm.Actor{Account: k.Account, Identity: k.Identity, SSHKey: k.ID}
		_, err := a.MayEnter(ctx, who, ref, user)
		if err == nil {
			return who, k, nil
		}
		if refusal == nil {
			refusal = err
		}
	}
	return vm.Actor{}, vm.IdentityKey{}, refusal
}
