// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package usernet

import (
	"context"
	"net"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/warren-vm/warren/internal/egress"
	"github.com/warren-vm/warren/vm"
)

// maxChecks bounds the hosts and addresses of one flow.
const maxChecks = 256

// flow is one connection of the guest, from its first packet to its record.
type flow struct {
	net      *Net
	began    time.Time // constant, like all fields above mu
	proto    string
	dst      netip.AddrPort // as the guest addressed it
	service  bool           // answered by the network itself; no policy applies
	ctx      context.Context
	cancel   context.CancelFunc
	up, down atomic.Int64
	meters   atomic.Pointer[[]*meter] // of the rules with a limit that allowed it
	streams  map[*meter]int           // its open requests of HTTP/2; guarded by meters.mu

	mu      sync.Mutex                   // guards the fields below
	name    string                       // from the greeting, else from the lookup
	settled bool                         // it carries data: a change of the policy judges it
	blind   bool                         // it was judged by its address alone
	through bool                         // TLS that nobody reads
	mute    bool                         // neither TLS nor HTTP: all names that lead to its address count
	ups     map[net.Conn]struct{}        // its open connections to the outside, but for that of a relay
	checks  []egress.Request             // hosts and addresses that were allowed to it; see maxChecks
	asked   map[*egress.Request]struct{} // its requests of HTTP that are open
	served  bool                         // an HTTP request of it was allowed
	silent  bool                         // its use is recorded already
	allowed bool
	reason  string         // for the record
	told    string         // the same, as the guest may read it
	how     string         // passed, unless the interceptor says otherwise
	rule    string         // id of the rule that decided
	policy  string         // digest of the policy that decided
	used    []vm.SecretUse // secrets that were put in, with the placeholder that each replaced
	ended   bool
	stopped bool
	closers []func() // run when the flow is stopped
}

// judge notes the verdict for the record.
func (f *flow) judge(v egress.Verdict) egress.Verdict {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.stopped {
		f.decided(v)
	}
	return v
}

// named notes the destination that the guest named.
func (f *flow) named(name string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.name = name
}

// lookedUp notes the newest name that led to the destination.
func (f *flow) lookedUp(names []string) {
	if len(names) > 0 {
		f.named(names[0])
	}
}

// request is the flow as the policy judges it.
func (f *flow) request(host []netip.Addr) egress.Request {
	f.mu.Lock()
	defer f.mu.Unlock()
	return egress.Request{Proto: f.proto, IP: f.dst.Addr(), Port: f.dst.Port(), Name: f.name, Host: host}
}

// requested notes the verdict on one HTTP request. A refused one has a record of
// its own and does not change the record of the earlier ones.
func (f *flow) requested(v egress.Verdict) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.served = f.served || v.Allow
	f.silent = !f.served
	if v.Allow && !f.stopped {
		f.decided(v)
	}
}

// decided keeps a verdict. f.mu is held.
func (f *flow) decided(v egress.Verdict) {
	f.allowed, f.reason, f.told, f.rule, f.policy = v.Allow, v.Record(), v.Reason, v.Rule, f.net.digest()
}

// check judges a host or an address of the flow under the policy in force, and remembers it:
// a change of the policy judges it again.
func (f *flow) check(r egress.Request) egress.Verdict {
	f.mu.Lock()
	f.settled = true
	if !slices.ContainsFunc(f.checks, func(c egress.Request) bool { return same(c, r) }) {
		if len(f.checks) >= maxChecks {
			f.mu.Unlock()
			return egress.Verdict{Reason: "the connection was used for too many hosts (256); open another"}
		}
		f.checks = append(f.checks, r)
	}
	f.mu.Unlock()
	v := f.now(r)
	if !v.Allow {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.checks = slices.DeleteFunc(f.checks, func(c egress.Request) bool { return same(c, r) })
	}
	return v
}

// now judges a request under the policy in force, and makes the flow count for its rule.
func (f *flow) now(r egress.Request) egress.Verdict {
	r.Host = f.net.host.get()
	return f.net.meters.join(f, egress.Evaluate(f.net.Policy(), r))
}

// open judges a request of HTTP under the policy in force. A change of the policy judges it
// again until the caller calls done.
func (f *flow) open(r egress.Request) (v egress.Verdict, done func()) {
	f.mu.Lock()
	f.settled = true
	if f.asked == nil {
		f.asked = make(map[*egress.Request]struct{})
	}
	f.asked[&r] = struct{}{}
	f.mu.Unlock()
	done = func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		delete(f.asked, &r)
	}
	v = f.now(r)
	if !v.Allow {
		done()
	}
	return v, done
}

func same(a, b egress.Request) bool {
	return a.Proto == b.Proto && a.IP == b.IP && a.Port == b.Port && a.Name == b.Name
}

// unread notes that nobody read the flow's name, or that nobody reads its requests.
func (f *flow) unread(blind, through bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.blind, f.through = blind, through
}

// nobody notes that the flow is neither TLS nor HTTP.
func (f *flow) nobody() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.mute = true
}

// outside is a connection of a flow to the outside, which ends with it.
type outside struct {
	net.Conn
	flow *flow
}

func (o outside) Close() error {
	o.flow.mu.Lock()
	delete(o.flow.ups, o.Conn)
	o.flow.mu.Unlock()
	return o.Conn.Close()
}

func (o outside) CloseWrite() error { return halfClose(o.Conn) }

// keep makes stop close a connection to the outside.
func (f *flow) keep(c net.Conn, err error) (net.Conn, error) {
	if err != nil {
		return nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.stopped || f.ended {
		_ = c.Close()
		return nil, net.ErrClosed
	}
	if f.ups == nil {
		f.ups = make(map[net.Conn]struct{})
	}
	f.ups[c] = struct{}{}
	return outside{c, f}, nil
}

// closeAll closes what keep kept. f.mu is held.
func (f *flow) closeAll() {
	for c := range f.ups {
		_ = c.Close()
	}
	f.ups = nil
}

// own makes stop call close, at once if the flow was stopped already.
func (f *flow) own(closer func()) {
	f.mu.Lock()
	stopped := f.stopped
	if !stopped {
		f.closers = append(f.closers, closer)
	}
	f.mu.Unlock()
	if stopped {
		closer()
	}
}

// stop cuts the flow; reason goes into its record.
func (f *flow) stop(reason string) {
	f.mu.Lock()
	if f.stopped || f.ended {
		f.mu.Unlock()
		return
	}
	f.stopped = true
	f.reason, f.told = reason, reason
	closers := f.closers
	f.closers = nil
	f.mu.Unlock()
	for _, c := range closers { // the guest's end first, so that it sees a reset
		c()
	}
	f.cancel()
	f.mu.Lock()
	defer f.mu.Unlock()
	f.closeAll()
}

// rejudge reports whether p would allow all that a live flow does. A flow that carries no
// data yet is judged when it does.
func (f *flow) rejudge(p vm.NetworkPolicy, host []netip.Addr) egress.Verdict {
	f.mu.Lock()
	checks := slices.Clone(f.checks)
	for r := range f.asked {
		checks = append(checks, *r)
	}
	settled, blind, through, mute, name := f.settled, f.blind, f.through, f.mute, f.name
	used := slices.Clone(f.used)
	f.mu.Unlock()
	if v := mayUse(p, used); !v.Allow {
		return v
	}
	if f.service || !settled {
		return egress.Verdict{Allow: true}
	}
	if f.proto == egress.TCP && blind {
		if _, s := egress.Look(p, egress.Request{IP: f.dst.Addr(), Port: f.dst.Port(), Host: host}); s.Strict {
			return egress.Verdict{Reason: "it was opened without a checked name"}
		}
	}
	if (through || mute) && egress.Requests(p, name, int(f.dst.Port())) {
		return egress.Verdict{Reason: "its requests must be read, and they are not"}
	}
	if mute {
		denied, _ := f.net.names.leading(egress.Exact(p, f.proto, f.dst.Port(), vm.NetDeny), f.dst.Addr())
		for _, name := range append(denied, f.net.names.of(f.dst.Addr())...) {
			v := egress.Evaluate(p, egress.Request{Proto: f.proto, IP: f.dst.Addr(), Port: f.dst.Port(), Name: name, Host: host})
			if !v.Allow && v.Rule != "" {
				return v
			}
		}
	}
	for _, r := range checks {
		r.Host = host
		if v := egress.Evaluate(p, r); !v.Allow {
			return v
		}
	}
	return egress.Verdict{Allow: true}
}

func (f *flow) connection() vm.Connection {
	f.mu.Lock()
	defer f.mu.Unlock()
	c := vm.Connection{
		Time: f.began, Proto: f.proto, Dest: f.dst.String(), Name: f.name,
		Allowed: f.allowed, Reason: f.reason, How: vm.NetRefused, Rule: f.rule, Policy: f.policy,
		Up: f.up.Load(), Down: f.down.Load(), Duration: time.Since(f.began),
	}
	for _, u := range f.used {
		if !slices.Contains(c.Secrets, u.Name) {
			c.Secrets = append(c.Secrets, u.Name)
		}
	}
	switch {
	case !f.allowed:
	case f.how != "":
		c.How = f.how
	default:
		c.How = vm.NetPassed
	}
	return c
}

// note says how the flow is carried, and which secrets were put in. If the policy has changed
// since they were asked for, it may cut the flow.
func (f *flow) note(how string, used ...vm.SecretUse) {
	f.mu.Lock()
	if f.how != vm.NetInjected {
		f.how = how
	}
	for _, u := range used {
		if !slices.ContainsFunc(f.used, func(old vm.SecretUse) bool { return old.ID == u.ID && old.Placeholder == u.Placeholder }) {
			f.used = append(f.used, u)
		}
	}
	f.mu.Unlock()
	if v := mayUse(f.net.Policy(), used); !v.Allow {
		f.stop("cut when the policy changed: " + v.Record())
	}
}

// mayUse refuses a flow into which a secret was put that the policy has no longer.
func mayUse(p vm.NetworkPolicy, used []vm.SecretUse) egress.Verdict {
	for _, u := range used {
		if !slices.ContainsFunc(p.Secrets, func(now vm.SecretUse) bool { return now.ID == u.ID && now.Holds(u.Placeholder) }) {
			return egress.Verdict{Reason: "the VM may not use the secret " + u.Name + " any more"}
		}
	}
	return egress.Verdict{Allow: true}
}

// begin registers a flow. It returns nil and the reason when there is no room for
// it.
func (n *Net) begin(proto string, dst netip.AddrPort) (*flow, string) {
	f := &flow{net: n, began: time.Now(), proto: proto, dst: dst}
	f.service = proto == egress.TCP && n.answers(dst)
	if n.cfg.Full != nil && !f.service {
		if why := n.cfg.Full(); why != "" {
			return nil, why
		}
	}
	f.ctx, f.cancel = context.WithCancel(n.ctx)
	n.mu.Lock()
	defer n.mu.Unlock()
	why := ""
	switch {
	case n.closed:
		why = "the network was shut down"
	case len(n.flows) >= maxFlows:
		why = "the VM has too many connections open (512)"
	case proto == egress.UDP && n.udp >= maxUDPFlows:
		why = "the VM has too many UDP exchanges open (128)"
	}
	if why != "" {
		f.cancel()
		return nil, why
	}
	n.flows[f] = struct{}{}
	n.wg.Add(1)
	if proto == egress.UDP {
		n.udp++
	}
	return f, ""
}

// answers reports whether the network itself answers connections to dst.
func (n *Net) answers(dst netip.AddrPort) bool {
	switch dst.Addr() {
	case Gateway:
		return dst.Port() == 80
	case NameServer:
		return dst.Port() == 53
	case Services:
		return n.cfg.Inside != nil && (dst.Port() == 443 || dst.Port() == 80)
	}
	return false
}

// end removes a flow from the list and records it. Only the first call counts.
func (n *Net) end(f *flow) {
	f.mu.Lock()
	if f.ended {
		f.mu.Unlock()
		return
	}
	f.ended = true
	f.closeAll()
	silent := f.service || f.silent
	f.mu.Unlock()
	f.cancel()
	n.meters.leave(f)
	if c := f.connection(); !silent {
		f.mu.Lock()
		told := f.told
		f.mu.Unlock()
		n.rec.add(c, told)
	}
	n.mu.Lock()
	delete(n.flows, f)
	if f.proto == egress.UDP {
		n.udp--
	}
	n.mu.Unlock()
	n.wg.Done()
}

// refuse records a connection that never became a flow.
func (n *Net) refuse(proto string, dst netip.AddrPort, name string, v egress.Verdict) {
	n.rec.add(vm.Connection{
		Time: time.Now(), Proto: proto, Dest: dst.String(), Name: name, Reason: v.Record(),
		How: vm.NetRefused, Rule: v.Rule, Policy: n.digest(),
	}, v.Reason)
}
