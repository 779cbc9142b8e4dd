// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package objects

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/warren-vm/warren/internal/layout"
	"github.com/warren-vm/warren/internal/seal"
	"github.com/warren-vm/warren/vm"
)

// secrets are the unwrapped secrets of access keys that were used.
type secrets struct {
	dir layout.Dir
	mu  sync.Mutex
	of  map[string]string // by access key id; guarded by mu
}

func (s *secrets) init(dir layout.Dir) { s.dir, s.of = dir, map[string]string{} }

// maxSecrets bounds how many secrets are kept unwrapped.
const maxSecrets = 1000

// get unwraps the secret of a key.
func (s *secrets) get(k vm.S3Key) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if secret, ok := s.of[k.ID]; ok {
		return secret, nil
	}
	host, err := seal.LoadHostKey(s.dir.HostKey())
	if err != nil {
		return "", err
	}
	plain, err := seal.Unwrap(host, k.Secret)
	if err != nil {
		return "", err
	}
	if len(s.of) >= maxSecrets {
		clear(s.of)
	}
	s.of[k.ID] = string(plain)
	return string(plain), nil
}

func (s *secrets) forget(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.of, id)
}

// maxKeyName is the length of the longest name of an access key.
const maxKeyName = 100

// CreateKey makes an access key for S3 clients. With an identity of the account it acts as
// the identity, else as the account. Only this call returns the secret.
func (o *Objects) CreateKey(ctx context.Context, c *vm.Call, name, identity string) (k vm.S3Key, secret string, err error) {
	defer func() { err = vm.WithOp(vm.OpKeyCreate, name, err) }()
	if err := c.Actor.OwnerOnly(""); err != nil {
		return k, "", err
	}
	if len(name) > maxKeyName {
		return k, "", vm.Errorf(vm.Invalid, vm.Clip(name, maxKeyName), "the name is longer than %d bytes", maxKeyName).WithCode("INVALID_REQUEST")
	}
	if len(o.keys.By(byAccount, string(c.Actor.Account))) >= maxOwned {
		return k, "", tooMany("access keys", maxOwned)
	}
	k = vm.S3Key{ID: vm.NewS3KeyID(), Account: c.Actor.Account, Name: name, CreatedAt: o.cfg.Now().UTC()}
	if identity != "" {
		i, err := o.cfg.Access.FindIdentity(c, identity)
		if err != nil {
			return k, "", err
		}
		k.Identity = i.ID
	}
	end, err := o.begin(ctx, c, vm.OpKeyCreate, name, map[string]any{"s3": true, "identity": string(k.Identity)})
	if err != nil {
		return k, "", err
	}
	defer func() { end(err, map[string]any{"key": k.ID}) }()
	host, err := seal.EnsureHostKey(o.cfg.Dir.HostKey())
	if err != nil {
		return k, "", err
	}
	secret = vm.NewSecret()
	if k.Secret, err = seal.Wrap(host, []byte(secret)); err != nil {
		return k, "", err
	}
	return k, secret, o.keys.Create(ctx, k)
}

// Keys returns the access keys of the caller's account, oldest first.
func (o *Objects) Keys(_ context.Context, c *vm.Call) ([]vm.S3Key, error) {
	if err := c.Actor.OwnerOnly(""); err != nil {
		return nil, vm.WithOp(vm.OpList, "keys", err)
	}
	list := o.keys.By(byAccount, string(c.Actor.Account))
	slices.SortFunc(list, func(a, b vm.S3Key) int { return cmp.Or(a.CreatedAt.Compare(b.CreatedAt), cmp.Compare(a.ID, b.ID)) })
	return list, nil
}

// RevokeKey ends an access key, and every link that was signed with it.
func (o *Objects) RevokeKey(ctx context.Context, c *vm.Call, id string) (err error) {
	defer func() { err = vm.WithOp(vm.OpKeyRevoke, id, err) }()
	if err := c.Actor.OwnerOnly(id); err != nil {
		return err
	}
	k, ok := o.keys.Get(id)
	if !ok || k.Account != c.Actor.Account && !c.Actor.Admin {
		return vm.Errorf(vm.NotFound, vm.Clip(id, 60), "no such key").WithCode("NOT_FOUND").WithHint("`warren key ls` lists keys")
	}
	end, err := o.begin(ctx, c, vm.OpKeyRevoke, id, map[string]any{"s3": true})
	if err != nil {
		return err
	}
	defer func() { end(err, nil) }()
	if err := o.keys.Drop(ctx, k.ID); err != nil {
		return err
	}
	o.secrets.forget(k.ID)
	return nil
}

// lastUsedEvery is the precision with which the last use of a key is recorded.
const lastUsedEvery = 10 * time.Minute

// Secret returns the secret of an access key and who uses it, for a door that checks
// signatures. Kind Unauthenticated when there is no such key, or its identity is gone.
func (o *Objects) Secret(ctx context.Context, id string) (string, vm.Actor, error) {
	unknown := &vm.Error{Kind: vm.Unauthenticated, Subject: vm.Clip(id, 60), Msg: "unknown access key"}
	k, ok := o.keys.Get(id)
	if !ok {
		return "", vm.Actor{}, unknown
	}
	actor := vm.Actor{Account: k.Account, Key: vm.KeyID(k.ID), Identity: k.Identity, Issued: k.CreatedAt}
	if a, known := o.cfg.Access.Lookup(k.Account); !known || k.Identity != "" && !o.cfg.Access.HasIdentity(k.Account, k.Identity) {
		return "", vm.Actor{}, unknown
	} else if k.Identity == "" {
		actor.Admin = a.Admin
	}
	secret, err := o.secrets.get(k)
	if err != nil {
		return "", vm.Actor{}, err
	}
	if now := o.cfg.Now(); now.Sub(k.LastUsed) > lastUsedEvery {
		o.noteUse(ctx, k.ID, now)
	}
	return secret, actor, nil
}

// noteUse records the use of a key, by one caller at a time.
func (o *Objects) noteUse(ctx context.Context, id string, now time.Time) {
	if !o.noting.TryLock() {
		return
	}
	defer o.noting.Unlock()
	_, err := o.keys.Change(ctx, id, func(k *vm.S3Key) error { k.LastUsed = now.UTC(); return nil })
	if err != nil && ctx.Err() == nil && vm.KindOf(err) != vm.NotFound {
		o.cfg.Log.Warn("the use of an access key was not recorded", "key", id, "err", err)
	}
}

// ActorOf is the actor that a VM is for its own requests. Kind Denied when there is none.
func (o *Objects) ActorOf(id vm.ID) (vm.Actor, error) {
	if o.cfg.VMAccount == nil {
		return vm.Actor{}, vm.Errorf(vm.Denied, string(id), "no VM may use objects")
	}
	account, ok := o.cfg.VMAccount(id)
	if !ok {
		return vm.Actor{}, vm.Errorf(vm.Denied, string(id), "no such VM")
	}
	return vm.Actor{Account: account, VM: id}, nil
}

// Endpoint is the URL at which S3 clients reach the objects; "" = they do not.
func (o *Objects) Endpoint() string { return o.cfg.Endpoint }
