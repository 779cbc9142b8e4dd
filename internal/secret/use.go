// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package secret

import (
	"context"
	"slices"

	"github.com/warren-vm/warren/internal/egress"
	"github.com/warren-vm/warren/vm"
)

// Uses returns new uses of the named secrets for a VM that is being made. Kinds NotFound,
// Denied, Invalid when two want the same environment variable.
func (s *Secrets) Uses(_ context.Context, c *vm.Call, names []string) (list []vm.SecretUse, err error) {
	if len(names) == 0 {
		return nil, nil
	}
	if err := c.Actor.OwnerOnly(names[0]); err != nil {
		return nil, err
	}
	for _, name := range names {
		rec, err := s.find(c, name)
		if err == nil {
			list, err = with(list, rec)
		}
		if err != nil {
			return nil, err
		}
	}
	return list, nil
}

// with adds a use of a secret to those of a VM, unless it is there.
func with(uses []vm.SecretUse, rec vm.Secret) ([]vm.SecretUse, error) {
	if slices.ContainsFunc(uses, func(u vm.SecretUse) bool { return u.ID == rec.ID }) {
		return uses, nil
	}
	// One with the same name is of a secret that was removed.
	uses = slices.DeleteFunc(uses, func(u vm.SecretUse) bool { return u.Name == rec.Name })
	if len(uses) >= maxPerVM {
		return nil, vm.Errorf(vm.Limit, rec.Name, "the VM has %d secrets", len(uses)).WithCode("LIMIT_EXCEEDED", "limit", maxPerVM, "current", len(uses))
	}
	for _, u := range uses {
		if u.Env == rec.Env {
			return nil, invalid(rec.Name, "the VM's secret %s has the environment variable %s, too", u.Name, u.Env).
				WithHint("make one of them again with another --env")
		}
	}
	return append(uses, rec.Use(vm.PlaceholderLike(rec.Shape, rec.Prefix))), nil
}

// Grant lets a VM use a secret. Its programs find a placeholder in the secret's environment
// variable and in a file; its network puts the value in. Kinds NotFound, Denied, Busy.
func (s *Secrets) Grant(ctx context.Context, c *vm.Call, name, ref string) (v vm.VM, err error) {
	defer func() { err = vm.WithOp(vm.OpSecretGrant, name, err) }()
	if err := c.Actor.OwnerOnly(name); err != nil {
		return v, err
	}
	s.write.Lock()
	defer s.write.Unlock()
	rec, err := s.find(c, name)
	if err != nil {
		return v, err
	}
	v, err = s.vms.Find(c.Actor, ref)
	if err != nil {
		return v, err
	}
	r, err := s.cfg.Journal.Begin(ctx, c, vm.AuditEntry{Op: vm.OpSecretGrant, VM: v.ID, Subject: rec.Name, Detail: map[string]any{"id": rec.ID, "host": rec.Host}})
	if err != nil {
		return v, err
	}
	defer func() { r.End(err, nil) }()
	return s.vms.EditNetwork(ctx, c, string(v.ID), func(_ vm.VM, p *vm.NetworkPolicy) (err error) {
		p.Secrets, err = with(p.Secrets, rec)
		return err
	})
}

// Revoke ends the use of a secret by a VM, which no longer needs to exist as a secret. Kinds
// NotFound, Denied, Busy.
func (s *Secrets) Revoke(ctx context.Context, c *vm.Call, name, ref string) (v vm.VM, err error) {
	defer func() { err = vm.WithOp(vm.OpSecretGrant, name, err) }()
	if err := c.Actor.OwnerOnly(name); err != nil {
		return v, err
	}
	v, err = s.vms.Find(c.Actor, ref)
	if err != nil {
		return v, err
	}
	i := slices.IndexFunc(v.Network.Secrets, func(u vm.SecretUse) bool { return u.Name == name })
	if i < 0 {
		return v, vm.Errorf(vm.NotFound, vm.Clip(name, 64), "the VM does not have this secret").WithCode("SECRET_NOT_FOUND", "secret", vm.Clip(name, 64)).
			WithHint("`warren secret show NAME` lists the VMs that have it")
	}
	r, err := s.cfg.Journal.Begin(ctx, c, vm.AuditEntry{Op: vm.OpSecretGrant, VM: v.ID, Subject: name, Detail: map[string]any{"id": v.Network.Secrets[i].ID, "revoke": true}})
	if err != nil {
		return v, err
	}
	defer func() { r.End(err, nil) }()
	return s.drop(ctx, c, string(v.ID), name)
}

// drop removes the use of a secret from a VM's policy.
func (s *Secrets) drop(ctx context.Context, c *vm.Call, ref, name string) (vm.VM, error) {
	return s.vms.EditNetwork(ctx, c, ref, func(_ vm.VM, p *vm.NetworkPolicy) error {
		p.Secrets = slices.DeleteFunc(p.Secrets, func(u vm.SecretUse) bool { return u.Name == name })
		return nil
	})
}

// Value returns the value for one request of a VM, for its monitor. It checks the grant and
// the rule again, and writes the audit record before it answers. Kinds Denied, NotFound
// when the secret was removed, Unavailable when no access token could be had or the VM uses
// secrets too often. It blocks while the VM is over its rate, see paces.
func (s *Secrets) Value(ctx context.Context, c *vm.Call, v vm.VM, ask vm.SecretAsk) (out vm.SecretValue, err error) {
	defer func() { err = vm.WithOp(vm.OpSecretUse, vm.Clip(ask.Name, 64), err) }()
	i := slices.IndexFunc(v.Network.Secrets, func(u vm.SecretUse) bool {
		return u.Name == ask.Name && u.Holds(ask.Placeholder)
	})
	if i < 0 {
		return out, vm.Errorf(vm.Denied, vm.Clip(ask.Name, 64), "the VM may not use this secret").WithHint("`warren secret grant NAME VM` lets it")
	}
	u := v.Network.Secrets[i]
	rec, ok := s.table.Get(u.ID)
	if !ok || rec.Account != v.Account {
		return out, vm.Errorf(vm.NotFound, u.Name, "the secret was removed").WithCode("SECRET_NOT_FOUND", "secret", u.Name)
	}
	own := rec.Use(u.Placeholder) // the record decides, not the VM's policy
	if ask.Host != own.Host || ask.Port != own.Port || ask.Header != own.Header || !own.Covers(ask.Method, ask.Path) {
		return out, vm.Errorf(vm.Denied, u.Name, "the secret is not for this request")
	}
	if err := s.paces.wait(ctx, v.ID); err != nil {
		return out, err
	}
	r, err := s.cfg.Journal.Begin(ctx, c, vm.AuditEntry{Op: vm.OpSecretUse, VM: v.ID, Subject: rec.Name, Detail: map[string]any{
		"id": rec.ID, "host": rec.Host, "port": rec.Port, "header": rec.Header, "method": ask.Method, "path": vm.Clip(ask.Path, 512), "policyDigest": vm.Clip(ask.Policy, 64),
	}})
	if err != nil {
		return out, err
	}
	defer func() { r.End(err, nil) }()
	out.Value, err = s.current(ctx, rec)
	return out, err
}

// current opens what belongs into a request: the value, or for OAuth an access token.
func (s *Secrets) current(ctx context.Context, rec vm.Secret) (string, error) {
	if rec.OAuth != nil {
		return s.accessToken(ctx, rec)
	}
	return s.unseal(rec, "value", rec.Sealed)
}

// Misplaced reports a placeholder that a VM sent where it does not belong.
func (s *Secrets) Misplaced(v vm.VM, m vm.Misplaced) {
	data := map[string]any{
		"secret": vm.Clip(m.Name, 64), "where": vm.Clip(m.Where, 64), "host": vm.Clip(m.Host, 253), "port": m.Port,
		"method": vm.Clip(m.Method, 20), "path": vm.Clip(m.Path, 512),
	}
	if m.More > 0 {
		data["more"] = m.More
	}
	if v.Name != "" {
		data["name"] = v.Name
	}
	s.cfg.Journal.Emit(vm.Event{Type: "secret.misplaced", VM: v.ID, Account: v.Account, Data: data})
}

// Reachable reports whether a VM's policy lets it reach the host of a secret.
func Reachable(p vm.NetworkPolicy, u vm.SecretUse) bool {
	return egress.Evaluate(p, egress.Request{Proto: egress.TCP, Name: u.Host, Port: uint16(u.Port)}).Allow
}
