// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package usernet

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"sync"
	"syscall"

	"gvisor.dev/gvisor/pkg/tcpip/adapters/gonet"
	"gvisor.dev/gvisor/pkg/tcpip/transport/tcp"
	"gvisor.dev/gvisor/pkg/waiter"

	"github.com/warren-vm/warren/internal/egress"
)

// guestConn is the guest's end of a TCP connection.
type guestConn struct {
	*gonet.TCPConn
	reset func() // ends it with RST
}

// handleTCP gets each new TCP connection of the guest, in a goroutine of its
// own, before it is answered.
func (n *Net) handleTCP(r *tcp.ForwarderRequest) {
	id := r.ID()
	dst := netip.AddrPortFrom(netip.AddrFrom4(id.LocalAddress.As4()), id.LocalPort)
	f, why := n.begin(egress.TCP, dst)
	if f == nil {
		r.Complete(true)
		n.refuse(egress.TCP, dst, "", egress.Verdict{Reason: why})
		return
	}
	handed := false
	defer func() {
		if !handed {
			n.end(f)
		}
	}()
	if f.service {
		f.judge(egress.Verdict{Allow: true, Reason: "answered by the VM's own network"})
		if c := n.accept(f, r); c != nil {
			handed = n.serveOwn(f, c)
		}
		return
	}
	v, sight := egress.Look(n.Policy(), egress.Request{IP: dst.Addr(), Port: dst.Port(), Host: n.host.get()})
	if !sight.Names {
		n.direct(f, r)
		return
	}
	handed = n.byName(f, r, v, sight)
}

// serveOwn answers a connection to the network's own services. It reports whether
// another goroutine now ends the flow.
func (n *Net) serveOwn(f *flow, c *guestConn) bool {
	switch f.dst.Addr() {
	case NameServer:
		n.serveDNSStream(c)
		_ = c.Close()
		return false
	case Services:
		n.cfg.Inside.Serve(&webConn{Conn: c, src: c, flow: f, net: n}, f.dst.Port())
		return true
	}
	return n.web.hand(&webConn{Conn: c, src: c, flow: f, net: n})
}

// accept completes the guest's handshake; nil when the guest has ended it.
func (n *Net) accept(f *flow, r *tcp.ForwarderRequest) *guestConn {
	wq := new(waiter.Queue)
	ep, err := r.CreateEndpoint(wq)
	if err != nil {
		r.Complete(true)
		return nil
	}
	r.Complete(false)
	c := &guestConn{TCPConn: gonet.NewTCPConn(wq, ep), reset: sync.OnceFunc(ep.Abort)}
	f.own(c.reset)
	return c
}

// byName serves a connection whose name may decide: v is the verdict on its address alone.
// It reports whether another goroutine now ends the flow.
func (n *Net) byName(f *flow, r *tcp.ForwarderRequest, v egress.Verdict, sight egress.Sight) bool {
	g := gate{net: n, flow: f, nameless: v.Allow && !sight.Strict}
	if !v.Allow || sight.Strict && !webPort(f.dst.Port()) {
		at := sight
		at.Strict = sight.Strict && !webPort(f.dst.Port()) // there the greeting tells hosts at one address apart
		name, nv := n.nameAt(f, at)
		switch {
		case name != "" && nv.Allow:
			f.lookedUp([]string{name})
			g.name, g.raw = name, (nv.Rule != "" || v.Allow) && !webPort(f.dst.Port()) && !egress.Requests(n.Policy(), name, int(f.dst.Port()))
			v = nv
		case name != "":
			f.judge(nv) // a denied name leads there
			r.Complete(true)
			return false
		case !v.Allow && !sight.Wild:
			f.judge(v)
			r.Complete(true)
			return false
		case v.Allow:
			g.raw = true
		}
	}
	if g.nameless || g.raw {
		return g.run(r)
	}
	if c := n.accept(f, r); c != nil {
		return n.inspect(f, c)
	}
	return false
}

// webPort reports whether only TLS and HTTP are let through to a host that is allowed by
// its name.
func webPort(port uint16) bool { return port == 80 || port == 443 || port == 8080 || port == 8443 }

// nameAt looks for a name that leads to the flow's address and decides: a denied one
// first, then an allowed one. Names come from earlier lookups and, for a guest with cached
// answers, as after a fork or a restore, from the policy itself. A denied name that cannot be
// looked up may lead anywhere.
func (n *Net) nameAt(f *flow, sight egress.Sight) (name string, v egress.Verdict) {
	p, host := n.Policy(), n.host.get()
	judge := func(name string) egress.Verdict {
		return egress.Evaluate(p, egress.Request{Proto: egress.TCP, IP: f.dst.Addr(), Port: f.dst.Port(), Name: name, Host: host})
	}
	if sight.Strict {
		n.resolveAll(sight.Denied)
		denied, unsure := n.names.leading(sight.Denied, f.dst.Addr())
		for _, name := range append(denied, n.names.of(f.dst.Addr())...) {
			if v := judge(name); !v.Allow && v.Rule != "" {
				return name, v
			}
		}
		if unsure != "" {
			return unsure, notLookedUp(unsure)
		}
	}
	find := func(names []string) bool {
		for _, name = range names {
			if v = judge(name); v.Allow {
				return true
			}
		}
		return false
	}
	if find(n.names.of(f.dst.Addr())) {
		return name, v
	}
	n.resolveAll(sight.Exact)
	if exact, _ := n.names.leading(sight.Exact, f.dst.Addr()); find(exact) {
		return name, v
	}
	return "", egress.Verdict{}
}

// notLookedUp refuses what may be for a denied host.
func notLookedUp(name string) egress.Verdict {
	return egress.Verdict{Reason: "a rule of the network policy denies " + name + ", whose addresses could not be looked up"}
}

// resolveAll looks names of the policy up, so that their addresses are known.
func (n *Net) resolveAll(names []string) {
	const atOnce = 16
	slots := make(chan struct{}, atOnce)
	var wg sync.WaitGroup
	for _, name := range n.names.unknown(names) {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			_, _ = n.names.resolve(n.ctx, name)
		})
	}
	wg.Wait()
}

// direct connects the guest to the address it asked for, or refuses. The host's
// connection comes first, so that the guest sees the same result as from a direct
// connection.
func (n *Net) direct(f *flow, r *tcp.ForwarderRequest) {
	names := n.names.of(f.dst.Addr())
	f.lookedUp(names)
	f.unread(true, false)
	v := f.judge(f.check(egress.Request{Proto: egress.TCP, IP: f.dst.Addr(), Port: f.dst.Port()}))
	if len(names) > 0 { // the record names what the guest asked for
		if nv := f.net.says(f.request(n.host.get())); nv.Allow == v.Allow {
			f.judge(nv)
		}
	}
	if !v.Allow {
		r.Complete(true)
		return
	}
	up := n.dialDirect(f)
	if up == nil {
		r.Complete(true)
		return
	}
	c := n.accept(f, r)
	if c == nil {
		_ = up.Close()
		return
	}
	n.relay(f, c, c, up)
}

// says is the policy in force about a request.
func (n *Net) says(r egress.Request) egress.Verdict { return egress.Evaluate(n.Policy(), r) }

// dialDirect connects to the flow's own address, which was judged; nil = it failed.
func (n *Net) dialDirect(f *flow) net.Conn {
	ctx, cancel := context.WithTimeout(f.ctx, dialTimeout)
	defer cancel()
	up, err := n.cfg.Dial(ctx, "tcp", f.dst.String())
	if err != nil {
		f.judge(egress.Verdict{Allow: true, Reason: "allowed, but not reached: " + dialError(err)})
		return nil
	}
	f.own(func() { _ = up.Close() })
	return up
}

// refusal is a verdict as an error.
type refusal struct{ egress.Verdict }

func (r refusal) Error() string { return r.Reason }

// dialName resolves the request's name on the host and connects to the first of its
// addresses that the policy allows, beginning with the flow's own. The error is a refusal
// when the policy allows none.
func (n *Net) dialName(ctx context.Context, f *flow, r egress.Request) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*dialTimeout)
	defer cancel()
	defer context.AfterFunc(f.ctx, cancel)()
	addrs, err := n.names.resolve(ctx, r.Name)
	if err != nil {
		return nil, err
	}
	addrs = slices.Clone(addrs)
	if i := slices.Index(addrs, f.dst.Addr()); i > 0 {
		addrs[0], addrs[i] = addrs[i], addrs[0]
	}
	err = fmt.Errorf("%s has no address", r.Name)
	for i, a := range addrs {
		r.IP = a
		if v := f.check(r); !v.Allow {
			err = refusal{v}
			continue
		}
		if i >= 4 || ctx.Err() != nil {
			break
		}
		one, cancelOne := context.WithTimeout(ctx, dialTimeout)
		var c net.Conn
		c, err = n.cfg.Dial(one, "tcp", netip.AddrPortFrom(a, r.Port).String())
		cancelOne()
		if err == nil {
			return c, nil
		}
	}
	return nil, err
}

func (n *Net) noteDial(f *flow, err error) {
	var r refusal
	if errors.As(err, &r) {
		f.judge(r.Verdict)
		return
	}
	f.judge(egress.Verdict{Allow: true, Reason: "allowed, but not reached: " + dialError(err)})
}

// dialError describes briefly why a connection failed. The guest may read it, and
// an error of the system can contain addresses of the host and its resolver.
func dialError(err error) string {
	var timeout net.Error
	var dns *net.DNSError
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return "connection refused"
	case errors.As(err, &dns):
		return "the name could not be looked up"
	case errors.As(err, &timeout) && timeout.Timeout(), errors.Is(err, context.DeadlineExceeded):
		return "no answer in time"
	case errors.Is(err, syscall.EHOSTUNREACH), errors.Is(err, syscall.ENETUNREACH):
		return "no route to it"
	default:
		return "the connection failed"
	}
}
