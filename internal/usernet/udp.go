// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package usernet

import (
	"net"
	"net/netip"
	"sync/atomic"
	"time"

	"gvisor.dev/gvisor/pkg/tcpip/adapters/gonet"
	"gvisor.dev/gvisor/pkg/tcpip/transport/udp"
	"gvisor.dev/gvisor/pkg/waiter"

	"github.com/warren-vm/warren/internal/egress"
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
	f.lookedUp(n.names.of(dst.Addr()))
	if v := egress.Evaluate(n.Policy(), f.request(n.host.get())); !f.judge(v).Allow {
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
		pumpUDP(up, c, idle, &f.up, up, c)
	}()
	pumpUDP(c, up, idle, &f.down, up, c)
	<-done
}

// pumpUDP copies datagrams until an error or an idle time; each datagram extends
// the time of both directions. The refusal of one datagram does not end it.
func pumpUDP(dst, src net.Conn, idle time.Duration, count *atomic.Int64, both ...net.Conn) {
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
		if w, err := dst.Write(b[:k]); err == nil {
			count.Add(int64(w))
		}
	}
}
