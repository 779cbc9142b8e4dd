// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package secret

import (
	"context"
	"encoding/json"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/warren-vm/warren/vm"
)

// token is the access token of one secret, which only memory holds.
type token struct {
	mu    sync.Mutex // held while it is refreshed; guards the fields below
	value string
	until time.Time
}

const (
	refreshEarly = time.Minute     // before the token ends
	unknownLife  = 5 * time.Minute // of a token whose server does not say
	maxAnswer    = 64 << 10        // of a service

	tokenServer = "the server that issues access tokens"
)

// dropTokens drops the access token of a secret.
func (s *Secrets) dropTokens(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.tokens, id)
}

// tokenOf returns the access token of a secret, which may be empty.
func (s *Secrets) tokenOf(id string) *token {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.tokens[id]
	if t == nil {
		t = &token{}
		s.tokens[id] = t
	}
	return t
}

// accessToken returns a token that is still valid, and asks for a new one if there is none.
// Kind Unavailable when the server that issues them does not give one.
func (s *Secrets) accessToken(ctx context.Context, rec vm.Secret) (string, error) {
	t := s.tokenOf(rec.ID)
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.value != "" && s.cfg.Now().Before(t.until) {
		return t.value, nil
	}
	rec, ok := s.table.Get(rec.ID) // another request may have refreshed it
	if !ok {
		return "", vm.Errorf(vm.NotFound, rec.Name, "the secret was removed")
	}
	got, err := s.refresh(ctx, rec, false)
	if err != nil {
		return "", err
	}
	life := unknownLife
	if got.ExpiresIn > 0 {
		life = time.Duration(min(got.ExpiresIn, 30*86400)) * time.Second
	}
	t.value, t.until = got.AccessToken, s.cfg.Now().Add(max(life-refreshEarly, life/2))
	return t.value, nil
}

// tokenAnswer is what RFC 6749 section 5.1 says.
type tokenAnswer struct {
	AccessToken  string `json:"access_token"`
	RefreshToken string `json:"refresh_token"`
	ExpiresIn    int64  `json:"expires_in"`
}

// refresh asks for an access token. A new refresh token is stored before the access token is
// used, because it may have replaced the old one. With rotate it fails unless there is a new
// one, and keeps the old one to be revoked. It ignores the cancellation of ctx: a guest that
// hangs up must not lose the only token that is still valid.
func (s *Secrets) refresh(ctx context.Context, rec vm.Secret, rotate bool) (got tokenAnswer, err error) {
	ctx = context.WithoutCancel(ctx)
	failed := noToken
	if rotate {
		failed = notRotated
	}
	refresh, err := s.unseal(rec, "value", rec.Sealed)
	if err != nil {
		return got, err
	}
	form := url.Values{"grant_type": {"refresh_token"}, "refresh_token": {refresh}}
	if rec.OAuth.Scope != "" {
		form.Set("scope", rec.OAuth.Scope)
	}
	if err := s.addClient(rec, form); err != nil {
		return got, err
	}
	body, err := s.post(ctx, tokenServer, rec.OAuth.TokenURL, formType, "", form.Encode())
	if err != nil {
		return got, failed(rec, "%v", err)
	}
	bad := func(v string) bool {
		return len(v) > maxValue || strings.ContainsFunc(v, func(c rune) bool { return c <= ' ' || c > '~' })
	}
	if err := json.Unmarshal(body, &got); err != nil || got.AccessToken == "" || bad(got.AccessToken) || bad(got.RefreshToken) {
		return got, failed(rec, "the answer of %s has no usable token", tokenServer)
	}
	if got.RefreshToken == "" || got.RefreshToken == refresh {
		if rotate {
			return got, noRotator(rec, "%s gives no new refresh token", tokenServer)
		}
		return got, nil
	}
	sealed, err := s.sealed(rec, "value", got.RefreshToken)
	if err != nil {
		return got, err
	}
	_, err = s.table.Change(ctx, rec.ID, func(have *vm.Secret) error {
		if !have.RotatedAt.Equal(rec.RotatedAt) { // a person's newer value stays
			return nil
		}
		have.Sealed = sealed
		if rotate {
			have.RotatedAt = s.cfg.Now().UTC()
		}
		if rotate && have.OAuth.RevokeURL != "" {
			o := *have.OAuth
			o.Replaced = rec.Sealed
			have.OAuth = &o
		}
		return nil
	})
	return got, err
}

// addClient adds what names the client of a secret to a form.
func (s *Secrets) addClient(rec vm.Secret, form url.Values) error {
	form.Set("client_id", rec.OAuth.ClientID)
	if len(rec.OAuth.Sealed) == 0 {
		return nil
	}
	client, err := s.unseal(rec, "client", rec.OAuth.Sealed)
	form.Set("client_secret", client)
	return err
}

func noToken(rec vm.Secret, format string, args ...any) error {
	return vm.Errorf(vm.Unavailable, rec.Name, format, args...).
		WithHint("look at --oauth-token-url and --oauth-client-id; `warren secret set %s` gives another refresh token", rec.Name)
}
