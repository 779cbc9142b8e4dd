// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package job

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/warren-vm/warren/vm"
)

const maxCredentials = 100 // of one VM in a record

// credentials lists the secrets that a VM could use: those of its policy, and those that its
// audit records name.
func credentials(policy vm.NetworkPolicy, records []vm.AuditRecord) []vm.Credential {
	byName := map[string]*vm.Credential{}
	get := func(name string) *vm.Credential {
		if byName[name] == nil {
			byName[name] = &vm.Credential{Name: name}
		}
		return byName[name]
	}
	for _, u := range policy.Secrets {
		c := get(u.Name)
		c.Host, c.Granted = u.Host, true
	}
	for _, r := range records {
		if r.Op != vm.OpSecretUse && r.Op != vm.OpSecretGrant || r.Outcome != "ok" {
			continue
		}
		c := get(r.Subject)
		host, _ := r.Detail["host"].(string)
		c.Host = cmp.Or(c.Host, host)
		if r.Op == vm.OpSecretUse {
			c.Uses++
			if r.Time.After(c.LastUse) {
				c.LastUse = r.Time
			}
		}
	}
	var list []vm.Credential
	for _, c := range byName {
		list = append(list, *c)
	}
	slices.SortFunc(list, func(a, b vm.Credential) int { return strings.Compare(a.Name, b.Name) })
	return list[:min(len(list), maxCredentials)]
}

// named lists credentials in words.
func named(list []vm.Credential) string {
	if len(list) == 0 {
		return "no secret"
	}
	var words []string
	for _, c := range list {
		words = append(words, fmt.Sprintf("%s for %s (used %d times)", c.Name, c.Host, c.Uses))
	}
	return strings.Join(words, ", ")
}
