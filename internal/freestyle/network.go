// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package freestyle

import (
	"cmp"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/warren-vm/warren/internal/engine"
	"github.com/warren-vm/warren/internal/policy"
	"github.com/warren-vm/warren/vm"
)

func networkRoutes(at func(string, right, handler)) {
	at("GET /v5/firewall/rules", owner, (*caller).rules)
	at("POST /v5/firewall/rules", owner, (*caller).addRule)
	at("GET /v5/firewall/rules/{rule}", owner, (*caller).rule)
	at("DELETE /v5/firewall/rules/{rule}", owner, (*caller).removeRule)
}

// endpoint is one side of a rule.
type endpoint struct {
	VM       string `json:"vmId,omitempty"`
	VPC      string `json:"vpcId,omitempty"`
	Tunnel   string `json:"tunnelId,omitempty"`
	CIDR     string `json:"cidr,omitempty"`
	Public   bool   `json:"public,omitempty"`
	Port     int    `json:"port,omitempty"`
	Protocol string `json:"protocol,omitempty"`
	Host     string `json:"host,omitempty"` // of a rule that Warren's own commands made; only in answers
}

// rule is a firewall rule of a request.
type rule struct {
	Action      string   `json:"action"`
	Source      endpoint `json:"source"`
	Destination endpoint `json:"destination"`
	Description string   `json:"description"`
}

// everyPort is the ports of a rule that names a protocol and no port.
var everyPort = vm.PortRange{First: 1, Last: 65535}

// check refuses what a VM's network policy cannot say. here says that a source without identity
// is the VM that the request makes.
func (r rule) check(here bool) error {
	s, d := r.Source, r.Destination
	switch {
	case r.Action != "allow":
		return invalid("action", "%q is not allow", vm.Clip(r.Action, 40))
	case cmp.Or(s.VPC, d.VPC, s.Tunnel, d.Tunnel) != "":
		return refusals["vpcs"].refuse()
	case s.Public || s.CIDR != "" || here && s.VM != "":
		return unsupported("firewall", "connections from outside do not reach a VM of this server by its address").
			WithHint("publish a port with a TLS rule, or with a preview: docs/previews.md")
	case s.VM == "" && !here:
		return invalid("source", "names no VM").WithHint("write source: { vmId: ID }")
	case s.Port != 0 || s.Protocol != "":
		return unsupported("source", "a rule cannot be about a port of the VM that connects").WithHint("name the port of the destination")
	case d.VM != "" || d.Host != "" || !d.Public && d.CIDR == "":
		return unsupported("destination", "VMs of this server do not reach each other").WithHint("write destination: { public: true } or { cidr: NETWORK }")
	case d.Public && d.CIDR != "":
		return invalid("destination", "is both public and a network")
	case d.Protocol != "" && d.Protocol != "tcp" && d.Protocol != "udp":
		return unsupported("protocol", "rules are about tcp and udp").WithHint("name one of them, or leave the protocol out with public: true, which opens every one")
	case d.Port < 0 || d.Port > 65535 || d.Port != 0 && d.Protocol == "":
		return invalid("port", "is no port, or has no protocol beside it")
	case r.Description != "":
		return unsupported("description", "rules of this server have no description").WithHint("leave it out")
	}
	if d.CIDR == "" {
		return nil
	}
	if p, err := netip.ParsePrefix(d.CIDR); err != nil || p != p.Masked() {
		return invalid("cidr", "%q is not a network such as 203.0.113.0/24", vm.Clip(d.CIDR, 60))
	}
	if d.Protocol == "" {
		return unsupported("destination", "a rule about a network names its protocol here").WithHint("add protocol: \"tcp\" or \"udp\", with or without a port")
	}
	return nil
}

// opens reports whether a rule lets a VM reach every public address by every protocol, which is
// Warren's network mode open.
func (r rule) opens() bool { return r.Destination.Public && r.Destination.Protocol == "" }

// own is the rule in Warren's words, unless it opens.
func (r rule) own() vm.NetRule {
	d := r.Destination
	out := vm.NetRule{Action: vm.NetAllow, To: cmp.Or(d.CIDR, "*"), Proto: d.Protocol, Ports: []vm.PortRange{everyPort}}
	if d.Port != 0 {
		out.Ports = []vm.PortRange{{First: d.Port, Last: d.Port}}
	}
	return out
}

// networkOf is the network that the rules of a create describe: what no rule names is closed.
func networkOf(rules []rule) (vm.NetworkSpec, error) {
	out := vm.NetworkRequest{Mode: vm.NetClosed}
	for _, r := range rules {
		if err := r.check(true); err != nil {
			return "", err
		}
		if r.opens() {
			out.Mode = vm.NetOpen
		} else {
			out.Rules = append(out.Rules, r.own())
		}
	}
	return out.Spec(), nil
}

type dependency struct {
	Kind string `json:"kind"`
	ID   string `json:"id"`
	Slug string `json:"slug,omitempty"`
}

type ruleAnswer struct {
	ID           string       `json:"id"`
	Action       string       `json:"action"`
	Source       endpoint     `json:"source"`
	Destination  endpoint     `json:"destination"`
	Dependencies []dependency `json:"dependencies"`
	CreatedAt    time.Time    `json:"createdAt"`
	UpdatedAt    time.Time    `json:"updatedAt"`
}

// openRule is the id, after that of the VM, of the rule that a network mode stands for.
const openRule = "open"

// rulesOf is the network of a VM as rules. The id of each begins with that of the VM. A rule that
// Warren's own commands made may name a host, which the SDK's rules cannot.
func (c *caller) rulesOf(rec vm.VM) []ruleAnswer {
	at := rec.CreatedAt.UTC()
	one := func(id string, action vm.NetAction, to endpoint) ruleAnswer {
		return ruleAnswer{string(rec.ID) + "-" + id, string(action), endpoint{VM: string(rec.ID)}, to, []dependency{{"vm", string(rec.ID), rec.Name}}, at, at}
	}
	out := []ruleAnswer{}
	for _, r := range rec.Network.Rules {
		to := endpoint{Protocol: cmp.Or(r.Proto, "tcp")}
		switch p, err := netip.ParsePrefix(r.To); {
		case r.To == "*":
			to.Public = true
		case err == nil:
			to.CIDR = p.String()
		default:
			if a, err := netip.ParseAddr(r.To); err == nil {
				to.CIDR = netip.PrefixFrom(a, a.BitLen()).String()
			} else {
				to.Host = r.To
			}
		}
		if len(r.Ports) == 1 && r.Ports[0].First == r.Ports[0].Last {
			to.Port = r.Ports[0].First
		}
		out = append(out, one(r.ID, r.Action, to))
	}
	if rec.Network.Mode == vm.NetOpen {
		out = append(out, one(openRule, vm.NetAllow, endpoint{Public: true}))
	}
	return out
}

// filtered finds the VMs whose rules a list is about.
func (c *caller) filtered() ([]vm.VM, error) {
	q := c.URL.Query()
	if q.Has("vpcId") || q.Has("tunnelId") {
		return nil, refusals["vpcs"].refuse()
	}
	if ref := q.Get("vmId"); ref != "" {
		rec, err := c.d.Engine.Get(c.ctx, c.call, ref)
		return []vm.VM{rec}, err
	}
	list, _, _, err := c.d.Engine.List(c.ctx, c.call, engine.Filter{})
	return list, err
}

func (c *caller) rules() (answer, error) {
	vms, err := c.filtered()
	if err != nil {
		return answer{}, err
	}
	all := []ruleAnswer{}
	for _, rec := range vms {
		all = append(all, c.rulesOf(rec)...)
	}
	slices.SortStableFunc(all, func(a, b ruleAnswer) int { return b.CreatedAt.Compare(a.CreatedAt) })
	shown, err := page(c, all)
	if err != nil {
		return answer{}, err
	}
	return ok(map[string]any{"rules": shown, "totalCount": len(all)})
}

func (c *caller) addRule() (answer, error) {
	var in rule
	if err := c.decodeStrict(&in); err != nil {
		return answer{}, err
	}
	if err := in.check(false); err != nil {
		return answer{}, err
	}
	before, err := c.d.Engine.Get(c.ctx, c.call, in.Source.VM)
	if err != nil {
		return answer{}, err
	}
	change := policy.Change{Allow: []vm.NetRule{in.own()}}
	if in.opens() {
		change = policy.Change{Mode: vm.NetOpen}
	}
	changed, err := c.d.Policy.Change(c.ctx, c.call, string(before.ID), change)
	if err != nil {
		return answer{}, err
	}
	known := c.rulesOf(before)
	for _, r := range c.rulesOf(changed.VM) {
		if in.opens() == strings.HasSuffix(r.ID, "-"+openRule) && (in.opens() || !slices.ContainsFunc(known, func(k ruleAnswer) bool { return k.ID == r.ID })) {
			return ok(r)
		}
	}
	return answer{}, vm.Errorf(vm.Exists, string(before.ID), "the VM has this rule already")
}

// ruleOf finds the rule in the path.
func (c *caller) ruleOf() (vm.VM, ruleAnswer, error) {
	ref := c.PathValue("rule")
	gone := vm.Errorf(vm.NotFound, vm.Clip(ref, 80), "no such rule").WithHint("firewall.list() says which there are")
	id, _, ok := strings.Cut(ref, "-")
	if !ok || !vm.IsID(id) {
		return vm.VM{}, ruleAnswer{}, gone
	}
	rec, err := c.d.Engine.Get(c.ctx, c.call, id)
	if err != nil {
		return rec, ruleAnswer{}, gone
	}
	for _, r := range c.rulesOf(rec) {
		if r.ID == ref {
			return rec, r, nil
		}
	}
	return rec, ruleAnswer{}, gone
}

func (c *caller) rule() (answer, error) {
	_, r, err := c.ruleOf()
	if err != nil {
		return answer{}, err
	}
	return ok(r)
}

func (c *caller) removeRule() (answer, error) {
	rec, r, err := c.ruleOf()
	if err != nil {
		return answer{}, err
	}
	change := policy.Change{Mode: vm.NetClosed}
	if id := strings.TrimPrefix(r.ID, string(rec.ID)+"-"); id != openRule {
		change = policy.Change{Remove: []string{id}}
	}
	_, err = c.d.Policy.Change(c.ctx, c.call, string(rec.ID), change)
	return done, err
}
