// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package httpd

import "testing"

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
	if a := b.do("POST", app, to); a.status != 200 || a.json["domain"] != "app.warren.localhost" {
		t.Fatalf("%d %s", a.status, a.body)
	}
	b.as(other, "POST", app, to).wants(t, 401, "DOMAIN_OWNERSHIP_NOT_VERIFIED")
	b.as(other, "POST", "/domains/v1/mappings/b.warren.localhost", to).wants(t, 401, "VM_ACCESS_DENIED_FOR_MAPPING")
	b.as(other, "DELETE", app, nil).wants(t, 401, "FAILED_PERMISSIONS_CHECK")
	b.do("POST", "/domains/v1/mappings/example.com", to).wants(t, 401, "DOMAIN_OWNERSHIP_NOT_VERIFIED")
	b.do("POST", "/domains/v1/mappings/3000-x.warren.localhost", to).wants(t, 400, "INVALID_DOMAIN")
	if s, ok := b.engine.DomainSite("app.warren.localhost"); !ok || !s.Public || s.Port != 3000 {
		t.Errorf("%+v %v", s, ok)
	}
	if a := b.do("DELETE", "/v1/vms/"+id, nil); a.status != 200 {
		t.Fatalf("%d %s", a.status, a.body)
	}
	if a := b.do("GET", "/domains/v1/mappings", nil); string(a.body) != "[]\n" {
		t.Errorf("a deleted VM is mapped: %s", a.body)
	}
}

// TestPreviewState: a port is private until it is opened; a child is private.
func TestPreviewState(t *testing.T) {
	b := newBench(t)
	id := b.create(map[string]any{"name": "box"})
	if s, ok := b.engine.PreviewSite("box", 3000); !ok || s.Public {
		t.Fatalf("%+v %v", s, ok)
	}
	if a := b.do("PUT", "/v1/vms/box/previews/3000", map[string]any{"public": true}); a.status != 200 || a.json["public"] != true {
		t.Fatalf("%d %s", a.status, a.body)
	}
	s, _ := b.engine.PreviewSite(id, 3000)
	if other, _ := b.engine.PreviewSite(id, 3001); !s.Public || other.Public {
		t.Errorf("%+v %+v", s, other)
	}
	if a := b.do("DELETE", "/v1/vms/box/previews/3000", nil); a.status != 200 {
		t.Fatalf("%d %s", a.status, a.body)
	}
	if after, _ := b.engine.PreviewSite(id, 3000); after.Public || after.Epoch != s.Epoch+1 {
		t.Errorf("%+v", after)
	}
	b.create(map[string]any{"name": "box"})
	if _, ok := b.engine.PreviewSite("box", 3000); ok {
		t.Error("a name that two VMs have leads to one")
	}
	b.do("PUT", "/v1/vms/box/previews/0", map[string]any{"public": true}).wants(t, 400, "INVALID_REQUEST")
}
