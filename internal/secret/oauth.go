// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package secret

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
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
	refreshTimeout = 20 * time.Second
	refreshEarly   = time.Minute     // before the token ends
	unknownLife    = 5 * time.Minute // of a token whose server does not say
	maxTokenAnswer = 64 << 10
)

// dropTokens drops the access token of a secret.
func (s *Secrets) dropTokens(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.tokens, id)
}

// accessToken returns a token that is still valid, and asks for a new one if there is none.
// Kind Unavailable when the server that issues them does not give one.
func (s *Secrets) accessToken(ctx context.Context, rec vm.Secret) (string, error) {
	s.mu.Lock()
	t := s.tokens[rec.ID]
	if t == nil {
		t = &token{}
		s.tokens[rec.ID] = t
	}
	s.mu.Unlock()
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.value != "" && s.cfg.Now().Before(t.until) {
		return t.value, nil
	}
	rec, ok := s.table.Get(rec.ID) // another request may have refreshed it
	if !ok {
		return "", vm.Errorf(vm.NotFound, rec.Name, "the secret was removed")
	}
	got, err := s.refresh(ctx, rec)
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
// used, because it may have replaced the old one. It ignores the cancellation of ctx: a guest
// that hangs up must not lose the only token that is still valid.
func (s *Secrets) refresh(ctx context.Context, rec vm.Secret) (got tokenAnswer, err error) {
	ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), refreshTimeout)
	defer stop()
	refresh, err := s.unseal(rec, "value", rec.Sealed)
	if err != nil {
		return got, err
	}
	form := url.Values{"grant_type": {"refresh_token"}, "refresh_token": {refresh}, "client_id": {rec.OAuth.ClientID}}
	if rec.OAuth.Scope != "" {
		form.Set("scope", rec.OAuth.Scope)
	}
	if len(rec.OAuth.Sealed) > 0 {
		client, err := s.unseal(rec, "client", rec.OAuth.Sealed)
		if err != nil {
			return got, err
		}
		form.Set("client_secret", client)
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, rec.OAuth.TokenURL, strings.NewReader(form.Encode()))
	if err != nil {
		return got, vm.Errorf(vm.Internal, rec.Name, "the token's URL cannot be used")
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Header.Set("Accept", "application/json")
	resp, err := s.cfg.Net.Fixed().Do(r)
	if err != nil { // it names the URL, and no value
		return got, noToken(rec, "the server that issues access tokens was not reached: %v", err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxTokenAnswer))
	if err != nil {
		return got, noToken(rec, "the answer of the server that issues access tokens ended early")
	}
	if resp.StatusCode != http.StatusOK { // what it says may repeat the token
		return got, noToken(rec, "the server that issues access tokens answered with status %d", resp.StatusCode)
	}
	bad := func(v string) bool {
		return len(v) > maxValue || strings.ContainsFunc(v, func(c rune) bool { return c <= ' ' || c > '~' })
	}
	if err := json.Unmarshal(body, &got); err != nil || got.AccessToken == "" || bad(got.AccessToken) || bad(got.RefreshToken) {
		return got, noToken(rec, "the answer of the server that issues access tokens has no usable token")
	}
	if got.RefreshToken == "" || got.RefreshToken == refresh {
		return got, nil
	}
	sealed, err := s.sealed(rec, "value", got.RefreshToken)
	if err != nil {
		return got, err
	}
	_, err = s.table.Change(ctx, rec.ID, func(have *vm.Secret) error {
		if have.RotatedAt.Equal(rec.RotatedAt) { // a person's newer value stays
			have.Sealed = sealed
		}
		return nil
	})
	return got, err
}

func noToken(rec vm.Secret, format string, args ...any) error {
	return vm.Errorf(vm.Unavailable, rec.Name, format, args...).
		WithHint("look at --oauth-token-url and --oauth-client-id; `warren secret set %s` gives another refresh token", rec.Name)
}
