// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package httpd

import (
	"slices"

	"github.com/warren-vm/warren/api"
	"github.com/warren-vm/warren/internal/secret"
	"github.com/warren-vm/warren/vm"
)

func (s *server) secretRoutes() []route {
	return []route{
		{"POST", "/v1/secrets", key, s.setSecret, "Keep a secret, or replace the value of one. No answer shows a value.", api.SetSecret{}, api.Secret{}, false, ""},
		{"GET", "/v1/secrets", key, s.secrets, "Secrets by name, without their values.", nil, api.SecretList{}, false, ""},
		{"GET", "/v1/secrets/{secret}", key, s.secret, "One secret without its value, and the VMs that may use it.", nil, api.Secret{}, false, ""},
		{"DELETE", "/v1/secrets/{secret}", key, s.removeSecret, "Remove a secret; no VM can use it any more.", nil, okBody{}, false, ""},
		{"POST", "/v1/secrets/{secret}/rotate", key, s.rotateSecret, "Give a secret a new value at its service: by an OAuth refresh, or by its rotator. VMs use it from then on.", nil, api.Secret{}, false, ""},
		{"PUT", "/v1/secrets/{secret}/vms/{vm}", key, s.grantSecret, "Let a VM use a secret.", nil, api.SecretVM{}, false, ""},
		{"DELETE", "/v1/secrets/{secret}/vms/{vm}", key, s.revokeSecret, "End the use of a secret by a VM.", nil, okBody{}, false, ""},
	}
}

func shownSecret(s vm.Secret) api.Secret {
	out := api.Secret{
		Name: s.Name, Host: s.Host, Port: s.Port, Header: s.Header, Methods: s.Methods, Paths: s.Paths, Env: s.Env,
		RotateURL: s.RotateURL, CreatedAt: s.CreatedAt, RotatedAt: moment(s.RotatedAt),
	}
	if s.OAuth != nil {
		out.OAuth = &api.OAuth{TokenURL: s.OAuth.TokenURL, ClientID: s.OAuth.ClientID, Scope: s.OAuth.Scope, RevokeURL: s.OAuth.RevokeURL}
	}
	return out
}

func (s *server) setSecret(q *request) error {
	var in api.SetSecret
	if err := q.decode(&in, maxBody); err != nil {
		return err
	}
	req := secret.Request{
		Name: in.Name, Host: in.Host, Port: in.Port, Header: in.Header, Methods: in.Methods, Paths: in.Paths, Env: in.Env, Value: in.Value,
		RotateURL: in.RotateURL,
	}
	if in.OAuth != nil {
		req.OAuth = &vm.OAuth{TokenURL: in.OAuth.TokenURL, ClientID: in.OAuth.ClientID, Scope: in.OAuth.Scope, RevokeURL: in.OAuth.RevokeURL}
		req.ClientSecret = in.OAuth.ClientSecret
	}
	rec, replaced, err := s.Secrets.Set(q.Context(), q.call, req)
	if err != nil {
		return err
	}
	out := shownSecret(rec)
	out.Replaced = replaced
	return q.ok(out)
}

func (s *server) secrets(q *request) error {
	list, err := s.Secrets.List(q.Context(), q.call)
	if err != nil {
		return err
	}
	out := api.SecretList{Secrets: []api.Secret{}}
	for _, rec := range list {
		out.Secrets = append(out.Secrets, shownSecret(rec))
	}
	return q.ok(out)
}

func (s *server) secret(q *request) error {
	rec, users, err := s.Secrets.Get(q.Context(), q.call, q.values["secret"])
	if err != nil {
		return err
	}
	out := shownSecret(rec)
	for _, v := range users {
		out.VMs = append(out.VMs, secretVM(v, rec.Name))
	}
	return q.ok(out)
}

// secretVM is what a user learns of a VM that may use a secret.
func secretVM(v vm.VM, name string) api.SecretVM {
	out := api.SecretVM{ID: v.ID, Name: v.Name}
	if i := slices.IndexFunc(v.Network.Secrets, func(u vm.SecretUse) bool { return u.Name == name }); i >= 0 {
		u := v.Network.Secrets[i]
		out.Placeholder, out.Reachable = u.Placeholder, secret.Reachable(v.Network, u)
	}
	return out
}

func (s *server) rotateSecret(q *request) error {
	rec, err := s.Secrets.Rotate(q.Context(), q.call, vm.Rotation{Name: q.values["secret"], Reason: "request"})
	if err != nil {
		return err
	}
	return q.ok(shownSecret(rec))
}

func (s *server) removeSecret(q *request) error {
	if err := s.Secrets.Remove(q.Context(), q.call, q.values["secret"]); err != nil {
		return err
	}
	return q.ok(okBody{})
}

func (s *server) grantSecret(q *request) error {
	v, err := s.Secrets.Grant(q.Context(), q.call, q.values["secret"], q.values["vm"])
	if err != nil {
		return err
	}
	return q.ok(secretVM(v, q.values["secret"]))
}

func (s *server) revokeSecret(q *request) error {
	if _, err := s.Secrets.Revoke(q.Context(), q.call, q.values["secret"], q.values["vm"]); err != nil {
		return err
	}
	return q.ok(okBody{})
}

// useSecret answers a VM's monitor, which puts the value into one request of the guest.
func (s *server) useSecret(q *request, v vm.VM) error {
	var in vm.SecretAsk
	if err := q.decode(&in, maxBody); err != nil {
		return err
	}
	out, err := s.Secrets.Value(q.Context(), q.call, v, in)
	if err != nil {
		return err
	}
	return q.ok(out)
}

// misplacedSecret takes a monitor's report.
func (s *server) misplacedSecret(q *request, v vm.VM) error {
	var in vm.Misplaced
	if err := q.decode(&in, maxBody); err != nil {
		return err
	}
	s.Secrets.Misplaced(v, in)
	return q.ok(okBody{})
}
