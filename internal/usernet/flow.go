// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package usernet

import (
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/warren-vm/warren/internal/egress"
	"github.com/warren-vm/warren/vm"
)

// flow is one connection of the guest, from its first packet to its record.
type flow struct {
	began    time.Time // constant, like all fields above mu
	proto    string
	dst      netip.AddrPort // as the guest addressed it
	service  bool           // answered by the network itself; no policy applies
	up, down atomic.Int64

	mu        sync.Mutex // guards the fields below
	name      string     // from the greeting, else from the lookup
	inspected bool       // the greeting was read and judged
	served    bool       // an HTTP request of it was allowed
	silent    bool       // its use is recorded already
	allowed   bool
	reason    string // for the record
	told      string // the same, as the guest may read it
	ended     bool
	stopped   bool
	closers   []func() // run when the flow is stopped
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

// greeted notes the destination that the guest named and the verdict on it.
func (f *flow) greeted(name string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.name, f.inspected = name, true
}

// lookedUp notes the newest name that led to the destination.
func (f *flow) lookedUp(names []string) {
	if len(names) == 0 {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.name = names[0]
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
	f.allowed, f.reason, f.told = v.Allow, v.Record(), v.Reason
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
	for _, c := range closers {
		c()
	}
}

// rejudge reports whether p would allow a live flow.
func (f *flow) rejudge(p vm.NetworkPolicy, host []netip.Addr) egress.Verdict {
	f.mu.Lock()
	inspected := f.inspected
	f.mu.Unlock()
	if f.service {
		return egress.Verdict{Allow: true}
	}
	if p.Mode == vm.NetPackages && !inspected {
		return egress.Verdict{Reason: "it was opened without a checked name"}
	}
	return egress.Evaluate(p, f.request(host))
}

func (f *flow) connection() vm.Connection {
	f.mu.Lock()
	defer f.mu.Unlock()
	return vm.Connection{
		Time: f.began, Proto: f.proto, Dest: f.dst.String(), Name: f.name,
		Allowed: f.allowed, Reason: f.reason,
		Up: f.up.Load(), Down: f.down.Load(), Duration: time.Since(f.began),
	}
}

// begin registers a flow. It returns nil and the reason when there is no room for
// it.
func (n *Net) begin(proto string, dst netip.AddrPort) (*flow, string) {
	f := &flow{began: time.Now(), proto: proto, dst: dst}
	f.service = proto == egress.TCP && n.answers(dst)
	if n.cfg.Full != nil && !f.service {
		if why := n.cfg.Full(); why != "" {
			return nil, why
		}
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	switch {
	case n.closed:
		return nil, "the network was shut down"
	case len(n.flows) >= maxFlows:
		return nil, "the VM has too many connections open (512)"
	case proto == egress.UDP && n.udp >= maxUDPFlows:
		return nil, "the VM has too many UDP exchanges open (128)"
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
	silent := f.service || f.silent
	f.mu.Unlock()
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
	n.rec.add(vm.Connection{Time: time.Now(), Proto: proto, Dest: dst.String(), Name: name, Reason: v.Record()}, v.Reason)
}
