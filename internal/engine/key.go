// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"slices"
	"time"

	"github.com/warren-vm/warren/vm"
)

// secretHash is what is kept of a key's secret. The secret has 248 random
// bits, so that a plain hash cannot be guessed; looking one up by its hash
// tells nothing by its time.
func secretHash(secret string) string {
	sum := sha256.Sum256([]byte(secret))
	return hex.EncodeToString(sum[:])
}

// Authenticate says who holds the secret of an API key or of a token; kind
// Unauthenticated for nobody.
func (e *Engine) Authenticate(ctx context.Context, secret string) (vm.Actor, error) {
	hash := secretHash(secret)
	now := e.now()
	e.mu.Lock()
	k, ok := e.users.keys[e.users.byHash[hash]]
	a, known := e.users.accounts[k.Account]
	stale := ok && now.Sub(k.LastUsed) >= lastUsedEvery
	if stale {
		k.LastUsed = now
		e.users.keys[k.ID] = k // others need not write it again
	}
	e.mu.Unlock()
	if !ok || !known {
		if actor, ok := e.byToken(ctx, hash); ok {
			return actor, nil
		}
		return vm.Actor{}, (&vm.Error{Kind: vm.Unauthenticated, Msg: "unknown API key or token"}).
			WithHint("set WARREN_API_KEY; the first key is in admin.key of the data directory")
	}
	if stale {
		if err := e.noteUse(ctx, k.ID, now); err != nil {
			e.log.Warn("the use of a key was not noted", "key", k.ID, "err", err)
		}
	}
	return vm.Actor{Account: a.ID, Key: k.ID, Admin: a.Admin, Issued: k.CreatedAt}, nil
}

// lastUsedEvery is how exactly the last use of a key is recorded.
const lastUsedEvery = time.Minute

// noteUse writes when a key was last used.
func (e *Engine) noteUse(ctx context.Context, id vm.KeyID, at time.Time) error {
	e.keyWrite.Lock()
	defer e.keyWrite.Unlock()
	e.mu.Lock()
	k, ok := e.users.keys[id]
	e.mu.Unlock()
	if !ok {
		return nil
	}
	k.LastUsed = at
	return e.replaceKey(ctx, k)
}

// replaceKey changes a key durably, and then in memory. The caller holds
// keyWrite.
func (e *Engine) replaceKey(ctx context.Context, k vm.APIKey) error {
	rev, err := e.saveKey(ctx, k)
	if err != nil {
		return err
	}
	k.Revision = rev
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.users.byHash, e.users.keys[k.ID].Hash)
	e.users.byHash[k.Hash] = k.ID
	e.users.keys[k.ID] = k
	e.cutLocked()
	return nil
}

// CreateKey makes a further key of an account, "" = the caller's; another's
// only for admins. The secret is returned this once.
func (e *Engine) CreateKey(ctx context.Context, c *vm.Call, account vm.AccountID, name string) (k vm.APIKey, secret string, err error) {
	defer func() { err = fail(vm.OpKeyCreate, name, err) }()
	account, err = e.keyAccount(c, account)
	if err != nil {
		return k, "", err
	}
	if len(name) > maxKeyName {
		return k, "", vm.Errorf(vm.Invalid, name, "the name is longer than %d bytes", maxKeyName).WithCode("INVALID_REQUEST")
	}
	r, err := e.record(ctx, c, vm.AuditEntry{Op: vm.OpKeyCreate, Subject: name, Detail: map[string]any{"account": string(account)}})
	if err != nil {
		return k, "", err
	}
	k, secret, err = e.addKey(ctx, account, name)
	r.End(err, map[string]any{"key": string(k.ID)})
	return k, secret, err
}

const maxKeyName = 100

// keyAccount decides whose keys a call is about.
func (e *Engine) keyAccount(c *vm.Call, account vm.AccountID) (vm.AccountID, error) {
	if err := c.Actor.OwnerOnly(""); err != nil {
		return "", err
	}
	if account == "" || account == c.Actor.Account {
		return c.Actor.Account, nil
	}
	if err := c.Actor.AdminOnly(); err != nil {
		return "", err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	account = e.users.accountLocked(account)
	if _, ok := e.users.accounts[account]; !ok {
		return "", vm.Errorf(vm.NotFound, string(account), "no such account").WithCode("NOT_FOUND")
	}
	return account, nil
}

func (e *Engine) addKey(ctx context.Context, account vm.AccountID, name string) (vm.APIKey, string, error) {
	secret := vm.NewSecret()
	k := vm.APIKey{ID: vm.NewKeyID(), Account: account, Name: name, Hash: secretHash(secret), CreatedAt: e.now()}
	rev, err := e.newKey(ctx, k)
	if err != nil {
		return vm.APIKey{}, "", err
	}
	k.Revision = rev
	e.mu.Lock()
	defer e.mu.Unlock()
	e.users.keys[k.ID] = k
	e.users.byHash[k.Hash] = k.ID
	return k, secret, nil
}

// Keys lists the keys of an account, oldest first; "" = the caller's.
func (e *Engine) Keys(_ context.Context, c *vm.Call, account vm.AccountID) ([]vm.APIKey, error) {
	account, err := e.keyAccount(c, account)
	if err != nil {
		return nil, fail(vm.OpList, "keys", err)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	var list []vm.APIKey
	for _, k := range e.users.keys {
		if k.Account == account {
			list = append(list, k)
		}
	}
	slices.SortFunc(list, func(a, b vm.APIKey) int { return a.CreatedAt.Compare(b.CreatedAt) })
	return list, nil
}

// RotateKey gives a key a new secret, returned this once; the old one ends at
// once.
func (e *Engine) RotateKey(ctx context.Context, c *vm.Call, id vm.KeyID) (k vm.APIKey, secret string, err error) {
	defer func() { err = fail(vm.OpKeyRotate, string(id), err) }()
	if k, err = e.ownKey(c, id); err != nil {
		return vm.APIKey{}, "", err
	}
	r, err := e.record(ctx, c, vm.AuditEntry{Op: vm.OpKeyRotate, Subject: string(id)})
	if err != nil {
		return vm.APIKey{}, "", err
	}
	defer func() { r.End(err, nil) }()
	e.keyWrite.Lock()
	defer e.keyWrite.Unlock()
	if k, err = e.ownKey(c, id); err != nil { // as it is now
		return vm.APIKey{}, "", err
	}
	secret = vm.NewSecret()
	k.Hash, k.CreatedAt = secretHash(secret), e.now()
	if err = e.replaceKey(ctx, k); err != nil {
		return vm.APIKey{}, "", err
	}
	return k, secret, nil
}

// RevokeKey removes a key; it ends at once. The last key of an admin account
// stays.
func (e *Engine) RevokeKey(ctx context.Context, c *vm.Call, id vm.KeyID) (err error) {
	defer func() { err = fail(vm.OpKeyRevoke, string(id), err) }()
	k, err := e.ownKey(c, id)
	if err != nil {
		return err
	}
	if e.lastAdminKey(k) {
		return vm.Errorf(vm.Denied, string(id), "the last key of an admin account cannot be revoked").
			WithCode("FORBIDDEN").WithHint("rotate it instead: `warren key rotate %s`", id)
	}
	r, err := e.record(ctx, c, vm.AuditEntry{Op: vm.OpKeyRevoke, Subject: string(id)})
	if err != nil {
		return err
	}
	err = e.dropKey(ctx, k)
	r.End(err, nil)
	return err
}

func (e *Engine) lastAdminKey(k vm.APIKey) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.users.accounts[k.Account].Admin {
		return false
	}
	for _, o := range e.users.keys {
		if o.Account == k.Account && o.ID != k.ID {
			return false
		}
	}
	return true
}

// ownKey finds a key that the caller may change.
func (e *Engine) ownKey(c *vm.Call, id vm.KeyID) (vm.APIKey, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	k, ok := e.users.keys[id]
	if !ok || (k.Account != c.Actor.Account && !c.Actor.Admin) {
		return vm.APIKey{}, vm.Errorf(vm.NotFound, string(id), "no such key").
			WithCode("NOT_FOUND").WithHint("`warren key ls` lists keys")
	}
	return k, nil
}

// dropKey removes a key durably, and then from memory.
func (e *Engine) dropKey(ctx context.Context, k vm.APIKey) error {
	e.keyWrite.Lock()
	defer e.keyWrite.Unlock()
	e.mu.Lock()
	k, ok := e.users.keys[k.ID]
	e.mu.Unlock()
	if !ok {
		return nil
	}
	if err := e.dropKeyRecord(ctx, k); err != nil {
		return err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.users.keys, k.ID)
	for hash, id := range e.users.byHash {
		if id == k.ID {
			delete(e.users.byHash, hash)
		}
	}
	e.cutLocked()
	return nil
}

// joinUndo keeps err first and does not lose what went wrong while taking back.
func joinUndo(err, undoErr error) error {
	if undoErr == nil {
		return err
	}
	return errors.Join(err, undoErr)
}
