// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"cmp"
	"encoding/json"
	"reflect"
	"slices"
	"strings"

	"github.com/warren-vm/warren/internal/egress"
	"github.com/warren-vm/warren/vm"
)

const maxSpec = 64 << 10 // bytes of a request for a network

// Compile returns the policy of an account's VM, without the hosts of mode packages. Only an
// admin may name addresses that are not public. Kinds: Invalid, NotFound (a named policy),
// Denied, Limit.
func (p *Policy) Compile(c *vm.Call, account vm.AccountID, spec vm.NetworkSpec) (vm.NetworkPolicy, error) {
	r, err := request(spec)
	if err != nil {
		return vm.NetworkPolicy{}, err
	}
	return p.resolve(c, account, r)
}

// request reads either form of a spec.
func request(spec vm.NetworkSpec) (vm.NetworkRequest, error) {
	if len(spec) > maxSpec {
		return vm.NetworkRequest{}, tooMuch("it has %d bytes, more than %d", len(spec), maxSpec)
	}
	if spec.Long() {
		return vm.ParseNetworkRequest([]byte(spec))
	}
	return words(strings.Split(string(spec), ","))
}

// words reads modes, names of policies, and hosts.
func words(list []string) (r vm.NetworkRequest, err error) {
	for _, w := range list {
		w = strings.TrimSpace(w)
		name, named := strings.CutPrefix(w, "policy:")
		named = named || vm.CheckPolicyName(w) == nil
		mode, notMode := vm.ParseNetworkMode(name)
		switch {
		case w == "":
			return r, invalid("a word of the network is empty").WithHint("write words with commas between them: packages,api.example.com:443")
		case notMode == nil && r.Mode != "":
			return r, twoModes(string(r.Mode), string(mode))
		case notMode == nil:
			r.Mode = mode
		case named:
			if err := vm.CheckPolicyName(name); err != nil {
				return r, vm.AsError(err).WithCode("INVALID_REQUEST")
			}
			r.Policies = append(r.Policies, name)
		default:
			r.Rules = append(r.Rules, vm.NetRule{Action: vm.NetAllow, To: w})
		}
	}
	return r, nil
}

func invalid(format string, args ...any) *vm.Error {
	return vm.Errorf(vm.Invalid, "network", format, args...).WithCode("INVALID_REQUEST")
}

func tooMuch(format string, args ...any) *vm.Error {
	return vm.Errorf(vm.Limit, "network", format, args...).WithCode("LIMIT_EXCEEDED").
		WithHint("use fewer rules: *.example.com allows all names below example.com, 192.0.2.0/24 a range of addresses")
}

func twoModes(a, b string) error {
	return invalid("%s and %s cannot both decide what no rule decides", a, b).WithHint("name one of closed, packages, open, or one policy that has a mode")
}

// resolve makes a policy: the rules of the named policies, then its own.
func (p *Policy) resolve(c *vm.Call, account vm.AccountID, r vm.NetworkRequest) (n vm.NetworkPolicy, err error) {
	n.Mode = r.Mode
	if n.Mode != "" {
		if n.Mode, err = vm.ParseNetworkMode(string(n.Mode)); err != nil {
			return n, vm.AsError(err).WithCode("INVALID_REQUEST")
		}
	}
	from := string(n.Mode)
	for _, name := range r.Policies {
		if slices.Contains(n.Named, name) {
			return n, invalid("the policy %s is named twice", name).WithHint("name it once")
		}
		named, err := p.find(account, name)
		if err != nil {
			return n, invalid("%s is no mode, and no policy of the account", clip(name)).
				WithHint("use closed, packages, open, a host with a dot in its name, or a policy of `warren policy ls`")
		}
		if named.Mode != "" {
			if from != "" {
				return n, twoModes(from, name)
			}
			n.Mode, from = named.Mode, name
		}
		if _, isMode := vm.ParseNetworkMode(name); isMode == nil {
			continue
		}
		n.Named = append(n.Named, name)
		n.Rules = append(n.Rules, copies(named)...)
	}
	if n.Mode == "" {
		n.Mode = vm.NetClosed
	}
	for _, rule := range r.Rules {
		if rule, err = own(c, rule, rule.Action); err != nil {
			return n, err
		}
		rule.From = ""
		if err := add(&n, rule, false); err != nil {
			return n, err
		}
	}
	return n, bounded(n)
}

// own checks a rule of a request and fills it in. Its target may hold a protocol, ports and
// a path.
func own(c *vm.Call, r vm.NetRule, action vm.NetAction) (vm.NetRule, error) {
	parsed, err := egress.ParseRule(r.To)
	if err != nil {
		return r, err
	}
	twice := parsed.Ports != nil && r.Ports != nil || parsed.Paths != nil && r.Paths != nil
	if twice || parsed.Proto != "" && r.Proto != "" && parsed.Proto != r.Proto {
		return r, invalid("the rule for %s names its ports, path or protocol twice", r.To).WithHint("name them in the text or in their members")
	}
	r.To, r.Action, r.Proto = parsed.To, cmp.Or(action, vm.NetAllow), cmp.Or(parsed.Proto, r.Proto)
	if parsed.Ports != nil {
		r.Ports = parsed.Ports
	}
	if parsed.Paths != nil {
		r.Paths = parsed.Paths
	}
	r = egress.Canonical(r)
	r.ID = vm.NewRuleID()
	if err := egress.CheckRule(r); err != nil {
		return r, err
	}
	if egress.NeedsAdmin(r) && !c.Actor.Admin && c.Actor.System == "" {
		return r, vm.Errorf(vm.Denied, r.To, "only an admin may allow addresses that are not public").
			WithCode("NETWORK_NEEDS_ADMIN", "to", r.To).WithHint("ask an admin of this server: a rule for it needs an admin's key")
	}
	return r, nil
}

// copies returns the rules of a named policy as VMs have them.
func copies(n vm.NamedPolicy) []vm.NetRule {
	rules := slices.Clone(n.Rules)
	for i := range rules {
		rules[i].From = n.Name
	}
	return rules
}

// recompiled returns a policy with the present rules and mode of the named policies that it
// uses, and whether that changes it. Of a named policy that is gone it keeps the rules.
func (p *Policy) recompiled(account vm.AccountID, n vm.NetworkPolicy) (vm.NetworkPolicy, bool) {
	changed := false
	for i, name := range n.Named {
		named, err := p.find(account, name)
		if err != nil {
			continue
		}
		if named.Mode != "" && named.Mode != n.Mode {
			n.Mode, changed = named.Mode, true
		}
		if rules := withCopies(n.Rules, n.Named[:i], named); !same(rules, n.Rules) {
			n.Rules, changed = rules, true
		}
	}
	return n, changed
}

// withCopies replaces the rules of a named policy among the rules of a VM. If there were
// none, they come after the rules of the policies that were named before it.
func withCopies(rules []vm.NetRule, before []string, named vm.NamedPolicy) []vm.NetRule {
	at := slices.IndexFunc(rules, func(r vm.NetRule) bool { return r.From == named.Name })
	if at < 0 {
		for i, r := range rules {
			if slices.Contains(before, r.From) {
				at = i
			}
		}
		at++
	}
	rest := slices.DeleteFunc(slices.Clone(rules), func(r vm.NetRule) bool { return r.From == named.Name })
	return slices.Insert(rest, min(at, len(rest)), copies(named)...)
}

func same(a, b []vm.NetRule) bool {
	return len(a) == len(b) && (len(a) == 0 || reflect.DeepEqual(a, b))
}

// bounded refuses a policy that is too large for a record.
func bounded(n vm.NetworkPolicy) error {
	if len(n.Rules) > vm.MaxNetRules {
		return tooMuch("it has %d rules, more than %d", len(n.Rules), vm.MaxNetRules)
	}
	n.Hosts = nil // from the image
	data, err := json.Marshal(n)
	if err == nil && len(data) > vm.MaxNetPolicy {
		err = tooMuch("its rules take %d bytes, more than %d", len(data), vm.MaxNetPolicy)
	}
	return err
}
