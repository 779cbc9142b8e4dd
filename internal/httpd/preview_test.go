// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package httpd

import (
	"fmt"
	"testing"
	"time"

	"github.com/warren-vm/warren/internal/names"
	"github.com/warren-vm/warren/vm"
)

// TestDomainsAPI: who may map what, and that a deleted VM leaves no name.
func TestDomainsAPI(t *testing.T) {
	b := newBench(t)
	id := b.create(map[string]any{"name": "box"})
	_, _, other, err := b.engine.CreateAccount(t.Context(), b.call, "other")
	if err != nil {
		t.Fatal(err)
	}
	to := map[string]any{"vmId": id, "vmPort": 3000}
	app := "/domains/v1/mappings/App.warren.localhost"
	b.do("POST", app, to).ok(t).has(t, "domain", "app.warren.localhost")
	b.as(other, "POST", app, to).wants(t, 401, "DOMAIN_OWNERSHIP_NOT_VERIFIED")
	b.as(other, "POST", "/domains/v1/mappings/b.warren.localhost", to).wants(t, 401, "VM_ACCESS_DENIED_FOR_MAPPING")
	b.as(other, "DELETE", app, nil).wants(t, 401, "FAILED_PERMISSIONS_CHECK")
	b.do("POST", "/domains/v1/mappings/example.com", to).wants(t, 401, "DOMAIN_OWNERSHIP_NOT_VERIFIED")
	b.do("POST", "/domains/v1/mappings/3000-x.warren.localhost", to).wants(t, 400, "INVALID_DOMAIN")
	if s, ok := b.engine.DomainSite("app.warren.localhost"); !ok || !s.Public || s.Port != 3000 {
		t.Errorf("the domain leads to %+v (found %v), want a public port 3000", s, ok)
	}
	b.do("DELETE", "/v1/vms/"+id, nil).ok(t)
	if a := b.do("GET", "/domains/v1/mappings", nil); string(a.body) != "[]\n" {
		t.Errorf("a deleted VM is mapped: %s", a.body)
	}
}

// TestPreviewState: a port is private until it is opened; a child is private.
func TestPreviewState(t *testing.T) {
	b := newBench(t)
	id := b.create(map[string]any{"name": "box"})
	if s, ok := b.engine.PreviewSite("box", 3000); !ok || s.Public {
		t.Fatalf("an unopened port is %+v (found %v), want it private", s, ok)
	}
	b.do("PUT", "/v1/vms/box/previews/3000", map[string]any{"public": true}).ok(t).has(t, "public", true)
	s, _ := b.engine.PreviewSite(id, 3000)
	if !s.Public {
		t.Errorf("an opened port is private: %+v", s)
	}
	if other, _ := b.engine.PreviewSite(id, 3001); other.Public {
		t.Errorf("the port beside an opened one is public: %+v", other)
	}
	b.do("DELETE", "/v1/vms/box/previews/3000", nil).ok(t)
	after, _ := b.engine.PreviewSite(id, 3000)
	if after.Public {
		t.Errorf("a closed port is public: %+v", after)
	}
	if after.Epoch != s.Epoch+1 {
		t.Errorf("a close moved the epoch from %d to %d, want one more", s.Epoch, after.Epoch)
	}
	b.create(map[string]any{"name": "box"})
	if _, ok := b.engine.PreviewSite("box", 3000); ok {
		t.Error("a name that two VMs have leads to one")
	}
	b.do("PUT", "/v1/vms/box/previews/0", map[string]any{"public": true}).wants(t, 400, "INVALID_REQUEST")
}

// ticketGiver is a gateway that notes who gets a ticket.
type ticketGiver struct {
	Previews // nothing else of it is asked
	who      vm.Actor
	site     vm.Site
}

func (*ticketGiver) Names(id vm.ID) []string {
	return []string{string(id) + ".one", string(id) + ".two"}
}

func (*ticketGiver) Host(ref string, _ uint16) string { return ref + ".test" }

func (g *ticketGiver) Ticket(a vm.Actor, s vm.Site, host string) (string, time.Time) {
	g.who, g.site = a, s
	return "https://" + host + "/ticket", time.Unix(1, 0)
}

// TestPreviewTicket: a ticket is for who asks, also an identity that was granted
// the VM, which may not sign links for others.
func TestPreviewTicket(t *testing.T) {
	b := newBench(t)
	id := b.create(map[string]any{"name": "box"})
	const path, links = "/v1/vms/box/previews/3000/tickets", "/v1/vms/box/previews/3000/links"
	b.do("POST", path, nil).wants(t, 400, "BAD_REQUEST")
	g := &ticketGiver{}
	b.handler.Previews = g
	b.do("POST", path, nil).answers(t, 200).has(t, "url", "https://box.test/ticket", "expiresAt", "1970-01-01T00:00:01Z")
	if g.who.Key == "" || g.who.Identity != "" {
		t.Errorf("the ticket is for %+v, want the admin's key", g.who)
	}
	if string(g.site.VM) != id || g.site.Port != 3000 {
		t.Errorf("the ticket is for the site %+v, want port 3000 of %s", g.site, id)
	}
	ci := b.identity("ci")
	_, secret := ci.token(nil)
	b.as(secret, "POST", path, nil).wants(t, 403, "VM_ACCESS_DENIED")
	ci.must("POST", "/permissions/vm/"+id, map[string]any{})
	b.as(secret, "POST", path, nil).answers(t, 200)
	if string(g.who.Identity) != ci.id || g.who.Token == "" || g.who.Key != "" {
		t.Errorf("the ticket is for %+v, want a token of identity %s", g.who, ci.id)
	}
	b.as(secret, "POST", links, map[string]any{}).wants(t, 403, "FORBIDDEN")
	b.do("POST", "/v1/vms/box/previews/0/tickets", nil).wants(t, 400, "INVALID_REQUEST")
}

// TestCreateWithDomains: a VM is made with its names, or there is no VM.
func TestCreateWithDomains(t *testing.T) {
	b := newBench(t)
	for _, c := range []struct {
		domain any
		status int
		code   string
	}{
		{map[string]any{"domain": "no name"}, 400, "INVALID_DOMAIN"},
		{map[string]any{}, 400, "INVALID_DOMAIN"},
		{map[string]any{"domain": "3000-x.warren.localhost"}, 400, "INVALID_DOMAIN"},
		{map[string]any{"domain": "example.com", "vmPort": 80}, 401, "DOMAIN_OWNERSHIP_NOT_VERIFIED"},
		{map[string]any{"domain": "ok.warren.localhost", "vmPort": 70000}, 400, "CREATE_VM_BAD_REQUEST"},
		{map[string]any{"domain": "ok.warren.localhost", "vmPort": -1}, 400, "CREATE_VM_BAD_REQUEST"},
		{"ok.warren.localhost", 400, "CREATE_VM_BAD_REQUEST"},
	} {
		good := map[string]any{"domain": "first.warren.localhost"}
		b.do("POST", "/v1/vms", map[string]any{"domains": []any{good, c.domain}}).wants(t, c.status, c.code)
	}
	if a := b.do("GET", "/v1/vms", nil); a.json["totalCount"] != 0.0 {
		t.Errorf("refused creates have left %s", a.body)
	}
	b.do("GET", "/domains/v1/mappings", nil).equals(t, "[]")
	b.do("POST", "/v1/vms", map[string]any{"domains": nil, "name": "plain"}).answers(t, 200).contains(t, `"domains":[]`)
	a := b.do("POST", "/v1/vms", map[string]any{"name": "box", "domains": []any{
		map[string]any{"domain": "B.warren.localhost"}, map[string]any{"domain": "a.warren.localhost", "vmPort": 3000},
	}})
	if got := fmt.Sprint(a.ok(t).json["domains"]); got != "[a.warren.localhost b.warren.localhost]" {
		t.Fatalf("a VM that was made with two names has the domains %s", got)
	}
	for name, port := range map[string]uint16{"a.warren.localhost": 3000, "b.warren.localhost": names.DefaultMappedPort} {
		if s, ok := b.engine.DomainSite(name); !ok || s.Port != port || string(s.VM) != a.json["id"] {
			t.Errorf("%s leads to %+v (found %v), want port %d of %v", name, s, ok, port, a.json["id"])
		}
	}
	// A second VM that asks for a name of the account takes it over.
	again := b.create(map[string]any{"name": "two", "domains": []any{map[string]any{"domain": "a.warren.localhost", "vmPort": 4000}}})
	if s, _ := b.engine.DomainSite("a.warren.localhost"); string(s.VM) != again || s.Port != 4000 {
		t.Errorf("the name taken over leads to %+v, want port 4000 of %s", s, again)
	}
	b.do("POST", "/v1/vms/two/start", map[string]any{}).answers(t, 200).contains(t, `"domains":["a.warren.localhost"`)
	for _, ref := range []string{"plain", "box", "two"} {
		b.do("DELETE", "/v1/vms/"+ref, nil)
	}
}

// TestDNSRoutes: the server keeps no zones, and says so with codes that the
// SDKs know; what is not the account's is refused first.
func TestDNSRoutes(t *testing.T) {
	b := newBench(t)
	b.create(map[string]any{"name": "box", "domains": []any{map[string]any{"domain": "app.warren.localhost"}}})
	const list = "/dns/v1/records?domain="
	record := func(domain string) map[string]any {
		return map[string]any{"domain": domain, "record": map[string]any{"kind": "A", "name": "www", "value": "192.0.2.1", "ttl": "60"}}
	}
	b.do("GET", list+"app.warren.localhost", nil).answers(t, 200).equals(t, `{"records":[]}`)
	b.do("GET", list, nil).wants(t, 400, "INVALID_DOMAIN")
	b.do("GET", list+"example.com", nil).wants(t, 403, "DOMAIN_OWNERSHIP_ERROR")
	b.do("POST", "/dns/v1/records", record("example.com")).wants(t, 403, "DOMAIN_OWNERSHIP_ERROR")
	b.do("POST", "/dns/v1/records", record("app.warren.localhost")).wants(t, 500, "ERROR_CREATING_RECORD")
	b.do("DELETE", list+"example.com&record=%5Bobject+Object%5D", nil).wants(t, 403, "DOMAIN_OWNERSHIP_ERROR")
	a := b.do("DELETE", list+"app.warren.localhost&record=%5Bobject+Object%5D", nil)
	a.wants(t, 500, "ERROR_DELETING_RECORD")
	if a.has(t, "domain", "app.warren.localhost"); a.json["name"] == nil {
		t.Errorf("the refused delete does not name the record: %s", a.body)
	}
	b.do("POST", "/domains/v1/certs/app.warren.localhost/wildcard", nil).wants(t, 422, "FAILED_TO_PROVISION_CERTIFICATE")
	b.do("DELETE", "/v1/vms/box", nil)
}

// TestDomainsOfVM: create, start and fork name the host names that lead to a VM:
// what is mapped to it, then its own below each preview domain.
func TestDomainsOfVM(t *testing.T) {
	b := newBench(t)
	b.handler.Previews = &ticketGiver{}
	check := func(what string, got map[string]any, mapped ...string) {
		t.Helper()
		id := fmt.Sprint(got["id"])
		if want := fmt.Sprint(append(mapped, id+".one", id+".two")); fmt.Sprint(got["domains"]) != want {
			t.Errorf("%s: %v, want %s", what, got["domains"], want)
		}
	}
	a := b.do("POST", "/v1/vms", map[string]any{"name": "box", "domains": []any{map[string]any{"domain": "a.warren.localhost", "vmPort": 3000}}})
	check("create", a.json, "a.warren.localhost")
	forked := b.do("POST", "/v1/vms/box/fork", map[string]any{"count": 1})
	forks, _ := forked.json["forks"].([]any)
	if len(forks) != 1 {
		t.Fatalf("a fork is answered %d with %d VMs, want 1: %s", forked.status, len(forks), forked.body)
	}
	check("fork", forks[0].(map[string]any))
	b.do("POST", "/v1/vms/box/stop", map[string]any{}).ok(t)
	check("start", b.do("POST", "/v1/vms/box/start", map[string]any{}).json, "a.warren.localhost")
}
