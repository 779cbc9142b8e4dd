// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"fmt"

	"github.com/warren-vm/warren/vm"
)

// modelHosts are the API hosts of model providers: exact names, as their documentation has
// them. Hosts from which a program is downloaded or updated are not among them.
var modelHosts = []string{
	"api.anthropic.com",
	"api.openai.com",
	"generativelanguage.googleapis.com",
	"api.mistral.ai",
	"api.cohere.com",
	"api.groq.com",
	"api.deepseek.com",
	"api.x.ai",
	"api.together.xyz",
	"api.fireworks.ai",
	"openrouter.ai",
	"router.huggingface.co",
}

// shipped are the policies that every account has, in the order of lists.
var shipped = []vm.NamedPolicy{
	{Name: string(vm.NetClosed), Shipped: true, Mode: vm.NetClosed, About: "nothing"},
	{Name: string(vm.NetPackages), Shipped: true, Mode: vm.NetPackages, About: "the package registries that the VM's image is configured for"},
	{Name: "agents", Shipped: true, Rules: agentRules(), About: "the API hosts of the model providers"},
	{Name: string(vm.NetOpen), Shipped: true, Mode: vm.NetOpen, About: "the public internet, never private addresses or the host"},
}

func agentRules() []vm.NetRule {
	rules := make([]vm.NetRule, len(modelHosts))
	for i, host := range modelHosts {
		rules[i] = vm.NetRule{ID: fmt.Sprintf("r-agent%d", i+1), Action: vm.NetAllow, To: host, Ports: []vm.PortRange{{First: 443, Last: 443}}}
	}
	return rules
}

// shippedNamed returns a shipped policy by its name.
func shippedNamed(name string) (vm.NamedPolicy, bool) {
	for _, s := range shipped {
		if s.Name == name {
			return s, true
		}
	}
	return vm.NamedPolicy{}, false
}
