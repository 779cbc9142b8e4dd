// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package httpd

import (
	"net/url"
	"strings"
	"testing"

	"github.com/warren-vm/warren/vm"
)

// TestNetworkRoutes: the network of a VM is set, changed, checked and shown.
func TestNetworkRoutes(t *testing.T) {
	b := newBench(t)
	id := b.create(`{"name":"box","network":"packages,api.example.com:443"}`)
	at := "/v1/vms/" + id + "/network"
	list := func(a answer, name string) []any {
		l, _ := a.ok(t).json[name].([]any)
		return l
	}
	if got := b.do("GET", at, nil); got.ok(t).json["mode"] != "packages" || len(list(got, "rules")) != 1 || len(list(got, "registries")) == 0 {
		t.Errorf("GET network after create with words: %s", got.body)
	}
	if got := b.do("PUT", at, `{"mode":"open"}`).ok(t); got.json["network"] != "open" || got.json["id"] != id {
		t.Errorf("PUT of a mode answers %s, want the VM with network open", got.body)
	}
	got := b.do("PATCH", at, `{"mode":"closed","allow":[{"to":"*.example.com:443","methods":["get"],"paths":["/v1/**"]}],"forSeconds":3600}`).ok(t)
	policy, _ := got.json["policy"].(map[string]any)
	if rules, _ := policy["rules"].([]any); got.json["networkRules"] != 1.0 || len(rules) != 1 || policy["mode"] != "closed" {
		t.Errorf("PATCH that adds a rule answers %s", got.body)
	}
	if got := b.do("POST", at+"/check", `{"host":"api.example.com","method":"GET","path":"/v1/x"}`).ok(t); got.json["allowed"] != true {
		t.Errorf("a check of an allowed request answers %s", got.body)
	}
	if got := b.do("POST", at+"/check", `{"host":"api.example.com","method":"POST","path":"/v1/x"}`).ok(t); got.json["allowed"] != false || got.json["reason"] == "" {
		t.Errorf("a check of another method answers %s", got.body)
	}
	if got := b.do("GET", at+"/refusals", nil); len(list(got, "refusals")) != 1 {
		t.Errorf("refusals: %s", got.body)
	}
	b.do("PUT", at, `{}`).wants(t, 400, "INVALID_REQUEST")
	b.do("PUT", at, `{"mode":"open","network":"closed"}`).wants(t, 400, "INVALID_REQUEST")
	b.do("PATCH", at, `{}`).wants(t, 400, "INVALID_REQUEST")
	b.do("PATCH", at, `{"allow":[{"to":"a.example.com"}],"forSeconds":-1}`).wants(t, 400, "INVALID_REQUEST")
	b.do("PATCH", at, `{"allow":[{"to":"*.example.net"}]}`).ok(t)
	b.do("PATCH", at, `{"deny":[{"to":"api.example.net:443"}]}`).wants(t, 409, "NETWORK_RULE_SHADOWED")
	b.do("PATCH", at, `{"remove":["r-nosuch"]}`).wants(t, 404, "NETWORK_RULE_NOT_FOUND")
	b.do("POST", "/v1/vms", `{"network":{"mode":"closed","rules":[{"to":"*.*"}]}}`).wants(t, 400, "CREATE_VM_BAD_REQUEST")
	b.do("POST", "/v1/vms/"+id+"/fork", `{"network":"open"}`).wants(t, 403, "NETWORK_WIDER")
}

// TestNetworkCutsCaller: a change that would close the VM's connection to the server is
// refused without force; a dry run shows it.
func TestNetworkCutsCaller(t *testing.T) {
	b := newBench(t)
	id := b.create(`{"network":"open"}`)
	self, err := url.Parse(b.server.URL)
	if err != nil {
		t.Fatal(err)
	}
	b.site.World.Connect(vm.ID(id), vm.Connection{Proto: "tcp", Dest: self.Host, Allowed: true})
	at := "/v1/vms/" + id + "/network"
	b.do("PUT", at, `{"mode":"closed"}`).wants(t, 409, "NETWORK_CUTS_CALLER")
	if got := b.do("PUT", at, `{"mode":"closed","dryRun":true}`).ok(t); got.json["cut"] != 1.0 || got.json["network"] != "open" || !strings.Contains(string(got.body), self.Host) {
		t.Errorf("a dry run answers %s, want the VM as it is and the connection that would be cut", got.body)
	}
	if got := b.do("PUT", at, `{"mode":"closed","force":true}`).ok(t); got.json["cut"] != 1.0 || got.json["network"] != "closed" {
		t.Errorf("by force: %s", got.body)
	}
}

// TestPolicyRoutes: named policies are made, shown, used and removed.
func TestPolicyRoutes(t *testing.T) {
	b := newBench(t)
	b.do("PUT", "/v1/policies/ci", `{"network":"packages,api.example.com"}`).ok(t)
	id := b.create(`{"name":"box","network":"ci"}`)
	if got := b.do("GET", "/v1/vms/"+id, nil).ok(t); got.json["network"] != "packages" || got.json["networkRules"] != 1.0 {
		t.Errorf("a VM with a named policy: %s", got.body)
	}
	if got := b.do("PUT", "/v1/policies/ci", `{"network":{"mode":"packages","rules":[{"to":"a.example.com"},{"to":"b.example.com"}]}}`).ok(t); !strings.Contains(string(got.body), `"name":"box"`) {
		t.Errorf("a change of the policy does not name its VM: %s", got.body)
	}
	if got := b.do("GET", "/v1/vms/"+id+"/network", nil).ok(t); !strings.Contains(string(got.body), "b.example.com") {
		t.Errorf("the VM has not the new rules of its policy: %s", got.body)
	}
	b.do("DELETE", "/v1/policies/ci", nil).wants(t, 409, "POLICY_IN_USE")
	b.do("PUT", "/v1/policies/open", `{"network":"closed"}`).wants(t, 403, "POLICY_SHIPPED")
	b.do("PUT", "/v1/policies/UP", `{"network":"closed"}`).wants(t, 400, "POLICY_NAME_INVALID")
	b.do("GET", "/v1/policies/none", nil).wants(t, 404, "POLICY_NOT_FOUND")
	b.do("PUT", "/v1/vms/"+id+"/network", `{"mode":"closed"}`).ok(t)
	b.do("DELETE", "/v1/policies/ci", nil).ok(t)
}

// TestNetworkRights: a token cannot see or change a network, and no policy.
func TestNetworkRights(t *testing.T) {
	b := newBench(t)
	id := b.create(`{"name":"box"}`)
	who := b.identity("ci")
	_, token := who.token(nil)
	who.must("POST", "/permissions/vm/"+id, `{"allowedUsers":null}`)
	for _, r := range [][2]string{
		{"GET", "/v1/vms/" + id + "/network"},
		{"PUT", "/v1/vms/" + id + "/network"},
		{"PATCH", "/v1/vms/" + id + "/network"},
		{"POST", "/v1/vms/" + id + "/network/check"},
		{"GET", "/v1/vms/" + id + "/network/refusals"},
		{"GET", "/v1/policies"},
		{"PUT", "/v1/policies/ci"},
		{"DELETE", "/v1/policies/ci"},
	} {
		if got := b.as(token, r[0], r[1], `{"mode":"open","network":"open","host":"a.example.com"}`); got.status != 401 && got.status != 403 {
			t.Errorf("%s %s with a token answers %d %s, want 401 or 403", r[0], r[1], got.status, got.body)
		}
	}
	if v, _ := b.engine.Get(t.Context(), b.call, id); v.Network.Mode != vm.NetClosed {
		t.Errorf("a token changed the network to %s", v.Network.Mode)
	}
}
