// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package usernet

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"slices"
	"strings"
	"time"

	"gvisor.dev/gvisor/pkg/tcpip/transport/tcp"

	"github.com/warren-vm/warren/internal/egress"
)

const (
	greetingTimeout = 10 * time.Second
	// maxLine bounds what is read before a connection counts as one of HTTP.
	maxLine = 8 << 10
	// lineWait is how long the next byte of an unfinished first line may take.
	lineWait = 3 * time.Second

	notHTTP = "it is neither TLS nor HTTP, and no rule allows its address or names its port"
)

// inspect reads the guest's greeting where only named hosts are allowed: TLS must name an
// allowed server, HTTP goes to the proxy, everything else is reset. It reports whether
// another goroutine now ends the flow.
func (n *Net) inspect(f *flow, c *guestConn) bool {
	_ = c.SetReadDeadline(time.Now().Add(greetingTimeout))
	first := make([]byte, 1)
	if _, err := io.ReadFull(c, first); err != nil {
		f.judge(egress.Verdict{Reason: "the guest sent no greeting to check"})
		c.reset()
		return false
	}
	if first[0] != recordHandshake {
		raw, isHTTP := firstLine(c, first)
		if !isHTTP { // the proxy would wait for the rest of a preface of HTTP/2
			f.judge(egress.Verdict{Reason: notHTTP})
			c.reset()
			return false
		}
		return n.web.hand(&webConn{Conn: c, src: io.MultiReader(bytes.NewReader(raw), c), flow: f, net: n})
	}
	hello, raw, err := readClientHello(io.MultiReader(bytes.NewReader(first), c))
	_ = c.SetReadDeadline(time.Time{})
	return n.serveTLS(f, c, hello, raw, err)
}

// serveTLS serves a connection by the name in its TLS greeting, which is raw. It reports
// whether another goroutine now ends the flow.
func (n *Net) serveTLS(f *flow, c *guestConn, hello clientHello, raw []byte, err error) bool {
	v := n.judgeHello(f, hello, err)
	if !v.Allow {
		deniedTLS(c)
		return false
	}
	request := egress.Request{Proto: egress.TCP, Port: f.dst.Port(), Name: hello.ServerName}
	dial := func(ctx context.Context) (net.Conn, error) { return n.dialJudged(ctx, f, request) }
	if n.wants(hello.ServerName, f.dst.Port()) {
		n.intercept(f, &webConn{Conn: c, src: io.MultiReader(bytes.NewReader(raw), c), flow: f, net: n}, request, dial)
		return true
	}
	f.unread(false, true) // before the policy is asked: a change of it judges the flow from here on
	if egress.Requests(n.Policy(), hello.ServerName, int(f.dst.Port())) {
		f.judge(egress.Verdict{Reason: "rules of the network policy are about its requests, which this machine cannot read"})
		deniedTLS(c)
		return false
	}
	up, err := dial(f.ctx)
	if err != nil {
		n.noteDial(f, err)
		if errors.As(err, new(refusal)) {
			deniedTLS(c)
		} else {
			c.reset()
		}
		return false
	}
	f.own(func() { _ = up.Close() })
	if err = f.sent(len(raw)); err == nil {
		_, err = up.Write(raw)
	}
	if err != nil {
		_ = up.Close()
		c.reset()
		return false
	}
	n.relay(f, c, c, up)
	return false
}

func deniedTLS(c *guestConn) {
	_, _ = c.Write(accessDenied)
	_ = c.CloseWrite()
	_ = c.Close()
}

func (n *Net) judgeHello(f *flow, hello clientHello, err error) egress.Verdict {
	switch {
	case err != nil:
		return f.judge(egress.Verdict{Reason: "the TLS greeting could not be read: " + err.Error()})
	case hello.ServerName == "":
		return f.judge(egress.Verdict{Reason: "the TLS greeting names no server"})
	}
	f.named(hello.ServerName)
	if hello.Encrypted {
		return f.judge(egress.Verdict{Reason: "the TLS greeting may hide its server name (ECH), which rules by name do not allow; switch ECH off in the program"})
	}
	r := egress.Request{Proto: egress.TCP, Port: f.dst.Port(), Name: hello.ServerName}
	v := f.check(r)
	if n.byAddress(f, &r, v) {
		v = f.check(r)
	}
	return f.judge(v)
}

// openNamed opens a request of HTTP for a name: see flow.open.
func (n *Net) openNamed(f *flow, r egress.Request) (v egress.Verdict, done func()) {
	v, done = f.open(r)
	if n.byAddress(f, &r, v) {
		return f.open(r)
	}
	return v, done
}

// byAddress completes a request for a name, which was refused, by the flow's address, if a
// rule about the address allows it whatever name leads to it.
func (n *Net) byAddress(f *flow, r *egress.Request, refused egress.Verdict) bool {
	if refused.Allow || refused.Rule != "" {
		return false
	}
	at := *r
	at.IP, at.Host = f.dst.Addr(), n.host.get()
	if now := n.says(at); !now.Allow || !now.Addressed {
		return false
	}
	*r = at
	return true
}

// dialJudged connects to where a named request may go: the address that the guest chose if
// the policy allows the address itself, else an address of the name.
func (n *Net) dialJudged(ctx context.Context, f *flow, r egress.Request) (net.Conn, error) {
	at := r
	at.IP, at.Host = f.dst.Addr(), n.host.get()
	if v := n.says(at); !v.Allow || !v.Addressed {
		return n.dialName(ctx, f, r)
	}
	if _, sight := egress.Look(n.Policy(), at); sight.Strict && !n.leads(ctx, r.Name, f.dst.Addr()) {
		if name, v := n.nameAt(f, egress.Sight{Strict: true, Denied: sight.Denied}); name != "" && !v.Allow {
			return nil, refusal{v} // the address belongs to a denied host
		}
	}
	if v := f.check(at); !v.Allow {
		return nil, refusal{v}
	}
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	defer context.AfterFunc(f.ctx, cancel)()
	return n.cfg.Dial(ctx, "tcp", f.dst.String())
}

// leads reports whether a name leads to an address.
func (n *Net) leads(ctx context.Context, name string, ip netip.Addr) bool {
	if name == "" {
		return false
	}
	addrs, err := n.names.resolve(ctx, name)
	return err == nil && slices.Contains(addrs, ip)
}

// wants reports whether the interceptor takes TLS to a name and port.
func (n *Net) wants(name string, port uint16) bool {
	return n.cfg.Intercept != nil && n.cfg.Intercept.Wants(n.Policy(), name, port)
}

// gate is a connection of which the host's end is opened first, so that a server may speak
// first. What the guest sends first decides whether it may stay.
type gate struct {
	net      *Net
	flow     *flow
	conn     *guestConn
	name     string // that the policy allows at the address; "" = the address itself is allowed
	nameless bool   // any bytes may pass, as long as no host with a secret is named
	raw      bool   // bytes that are neither TLS nor HTTP may pass
	greeted  bool
	head     io.Reader // what was read of the guest's first bytes
	then     func() bool
}

// run serves the connection. It reports whether another goroutine now ends the flow.
func (g *gate) run(r *tcp.ForwarderRequest) bool {
	f, n := g.flow, g.net
	at := egress.Request{Proto: egress.TCP, IP: f.dst.Addr(), Port: f.dst.Port(), Name: g.name}
	if v := f.judge(f.check(at)); !v.Allow {
		r.Complete(true)
		return false
	}
	up := n.dialDirect(f)
	if up == nil {
		r.Complete(true)
		return false
	}
	if g.conn = n.accept(f, r); g.conn == nil {
		_ = up.Close()
		return false
	}
	if !n.relay(f, g.conn, g, up) {
		return false
	}
	_ = g.conn.SetDeadline(time.Time{})
	return g.then()
}

// Read returns the guest's bytes. The first call reads as much as is needed to see what
// they are.
func (g *gate) Read(b []byte) (int, error) {
	if !g.greeted {
		g.greeted = true
		if err := g.greet(); err != nil {
			return 0, err
		}
	}
	if g.head != nil {
		if k, err := g.head.Read(b); k > 0 || !errors.Is(err, io.EOF) {
			return k, err
		}
		g.head = nil
	}
	return g.conn.Read(b)
}

var errNotAllowed = errors.New("not allowed")

// greet reads the greeting and decides. errTaken means that then serves the connection.
func (g *gate) greet() error {
	f, n := g.flow, g.net
	first := make([]byte, 1)
	if _, err := io.ReadFull(g.conn, first); err != nil {
		return err
	}
	if first[0] == recordHandshake {
		return g.greetTLS(first)
	}
	if g.nameless {
		f.unread(true, false)
		g.head = bytes.NewReader(first)
		return nil
	}
	raw, isHTTP := firstLine(g.conn, first)
	g.head = bytes.NewReader(raw)
	switch {
	case isHTTP:
		return g.hand(func() bool {
			return n.web.hand(&webConn{Conn: g.conn, src: io.MultiReader(g.head, g.conn), flow: f, net: n})
		})
	case g.raw:
		f.nobody() // before the policy is asked: a change of it judges the flow from here on
		if !egress.Requests(n.Policy(), g.name, int(f.dst.Port())) {
			return nil
		}
		f.judge(egress.Verdict{Reason: "rules of the network policy are about its requests, and it is neither TLS nor HTTP"})
		return errNotAllowed
	}
	f.judge(egress.Verdict{Reason: notHTTP})
	return errNotAllowed
}

func (g *gate) greetTLS(first []byte) error {
	f, n := g.flow, g.net
	_ = g.conn.SetReadDeadline(time.Now().Add(greetingTimeout))
	var seen bytes.Buffer
	hello, raw, err := readClientHello(io.TeeReader(io.MultiReader(bytes.NewReader(first), g.conn), &seen))
	_ = g.conn.SetReadDeadline(time.Time{})
	if g.nameless && (err != nil || !n.wants(hello.ServerName, f.dst.Port())) {
		f.unread(true, false)
		g.head = &seen
		return nil
	}
	return g.hand(func() bool { return n.serveTLS(f, g.conn, hello, raw, err) })
}

// hand lets then serve the connection, unless the server has spoken already.
func (g *gate) hand(then func() bool) error {
	if g.flow.down.Load() > 0 {
		g.flow.judge(egress.Verdict{Reason: "the server spoke before the guest's greeting was checked"})
		return errNotAllowed
	}
	g.then = then
	return errTaken
}

// firstLine reads as much of the guest's bytes as is needed to see whether they are HTTP.
// Whatever some server may take for a request counts as one.
func firstLine(c net.Conn, first []byte) (raw []byte, isHTTP bool) {
	defer func() { _ = c.SetReadDeadline(time.Time{}) }()
	src := io.MultiReader(bytes.NewReader(first), c)
	b := make([]byte, 1)
	line := 0 // where the first line that is not empty begins
	for len(raw) < maxLine {
		_ = c.SetReadDeadline(time.Now().Add(lineWait))
		if _, err := io.ReadFull(src, b); err != nil { // at its end, or slow
			return raw, likeHTTP(raw[line:], true)
		}
		raw = append(raw, b[0])
		switch b := b[0]; {
		case (b == '\r' || b == '\n') && len(bytes.TrimLeft(raw, "\r\n")) == 0:
			line = len(raw)
		case b == '\n':
			return raw, likeHTTP(raw[line:], false)
		case b < 0x20 && b != '\t' && b != '\r' || b == 0x7f:
			return raw, likeHTTP(raw[line:], true)
		}
	}
	return raw, true
}

// methods are the first words of the requests of HTTP.
var methods = []string{"GET", "HEAD", "POST", "PUT", "DELETE", "CONNECT", "OPTIONS", "TRACE", "PATCH", "PRI", "PROPFIND", "PROPPATCH", "MKCOL", "COPY", "MOVE", "LOCK", "UNLOCK", "REPORT", "SEARCH", "PURGE", "LINK", "UNLINK", "QUERY"}

// likeHTTP reports whether a first line may be one of HTTP. A part of one may be, if it
// begins with a method.
func likeHTTP(line []byte, part bool) bool {
	text := strings.ToUpper(string(line))
	word, _, more := strings.Cut(strings.ReplaceAll(text, "\t", " "), " ")
	word = strings.TrimRight(word, "\r\n")
	if strings.Contains(text, "HTTP/") || more && slices.Contains(methods, word) {
		return true
	}
	return part && !more && word != "" && slices.ContainsFunc(methods, func(m string) bool { return strings.HasPrefix(m, word) })
}
