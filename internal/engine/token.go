// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/warren-vm/warren/vm"
)

// TokenRequest says how long a token lasts; the zero value: until it is revoked.
type TokenRequest struct {
	ExpiresAt  time.Time
	TTLSeconds Optional[int64] // in place of ExpiresAt
}

// expiry is when the token ends; the zero time = when it is revoked.
func (r TokenRequest) expiry(now time.Time) (time.Time, error) {
	ttl := r.TTLSeconds
	switch {
	case ttl.Set && !ttl.Null && !r.ExpiresAt.IsZero():
		return time.Time{}, vm.Errorf(vm.Invalid, "ttlSeconds", "expiresAt is given, too").WithCode("INVALID_REQUEST")
	case ttl.Set && !ttl.Null && (ttl.Value <= 0 || ttl.Value > maxSeconds):
		return time.Time{}, vm.Errorf(vm.Invalid, "ttlSeconds", "%d is not within 1 to %d", ttl.Value, int64(maxSeconds)).WithCode("INVALID_REQUEST")
	case ttl.Set && !ttl.Null:
		return now.Add(time.Duration(ttl.Value) * time.Second), nil
	case !r.ExpiresAt.IsZero() && !r.ExpiresAt.After(now):
		return time.Time{}, vm.Errorf(vm.Invalid, r.ExpiresAt.Format(time.RFC3339), "the token would have expired already").WithCode("INVALID_REQUEST")
	}
	return r.ExpiresAt, nil
}

// CreateToken makes a token of an identity; its secret is returned this once.
func (e *Engine) CreateToken(ctx context.Context, c *vm.Call, identity string, req TokenRequest) (t vm.IdentityToken, secret string, err error) {
	defer func() { err = fail(vm.OpTokenCreate, identity, err) }()
	i, err := e.ownIdentity(c, identity)
	if err != nil {
		return t, "", err
	}
	expires, err := req.expiry(e.now())
	if err != nil {
		return t, "", err
	}
	entry := vm.AuditEntry{Op: vm.OpTokenCreate, Subject: string(i.ID)}
	if !expires.IsZero() {
		entry.Detail = map[string]any{"expiresAt": expires.UTC().Format(time.RFC3339)}
	}
	r, err := e.record(ctx, c, entry)
	if err != nil {
		return t, "", err
	}
	defer func() { r.End(err, map[string]any{"token": string(t.ID)}) }()
	e.idWrite.Lock()
	defer e.idWrite.Unlock()
	if i, err = e.ownIdentity(c, string(i.ID)); err != nil { // as it is now
		return t, "", err
	}
	secret = vm.NewSecret()
	t = vm.IdentityToken{
		ID: vm.TokenID(vm.NewUUID()), Identity: i.ID, Account: i.Account, Hash: secretHash(secret), CreatedAt: e.now(), ExpiresAt: expires.UTC(),
	}
	if t.Revision, err = saved(ctx, t, e.cfg.Records.Tokens.Create); err != nil {
		return vm.IdentityToken{}, "", err
	}
	e.mu.Lock()
	e.rights.tokens[t.ID], e.rights.byHash[t.Hash] = t, t.ID
	e.mu.Unlock()
	e.pokeExpiry()
	e.cfg.Journal.Emit(tokenEvent("token.created", t))
	return t, secret, nil
}

func tokenEvent(kind string, t vm.IdentityToken) vm.Event {
	return vm.Event{Type: kind, Account: t.Account, Data: map[string]any{"identity": string(t.Identity), "token": string(t.ID)}}
}

// Tokens lists the tokens of an identity, oldest first.
func (e *Engine) Tokens(_ context.Context, c *vm.Call, identity string) ([]vm.IdentityToken, error) {
	i, err := e.ownIdentity(c, identity)
	if err != nil {
		return nil, fail(vm.OpList, identity, err)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	var list []vm.IdentityToken
	for _, t := range e.rights.tokens {
		if t.Identity == i.ID && !t.Expired(e.now()) {
			list = append(list, t)
		}
	}
	slices.SortFunc(list, func(a, b vm.IdentityToken) int {
		return cmp.Or(a.CreatedAt.Compare(b.CreatedAt), cmp.Compare(a.ID, b.ID))
	})
	return list, nil
}

// RevokeToken ends a token at once, and all that goes on by it.
func (e *Engine) RevokeToken(ctx context.Context, c *vm.Call, identity string, id vm.TokenID) (err error) {
	defer func() { err = fail(vm.OpTokenRevoke, string(id), err) }()
	i, err := e.ownIdentity(c, identity)
	if err != nil {
		return err
	}
	e.mu.Lock()
	t, ok := e.rights.tokens[id]
	e.mu.Unlock()
	if !ok || t.Identity != i.ID {
		return vm.Errorf(vm.NotFound, string(id), "the identity has no such token").
			WithCode("NOT_FOUND").WithHint("`warren token ls %s` lists its tokens", cmp.Or(i.Name, string(i.ID)))
	}
	r, err := e.record(ctx, c, vm.AuditEntry{Op: vm.OpTokenRevoke, Subject: string(id)})
	if err != nil {
		return err
	}
	defer func() { r.End(err, nil) }()
	e.idWrite.Lock()
	defer e.idWrite.Unlock()
	if err := e.dropToken(ctx, t); err != nil {
		return err
	}
	e.cfg.Journal.Emit(tokenEvent("token.revoked", t))
	return nil
}

// dropToken removes a token durably, then from memory, and cuts what goes on by
// it. The caller holds idWrite.
func (e *Engine) dropToken(ctx context.Context, t vm.IdentityToken) error {
	e.mu.Lock()
	t, ok := e.rights.tokens[t.ID] // as it is now
	e.mu.Unlock()
	if !ok {
		return nil
	}
	if _, err := saved(ctx, t, deleting(e.cfg.Records.Tokens)); err != nil {
		return err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.rights.tokens, t.ID)
	delete(e.rights.byHash, t.Hash)
	e.cutLocked()
	return nil
}

// byToken says who holds a token's secret. The use is noted now and then.
func (e *Engine) byToken(ctx context.Context, hash string) (vm.Actor, bool) {
	now := e.now()
	e.mu.Lock()
	t, ok := e.rights.tokens[e.rights.byHash[hash]]
	_, known := e.rights.identities[t.Identity]
	ok = ok && known && !t.Expired(now)
	stale := ok && now.Sub(t.LastUsed) >= lastUsedEvery
	if stale {
		t.LastUsed = now
		e.rights.tokens[t.ID] = t // others need not write it again
	}
	e.mu.Unlock()
	if stale {
		if err := e.noteTokenUse(ctx, t.ID, now); err != nil {
			e.log.Warn("the use of a token was not noted", "token", t.ID, "err", err)
		}
	}
	return vm.Actor{Account: t.Account, Identity: t.Identity, Token: t.ID, Issued: t.CreatedAt}, ok
}

func (e *Engine) noteTokenUse(ctx context.Context, id vm.TokenID, at time.Time) error {
	e.idWrite.Lock()
	defer e.idWrite.Unlock()
	e.mu.Lock()
	t, ok := e.rights.tokens[id]
	e.mu.Unlock()
	if !ok {
		return nil
	}
	t.LastUsed = at
	rev, err := saved(ctx, t, e.cfg.Records.Tokens.Update)
	if err != nil {
		return err
	}
	t.Revision = rev
	e.mu.Lock()
	defer e.mu.Unlock()
	e.rights.tokens[id] = t
	return nil
}

// pokeExpiry tells the task that ends tokens that there is a new one.
func (e *Engine) pokeExpiry() {
	select {
	case e.expiry <- struct{}{}:
	default:
	}
}

// expire is the task that ends tokens whose time has come.
func (e *Engine) expire(ctx context.Context) {
	for {
		after, stop := e.cfg.Clock.After(e.expireNow(ctx))
		select {
		case <-after:
		case <-e.expiry:
		case <-ctx.Done():
			stop()
			return
		}
		stop()
	}
}

// expireNow ends the tokens whose time has come and returns how long it is until
// the next. What goes on by them is cut even when no record can be written.
func (e *Engine) expireNow(ctx context.Context) time.Duration {
	now, wait := e.now(), reapEvery
	var over []vm.IdentityToken
	e.mu.Lock()
	e.cutLocked()
	for _, t := range e.rights.tokens {
		if t.Expired(now) {
			over = append(over, t)
		} else if !t.ExpiresAt.IsZero() {
			wait = min(wait, t.ExpiresAt.Sub(now))
		}
	}
	e.mu.Unlock()
	for _, t := range over {
		if err := e.expireToken(ctx, t); err != nil && ctx.Err() == nil {
			e.log.Error("an expired token could not be removed", "token", t.ID, "err", err)
			wait = min(wait, retryAfter)
		}
	}
	return wait
}

func (e *Engine) expireToken(ctx context.Context, t vm.IdentityToken) error {
	c := &vm.Call{Actor: vm.Actor{Account: t.Account, System: "expiry"}}
	r, err := e.record(ctx, c, vm.AuditEntry{Op: vm.OpTokenRevoke, Subject: string(t.ID), Detail: map[string]any{"reason": "expired"}})
	if err != nil {
		return err
	}
	e.idWrite.Lock()
	defer e.idWrite.Unlock()
	err = e.dropToken(ctx, t)
	r.End(err, nil)
	if err == nil {
		e.cfg.Journal.Emit(tokenEvent("token.expired", t))
	}
	return err
}
