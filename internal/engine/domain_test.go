// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package engine_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/warren-vm/warren/internal/engine"
	"github.com/warren-vm/warren/internal/vmtest"
	"github.com/warren-vm/warren/vm"
)

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
		t.Fatalf("%+v, %v", d, err)
	}
	return d
}

// where returns the VM that a name leads to.
func where(e *vmtest.House, name string) vm.ID {
	s, _ := e.DomainSite(name)
	return s.VM
}

// TestVerifyDomain: a domain is the account's whose code its TXT record says,
// and stays it over a restart; it goes with what is mapped by it.
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
		t.Fatalf("%+v, %v", d, err)
	}
	if again, err := e.VerifyDomain(ctx, c, "example.com"); err != nil || again.Code != d.Code || again.ID != d.ID {
		t.Errorf("asked again: %+v, %v", again, err)
	}
	_, err = e.CheckDomain(ctx, c, "example.com")
	wantCode(t, err, vm.Invalid, "VERIFICATION_FAILED")
	rival, err := e.VerifyDomain(ctx, other, "example.com")
	if err != nil || rival.Code == d.Code {
		t.Fatalf("%+v, %v", rival, err)
	}
	dns.SetTXT(vm.VerificationName("example.com"), rival.Code) // not ours
	_, err = e.CheckDomain(ctx, c, d.ID)
	wantCode(t, err, vm.Invalid, "VERIFICATION_FAILED")
	_, err = e.MapDomain(ctx, c, "www.example.com", "box", 80)
	wantCode(t, err, vm.Unauthenticated, "DOMAIN_OWNERSHIP_NOT_VERIFIED")
	dns.SetTXT(vm.VerificationName("example.com"), rival.Code, d.Code)
	if d, err = e.CheckDomain(ctx, c, d.ID); err != nil || !d.Verified {
		t.Fatalf("%+v, %v", d, err)
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
	if m, err := e.Mappings(ctx, c); err != nil || len(m) != 1 || m[0].Port != engine.DefaultMappedPort || m[0].Ownership != d.ID || where(e, "www.example.com") != box.ID {
		t.Errorf("after a restart: %+v, %v", m, err)
	}
	_, err = e.DropVerification(ctx, c, "example.com", "wrong")
	wantCode(t, err, vm.NotFound, "VERIFICATION_NOT_FOUND")
	if _, err = e.DropVerification(ctx, c, "example.com", d.Code); err != nil {
		t.Fatal(err)
	}
	if list, err := e.Domains(ctx, c); err != nil || len(list) != 0 || where(e, "www.example.com") != "" {
		t.Errorf("%+v, %v", list, err)
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

// TestDomainRace: of two accounts that want one name at once, one has it.
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

// TestCloserDomain: who has verified more of a name goes first, and nobody else
// takes a name that is mapped.
func TestCloserDomain(t *testing.T) {
	_, dns, e, c, other := named(t)
	ctx := t.Context()
	box := create(t, e, c, engine.CreateRequest{Name: "box"})
	theirs := create(t, e, other, engine.CreateRequest{Name: "theirs"})
	verify(t, dns, e, c, "example.com")
	mine := verify(t, dns, e, c, "mine.example.com")
	verify(t, dns, e, other, "a.example.com")
	if m, err := e.MapDomain(ctx, c, "x.mine.example.com", "box", 80); err != nil || m.Ownership != mine.ID {
		t.Errorf("%+v, %v", m, err)
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
		t.Error("it was taken all the same")
	}
	_, err = e.MapDomain(ctx, other, "b.example.com", "theirs", 80)
	wantCode(t, err, vm.Unauthenticated, "DOMAIN_OWNERSHIP_NOT_VERIFIED")
	_, err = e.MapDomain(ctx, other, "notexample.com", "theirs", 80)
	wantCode(t, err, vm.Unauthenticated, "DOMAIN_OWNERSHIP_NOT_VERIFIED")
}

// TestMayCertify: a certificate is ordered only of a name that is mapped, and
// whose owner has shown that it is theirs.
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
		t.Errorf("%q, %v", a, err)
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

// failing refuses the update of one name's mapping.
type failing struct {
	engine.Collection[vm.Mapping]
	name string
}

func (f *failing) Update(ctx context.Context, m vm.Mapping) (int64, error) {
	if m.Domain == f.name {
		f.name = "" // once
		return 0, errors.New("made to fail")
	}
	return f.Collection.Update(ctx, m)
}

// TestKeepMovesNames: the winner takes the names and open ports of the loser;
// when that fails, both have what they had.
func TestKeepMovesNames(t *testing.T) {
	s, _, e, c, _ := named(t)
	ctx := t.Context()
	old := create(t, e, c, engine.CreateRequest{Name: "app"})
	f, err := e.Fork(ctx, c, "app", engine.ForkRequest{Count: 1, Prefix: "try"})
	if err != nil {
		t.Fatal(err)
	}
	won := f.Children[0].ID
	names := []string{"a.warren.localhost", "b.warren.localhost"}
	for _, n := range names {
		if _, err := e.MapDomain(ctx, c, n, "app", 3000); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := e.MapDomain(ctx, c, "try.warren.localhost", string(won), 4000); err != nil {
		t.Fatal(err)
	}
	for ref, port := range map[vm.ID]uint16{old.ID: 3000, won: 4000} {
		if _, err := e.SetPreview(ctx, c, string(ref), port, true); err != nil {
			t.Fatal(err)
		}
	}
	public := func(id vm.ID, port uint16) bool {
		s, _ := e.PreviewSite(string(id), port)
		return s.Public
	}
	closeEngine(t, e)
	broken := &failing{Collection: s.Records.Mappings, name: names[1]}
	s.Records.Mappings = broken
	e, c = open(t, s)
	if _, err := e.Keep(ctx, c, string(won), string(old.ID), false); err == nil {
		t.Fatal("kept, though a name could not be moved")
	}
	v, err := e.Get(ctx, c, string(won))
	if err != nil || v.Name == "app" || where(e, names[0]) != old.ID || where(e, names[1]) != old.ID || where(e, "try.warren.localhost") != won ||
		!public(old.ID, 3000) || public(won, 3000) || !public(won, 4000) {
		t.Errorf("after a failure: %+v, %v; %s %s", v, err, where(e, names[0]), where(e, names[1]))
	}
	if _, err := e.Keep(ctx, c, string(won), string(old.ID), false); err != nil {
		t.Fatal(err)
	}
	for range 2 { // and again after a restart
		for _, n := range append(names, "try.warren.localhost") {
			if where(e, n) != won {
				t.Errorf("%s leads to %s", n, where(e, n))
			}
		}
		if !public(won, 3000) || !public(won, 4000) || public(old.ID, 3000) {
			t.Error("open ports did not move")
		}
		closeEngine(t, e)
		e, _ = open(t, s)
	}
	consistent(t, s)
}

// TestMappingsEnd: with the VM, also where a death came between the two, and
// with the account, whose domains others may have then.
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
	if list, err := s.Records.Mappings.List(ctx); err != nil || len(list) != 0 || where(e, "app.warren.localhost") != "" {
		t.Errorf("%+v, %v", list, err)
	}
	theirs := create(t, e, other, engine.CreateRequest{Name: "theirs"})
	verify(t, dns, e, other, "example.com")
	if _, err := e.MapDomain(ctx, other, "www.example.com", string(theirs.ID), 80); err != nil {
		t.Fatal(err)
	}
	closeEngine(t, e)
	lost := vm.Mapping{ID: vm.NewUUID(), Domain: "lost.warren.localhost", Account: c.Actor.Account, VM: box.ID, Port: 80, Implicit: true}
	if _, err := s.Records.Mappings.Create(ctx, lost); err != nil {
		t.Fatal(err)
	}
	e, c = open(t, s)
	if list, err := s.Records.Mappings.List(ctx); err != nil || len(list) != 1 || list[0].Domain != "www.example.com" {
		t.Errorf("after a restart: %+v, %v", list, err)
	}
	if err := e.RemoveAccount(ctx, c, other.Actor.Account, true); err != nil {
		t.Fatal(err)
	}
	domains, err := s.Records.Domains.List(ctx)
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
	s.Settings.PreviewDomains = []string{"warren.localhost", "vms.example.com"}
	e, c := open(t, s)
	box := create(t, e, c, engine.CreateRequest{Name: "box"})
	for _, name := range []string{"app.warren.localhost", "app.vms.example.com"} {
		if m, err := e.MapDomain(t.Context(), c, name, "box", 80); err != nil || !m.Implicit {
			t.Errorf("%s: %+v %v", name, m, err)
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
