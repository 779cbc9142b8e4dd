// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"fmt"
	"net/netip"
	"reflect"
	"slices"
	"strings"

	"github.com/warren-vm/warren/vm"
)

// add adds a rule to a policy: at the end, or as the first. A rule of the VM about the same
// requests is replaced at its place. A rule that could never decide is refused with kind
// Exists.
func add(n *vm.NetworkPolicy, r vm.NetRule, first bool) error {
	at := len(n.Rules)
	old := slices.IndexFunc(n.Rules, func(o vm.NetRule) bool { return !slices.Contains(n.Named, o.From) && about(o, r) })
	switch {
	case first && old >= 0:
		n.Rules = slices.Delete(slices.Clone(n.Rules), old, old+1)
		at, old = 0, -1
	case first:
		at = 0
	case old >= 0:
		at = old
	}
	for _, o := range n.Rules[:at] {
		if err := overlap(o, r); err != nil {
			return err
		}
	}
	if old >= 0 {
		n.Rules = slices.Clone(n.Rules)
		r.ID = n.Rules[old].ID
		n.Rules[old] = r
		return nil
	}
	n.Rules = slices.Insert(slices.Clone(n.Rules), at, r)
	return nil
}

// overlap refuses a rule that an earlier one covers.
func overlap(earlier, r vm.NetRule) error {
	if !covers(earlier, r) {
		return nil
	}
	e := vm.Errorf(vm.Exists, Text(r), "the rule %s decides this already: %s %s", earlier.ID, earlier.Action, Text(earlier)).
		WithCode("NETWORK_RULE_SHADOWED", "rule", earlier.ID, "to", earlier.To)
	if earlier.Action == r.Action {
		return e.WithHint("leave it out; to put it before that rule, with limits of its own: --first")
	}
	if earlier.From != "" {
		return e.WithHint("put it before that rule, which belongs to %s: --first", earlier.From)
	}
	return e.WithHint("put it before that rule: --first; or remove that rule: `warren net rm NAME %s`", earlier.ID)
}

// about reports whether two rules are about exactly the same requests.
func about(a, b vm.NetRule) bool {
	return a.To == b.To && a.Proto == b.Proto && reflect.DeepEqual(sorted(a.Methods), sorted(b.Methods)) &&
		reflect.DeepEqual(sorted(a.Paths), sorted(b.Paths)) && reflect.DeepEqual(ports(a), ports(b))
}

func sorted(list []string) []string {
	out := append([]string{}, list...)
	slices.Sort(out)
	return out
}

// ports returns the ports of a rule, the default ones too.
func ports(r vm.NetRule) []vm.PortRange {
	switch {
	case len(r.Ports) > 0:
		return r.Ports
	case isAddress(r.To):
		return []vm.PortRange{{First: 1, Last: 65535}}
	}
	return []vm.PortRange{{First: 80, Last: 80}, {First: 443, Last: 443}}
}

func isAddress(to string) bool {
	_, ok := prefix(to)
	return ok
}

func prefix(to string) (netip.Prefix, bool) {
	if ip, err := netip.ParseAddr(to); err == nil {
		return netip.PrefixFrom(ip, ip.BitLen()), true
	}
	p, err := netip.ParsePrefix(to)
	return p, err == nil
}

// covers reports whether every request that b is about is decided by a, which comes first.
// A rule that ends, or that lets only some requests through, covers nothing.
func covers(a, b vm.NetRule) bool {
	if !a.Until.IsZero() || a.Limit != (vm.NetLimit{}) || a.Proto != b.Proto || !reaches(a.To, b.To) {
		return false
	}
	if len(a.Methods) > 0 && (len(b.Methods) == 0 || slices.ContainsFunc(b.Methods, func(m string) bool { return !slices.Contains(a.Methods, m) })) {
		return false
	}
	if len(a.Paths) > 0 && (len(b.Paths) == 0 || slices.ContainsFunc(b.Paths, func(s string) bool { return !slices.Contains(a.Paths, s) })) {
		return false
	}
	return !slices.ContainsFunc(ports(b), func(want vm.PortRange) bool {
		return !slices.ContainsFunc(ports(a), func(have vm.PortRange) bool { return have.First <= want.First && want.Last <= have.Last })
	})
}

// reaches reports whether one target includes another. "*" includes names, and is taken to
// include no address, since it is about public ones only.
func reaches(a, b string) bool {
	if a == b {
		return true
	}
	pa, okA := prefix(a)
	pb, okB := prefix(b)
	switch {
	case okA && okB:
		return pa.Bits() <= pb.Bits() && pa.Contains(pb.Addr())
	case okA || okB:
		return false
	case a == "*":
		return true
	}
	domain, wild := strings.CutPrefix(a, "*")
	return wild && strings.HasSuffix(b, domain) && b != domain
}

// Text writes a rule's target, as in api.example.com:443 or udp:192.0.2.1:53, with its
// methods and paths.
func Text(r vm.NetRule) string {
	s := r.To
	if r.Proto != "" && r.Proto != "tcp" {
		s = r.Proto + ":" + s
	}
	if len(r.Ports) > 0 {
		list := make([]string, len(r.Ports))
		for i, p := range r.Ports {
			if list[i] = fmt.Sprint(p.First); p.Last != p.First {
				list[i] += fmt.Sprintf("-%d", p.Last)
			}
		}
		s += ":" + strings.Join(list, "+")
	}
	for _, more := range [][]string{r.Methods, r.Paths} {
		if len(more) > 0 {
			s += " " + strings.Join(more, "|")
		}
	}
	return s
}
