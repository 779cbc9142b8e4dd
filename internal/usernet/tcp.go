// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package usernet

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"slices"
	"sync"
	"syscall"
	"time"

	"gvisor.dev/gvisor/pkg/tcpip/adapters/gonet"
	"gvisor.dev/gvisor/pkg/tcpip/transport/tcp"
	"gvisor.dev/gvisor/pkg/waiter"

	"github.com/warren-vm/warren/internal/egress"
	"github.com/warren-vm/warren/vm"
)

const greetingTimeout = 10 * time.Second

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
	switch {
	case f.service:
		f.judge(egress.Verdict{Allow: true, Reason: "answered by the VM's own network"})
		if c := n.accept(f, r); c != nil {
			handed = n.serveOwn(f, c)
		}
	case n.Policy().Mode == vm.NetPackages:
		if v := n.judgeAddress(f); !v.Allow {
			r.Complete(true)
			return
		}
		if c := n.accept(f, r); c != nil {
			handed = n.inspect(f, c)
		}
	default:
		n.direct(f, r)
	}
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

// judgeAddress judges the address before the guest has sent anything: is any name
// that leads to it allowed? Names come from earlier lookups. For a guest with
// cached answers, as after a fork or a restore, it looks the policy's own names up
// again.
func (n *Net) judgeAddress(f *flow) egress.Verdict {
	p, host := n.Policy(), n.host.get()
	request := egress.Request{Proto: egress.TCP, IP: f.dst.Addr(), Port: f.dst.Port(), Host: host}
	v := egress.Evaluate(p, request)
	try := func() bool {
		for _, name := range n.names.of(f.dst.Addr()) {
			request.Name = name
			if v = egress.Evaluate(p, request); v.Allow {
				f.lookedUp([]string{name})
				return true
			}
		}
		return false
	}
	if !try() && egress.Private(f.dst.Addr(), host) == "" {
		for _, h := range p.Hosts {
			if h.Port == int(f.dst.Port()) {
				_, _ = n.names.resolve(n.ctx, egress.Normal(h.Host))
			}
		}
		try()
	}
	return f.judge(v)
}

// direct connects the guest to the address it asked for, under the policy open, or
// refuses. The host's connection comes first, so that the guest sees the same
// result as from a direct connection.
func (n *Net) direct(f *flow, r *tcp.ForwarderRequest) {
	f.lookedUp(n.names.of(f.dst.Addr()))
	if v := f.judge(f.rejudge(n.Policy(), n.host.get())); !v.Allow {
		r.Complete(true)
		return
	}
	ctx, cancel := context.WithTimeout(n.ctx, dialTimeout)
	defer cancel()
	f.own(cancel)
	up, err := n.cfg.Dial(ctx, "tcp", f.dst.String())
	if err != nil {
		r.Complete(true)
		f.judge(egress.Verdict{Allow: true, Reason: "allowed, but not reached: " + dialError(err)})
		return
	}
	f.own(func() { _ = up.Close() })
	c := n.accept(f, r)
	if c == nil {
		_ = up.Close()
		return
	}
	n.relay(f, c, c, up)
}

// inspect reads the guest's greeting under the policy packages: TLS must name an
// allowed server, HTTP goes through the proxy, anything else is closed. It reports
// whether another goroutine now ends the flow.
func (n *Net) inspect(f *flow, c *guestConn) bool {
	_ = c.SetReadDeadline(time.Now().Add(greetingTimeout))
	first := make([]byte, 1)
	if _, err := io.ReadFull(c, first); err != nil {
		f.judge(egress.Verdict{Reason: "the guest sent no greeting to check"})
		c.reset()
		return false
	}
	if first[0] != recordHandshake {
		_ = c.SetReadDeadline(time.Time{})
		return n.web.hand(&webConn{Conn: c, src: io.MultiReader(bytes.NewReader(first), c), flow: f, net: n})
	}
	hello, raw, err := readClientHello(io.MultiReader(bytes.NewReader(first), c))
	_ = c.SetReadDeadline(time.Time{})
	v := n.judgeHello(f, hello, err)
	if !v.Allow {
		_, _ = c.Write(accessDenied)
		_ = c.CloseWrite()
		_ = c.Close()
		return false
	}
	up, err := n.dialName(n.ctx, f, hello.ServerName, f.dst)
	if err != nil {
		n.noteDial(f, err)
		c.reset()
		return false
	}
	f.own(func() { _ = up.Close() })
	if _, err := up.Write(raw); err != nil {
		_ = up.Close()
		c.reset()
		return false
	}
	f.up.Add(int64(len(raw)))
	n.relay(f, c, c, up)
	return false
}

func (n *Net) judgeHello(f *flow, hello clientHello, err error) egress.Verdict {
	switch {
	case err != nil:
		return f.judge(egress.Verdict{Reason: "the TLS greeting could not be read: " + err.Error()})
	case hello.ServerName == "":
		return f.judge(egress.Verdict{Reason: "the TLS greeting names no server"})
	case hello.Encrypted:
		return f.judge(egress.Verdict{Reason: "the TLS greeting hides its server name (ECH)"})
	}
	f.greeted(hello.ServerName)
	v := egress.Evaluate(n.Policy(), egress.Request{Proto: egress.TCP, Port: f.dst.Port(), Name: hello.ServerName})
	return f.judge(v)
}

// refusal is a verdict as an error.
type refusal struct{ egress.Verdict }

func (r refusal) Error() string { return r.Reason }

// dialName resolves name on the host and connects to the first of its addresses
// that the policy allows, beginning with the one that the guest chose. The error is
// a refusal when the policy allows none. f may be nil.
func (n *Net) dialName(ctx context.Context, f *flow, name string, want netip.AddrPort) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*dialTimeout)
	defer cancel()
	if f != nil {
		f.own(cancel)
	}
	addrs, err := n.names.resolve(ctx, name)
	if err != nil {
		return nil, err
	}
	addrs = slices.Clone(addrs)
	if i := slices.Index(addrs, want.Addr()); i > 0 {
		addrs[0], addrs[i] = addrs[i], addrs[0]
	}
	p, host := n.Policy(), n.host.get()
	err = fmt.Errorf("%s has no address", name)
	for i, a := range addrs {
		v := egress.Evaluate(p, egress.Request{Proto: egress.TCP, IP: a, Port: want.Port(), Name: name, Host: host})
		if !v.Allow {
			err = refusal{v}
			continue
		}
		if i >= 4 || ctx.Err() != nil {
			break
		}
		one, cancelOne := context.WithTimeout(ctx, dialTimeout)
		var c net.Conn
		c, err = n.cfg.Dial(one, "tcp", netip.AddrPortFrom(a, want.Port()).String())
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
