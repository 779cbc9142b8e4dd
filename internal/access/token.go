// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package access

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/warren-vm/warren/vm"
)

// TokenRequest says how long a token is valid. The zero value: until it is revoked.
type TokenRequest struct {
	ExpiresAt time.Time
	TTL       *vm.Seconds // instead of ExpiresAt; nil = not given
}

// expiry is when the token expires; zero = never.
func (r TokenRequest) expiry(now time.Time) (time.Time, error) {
	switch {
	case r.TTL == nil && r.ExpiresAt.IsZero():
		return time.Time{}, nil
	case r.TTL == nil && !r.ExpiresAt.After(now):
		return time.Time{}, vm.Errorf(vm.Invalid, r.ExpiresAt.Format(time.RFC3339), "the token would have expired already").WithCode("INVALID_REQUEST")
	case r.TTL == nil:
		return r.ExpiresAt, nil
	case !r.ExpiresAt.IsZero():
		return time.Time{}, vm.Errorf(vm.Invalid, "ttlSeconds", "expiresAt is given, too").WithCode("INVALID_REQUEST")
	case *r.TTL <= 0 || *r.TTL > vm.Seconds(vm.MaxDuration):
		return time.Time{}, vm.Errorf(vm.Invalid, "ttlSeconds", "%s is not within 1 to %s", *r.TTL, vm.Seconds(vm.MaxDuration)).WithCode("INVALID_REQUEST")
	}
	return now.Add(time.Duration(*r.TTL)), nil
}

// CreateToken makes a token of an identity. Only this call returns the secret.
func (a *Access) CreateToken(ctx context.Context, c *vm.Call, identity string, req TokenRequest) (t vm.IdentityToken, secret string, err error) {
	defer func() { err = vm.WithOp(vm.OpTokenCreate, identity, err) }()
	i, err := a.ownIdentity(c, identity)
	if err != nil {
		return t, "", err
	}
	expires, err := req.expiry(a.now())
	if err != nil {
		return t, "", err
	}
	entry := vm.AuditEntry{Op: vm.OpTokenCreate, Subject: string(i.ID)}
	if !expires.IsZero() {
		entry.Detail = map[string]any{"expiresAt": expires.UTC().Format(time.RFC3339)}
	}
	end, err := a.record(ctx, c, entry)
	if err != nil {
		return t, "", err
	}
	defer func() { end(err, map[string]any{"token": string(t.ID)}) }()
	a.idWrite.Lock()
	defer a.idWrite.Unlock()
	if i, err = a.ownIdentity(c, string(i.ID)); err != nil { // it may have been deleted meanwhile
		return t, "", err
	}
	secret = vm.NewSecret()
	t = vm.IdentityToken{
		ID: vm.TokenID(vm.NewUUID()), Identity: i.ID, Account: i.Account, Hash: secretHash(secret), CreatedAt: a.now(), ExpiresAt: expires.UTC(),
	}
	if err = a.tokens.Create(ctx, t); err != nil {
		return vm.IdentityToken{}, "", err
	}
	a.pokeExpiry()
	a.cfg.Journal.Emit(tokenEvent("token.created", t))
	return t, secret, nil
}

func tokenEvent(kind string, t vm.IdentityToken) vm.Event {
	return vm.Event{Type: kind, Account: t.Account, Data: map[string]any{"identity": string(t.Identity), "token": string(t.ID)}}
}

// Tokens lists the tokens of an identity, oldest first.
func (a *Access) Tokens(_ context.Context, c *vm.Call, identity string) ([]vm.IdentityToken, error) {
	i, err := a.ownIdentity(c, identity)
	if err != nil {
		return nil, vm.WithOp(vm.OpList, identity, err)
	}
	now := a.now()
	list := slices.DeleteFunc(a.tokens.By(byIdentity, string(i.ID)), func(t vm.IdentityToken) bool { return t.Expired(now) })
	slices.SortStableFunc(list, func(a, b vm.IdentityToken) int { return a.CreatedAt.Compare(b.CreatedAt) })
	return list, nil
}

// TokensFor lists the tokens of identities that have a permission for a VM.
func (a *Access) TokensFor(id vm.ID) (list []vm.IdentityToken) {
	for _, p := range a.grants.By(byVM, string(id)) {
		list = append(list, a.tokens.By(byIdentity, string(p.Identity))...)
	}
	return list
}

// RevokeToken ends a token, and the sessions that were opened with it, at once.
func (a *Access) RevokeToken(ctx context.Context, c *vm.Call, identity string, id vm.TokenID) (err error) {
	defer func() { err = vm.WithOp(vm.OpTokenRevoke, string(id), err) }()
	i, err := a.ownIdentity(c, identity)
	if err != nil {
		return err
	}
	t, ok := a.tokens.Get(id)
	if !ok || t.Identity != i.ID {
		return vm.Errorf(vm.NotFound, string(id), "the identity has no such token").
			WithCode("NOT_FOUND").WithHint("`warren token ls %s` lists its tokens", cmp.Or(i.Name, string(i.ID)))
	}
	end, err := a.record(ctx, c, vm.AuditEntry{Op: vm.OpTokenRevoke, Subject: string(id)})
	if err != nil {
		return err
	}
	defer func() { end(err, nil) }()
	if err = a.dropToken(ctx, t); err != nil {
		return err
	}
	a.cfg.Journal.Emit(tokenEvent("token.revoked", t))
	return nil
}

// dropToken removes a token and ends its sessions.
func (a *Access) dropToken(ctx context.Context, t vm.IdentityToken) error {
	if err := a.tokens.Drop(ctx, t.ID); err != nil {
		return err
	}
	a.recheck()
	return nil
}

// byToken returns the owner of a token's secret.
func (a *Access) byToken(ctx context.Context, hash string) (vm.Actor, bool) {
	t, ok := first(a.tokens, byHash, hash)
	_, known := a.identities.Get(t.Identity)
	if !ok || !known || t.Expired(a.now()) {
		return vm.Actor{}, false
	}
	a.noteUse(ctx, string(t.ID), t.LastUsed, func(at time.Time) error {
		_, err := a.tokens.Change(ctx, t.ID, func(t *vm.IdentityToken) error { t.LastUsed = at; return nil })
		return err
	})
	return vm.Actor{Account: t.Account, Identity: t.Identity, Token: t.ID, Issued: t.CreatedAt}, true
}

// pokeExpiry wakes the expiry task.
func (a *Access) pokeExpiry() {
	select {
	case a.expiry <- struct{}{}:
	default:
	}
}

const (
	expireEvery = time.Minute      // the longest time between two checks of the tokens
	retryAfter  = 30 * time.Second // time until the removal of an expired token is tried again
)

// expire is the task that removes expired tokens, and ends sessions whose right another
// server has ended.
func (a *Access) expire(ctx context.Context) {
	for {
		after, stop := a.cfg.Clock.After(a.expireNow(ctx))
		select {
		case <-after:
		case <-a.expiry:
		case <-ctx.Done():
			stop()
			return
		}
		stop()
	}
}

// expireNow removes expired tokens and returns the time until the next one expires. It
// ends their sessions even if no audit record can be written.
func (a *Access) expireNow(ctx context.Context) time.Duration {
	now, wait := a.now(), expireEvery
	a.recheck()
	for _, t := range a.tokens.All() {
		switch {
		case t.Expired(now):
			if err := a.expireToken(ctx, t); err != nil && ctx.Err() == nil {
				a.cfg.Log.Error("an expired token could not be removed", "token", t.ID, "err", err)
				wait = min(wait, retryAfter)
			}
		case !t.ExpiresAt.IsZero():
			wait = min(wait, t.ExpiresAt.Sub(now))
		}
	}
	return wait
}

func (a *Access) expireToken(ctx context.Context, t vm.IdentityToken) error {
	c := &vm.Call{Actor: vm.Actor{Account: t.Account, System: "expiry"}}
	end, err := a.record(ctx, c, vm.AuditEntry{Op: vm.OpTokenRevoke, Subject: string(t.ID), Detail: map[string]any{"reason": "expired"}})
	if err != nil {
		return err
	}
	err = a.dropToken(ctx, t)
	end(err, nil)
	if err == nil {
		a.cfg.Journal.Emit(tokenEvent("token.expired", t))
	}
	return err
}
