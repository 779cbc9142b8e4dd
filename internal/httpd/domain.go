// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package httpd

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/warren-vm/warren/api"
	"github.com/warren-vm/warren/vm"
)

func (s *server) domainRoutes() []route {
	return []route{
		{"POST", "/domains/v1/verifications", key, s.verifyDomain, "Begin to verify a domain: its owner sets a TXT record.", api.Domain{}, api.Verification{}, false, ""},
		{"PUT", "/domains/v1/verifications", key, s.checkDomain, "Look up the TXT record of a verification.", api.Domain{}, api.Domain{}, false, ""},
		{"GET", "/domains/v1/verifications", key, s.verifications, "Verifications in progress.", nil, []api.Verification{}, false, ""},
		{"DELETE", "/domains/v1/verifications", key, s.dropVerification, "Remove a verification, and a verified domain with its mappings.", api.Domain{}, api.Domain{}, false, ""},
		{"GET", "/domains/v1/domains", key, s.domains, "Verified domains, and names claimed below the preview domain.", nil, []api.OwnedDomain{}, false, "limit offset implicitlyOwned"},
		{"POST", "/domains/v1/mappings/{domain}", key, s.mapDomain, "Make a port of a VM public under a name.", api.NewMapping{}, api.Mapping{}, false, ""},
		{"GET", "/domains/v1/mappings", key, s.mappings, "Mapped names.", nil, []api.Mapping{}, false, "domain domainOwnership limit offset"},
		{"DELETE", "/domains/v1/mappings/{domain}", key, s.unmapDomain, "End a mapping.", nil, okBody{}, false, ""},
	}
}

func (s *server) verifyDomain(q *request) error {
	var in api.Domain
	if err := q.decode(&in, maxBody); err != nil {
		return err
	}
	d, err := s.Names.VerifyDomain(q.Context(), q.call, in.Domain)
	if err != nil {
		return err
	}
	return q.ok(verification(d))
}

func verification(d vm.Domain) api.Verification {
	return api.Verification{ID: d.ID, Domain: d.Name, AccountID: d.Account, VerificationCode: d.Code, CreatedAt: d.CreatedAt}
}

func (s *server) checkDomain(q *request) error {
	var in api.Domain
	if err := q.decode(&in, maxBody); err != nil {
		return err
	}
	ref := in.ID
	if ref == "" {
		ref = in.Domain
	}
	d, err := s.Names.CheckDomain(q.Context(), q.call, ref)
	if err != nil {
		return err
	}
	return q.ok(api.Domain{Domain: d.Name})
}

func (s *server) verifications(q *request) error {
	list, err := s.Names.Domains(q.Context(), q.call)
	if err != nil {
		return err
	}
	out := []api.Verification{}
	for _, d := range list {
		if !d.Verified {
			out = append(out, verification(d))
		}
	}
	return q.ok(out)
}

func (s *server) dropVerification(q *request) error {
	var in api.Domain
	if err := q.decode(&in, maxBody); err != nil {
		return err
	}
	d, err := s.Names.DropVerification(q.Context(), q.call, in.Domain, in.VerificationCode)
	if err != nil {
		return err
	}
	return q.ok(api.Domain{Domain: d.Name, VerificationCode: d.Code})
}

func (s *server) domains(q *request) error {
	owned, err := s.Names.Domains(q.Context(), q.call)
	if err != nil {
		return err
	}
	mapped, err := s.Names.Mappings(q.Context(), q.call)
	if err != nil {
		return err
	}
	out := []api.OwnedDomain{}
	for _, d := range owned {
		if d.Verified {
			out = append(out, api.OwnedDomain{ID: d.ID, Domain: d.Name, AccountID: d.Account, CreatedAt: d.CreatedAt, VerifiedDNS: true, DeployToDomain: true, DeployToSubdomains: true})
		}
	}
	for _, m := range mapped {
		if m.Implicit {
			out = append(out, api.OwnedDomain{ID: m.Ownership, Domain: m.Domain, AccountID: m.Account, CreatedAt: m.CreatedAt, ImplicitlyOwned: true, DeployToDomain: true})
		}
	}
	if want := q.query().Get("implicitlyOwned"); want != "" {
		out = slices.DeleteFunc(out, func(d api.OwnedDomain) bool { return d.ImplicitlyOwned != (want == "true") })
	}
	return sendPage(q, out, len(out))
}

// sendPage answers with the part of a list that limit and offset select.
func sendPage[T any](q *request, list []T, def int) error {
	limit, err := q.int("limit", int64(def))
	if err != nil {
		return err
	}
	offset, err := q.int("offset", 0)
	if err != nil {
		return err
	}
	n := int64(len(list))
	from := min(offset, n)
	return q.ok(list[from : from+min(limit, n-from)])
}

func (s *server) mapDomain(q *request) error {
	var in api.NewMapping
	if err := q.decode(&in, maxBody); err != nil {
		return err
	}
	name := q.values["domain"]
	switch {
	case in.DeploymentID != "":
		return vm.Errorf(vm.Unsupported, name, "this server has no deployments").WithHint("map a VM: vmId and vmPort")
	case in.Domain != "" && !strings.EqualFold(in.Domain, name):
		return vm.Errorf(vm.Invalid, in.Domain, "the path names another domain: %s", name)
	case in.Port < 0 || in.Port > 65535:
		return vm.Errorf(vm.Invalid, "vmPort", "%d is not a port", in.Port)
	}
	m, err := s.Names.MapDomain(q.Context(), q.call, name, in.VM, uint16(in.Port))
	if err != nil {
		return err
	}
	return q.ok(s.mapping(q, m))
}

func (s *server) mapping(q *request, m vm.Mapping) api.Mapping {
	out := api.Mapping{ID: m.ID, Domain: m.Domain, VM: m.VM, Port: m.Port, OwnershipID: m.Ownership, CreatedAt: m.CreatedAt}
	if s.Previews != nil {
		out.URL, out.Certificate = s.Previews.URL(m.Domain), s.Previews.Certificate(q.Context(), m.Domain)
	}
	return out
}

func (s *server) mappings(q *request) error {
	list, err := s.Names.Mappings(q.Context(), q.call)
	if err != nil {
		return err
	}
	out := []api.Mapping{}
	domain, ownership := q.query().Get("domain"), q.query().Get("domainOwnership")
	for _, m := range list {
		if (domain == "" || m.Domain == domain) && (ownership == "" || m.Ownership == ownership) {
			out = append(out, s.mapping(q, m))
		}
	}
	return sendPage(q, out, 10)
}

func (s *server) unmapDomain(q *request) error {
	if _, err := s.Names.Unmap(q.Context(), q.call, q.values["domain"]); err != nil {
		return err
	}
	return q.ok(okBody{})
}

// checkDomains checks the domains of a new VM before it is made.
func (s *server) checkDomains(c *vm.Call, list []api.VMDomain) error {
	for _, d := range list {
		if err := s.Names.CheckMappable(c, d.Domain); err != nil {
			return err
		}
		if d.Port < 0 || d.Port > 65535 {
			return createError(vm.Errorf(vm.Invalid, d.Domain, "%d is not a port", d.Port))
		}
	}
	return nil
}

// mapCreated maps a new VM's domains. If that fails, the VM is deleted.
func (s *server) mapCreated(ctx context.Context, c *vm.Call, v vm.VM, list []api.VMDomain) error {
	sub := func() *vm.Call { return &vm.Call{Actor: c.Actor, Request: c.Request} }
	for _, d := range list {
		if _, err := s.Names.MapDomain(ctx, sub(), d.Domain, string(v.ID), uint16(d.Port)); err != nil {
			_, undo := s.Engine.Delete(context.WithoutCancel(ctx), sub(), string(v.ID))
			return errors.Join(err, undo)
		}
	}
	return nil
}

// domainsOf returns the host names that lead to a VM: first the mapped ones, then its
// preview names below each preview domain.
func (s *server) domainsOf(id vm.ID) []string {
	names := s.Names.MappedTo(id)
	if s.Previews != nil {
		names = append(names, s.Previews.Names(id)...)
	}
	return names
}
