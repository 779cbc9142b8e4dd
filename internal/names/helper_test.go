// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package names_test

import (
	"context"
	"testing"
	"time"

	"github.com/warren-vm/warren/internal/engine"
	"github.com/warren-vm/warren/internal/vmtest"
	"github.com/warren-vm/warren/vm"
)

// site opens a simulated host and the rooms of one server on it.
func site(t *testing.T) (*vmtest.Site, *vmtest.House, *vm.Call) {
	t.Helper()
	s, err := vmtest.NewSite(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	e, c := open(t, s)
	return s, e, c
}

// open opens an engine; the test closes it at its end.
func open(t *testing.T, s *vmtest.Site) (*vmtest.House, *vm.Call) {
	t.Helper()
	e, err := s.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closeEngine(t, e) })
	return e, call(t, e)
}

func closeEngine(t *testing.T, e *vmtest.House) {
	t.Helper()
	ctx, stop := context.WithTimeout(context.Background(), 10*time.Second)
	defer stop()
	if err := e.Close(ctx); err != nil {
		t.Errorf("close: %v", err)
	}
}

// call returns a call of the admin's account.
func call(t *testing.T, e *vmtest.House) *vm.Call {
	t.Helper()
	c := &vm.Call{Actor: vm.Actor{Admin: true}}
	secret, created, err := e.EnsureAdmin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if created {
		if c.Actor, err = e.Authenticate(t.Context(), secret); err != nil {
			t.Fatal(err)
		}
		return c
	}
	list, err := e.Accounts(t.Context(), c)
	if err != nil || len(list) == 0 {
		t.Fatalf("accounts: %v, %v", list, err)
	}
	for _, a := range list {
		if a.Admin {
			c.Actor.Account = a.ID
		}
	}
	return c
}

func create(t *testing.T, e *vmtest.House, c *vm.Call, r engine.CreateRequest) vm.VM {
	t.Helper()
	v, err := e.Create(t.Context(), c, r)
	if err != nil {
		t.Fatalf("create: %v", err)
	}
	return v
}

func wantCode(t *testing.T, err error, kind vm.Kind, code string) {
	t.Helper()
	if vm.KindOf(err) != kind || vm.AsError(err).Code != code {
		t.Errorf("error %v: kind %q, code %q; want %q, %q", err, vm.KindOf(err), vm.AsError(err).Code, kind, code)
	}
}

func records(t *testing.T, s *vmtest.Site) []vm.AuditRecord {
	t.Helper()
	list, err := s.Audit.List(t.Context(), vm.AuditFilter{})
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// named returns a site whose verifications ask a name server of the test's, and
// a call of a second account.
func named(t *testing.T) (*vmtest.Site, *vmtest.DNS, *vmtest.House, *vm.Call, *vm.Call) {
	t.Helper()
	dns, err := vmtest.NewDNS()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = dns.Close() })
	s, err := vmtest.NewSite(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	s.Resolver = dns.Resolver()
	e, c := open(t, s)
	return s, dns, e, c, account(t, e, c, "other")
}

// account makes one more and returns a call of it.
func account(t *testing.T, e *vmtest.House, c *vm.Call, name string) *vm.Call {
	t.Helper()
	_, _, secret, err := e.CreateAccount(t.Context(), c, name)
	if err != nil {
		t.Fatal(err)
	}
	a, err := e.Authenticate(t.Context(), secret)
	if err != nil {
		t.Fatal(err)
	}
	return &vm.Call{Actor: a}
}

// verify makes a domain the caller's.
func verify(t *testing.T, dns *vmtest.DNS, e *vmtest.House, c *vm.Call, domain string) vm.Domain {
	t.Helper()
	d, err := e.VerifyDomain(t.Context(), c, domain)
	if err != nil {
		t.Fatal(err)
	}
	dns.SetTXT(vm.VerificationName(domain), "of somebody else", d.Code)
	if d, err = e.CheckDomain(t.Context(), c, domain); err != nil || !d.Verified {
		t.Fatalf("the check with the code in DNS gives %+v (%v), want a verified domain", d, err)
	}
	return d
}

// where returns the VM that a name leads to.
func where(e *vmtest.House, name string) vm.ID {
	s, _ := e.DomainSite(name)
	return s.VM
}
