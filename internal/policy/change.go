// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/warren-vm/warren/internal/egress"
	"github.com/warren-vm/warren/internal/engine"
	"github.com/warren-vm/warren/vm"
)

// Change is a change of one VM's network policy.
type Change struct {
	Set    vm.NetworkSpec // replaces all but the uses of secrets; "" = the rest changes what is there
	Mode   vm.NetworkMode // of what no rule decides; "" = as it is
	Allow  []vm.NetRule
	Deny   []vm.NetRule
	Remove []string      // ids or targets of rules, or names of policies
	First  bool          // put the new rules before all others
	For    time.Duration // after which the new rules end; 0 = never, or as each says
	DryRun bool          // only say what would happen

	// Self is the address at which the server got the request. A change that would cut a
	// connection of the VM to it is refused, unless Force is set. "" = not known.
	Self  string
	Force bool
}

// Allow adds rules that allow, or changes the time and limits of rules about the same
// requests. It applies at once if the VM runs. Kinds: Invalid, Exists (a rule that an earlier
// one covers), Denied (addresses that are not public, and who is no admin; the profile),
// Limit, and those of the engine.
func (p *Policy) Allow(ctx context.Context, c *vm.Call, ref string, rules []vm.NetRule) (vm.VM, error) {
	done, err := p.apply(ctx, c, ref, Change{Allow: rules}, true)
	return done.VM, err
}

// Deny is Allow for rules that deny.
func (p *Policy) Deny(ctx context.Context, c *vm.Call, ref string, rules []vm.NetRule) (vm.VM, error) {
	done, err := p.apply(ctx, c, ref, Change{Deny: rules}, true)
	return done.VM, err
}

// RemoveRule removes rules of a VM by their ids or targets, and named policies by their
// names. Kinds: NotFound, and those of the engine.
func (p *Policy) RemoveRule(ctx context.Context, c *vm.Call, ref string, ids []string) (vm.VM, error) {
	done, err := p.apply(ctx, c, ref, Change{Remove: ids}, false)
	return done.VM, err
}

// Set replaces a VM's policy by what words say: modes, names of policies, hosts. Uses of
// secrets stay. Kinds: those of Compile and of the engine.
func (p *Policy) Set(ctx context.Context, c *vm.Call, ref string, words []string) (vm.VM, error) {
	done, err := p.apply(ctx, c, ref, Change{Set: vm.NetworkSpec(strings.Join(words, ","))}, false)
	return done.VM, err
}

// Change changes a VM's policy: it sets it, removes rules, sets the mode and adds rules, in
// this order. The rules come from a request: their ids and origins are ignored. Kinds: those
// of the methods above; WrongState if it would cut the caller's own connection.
func (p *Policy) Change(ctx context.Context, c *vm.Call, ref string, ch Change) (vm.NetworkChanged, error) {
	return p.apply(ctx, c, ref, ch, false)
}

// apply makes a change. from says that rules keep their origin.
func (p *Policy) apply(ctx context.Context, c *vm.Call, ref string, ch Change, from bool) (vm.NetworkChanged, error) {
	edit := func(rec vm.VM, n *vm.NetworkPolicy) error { return p.edit(c, rec, n, ch, from) }
	done, err := p.engine.ChangeNetwork(ctx, c, ref, engine.NetworkEdit{Edit: edit, Check: ch.keepsCaller, DryRun: ch.DryRun})
	return done, vm.WithOp(vm.OpNetwork, ref, err)
}

// keepsCaller refuses a change that would cut a connection to the server that the caller may
// be using.
func (ch Change) keepsCaller(cut []vm.Connection) error {
	for _, k := range cut {
		if ch.Self == "" || k.Dest != ch.Self || ch.Force || ch.DryRun {
			continue
		}
		return vm.Errorf(vm.WrongState, k.Dest, "the change would cut the VM's connection to this server, through which this request may have come").
			WithCode("NETWORK_CUTS_CALLER", "dest", k.Dest).
			WithHint("make the change from outside the VM, or use --force")
	}
	return nil
}

// edit carries out a change on a copy of a policy.
func (p *Policy) edit(c *vm.Call, rec vm.VM, n *vm.NetworkPolicy, ch Change, from bool) (err error) {
	now := p.cfg.Clock.Now()
	if ch.Set != "" {
		set, err := p.Compile(c, rec.Account, ch.Set)
		if err != nil {
			return err
		}
		set.Secrets = n.Secrets
		*n = set
	}
	n.Rules = slices.DeleteFunc(n.Rules, func(r vm.NetRule) bool { // what has ended is no rule any more
		return !r.Until.IsZero() && !now.Before(r.Until) && !slices.Contains(n.Named, r.From)
	})
	for _, what := range ch.Remove {
		if err := p.remove(rec, n, what); err != nil {
			return err
		}
	}
	if err := p.setMode(rec.Account, n, ch.Mode); err != nil {
		return err
	}
	for _, list := range []struct {
		rules  []vm.NetRule
		action vm.NetAction
	}{{ch.Allow, vm.NetAllow}, {ch.Deny, vm.NetDeny}} {
		for i := range list.rules {
			r := list.rules[i]
			if ch.First { // the first of the request stays the first
				r = list.rules[len(list.rules)-1-i]
			}
			if r, err = own(c, r, list.action); err != nil {
				return err
			}
			if !from {
				r.From = ""
			}
			if ch.For > 0 {
				r.Until = now.Add(ch.For).UTC()
			}
			if !r.Until.IsZero() && !now.Before(r.Until) {
				return invalid("the rule for %s ends at %s, which has passed", r.To, r.Until.Format(time.RFC3339)).WithHint("name a later time, or none")
			}
			// A person approved what came from an ask, in spite of a rule that denies it.
			if err := add(n, r, ch.First || strings.HasPrefix(r.From, "ask-")); err != nil {
				return err
			}
		}
	}
	return bounded(*n)
}

// setMode changes the mode, unless a named policy decides it.
func (p *Policy) setMode(account vm.AccountID, n *vm.NetworkPolicy, mode vm.NetworkMode) error {
	if mode == "" {
		return nil
	}
	m, err := vm.ParseNetworkMode(string(mode))
	if err != nil {
		return vm.AsError(err).WithCode("INVALID_REQUEST")
	}
	for _, name := range n.Named {
		if named, err := p.find(account, name); err == nil && named.Mode != "" && named.Mode != m {
			return twoModes(name, string(m))
		}
	}
	n.Mode = m
	return nil
}

// remove removes a rule by its id or target, or a named policy with its rules.
func (p *Policy) remove(rec vm.VM, n *vm.NetworkPolicy, what string) error {
	if i := slices.Index(n.Named, what); i >= 0 {
		n.Named = slices.Delete(n.Named, i, i+1)
		n.Rules = slices.DeleteFunc(n.Rules, func(r vm.NetRule) bool { return r.From == what })
		if named, err := p.find(rec.Account, what); err == nil && named.Mode != "" {
			n.Mode = vm.NetClosed
		}
		return nil
	}
	target := vm.NetRule{To: what}
	if parsed, err := egress.ParseRule(what); err == nil {
		target = parsed
	}
	matches := func(r vm.NetRule) bool {
		return r.ID == what || r.To == target.To && (len(target.Ports) == 0 || slices.Equal(r.Ports, target.Ports))
	}
	var from string
	rules := slices.DeleteFunc(slices.Clone(n.Rules), func(r vm.NetRule) bool {
		if !matches(r) {
			return false
		}
		if slices.Contains(n.Named, r.From) {
			from = r.From
			return false
		}
		return true
	})
	switch {
	case len(rules) < len(n.Rules):
		n.Rules = rules
		return nil
	case from != "":
		return vm.Errorf(vm.Denied, what, "the rule belongs to the policy %s", from).WithCode("NETWORK_RULE_NAMED", "policy", from).
			WithHint("change the policy: `warren policy set %s`; or stop using it: `warren net rm %s %s`", from, label(rec), from)
	}
	return vm.Errorf(vm.NotFound, what, "the VM has no such rule").WithCode("NETWORK_RULE_NOT_FOUND", "rule", what).
		WithHint("`warren net show %s` lists its rules", label(rec))
}

// label is a VM's name, else its id.
func label(rec vm.VM) string {
	if rec.Name != "" {
		return rec.Name
	}
	return string(rec.ID)
}
