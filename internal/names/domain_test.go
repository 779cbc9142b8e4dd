// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package names_test

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/warren-vm/warren/internal/engine"
	"github.com/warren-vm/warren/internal/ledger"
	"github.com/warren-vm/warren/internal/names"
	"github.com/warren-vm/warren/internal/vmtest"
	"github.com/warren-vm/warren/vm"
)

// TestVerifyDomain: a domain belongs to the account whose code its TXT record contains,
// also after a restart; removing it removes its mappings.
func TestVerifyDomain(t *testing.T) {
	s, dns, e, c, other := named(t)
	ctx := t.Context()
	box := create(t, e, c, engine.CreateRequest{Name: "box"})
	for _, bad := range []string{"", "localhost", "x.warren.localhost", "warren.localhost", "10.0.0.1", "a..b", "*.example.com", "exa mple.com"} {
		_, err := e.VerifyDomain(ctx, c, bad)
		wantCode(t, err, vm.Invalid, "INVALID_DOMAIN")
	}
	d, err := e.VerifyDomain(ctx, c, "Example.COM.")
	if err != nil || d.Name != "example.com" || len(d.Code) < 20 || d.Verified {
		t.Fatalf("a first request for a domain gives %+v (%v), want an unverified example.com with a code", d, err)
	}
	if again, err := e.VerifyDomain(ctx, c, "example.com"); err != nil || again.Code != d.Code || again.ID != d.ID {
		t.Errorf("asked again: %+v, %v", again, err)
	}
	_, err = e.CheckDomain(ctx, c, "example.com")
	wantCode(t, err, vm.Invalid, "VERIFICATION_FAILED")
	rival, err := e.VerifyDomain(ctx, other, "example.com")
	if err != nil || rival.Code == d.Code {
		t.Fatalf("another account's request for the domain gives %+v (%v), want a code of its own", rival, err)
	}
	dns.SetTXT(vm.VerificationName("example.com"), rival.Code) // not ours
	_, err = e.CheckDomain(ctx, c, d.ID)
	wantCode(t, err, vm.Invalid, "VERIFICATION_FAILED")
	_, err = e.MapDomain(ctx, c, "www.example.com", "box", 80)
	wantCode(t, err, vm.Unauthenticated, "DOMAIN_OWNERSHIP_NOT_VERIFIED")
	dns.SetTXT(vm.VerificationName("example.com"), rival.Code, d.Code)
	if d, err = e.CheckDomain(ctx, c, d.ID); err != nil || !d.Verified {
		t.Fatalf("the check with our code in DNS gives %+v (%v), want a verified domain", d, err)
	}
	if _, err = e.CheckDomain(ctx, c, "example.com"); err != nil {
		t.Errorf("checked again: %v", err)
	}
	for _, call := range []*vm.Call{c, other} {
		if call == other {
			_, err = e.CheckDomain(ctx, other, "example.com")
		} else {
			_, err = e.VerifyDomain(ctx, c, "example.com")
		}
		wantCode(t, err, vm.Exists, "DOMAIN_ALREADY_EXISTS")
	}
	_, err = e.CheckDomain(ctx, other, d.ID)
	wantCode(t, err, vm.NotFound, "VERIFICATION_NOT_FOUND")
	if _, err := e.MapDomain(ctx, c, "www.example.com", "box", 0); err != nil {
		t.Fatal(err)
	}
	closeEngine(t, e)
	e, c = open(t, s)
	if m, err := e.Mappings(ctx, c); err != nil || len(m) != 1 || m[0].Port != names.DefaultMappedPort || m[0].Ownership != d.ID || where(e, "www.example.com") != box.ID {
		t.Errorf("after a restart: %+v, %v", m, err)
	}
	_, err = e.DropVerification(ctx, c, "example.com", "wrong")
	wantCode(t, err, vm.NotFound, "VERIFICATION_NOT_FOUND")
	if _, err = e.DropVerification(ctx, c, "example.com", d.Code); err != nil {
		t.Fatal(err)
	}
	if list, err := e.Domains(ctx, c); err != nil || len(list) != 0 || where(e, "www.example.com") != "" {
		t.Errorf("after the verification is dropped the domains are %+v (%v) and www leads to %q, want none", list, err, where(e, "www.example.com"))
	}
	_, err = e.DropVerification(ctx, c, "example.com", "")
	wantCode(t, err, vm.NotFound, "VERIFICATION_NOT_FOUND")
	var done []any
	for _, r := range records(t, s) {
		if r.Op == vm.OpDomain {
			done = append(done, r.Detail["do"])
		}
	}
	slices.SortFunc(done, func(a, b any) int { return slices.Compare([]byte(fmt.Sprint(a)), []byte(fmt.Sprint(b))) })
	if fmt.Sprint(done) != "[forgotten map verification verification verified]" {
		t.Errorf("audit: %v", done)
	}
}

// TestDomainLimit: an account does not fill the store with names.
func TestDomainLimit(t *testing.T) {
	_, _, e, c, other := named(t)
	for i := range 100 {
		if _, err := e.VerifyDomain(t.Context(), c, fmt.Sprintf("d%d.example", i)); err != nil {
			t.Fatal(err)
		}
	}
	_, err := e.VerifyDomain(t.Context(), c, "more.example")
	wantCode(t, err, vm.Limit, "LIMIT_EXCEEDED")
	if _, err := e.VerifyDomain(t.Context(), other, "more.example"); err != nil {
		t.Errorf("another account: %v", err)
	}
	create(t, e, c, engine.CreateRequest{Name: "box"})
	for i := range 1000 {
		if _, err := e.MapDomain(t.Context(), c, fmt.Sprintf("a%d.warren.localhost", i), "box", 80); err != nil {
			t.Fatal(err)
		}
	}
	_, err = e.MapDomain(t.Context(), c, "more.warren.localhost", "box", 80)
	wantCode(t, err, vm.Limit, "LIMIT_EXCEEDED")
	if _, err := e.MapDomain(t.Context(), c, "a7.warren.localhost", "box", 81); err != nil {
		t.Errorf("one that it has: %v", err)
	}
}

// TestDomainRace: of two accounts that request one name at the same time, one gets it.
func TestDomainRace(t *testing.T) {
	_, dns, e, c, other := named(t)
	ctx := t.Context()
	create(t, e, c, engine.CreateRequest{Name: "box"})
	create(t, e, other, engine.CreateRequest{Name: "box"})
	calls := []*vm.Call{c, other}
	race := func(f func(c *vm.Call) error) (won int) {
		var wg sync.WaitGroup
		var mu sync.Mutex
		for _, c := range calls {
			wg.Go(func() {
				err := f(&vm.Call{Actor: c.Actor})
				mu.Lock()
				defer mu.Unlock()
				if err == nil {
					won++
				} else if code := vm.AsError(err).Code; code != "DOMAIN_OWNERSHIP_NOT_VERIFIED" && code != "DOMAIN_ALREADY_EXISTS" {
					t.Errorf("the loser got %v", err)
				}
			})
		}
		wg.Wait()
		return won
	}
	for i := range 30 {
		name := fmt.Sprintf("app%d.warren.localhost", i)
		if n := race(func(c *vm.Call) error { _, err := e.MapDomain(ctx, c, name, "box", 80); return err }); n != 1 {
			t.Fatalf("%d accounts have %s", n, name)
		}
		real := fmt.Sprintf("d%d.example", i)
		var codes []string
		for _, c := range calls {
			d, err := e.VerifyDomain(ctx, c, real)
			if err != nil {
				t.Fatal(err)
			}
			codes = append(codes, d.Code)
		}
		dns.SetTXT(vm.VerificationName(real), codes...)
		if n := race(func(c *vm.Call) error { _, err := e.CheckDomain(ctx, c, real); return err }); n != 1 {
			t.Fatalf("%d accounts have %s", n, real)
		}
	}
}

// TestCloserDomain: the account that verified the more specific domain has precedence,
// and nobody else takes a mapped name.
func TestCloserDomain(t *testing.T) {
	_, dns, e, c, other := named(t)
	ctx := t.Context()
	box := create(t, e, c, engine.CreateRequest{Name: "box"})
	theirs := create(t, e, other, engine.CreateRequest{Name: "theirs"})
	verify(t, dns, e, c, "example.com")
	mine := verify(t, dns, e, c, "mine.example.com")
	verify(t, dns, e, other, "a.example.com")
	if m, err := e.MapDomain(ctx, c, "x.mine.example.com", "box", 80); err != nil || m.Ownership != mine.ID {
		t.Errorf("the mapping is %+v (%v), want ownership by %s", m, err, mine.ID)
	}
	if _, err := e.MapDomain(ctx, c, "a.example.com", "box", 80); err != nil || where(e, "a.example.com") != box.ID {
		t.Fatal(err)
	}
	if _, err := e.MapDomain(ctx, other, "a.example.com", "theirs", 80); err != nil || where(e, "a.example.com") != theirs.ID {
		t.Errorf("its owner cannot have it: %v", err)
	}
	_, err := e.MapDomain(ctx, c, "a.example.com", "box", 80)
	wantCode(t, err, vm.Exists, "DOMAIN_ALREADY_EXISTS")
	if where(e, "a.example.com") != theirs.ID {
		t.Error("it was taken anyway")
	}
	_, err = e.MapDomain(ctx, other, "b.example.com", "theirs", 80)
	wantCode(t, err, vm.Unauthenticated, "DOMAIN_OWNERSHIP_NOT_VERIFIED")
	_, err = e.MapDomain(ctx, other, "notexample.com", "theirs", 80)
	wantCode(t, err, vm.Unauthenticated, "DOMAIN_OWNERSHIP_NOT_VERIFIED")
}

// TestMayCertify: a certificate is ordered only for a mapped name that its owner has
// verified.
func TestMayCertify(t *testing.T) {
	_, dns, e, c, other := named(t)
	ctx := t.Context()
	box := create(t, e, c, engine.CreateRequest{Name: "box"})
	d := verify(t, dns, e, c, "example.com")
	if _, err := e.VerifyDomain(ctx, other, "elsewhere.example"); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"www.example.com", "app.warren.localhost"} {
		if _, err := e.MapDomain(ctx, c, name, "box", 80); err != nil {
			t.Fatal(err)
		}
	}
	if a, err := e.MayCertify("www.example.com"); err != nil || a != c.Actor.Account {
		t.Errorf("a certificate may be had by %q (%v), want %q", a, err, c.Actor.Account)
	}
	for _, name := range []string{"", "example.com", "x.www.example.com", "elsewhere.example", "app.warren.localhost", "3000-box.warren.localhost", "www.example.com.", "bank.example"} {
		if _, err := e.MayCertify(name); err == nil {
			t.Errorf("%q may", name)
		}
	}
	if err := e.OwnsDomain(c, "deep.www.example.com"); err != nil {
		t.Error(err)
	}
	if err := e.OwnsDomain(c, "app.warren.localhost"); err != nil {
		t.Error(err)
	}
	wantCode(t, e.OwnsDomain(other, "www.example.com"), vm.Denied, "DOMAIN_OWNERSHIP_ERROR")
	wantCode(t, e.OwnsDomain(c, ""), vm.Invalid, "INVALID_DOMAIN")
	if _, err := e.Delete(ctx, c, string(box.ID)); err != nil {
		t.Fatal(err)
	}
	if _, err := e.MayCertify("www.example.com"); err == nil {
		t.Error("the VM is gone")
	}
	create(t, e, c, engine.CreateRequest{Name: "box"})
	if _, err := e.MapDomain(ctx, c, "www.example.com", "box", 80); err != nil {
		t.Fatal(err)
	}
	if _, err := e.DropVerification(ctx, c, d.ID, ""); err != nil {
		t.Fatal(err)
	}
	if _, err := e.MayCertify("www.example.com"); err == nil {
		t.Error("the domain was let go")
	}
}

// TestMappingsEnd: mappings end with the VM, also after a crash between the two, and with
// the account, whose domains are then free.
func TestMappingsEnd(t *testing.T) {
	s, dns, e, c, other := named(t)
	ctx := t.Context()
	box := create(t, e, c, engine.CreateRequest{Name: "box"})
	if _, err := e.MapDomain(ctx, c, "app.warren.localhost", "box", 80); err != nil {
		t.Fatal(err)
	}
	if _, err := e.Delete(ctx, c, "box"); err != nil {
		t.Fatal(err)
	}
	if list, err := vmtest.Stored[vm.Mapping](s.Backend, "mappings"); err != nil || len(list) != 0 || where(e, "app.warren.localhost") != "" {
		t.Errorf("after the VM is deleted the mappings are %+v (%v) and app leads to %q, want none", list, err, where(e, "app.warren.localhost"))
	}
	theirs := create(t, e, other, engine.CreateRequest{Name: "theirs"})
	verify(t, dns, e, other, "example.com")
	if _, err := e.MapDomain(ctx, other, "www.example.com", string(theirs.ID), 80); err != nil {
		t.Fatal(err)
	}
	closeEngine(t, e)
	lost := vm.Mapping{ID: vm.NewUUID(), Domain: "lost.warren.localhost", Account: c.Actor.Account, VM: box.ID, Port: 80, Implicit: true}
	elsewhere := lost
	elsewhere.Domain, elsewhere.VM, elsewhere.Host = "elsewhere.warren.localhost", vm.NewID(), "another server"
	for _, m := range []vm.Mapping{lost, elsewhere} {
		if err := vmtest.Put(s.Backend, "mappings", m.Domain, m); err != nil {
			t.Fatal(err)
		}
	}
	e, c = open(t, s)
	if list, err := vmtest.Stored[vm.Mapping](s.Backend, "mappings"); err != nil || len(list) != 2 || list[0].Domain != elsewhere.Domain || list[1].Domain != "www.example.com" {
		t.Errorf("after a restart, want the other server's and the one that leads to a VM: %+v, %v", list, err)
	}
	if err := e.RemoveAccount(ctx, c, other.Actor.Account, true); err != nil {
		t.Fatal(err)
	}
	domains, err := vmtest.Stored[vm.Domain](s.Backend, "domains")
	if err != nil || len(domains) != 0 {
		t.Errorf("a removed account has %+v, %v", domains, err)
	}
	verify(t, dns, e, c, "example.com")
}

// TestSeveralPreviewDomains: names below each of them are first come, first served,
// and none of them, nor a VM's own name, is anybody's to map or verify.
func TestSeveralPreviewDomains(t *testing.T) {
	s, err := vmtest.NewSite(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	s.PreviewDomains = []string{"warren.localhost", "vms.example.com"}
	e, c := open(t, s)
	box := create(t, e, c, engine.CreateRequest{Name: "box"})
	for _, name := range []string{"app.warren.localhost", "app.vms.example.com"} {
		if m, err := e.MapDomain(t.Context(), c, name, "box", 80); err != nil || !m.Implicit {
			t.Errorf("the mapping of %s is %+v (%v), want an implicit one", name, m, err)
		}
	}
	for _, name := range []string{"warren.localhost", "vms.example.com", "3000-box.vms.example.com", string(box.ID) + ".vms.example.com", string(vm.NewID()) + ".warren.localhost"} {
		if _, err := e.MapDomain(t.Context(), c, name, "box", 80); vm.AsError(err).Code != "INVALID_DOMAIN" {
			t.Errorf("%s is mapped: %v", name, err)
		}
	}
	for _, name := range []string{"vms.example.com", "app.vms.example.com"} {
		if _, err := e.VerifyDomain(t.Context(), c, name); vm.AsError(err).Code != "INVALID_DOMAIN" {
			t.Errorf("%s is verified: %v", name, err)
		}
	}
}

// TestLostAnswer: a write whose answer was lost leaves no domain and no mapping busy or
// stale. One that was made counts as made; the other can be tried again.
func TestLostAnswer(t *testing.T) {
	for _, c := range []struct {
		name string
		made bool
	}{{"write made", true}, {"write not made", false}} {
		t.Run(c.name, func(t *testing.T) {
			s, dns, e, call, _ := named(t)
			ctx := t.Context()
			var lose atomic.Bool
			s.Backend.Fault = func(done bool, _ []ledger.Op) error {
				if done == c.made && lose.Swap(false) {
					return vm.Errorf(vm.Unavailable, "", "the answer was lost")
				}
				return nil
			}
			create(t, e, call, engine.CreateRequest{Name: "box"})
			do := func(what string, f func() error) {
				t.Helper()
				lose.Store(true)
				if err := f(); c.made && err != nil {
					t.Errorf("%s: %v, want it recognised", what, err)
				}
				lose.Store(false)
				if c.made {
					return
				}
				if err := f(); err != nil {
					t.Errorf("%s, tried again: %v", what, err)
				}
			}
			do("verify", func() error { _, err := e.VerifyDomain(ctx, call, "example.com"); return err })
			d, err := e.VerifyDomain(ctx, call, "example.com")
			if err != nil {
				t.Fatal(err)
			}
			dns.SetTXT(vm.VerificationName("example.com"), d.Code)
			do("check", func() error { _, err := e.CheckDomain(ctx, call, "example.com"); return err })
			do("map", func() error { _, err := e.MapDomain(ctx, call, "www.example.com", "box", 80); return err })
			do("map again", func() error { _, err := e.MapDomain(ctx, call, "www.example.com", "box", 81); return err })
			if site, ok := e.DomainSite("www.example.com"); !ok || site.Port != 81 {
				t.Errorf("the name leads to port %d, want 81", site.Port)
			}
			do("show", func() error { return show(t, e, "box") })
			do("unmap", func() error { _, err := e.Unmap(ctx, call, "www.example.com"); return err })
			do("drop", func() error { _, err := e.DropVerification(ctx, call, "example.com", ""); return err })
			for _, kind := range []string{"domains", "mappings"} {
				if left, _, err := s.Backend.ReadAll(ctx, kind); err != nil || len(left) != 0 {
					t.Errorf("%s: %d records are left, %v", kind, len(left), err)
				}
			}
		})
	}
}
