// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"context"
	"net"
	"net/netip"
	"strconv"

	"github.com/warren-vm/warren/internal/egress"
	"github.com/warren-vm/warren/vm"
)

// Explain says what a VM's policy says of a request, without making it. A program in a VM
// may ask about its own. Kinds: Invalid, Denied, NotFound.
func (p *Policy) Explain(_ context.Context, c *vm.Call, ref string, q vm.NetQuestion) (vm.NetAnswer, error) {
	rec, err := p.seen(c, ref)
	if err != nil {
		return vm.NetAnswer{}, vm.WithOp(vm.OpNetwork, ref, err)
	}
	if q.Host == "" || len(q.Host) > 255 || len(q.Path) > 8<<10 || q.Port < 0 || q.Port > 65535 {
		return vm.NetAnswer{}, vm.WithOp(vm.OpNetwork, ref, invalid("no such host, port or path can be asked about").WithHint("ask about HOST or HOST:PORT"))
	}
	host, err := egress.HostAddresses()
	if err != nil {
		return vm.NetAnswer{}, vm.WithOp(vm.OpNetwork, ref, err)
	}
	return egress.Answer(rec.Network, q, host), nil
}

// Shown returns a VM and its policy.
func (p *Policy) Shown(c *vm.Call, ref string) (vm.VM, error) {
	rec, err := p.seen(c, ref)
	return rec, vm.WithOp(vm.OpNetwork, ref, err)
}

// seen finds a VM whose policy the caller may see.
func (p *Policy) seen(c *vm.Call, ref string) (vm.VM, error) {
	if c.Actor.VM == "" {
		return p.engine.Find(c.Actor, ref)
	}
	rec, ok := p.engine.VMOf(c.Actor.VM)
	if !ok || ref != string(rec.ID) {
		return rec, vm.Errorf(vm.Denied, ref, "a VM may ask only about itself").WithCode("FORBIDDEN", "vmId", ref)
	}
	return rec, nil
}

const keptRefusals = 20 // of one answer, the newest

// place is what makes refusals one.
type place struct {
	proto, host, method, path string
	port                      int
}

// Refusals tells what a VM's network refused, the newest last, with what the policy says now
// and the rule that would allow it.
func (p *Policy) Refusals(rec vm.VM, list []vm.Connection) []vm.NetRefusal {
	host, err := egress.HostAddresses()
	if err != nil {
		p.cfg.Log.Warn("the addresses of this host are not known", "err", err)
	}
	var order []place
	found := map[place]*vm.NetRefusal{}
	for _, k := range list {
		if k.Allowed {
			continue
		}
		r := refusal(k)
		at := place{r.Proto, r.Host, r.Method, r.Path, r.Port}
		if have := found[at]; have != nil {
			have.Count, have.Last, have.Reason = have.Count+1, r.Last, r.Reason
			continue
		}
		order = append(order, at)
		found[at] = &r
	}
	out := []vm.NetRefusal{}
	for _, at := range order[max(0, len(order)-keptRefusals):] {
		r := found[at]
		answer(r, rec.Network, host)
		out = append(out, *r)
	}
	return out
}

// refusal tells one record.
func refusal(k vm.Connection) vm.NetRefusal {
	r := vm.NetRefusal{Last: k.Time, Count: 1, Proto: k.Proto, Host: egress.Normal(k.Name), Method: k.Method, Path: k.Path, Reason: k.Reason}
	host, port, err := net.SplitHostPort(k.Dest)
	if err != nil {
		host = k.Dest
	}
	if n, err := strconv.Atoi(port); err == nil {
		r.Port = n
	}
	if r.Host == "" {
		r.Host = egress.Normal(host)
	}
	return r
}

func isAddress(host string) bool {
	_, err := netip.ParseAddr(host)
	return err == nil
}

// answer adds what a policy says now, and the rule that would allow the request.
func answer(r *vm.NetRefusal, n vm.NetworkPolicy, host []netip.Addr) {
	q := vm.NetQuestion{Host: r.Host, Port: r.Port, Method: r.Method, Path: r.Path}
	rule := vm.NetRule{To: r.Host}
	switch r.Proto {
	case egress.UDP:
		q.Proto, rule.Proto = egress.UDP, egress.UDP
	case egress.TCP, egress.DNS:
	default:
		return // no rule is about it
	}
	if r.Port != 0 && (r.Port != 80 && r.Port != 443 || r.Proto == egress.UDP || isAddress(r.Host)) {
		rule.Ports = []vm.PortRange{{First: r.Port, Last: r.Port}}
	}
	r.Now = egress.Answer(n, q, host)
	if text := rule.Text(); !r.Now.Allowed {
		if _, err := egress.ParseRule(text); err == nil {
			r.Rule = text
		}
	}
}
