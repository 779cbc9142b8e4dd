// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package secret

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	"github.com/warren-vm/warren/vm"
)

const formType = "application/x-www-form-urlencoded"

// Rotate gives a secret a new value at its service: by an OAuth refresh, which has to give a
// new refresh token, or by its rotator. The old value stays in force until the new one is
// stored; VMs use the new one from then on. Once it has begun, the end of ctx does not
// interrupt it. It blocks for at most 20 s for each request to a service. Kinds NotFound,
// Denied, Unsupported when Warren cannot rotate it, Busy while it is being rotated,
// Unavailable when the service gives no usable value, or does not revoke the old one.
func (s *Secrets) Rotate(ctx context.Context, c *vm.Call, in vm.Rotation) (out vm.Secret, err error) {
	defer func() { err = vm.WithOp(vm.OpSecretRotate, in.Name, err) }()
	if err := c.Actor.OwnerOnly(in.Name); err != nil {
		return out, err
	}
	rec, end, err := s.beginRotation(c, in)
	if err != nil {
		return out, err
	}
	defer end()
	detail := map[string]any{"id": rec.ID, "host": rec.Host, "by": rec.RotatesBy(), "reason": in.Reason}
	r, err := s.cfg.Journal.Begin(ctx, c, vm.AuditEntry{Op: vm.OpSecretRotate, VM: in.VM, Subject: rec.Name, Detail: detail})
	if err != nil {
		return out, err
	}
	defer func() { r.End(err, nil) }()
	ctx = context.WithoutCancel(ctx) // the service may have replaced the value already
	if rec.OAuth != nil {
		err = s.rotateToken(ctx, rec)
	} else {
		err = s.askRotator(ctx, rec, in)
	}
	if err != nil {
		return out, err
	}
	s.cfg.Journal.Emit(vm.Event{Type: "secret.rotated", VM: in.VM, Account: rec.Account, Data: map[string]any{"secret": rec.Name, "host": rec.Host, "by": rec.RotatesBy()}})
	if rec, err = s.revoked(ctx, rec.ID); err != nil {
		return out, err
	}
	return public(rec), nil
}

// Lookup finds the secret that a rotation is about, without its value, and the VMs that may
// use it.
func (s *Secrets) Lookup(a vm.AccountID, in vm.Rotation) (rec vm.Secret, users []vm.VM, ok bool) {
	rec, ok = s.named(a, in.Name)
	if in.ID != "" {
		rec, ok = s.table.Get(in.ID)
	}
	if !ok || rec.Account != a {
		return vm.Secret{}, nil, false
	}
	return public(rec), s.users(rec), true
}

// beginRotation finds a secret and keeps others from changing it until end.
func (s *Secrets) beginRotation(c *vm.Call, in vm.Rotation) (rec vm.Secret, end func(), err error) {
	s.write.Lock()
	defer s.write.Unlock()
	found, _, ok := s.Lookup(c.Actor.Account, in)
	if !ok {
		return rec, nil, notFound(in.Name)
	}
	if rec, ok = s.table.Get(found.ID); !ok || rec.RotatesBy() == "" {
		return rec, nil, noRotator(rec, "Warren cannot rotate it: it has neither OAuth nor a rotator")
	}
	if err := s.idle(rec); err != nil {
		return rec, nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rotating[rec.ID] = true
	return rec, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.rotating, rec.ID)
	}, nil
}

// idle returns an error of kind Busy while a secret is being rotated.
func (s *Secrets) idle(rec vm.Secret) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.rotating[rec.ID] {
		return vm.Errorf(vm.Busy, rec.Name, "the secret is being rotated").WithCode("SECRET_ROTATING", "secret", rec.Name).WithHint("try again in a minute")
	}
	return nil
}

// rotatorAsk is the body of a request to a rotator.
type rotatorAsk struct {
	Secret  string       `json:"secret"`
	Host    string       `json:"host"`
	Account vm.AccountID `json:"account"`
	Reason  string       `json:"reason"`
	VM      vm.ID        `json:"vm,omitempty"`
}

// askRotator asks the rotator of a secret for a new value, and stores it.
func (s *Secrets) askRotator(ctx context.Context, rec vm.Secret, in vm.Rotation) error {
	present, err := s.unseal(rec, "value", rec.Sealed)
	if err != nil {
		return err
	}
	ask, err := json.Marshal(rotatorAsk{rec.Name, rec.Host, rec.Account, in.Reason, in.VM})
	if err != nil {
		return vm.Errorf(vm.Internal, rec.Name, "the rotator cannot be asked")
	}
	answer, err := s.post(ctx, "the rotator", rec.RotateURL, "application/json", present, string(ask))
	if err != nil {
		return notRotated(rec, "%v", err)
	}
	var got struct {
		Value string `json:"value"`
	}
	if err := json.Unmarshal(answer, &got); err != nil || got.Value == "" { // the cause may repeat the value
		return notRotated(rec, "the answer of the rotator has no value")
	}
	if got.Value == present {
		return notRotated(rec, "the rotator gave the value that the secret has")
	}
	if err := (Request{Name: rec.Name, Value: got.Value}).checkValue(); err != nil {
		return notRotated(rec, "the value of the rotator cannot be kept: %s", vm.AsError(err).Msg)
	}
	sealed, err := s.sealed(rec, "value", got.Value)
	if err != nil {
		return err
	}
	_, err = s.table.Change(ctx, rec.ID, func(have *vm.Secret) error {
		have.Sealed, have.RotatedAt = sealed, s.cfg.Now().UTC()
		return nil
	})
	return err
}

// rotateToken gets another refresh token, and drops the access token, which came from the
// old one.
func (s *Secrets) rotateToken(ctx context.Context, rec vm.Secret) error {
	t := s.tokenOf(rec.ID)
	t.mu.Lock()
	defer t.mu.Unlock()
	rec, err := s.revoked(ctx, rec.ID) // a refresh may have replaced its token
	if err != nil {
		return err
	}
	if _, err := s.refresh(ctx, rec, true); err != nil {
		return err
	}
	t.value = ""
	return nil
}

// revoked revokes the refresh token that a rotation replaced, unless that was done or the
// service has no URL for it, and returns the record.
func (s *Secrets) revoked(ctx context.Context, id string) (vm.Secret, error) {
	rec, ok := s.table.Get(id)
	if !ok {
		return rec, vm.Errorf(vm.NotFound, rec.Name, "the secret was removed").WithCode("SECRET_NOT_FOUND", "secret", rec.Name)
	}
	if rec.OAuth == nil || rec.OAuth.RevokeURL == "" || len(rec.OAuth.Replaced) == 0 {
		return rec, nil
	}
	old, err := s.unseal(rec, "value", rec.OAuth.Replaced)
	if err != nil {
		return rec, err
	}
	form := url.Values{"token": {old}, "token_type_hint": {"refresh_token"}}
	if err := s.addClient(rec, form); err != nil {
		return rec, err
	}
	if _, err := s.post(ctx, "the server that revokes tokens", rec.OAuth.RevokeURL, formType, "", form.Encode()); err != nil {
		return rec, notRotated(rec, "the old refresh token is not revoked: %v", err)
	}
	return s.table.Change(ctx, id, func(have *vm.Secret) error {
		o := *have.OAuth
		o.Replaced = nil
		have.OAuth = &o
		return nil
	})
}

// post sends a body to a service that belongs to a secret, and returns its answer. who names
// the service in errors, which have neither a value nor the URL. bearer authenticates; "" =
// the body does. It follows no redirect.
func (s *Secrets) post(ctx context.Context, who, to, kind, bearer, body string) ([]byte, error) {
	ctx, stop := context.WithTimeout(ctx, s.patience)
	defer stop()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, to, strings.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("the URL of %s cannot be used", who)
	}
	r.Header.Set("Content-Type", kind)
	r.Header.Set("Accept", "application/json")
	if bearer != "" {
		r.Header.Set("Authorization", "Bearer "+bearer)
	}
	resp, err := s.cfg.Net.Fixed().Do(r)
	if err != nil {
		var at *url.Error
		if errors.As(err, &at) {
			err = at.Err
		}
		return nil, fmt.Errorf("%s was not reached: %w", who, err)
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("the answer of %s ended early", who)
	case len(answer) > maxAnswer:
		return nil, fmt.Errorf("the answer of %s is longer than %d bytes", who, maxAnswer)
	case resp.StatusCode != http.StatusOK: // what it says may repeat the value
		return nil, fmt.Errorf("%s answered with status %d", who, resp.StatusCode)
	}
	return answer, nil
}

// noRotator says that Warren cannot rotate a secret, whatever its service does.
func noRotator(rec vm.Secret, format string, args ...any) error {
	return vm.Errorf(vm.Unsupported, rec.Name, format, args...).WithCode("SECRET_NO_ROTATOR", "secret", rec.Name).
		WithHint("make a new value at %s, then `warren secret set %s`; --rotate-url gives a secret without OAuth a rotator", rec.Host, rec.Name)
}

func notRotated(rec vm.Secret, format string, args ...any) error {
	return vm.Errorf(vm.Unavailable, rec.Name, format, args...).WithCode("SECRET_NOT_ROTATED", "secret", rec.Name).
		WithHint("`warren secret rotate %s` tries again; `warren secret set %s` gives it a value by hand", rec.Name, rec.Name)
}
