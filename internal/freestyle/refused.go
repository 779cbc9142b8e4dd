// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package freestyle

import "github.com/warren-vm/warren/vm"

// refusal says what this server does not have, and what it has instead.
type refusal struct{ what, instead string }

func (r refusal) refuse() error {
	return vm.Errorf(vm.Unsupported, "", "this server has no %s", r.what).WithHint("%s", r.instead)
}

// refusals are parts of Freestyle that Warren does not have.
var refusals = map[string]refusal{
	"vpcs":         {"private networks of Freestyle, which connect VMs", "publish ports by name (docs/domains.md), or forward them (docs/previews.md)"},
	"tunnels":      {"tunnels of Freestyle", "use the SSH gateway, which forwards ports: docs/ssh.md"},
	"free-tier":    {"accounts that are made without a key", "set FREESTYLE_API_KEY to a key of this server: `warren key create` makes one"},
	"hardware":     {"hardware to rent", "`warren doctor` says what this host has"},
	"certificates": {"certificates to ask for", "it orders one for each name that leads to a VM: docs/domains.md"},
	"branding":     {"branding of its pages", "leave it out"},
	"forward-auth": {"service that it asks before each request to a name", "previews have their own access: docs/previews.md"},
	"evaluate":     {"answer about connections between VMs in Freestyle's words", "`warren net explain VM HOST` says what a VM may reach"},
	"networks":     {"private networks of Freestyle, which connect VMs", "publish ports by name (docs/domains.md), or forward them (docs/previews.md)"},
}

// refusedRoutes are refused by name, so that a program reads which part of Freestyle it used.
var refusedRoutes = map[string]refusal{
	"/v5/vpcs": refusals["vpcs"], "/v5/vpcs/": refusals["vpcs"], "PUT /v5/vms/{vm}/networks": refusals["networks"],
	"/v5/tunnels": refusals["tunnels"], "/v5/tunnels/": refusals["tunnels"],
	"/v5/free-tier/": refusals["free-tier"], "/v5/hardware": refusals["hardware"], "/v5/hardware/": refusals["hardware"],
	"/v5/certificates": refusals["certificates"], "/v5/certificates/": refusals["certificates"],
	"PUT /v5/domains/placeholder": refusals["branding"], "DELETE /v5/domains/placeholder": refusals["branding"],
	"GET /v5/tls/forward-auth": refusals["forward-auth"], "POST /v5/tls/forward-auth": refusals["forward-auth"], "/v5/tls/forward-auth/": refusals["forward-auth"],
	"POST /v5/firewall/evaluate": refusals["evaluate"],
}
