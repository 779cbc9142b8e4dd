// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package access

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"time"

	"github.com/warren-vm/warren/vm"
)

// secretHash is the stored hash of a secret. A secret has 248 random bits: it cannot be
// guessed from a plain hash, and the time of a lookup by the hash reveals nothing about
// it.
func secretHash(secret string) string {
	sum := sha256.Sum256([]byte(secret))
	return hex.EncodeToString(sum[:])
}

// Authenticate returns the owner of the secret of an API key or token. Kind
// Unauthenticated when there is none. Once a minute for each key and token, it blocks for
// a write that records the use.
func (a *Access) Authenticate(ctx context.Context, secret string) (vm.Actor, error) {
	hash := secretHash(secret)
	k, ok := first(a.keys, byHash, hash)
	acc, known := a.accounts.Get(k.Account)
	if !ok || !known {
		if actor, ok := a.byToken(ctx, hash); ok {
			return actor, nil
		}
		return vm.Actor{}, (&vm.Error{Kind: vm.Unauthenticated, Msg: "unknown API key or token"}).
			WithHint("set WARREN_API_KEY; the first key is in admin.key of the data directory")
	}
	a.noteUse(ctx, string(k.ID), k.LastUsed, func(at time.Time) error {
		_, err := a.keys.Change(ctx, k.ID, func(k *vm.APIKey) error { k.LastUsed = at; return nil })
		return err
	})
	return vm.Actor{Account: acc.ID, Key: k.ID, Admin: acc.Admin, Issued: k.CreatedAt}, nil
}

// lastUsedEvery is the precision with which the last use of a key or token is recorded.
const lastUsedEvery = time.Minute

// noteUse writes the use of a key or token if the last recorded use is a minute old. Of
// concurrent callers one tries, once a minute.
func (a *Access) noteUse(ctx context.Context, id string, last time.Time, write func(at time.Time) error) {
	now := a.now()
	if now.Sub(last) < lastUsedEvery {
		return
	}
	a.mu.Lock()
	due := now.Sub(a.noted[id]) >= lastUsedEvery
	if due {
		a.noted[id] = now
	}
	a.mu.Unlock()
	if !due {
		return
	}
	err := write(now)
	switch {
	case err == nil || vm.KindOf(err) == vm.NotFound: // written, or removed meanwhile
		a.mu.Lock()
		defer a.mu.Unlock()
		delete(a.noted, id)
	case ctx.Err() == nil:
		a.cfg.Log.Warn("the use of a key or token was not recorded", "id", id, "err", err)
	}
}

// CreateKey makes another key of an account; "" = the caller's. Only admins may name
// other accounts. Only this call returns the secret.
func (a *Access) CreateKey(ctx context.Context, c *vm.Call, account vm.AccountID, name string) (k vm.APIKey, secret string, err error) {
	defer func() { err = vm.WithOp(vm.OpKeyCreate, name, err) }()
	account, err = a.keyAccount(c, account)
	if err != nil {
		return k, "", err
	}
	if len(name) > maxKeyName {
		return k, "", vm.Errorf(vm.Invalid, name, "the name is longer than %d bytes", maxKeyName).WithCode("INVALID_REQUEST")
	}
	end, err := a.record(ctx, c, vm.AuditEntry{Op: vm.OpKeyCreate, Subject: name, Detail: map[string]any{"account": string(account)}})
	if err != nil {
		return k, "", err
	}
	k, secret, err = a.addKey(ctx, account, name)
	end(err, map[string]any{"key": string(k.ID)})
	return k, secret, err
}

const maxKeyName = 100

// keyAccount returns the account whose keys a call is about.
func (a *Access) keyAccount(c *vm.Call, account vm.AccountID) (vm.AccountID, error) {
	if err := c.Actor.OwnerOnly(""); err != nil {
		return "", err
	}
	if account == "" || account == c.Actor.Account {
		return c.Actor.Account, nil
	}
	if err := c.Actor.AdminOnly(); err != nil {
		return "", err
	}
	acc, ok := a.byRef(account)
	if !ok {
		return "", vm.Errorf(vm.NotFound, string(account), "no such account").WithCode("NOT_FOUND")
	}
	return acc.ID, nil
}

func (a *Access) addKey(ctx context.Context, account vm.AccountID, name string) (vm.APIKey, string, error) {
	secret := vm.NewSecret()
	k := vm.APIKey{ID: vm.NewKeyID(), Account: account, Name: name, Hash: secretHash(secret), CreatedAt: a.now()}
	if err := a.keys.Create(ctx, k); err != nil {
		return vm.APIKey{}, "", err
	}
	return k, secret, nil
}

// Keys lists the keys of an account, oldest first; "" = the caller's.
func (a *Access) Keys(_ context.Context, c *vm.Call, account vm.AccountID) ([]vm.APIKey, error) {
	account, err := a.keyAccount(c, account)
	if err != nil {
		return nil, vm.WithOp(vm.OpList, "keys", err)
	}
	list := a.keys.By(byAccount, string(account))
	slices.SortStableFunc(list, func(a, b vm.APIKey) int { return a.CreatedAt.Compare(b.CreatedAt) })
	return list, nil
}

// RotateKey gives a key a new secret, which only this call returns. The old secret and
// the sessions that were opened with it end at once.
func (a *Access) RotateKey(ctx context.Context, c *vm.Call, id vm.KeyID) (k vm.APIKey, secret string, err error) {
	defer func() { err = vm.WithOp(vm.OpKeyRotate, string(id), err) }()
	if _, err = a.ownKey(c, id); err != nil {
		return vm.APIKey{}, "", err
	}
	end, err := a.record(ctx, c, vm.AuditEntry{Op: vm.OpKeyRotate, Subject: string(id)})
	if err != nil {
		return vm.APIKey{}, "", err
	}
	defer func() { end(err, nil) }()
	secret = vm.NewSecret()
	k, err = a.keys.Change(ctx, id, func(k *vm.APIKey) error {
		k.Hash, k.CreatedAt = secretHash(secret), a.now()
		return nil
	})
	if vm.KindOf(err) == vm.NotFound {
		err = noSuchKey(id)
	}
	if err != nil {
		return vm.APIKey{}, "", err
	}
	a.recheck()
	return k, secret, nil
}

// RevokeKey removes a key and ends the sessions that were opened with it at once. It
// refuses the last key of an admin account.
func (a *Access) RevokeKey(ctx context.Context, c *vm.Call, id vm.KeyID) (err error) {
	defer func() { err = vm.WithOp(vm.OpKeyRevoke, string(id), err) }()
	k, err := a.ownKey(c, id)
	if err != nil {
		return err
	}
	if acc, _ := a.accounts.Get(k.Account); acc.Admin && len(a.keys.By(byAccount, string(k.Account))) == 1 {
		return vm.Errorf(vm.Denied, string(id), "the last key of an admin account cannot be revoked").
			WithCode("FORBIDDEN").WithHint("rotate it instead: `warren key rotate %s`", id)
	}
	end, err := a.record(ctx, c, vm.AuditEntry{Op: vm.OpKeyRevoke, Subject: string(id)})
	if err != nil {
		return err
	}
	err = a.dropKey(ctx, k)
	end(err, nil)
	return err
}

// ownKey finds a key that the caller may change.
func (a *Access) ownKey(c *vm.Call, id vm.KeyID) (vm.APIKey, error) {
	k, ok := a.keys.Get(id)
	if !ok || (k.Account != c.Actor.Account && !c.Actor.Admin) {
		return vm.APIKey{}, noSuchKey(id)
	}
	return k, nil
}

func noSuchKey(id vm.KeyID) error {
	return vm.Errorf(vm.NotFound, string(id), "no such key").WithCode("NOT_FOUND").WithHint("`warren key ls` lists keys")
}

// dropKey removes a key and ends its sessions.
func (a *Access) dropKey(ctx context.Context, k vm.APIKey) error {
	if err := a.keys.Drop(ctx, k.ID); err != nil {
		return err
	}
	a.recheck()
	return nil
}
