// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/warren-vm/warren/vm"
)

// List returns the shipped policies, then the account's own by name. Kind Denied for
// identities.
func (p *Policy) List(c *vm.Call) ([]vm.NamedPolicy, error) {
	if err := c.Actor.OwnerOnly(""); err != nil {
		return nil, err
	}
	own := p.named.By(byAccount, string(c.Actor.Account))
	slices.SortFunc(own, func(a, b vm.NamedPolicy) int { return cmp.Compare(a.Name, b.Name) })
	return append(slices.Clone(shipped), own...), nil
}

// Get returns one policy, and the VMs of this server that use it. Kinds Denied, NotFound.
func (p *Policy) Get(c *vm.Call, name string) (vm.NamedPolicy, []vm.VM, error) {
	if err := c.Actor.OwnerOnly(""); err != nil {
		return vm.NamedPolicy{}, nil, err
	}
	n, err := p.find(c.Actor.Account, name)
	return n, p.users(c.Actor.Account, name), vm.WithOp(vm.OpPolicy, name, err)
}

// users are the VMs that use a named policy, by their names.
func (p *Policy) users(a vm.AccountID, name string) []vm.VM {
	list := p.engine.VMsWhere(func(v *vm.VM) bool { return v.Account == a && slices.Contains(v.Network.Named, name) })
	slices.SortFunc(list, func(a, b vm.VM) int { return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.ID, b.ID)) })
	return list
}

// NamedChanged is what a change of a named policy did.
type NamedChanged struct {
	Policy  vm.NamedPolicy
	Changed []vm.VM // that use it and have its rules now
	Cut     int     // open connections of them that it closed
	// Waiting are the VMs that use it and could not be changed yet, with why. The server
	// tries again until they are.
	Waiting []Waiting
}

// Waiting is a VM that has not the rules of a policy yet, and why.
type Waiting struct {
	VM  vm.VM
	Err error
}

// SetNamed makes or replaces a policy of the account. The VMs that use it get its rules at
// once; those that are busy, soon. If one of them could not have the new rules, nothing is
// changed. Kinds: Invalid, Denied, Limit, Busy (VMs use it, and it gains or loses its mode).
func (p *Policy) SetNamed(ctx context.Context, c *vm.Call, name string, spec vm.NetworkSpec) (done NamedChanged, err error) {
	defer func() { err = vm.WithOp(vm.OpPolicy, name, err) }()
	if err := p.mayChange(c, name); err != nil {
		return done, err
	}
	n, err := p.textOf(c, name, spec)
	if err != nil {
		return done, err
	}
	p.write.Lock()
	defer p.write.Unlock()
	old, there := p.named.Get(key(n.Account, name))
	if have := len(p.named.By(byAccount, string(n.Account))); !there && have >= vm.MaxNamedPolicies {
		return done, vm.Errorf(vm.Limit, name, "the account has %d network policies", have).
			WithCode("LIMIT_EXCEEDED", "limit", vm.MaxNamedPolicies, "current", have).WithHint("remove one: `warren policy rm NAME`")
	}
	n.UpdatedAt = p.cfg.Clock.Now().UTC()
	n.CreatedAt = n.UpdatedAt
	if there {
		n.CreatedAt = old.CreatedAt
		n.Rules = keepIDs(n.Rules, old.Rules)
	}
	users := p.users(n.Account, name)
	if err := fits(n, old, users); err != nil {
		return done, err
	}
	r, err := p.cfg.Journal.Begin(ctx, c, vm.AuditEntry{Op: vm.OpPolicy, Subject: name, Detail: map[string]any{"do": "set", "policy": n, "vms": len(users)}})
	if err != nil {
		return done, err
	}
	defer func() { r.End(err, nil) }()
	if there {
		_, err = p.named.Change(ctx, key(n.Account, name), func(now *vm.NamedPolicy) error {
			*now = n
			return nil
		})
	} else {
		err = p.named.Create(ctx, n)
	}
	if err != nil {
		return done, err
	}
	p.cfg.Journal.Emit(vm.Event{Type: "policy.set", Account: n.Account, Data: map[string]any{"name": name, "rules": len(n.Rules), "vms": len(users)}})
	done = NamedChanged{Policy: n}
	for _, v := range users {
		changed, err := p.refresh(ctx, c, v)
		if err != nil {
			done.Waiting = append(done.Waiting, Waiting{v, err})
			continue
		}
		done.Changed = append(done.Changed, changed.VM)
		done.Cut += len(changed.Cut)
	}
	return done, nil
}

// RemoveNamed removes a policy that no VM of this server uses. Kinds Denied, NotFound, Busy.
func (p *Policy) RemoveNamed(ctx context.Context, c *vm.Call, name string) (err error) {
	defer func() { err = vm.WithOp(vm.OpPolicy, name, err) }()
	if err := p.mayChange(c, name); err != nil {
		return err
	}
	p.write.Lock()
	defer p.write.Unlock()
	if _, err := p.find(c.Actor.Account, name); err != nil {
		return err
	}
	if users := p.users(c.Actor.Account, name); len(users) > 0 {
		list := labels(users)
		return vm.Errorf(vm.Busy, name, "VMs use the policy: %s", shortList(list)).WithCode("POLICY_IN_USE", "policy", name, "vms", list).
			WithHint("give them another network first: `warren net rm %s %s`", list[0], name)
	}
	r, err := p.cfg.Journal.Begin(ctx, c, vm.AuditEntry{Op: vm.OpPolicy, Subject: name, Detail: map[string]any{"do": "remove"}})
	if err != nil {
		return err
	}
	err = p.named.Drop(ctx, key(c.Actor.Account, name))
	r.End(err, nil)
	if err == nil {
		p.cfg.Journal.Emit(vm.Event{Type: "policy.removed", Account: c.Actor.Account, Data: map[string]any{"name": name}})
	}
	return err
}

// Forget removes the policies of an account that is removed.
func (p *Policy) Forget(ctx context.Context, a vm.AccountID) error {
	var errs []error
	for _, n := range p.named.By(byAccount, string(a)) {
		errs = append(errs, p.named.Drop(ctx, key(a, n.Name)))
	}
	return errors.Join(errs...)
}

// mayChange refuses a name that no account can change.
func (p *Policy) mayChange(c *vm.Call, name string) error {
	if err := c.Actor.OwnerOnly(name); err != nil {
		return err
	}
	if err := vm.CheckPolicyName(name); err != nil {
		return vm.AsError(err).WithCode("POLICY_NAME_INVALID", "policy", clip(name))
	}
	if _, is := shippedNamed(name); is {
		return vm.Errorf(vm.Denied, name, "the policy comes with Warren and cannot be changed").WithCode("POLICY_SHIPPED", "policy", name).
			WithHint("make one of your own under another name: `warren policy set my-%s %s,HOST`", name, name)
	}
	return nil
}

// textOf reads a named policy. Shipped policies may be part of it; others may not, so that
// a policy is whole by itself.
func (p *Policy) textOf(c *vm.Call, name string, spec vm.NetworkSpec) (vm.NamedPolicy, error) {
	n := vm.NamedPolicy{Name: name, Account: c.Actor.Account}
	r, err := request(spec)
	if err != nil {
		return n, err
	}
	for _, part := range r.Policies {
		if _, is := shippedNamed(part); !is {
			return n, invalid("a policy cannot use the policy %s", clip(part)).WithHint("write its hosts, or have VMs use both: --net %s,%s", name, clip(part))
		}
	}
	compiled, err := p.resolve(c, n.Account, r)
	if err != nil {
		return n, err
	}
	if n.Rules = compiled.Rules; r.Mode != "" {
		n.Mode = r.Mode
	}
	for i := range n.Rules {
		n.Rules[i].From = ""
		if n.Rules[i].ID = vm.NewRuleID(); !n.Rules[i].Until.IsZero() {
			return n, invalid("a rule of a named policy cannot end").WithHint("use `warren net allow NAME HOST --for` for one VM")
		}
	}
	if n.Mode == "" && len(n.Rules) == 0 {
		return n, invalid("the policy says nothing").WithHint("name hosts, or one of closed, packages, open")
	}
	return n, nil
}

// keepIDs gives the rules that were there before their old ids.
func keepIDs(rules, old []vm.NetRule) []vm.NetRule {
	for i, r := range rules {
		if at := slices.IndexFunc(old, func(o vm.NetRule) bool { return o.Action == r.Action && about(o, r) }); at >= 0 {
			rules[i].ID = old[at].ID
		}
	}
	return rules
}

// fits refuses a new text of a policy that one of its VMs could not have.
func fits(n, old vm.NamedPolicy, users []vm.VM) error {
	if len(users) > 0 && (n.Mode == "") != (old.Mode == "") {
		return vm.Errorf(vm.Busy, n.Name, "VMs use the policy, and it would gain or lose its mode: %s", shortList(labels(users))).
			WithCode("POLICY_IN_USE", "policy", n.Name, "vms", labels(users)).
			WithHint("keep the mode out or in, or make another policy and have them use that: `warren net set %s`", label(users[0]))
	}
	for _, v := range users {
		after := v.Network
		after.Rules = withCopies(after.Rules, after.Named[:slices.Index(after.Named, n.Name)], n)
		if err := bounded(after); err != nil {
			return vm.Errorf(vm.Limit, label(v), "the VM would have too many rules: %w", err).WithCode("LIMIT_EXCEEDED").WithHint("use fewer rules")
		}
		profile, err := vm.FindProfile(v.Profile)
		opens := n.Mode != "" && n.Mode != vm.NetClosed || slices.ContainsFunc(n.Rules, func(r vm.NetRule) bool { return r.Action == vm.NetAllow })
		if err == nil && profile.Closed && opens {
			return profile.Forbids(label(v), "what the policy would allow it").WithHint("give that VM another network first: `warren net rm %s %s`", label(v), n.Name)
		}
	}
	return nil
}

func labels(list []vm.VM) []string {
	out := make([]string, len(list))
	for i, v := range list {
		out[i] = label(v)
	}
	return out
}

func shortList(list []string) string {
	const most = 10
	if len(list) > most {
		return strings.Join(list[:most], ", ") + ", …"
	}
	return strings.Join(list, ", ")
}
