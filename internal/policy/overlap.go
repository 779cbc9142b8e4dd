// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"slices"

	"github.com/warren-vm/warren/internal/egress"
	"github.com/warren-vm/warren/vm"
)

// add adds a rule to a policy: at the end, or as the first. A rule of the VM about the same
// requests is replaced at its place and keeps its id. A rule that could never decide is
// refused with kind Exists.
func add(n *vm.NetworkPolicy, r vm.NetRule, first bool) error {
	rules := slices.Clone(n.Rules)
	at := len(rules)
	if old := slices.IndexFunc(rules, func(o vm.NetRule) bool { return !slices.Contains(n.Named, o.From) && about(o, r) }); old >= 0 {
		at, r.ID = old, rules[old].ID
		rules = slices.Delete(rules, old, old+1)
	}
	if first {
		at = 0
	}
	for _, s := range egress.Shadowed(append(slices.Clone(rules[:at]), r)) {
		if s.Rule == at {
			return shadowed(rules[s.By], r)
		}
	}
	n.Rules = slices.Insert(rules, at, r)
	return nil
}

// shadowed refuses a rule that an earlier one covers.
func shadowed(earlier, r vm.NetRule) error {
	e := vm.Errorf(vm.Exists, r.Text(), "the rule %s decides this already: %s %s", earlier.ID, earlier.Action, earlier.Text()).
		WithCode("NETWORK_RULE_SHADOWED", "rule", earlier.ID, "to", earlier.To)
	switch {
	case earlier.Action == r.Action:
		return e.WithHint("leave it out; or put it before that rule, with limits of its own: --first")
	case earlier.From != "":
		return e.WithHint("put it before that rule, which belongs to %s: --first", earlier.From)
	}
	return e.WithHint("put it before that rule: --first; or remove that rule: `warren net rm NAME %s`", earlier.ID)
}

// about reports whether two rules are written for the same requests.
func about(a, b vm.NetRule) bool {
	return a.To == b.To && a.Proto == b.Proto && slices.Equal(a.Ports, b.Ports) &&
		slices.Equal(sorted(a.Methods), sorted(b.Methods)) && slices.Equal(sorted(a.Paths), sorted(b.Paths))
}

func sorted(list []string) []string {
	out := slices.Clone(list)
	slices.Sort(out)
	return out
}
