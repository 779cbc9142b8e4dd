// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package usernet

import (
	"io"
	"net"
	"net/netip"
	"time"

	"gvisor.dev/gvisor/pkg/tcpip/adapters/gonet"
	"gvisor.dev/gvisor/pkg/tcpip/transport/udp"
	"gvisor.dev/gvisor/pkg/waiter"

	"github.com/warren-vm/warren/internal/egress"
	"github.com/warren-vm/warren/vm"
)

const (
	udpIdle    = 60 * time.Second
	udpIdleDNS = 10 * time.Second
	maxUDP     = 65507
)

// handleUDP gets the first datagram of each UDP exchange, in the path of the
// packets: it must not block. If it returns false, the stack answers "port
// unreachable".
func (n *Net) handleUDP(r *udp.ForwarderRequest) bool {
	id := r.ID()
	dst := netip.AddrPortFrom(netip.AddrFrom4(id.LocalAddress.As4()), id.LocalPort)
	if id.RemoteAddress.As4() != Guest.As4() {
		return true // our own DHCP broadcasts arrive here, too
	}
	f, why := n.begin(egress.UDP, dst)
	if f == nil {
		n.refuse(egress.UDP, dst, "", egress.Verdict{Reason: why})
		return false
	}
	if n.learnUDP(dst, vm.NetDeny) {
		n.forget(f)
		return true
	}
	if v := f.judge(n.judgeUDP(f)); !v.Allow {
		if n.learnUDP(dst, vm.NetAllow) {
			n.forget(f)
			return true
		}
		n.end(f)
		return false
	}
	wq := new(waiter.Queue)
	ep, err := r.CreateEndpoint(wq)
	if err != nil {
		n.end(f)
		return false
	}
	c := gonet.NewUDPConn(wq, ep)
	go n.relayUDP(f, c) // the end waits for the flow
	return true
}

// judgeUDP judges an exchange by its address and the names that lead to it. A name that a
// rule denies comes before one that is allowed.
func (n *Net) judgeUDP(f *flow) egress.Verdict {
	r := f.request(n.host.get())
	names := n.names.of(f.dst.Addr())
	denied, unsure := n.names.leading(egress.Exact(n.Policy(), egress.UDP, f.dst.Port(), vm.NetDeny), f.dst.Addr())
	found := ""
	for _, name := range append(denied, names...) {
		r.Name = name
		v := n.says(r)
		if !v.Allow && v.Rule != "" {
			f.named(name)
			return v
		}
		if v.Allow && found == "" {
			found = name
		}
	}
	if unsure != "" {
		return notLookedUp(unsure)
	}
	r.Name = found
	f.lookedUp(names)
	if found != "" {
		f.named(found)
	}
	f.nobody()
	return f.check(r)
}

// learnUDP looks up the names that rules allow or deny on a UDP port, so that their
// addresses are known, also for a guest that remembers them from before a restore. It
// reports whether it does: the datagram is then dropped without an answer, and the guest
// sends it again.
func (n *Net) learnUDP(dst netip.AddrPort, action vm.NetAction) bool {
	names := n.names.unknown(egress.Exact(n.Policy(), egress.UDP, dst.Port(), action))
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(names) == 0 || n.closed {
		return false
	}
	n.wg.Go(func() { n.resolveAll(names) })
	return true
}

// forget ends a flow without a record.
func (n *Net) forget(f *flow) {
	f.mu.Lock()
	f.silent = true
	f.mu.Unlock()
	n.end(f)
}

// relayUDP forwards datagrams both ways until neither side has sent one for a
// while.
func (n *Net) relayUDP(f *flow, c *gonet.UDPConn) {
	defer n.end(f)
	defer func() { _ = c.Close() }() // never fails
	f.own(func() { _ = c.Close() })
	up, err := n.cfg.Dial(n.ctx, "udp", f.dst.String())
	if err != nil {
		f.judge(egress.Verdict{Allow: true, Reason: "allowed, but not reached: " + dialError(err)})
		return
	}
	defer up.Close()
	f.own(func() { _ = up.Close() })
	idle := udpIdle
	if f.dst.Port() == 53 {
		idle = udpIdleDNS
	}
	until := time.Now().Add(idle)
	_, _ = c.SetReadDeadline(until), up.SetReadDeadline(until)
	done := make(chan struct{})
	go func() {
		defer close(done)
		pumpUDP(up, n.scanned(f, c), idle, f.sent, up, c)
	}()
	pumpUDP(c, up, idle, f.received, up, c)
	<-done
}

// pumpUDP copies datagrams until an error or an idle time; each datagram extends
// the time of both directions. The refusal of one datagram does not end it.
func pumpUDP(dst net.Conn, src io.Reader, idle time.Duration, count func(int) error, both ...net.Conn) {
	b := make([]byte, maxUDP)
	for {
		k, err := src.Read(b)
		if err != nil {
			return
		}
		until := time.Now().Add(idle)
		for _, c := range both {
			_ = c.SetReadDeadline(until)
		}
		if count(k) != nil {
			return
		}
		_, _ = dst.Write(b[:k])
	}
}
