// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package usernet

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/warren-vm/warren/internal/egress"
	"github.com/warren-vm/warren/vm"
)

// web is the HTTP side of a Net: the proxy for all plain HTTP connections under the
// policy packages, which judges each request's Host, and the page at the gateway
// that explains the policy. It starts with its first connection.
type web struct {
	net       *Net
	transport *http.Transport
	server    *http.Server
	conns     chan net.Conn
	done      chan struct{} // closed at the end of the Net
	once      sync.Once     // starts the server
	stopOnce  sync.Once
}

type flowKey struct{}

func newWeb(n *Net) *web {
	w := &web{net: n, conns: make(chan net.Conn), done: make(chan struct{})}
	w.transport = &http.Transport{
		DialContext:           w.dial,
		DisableCompression:    true,
		MaxIdleConns:          16,
		MaxIdleConnsPerHost:   4,
		IdleConnTimeout:       30 * time.Second,
		ResponseHeaderTimeout: 5 * time.Minute,
		WriteBufferSize:       16 << 10,
		ReadBufferSize:        16 << 10,
	}
	proxy := &httputil.ReverseProxy{
		Rewrite:       func(*httputil.ProxyRequest) {}, // handle has built the URL
		Transport:     w.transport,
		FlushInterval: -1,
		ErrorHandler:  w.failed,
		BufferPool:    proxyBuffers{},
		ErrorLog:      slog.NewLogLogger(n.log.Handler(), slog.LevelDebug),
	}
	w.server = &http.Server{
		Handler:           http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) { w.handle(proxy, rw, r) }),
		ReadHeaderTimeout: 30 * time.Second,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    64 << 10,
		ErrorLog:          slog.NewLogLogger(n.log.Handler(), slog.LevelDebug),
		BaseContext:       func(net.Listener) context.Context { return n.ctx },
		ConnContext: func(ctx context.Context, c net.Conn) context.Context {
			return context.WithValue(ctx, flowKey{}, c.(*webConn).flow)
		},
	}
	return w
}

// hand passes a guest's connection to the server, which ends its flow. If the Net
// is closing it resets the connection and returns false.
func (w *web) hand(c *webConn) bool {
	w.once.Do(func() {
		w.net.wg.Add(1) // within the wait of c's own flow
		go func() {
			defer w.net.wg.Done()
			_ = w.server.Serve(w)
		}()
	})
	select {
	case w.conns <- c:
		return true
	case <-w.done:
		_ = c.Conn.Close()
		return false
	}
}

// Accept, Close and Addr make web the listener of its server.
func (w *web) Accept() (net.Conn, error) {
	select {
	case c := <-w.conns:
		return c, nil
	case <-w.done:
		return nil, net.ErrClosed
	}
}

func (w *web) Close() error {
	w.stopOnce.Do(func() { close(w.done) })
	return nil
}

func (w *web) Addr() net.Addr { return &net.TCPAddr{IP: Gateway.AsSlice(), Port: 80} }

func (w *web) shutDown() error {
	_ = w.Close()
	err := w.server.Close()
	w.transport.CloseIdleConnections()
	return err
}

// forget closes idle connections to the outside after a change of policy.
func (w *web) forget() { w.transport.CloseIdleConnections() }

// handle judges one request and forwards it, or explains why not.
func (w *web) handle(proxy http.Handler, rw http.ResponseWriter, r *http.Request) {
	f := r.Context().Value(flowKey{}).(*flow)
	if f.service {
		w.explain(rw, http.StatusOK, "this is the gateway of a Warren VM")
		return
	}
	name, port, err := splitHost(r.Host, f.dst.Port())
	v := egress.Verdict{}
	switch {
	case err != nil:
		v.Reason = err.Error()
	case r.Method == http.MethodConnect:
		v.Reason = "tunnels (CONNECT) are refused under the policy packages"
	case port != f.dst.Port():
		v.Reason = fmt.Sprintf("the request names port %d on a connection to port %d", port, f.dst.Port())
	default:
		f.greeted(name)
		v = egress.Evaluate(w.net.Policy(), egress.Request{Proto: egress.TCP, Port: port, Name: name})
	}
	f.requested(v)
	if !v.Allow {
		w.refuse(rw, r, f, name, v)
		return
	}
	r.URL = &url.URL{Scheme: "http", Host: net.JoinHostPort(name, strconv.Itoa(int(port))), Path: r.URL.Path, RawPath: r.URL.RawPath, RawQuery: r.URL.RawQuery, ForceQuery: r.URL.ForceQuery}
	proxy.ServeHTTP(rw, r)
}

// refuse answers a request that the policy does not allow, records it, and ends the
// connection.
func (w *web) refuse(rw http.ResponseWriter, r *http.Request, f *flow, name string, v egress.Verdict) {
	w.net.refuse(egress.TCP, f.dst, name, egress.Verdict{Reason: fmt.Sprintf("HTTP request for %q: %s", r.Host, v.Reason), Detail: v.Detail})
	rw.Header().Set("Connection", "close")
	w.explain(rw, http.StatusForbidden, fmt.Sprintf("refused: http://%s%s\nbecause: %s", printable(r.Host), printable(r.URL.EscapedPath()), v.Reason))
}

func (w *web) failed(rw http.ResponseWriter, r *http.Request, err error) {
	f := r.Context().Value(flowKey{}).(*flow)
	var no refusal
	if errors.As(err, &no) {
		w.refuse(rw, r, f, r.URL.Hostname(), no.Verdict)
		return
	}
	f.judge(egress.Verdict{Allow: true, Reason: "allowed, but not reached: " + dialError(err)})
	rw.Header().Set("Content-Type", "text/plain; charset=utf-8")
	rw.WriteHeader(http.StatusBadGateway)
	_, _ = fmt.Fprintf(rw, "warren: %s was not reached: %s\n", printable(r.URL.Host), dialError(err))
}

// explain writes what a person or an agent in the guest needs to know.
func (w *web) explain(rw http.ResponseWriter, status int, head string) {
	p := w.net.Policy()
	rw.Header().Set("Content-Type", "text/plain; charset=utf-8")
	rw.WriteHeader(status)
	var b strings.Builder
	fmt.Fprintf(&b, "warren: %s\nnetwork policy of this VM: %s\n", head, p.Mode)
	switch p.Mode {
	case vm.NetPackages:
		b.WriteString("reachable:\n")
		for _, h := range p.Hosts {
			fmt.Fprintf(&b, "  %s port %d (%s)\n", h.Host, h.Port, h.Manager)
		}
	case vm.NetOpen:
		b.WriteString("reachable: every public address; private, metadata and host addresses are not\n")
	default:
		b.WriteString("reachable: nothing\n")
	}
	b.WriteString("change it on the host: warren net set NAME closed|packages|open\n")
	if last := w.net.rec.lastRefusals(); len(last) > 0 {
		fmt.Fprintf(&b, "last refusals (UTC):\n  %s\n", strings.Join(last, "\n  "))
	}
	_, _ = io.WriteString(rw, b.String())
}

// dial connects to "name:port", judging the resolved address.
func (w *web) dial(ctx context.Context, _, address string) (net.Conn, error) {
	name, portText, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	port, err := strconv.ParseUint(portText, 10, 16)
	if err != nil {
		return nil, err
	}
	return w.net.dialName(ctx, nil, name, netip.AddrPortFrom(netip.Addr{}, uint16(port)))
}

// splitHost reads a Host header; without a port it is the connection's.
func splitHost(host string, port uint16) (string, uint16, error) {
	name := host
	if h, p, err := net.SplitHostPort(host); err == nil {
		v, err := strconv.ParseUint(p, 10, 16)
		if err != nil {
			return "", 0, errors.New("the request's Host has no proper port")
		}
		name, port = h, uint16(v)
	}
	if !validName(name) {
		return "", 0, errors.New("the request's Host is not a host name")
	}
	return egress.Normal(name), port, nil
}

// printable removes control bytes from the guest's text.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if r < 0x20 || r == 0x7f {
			return '?'
		}
		return r
	}, s)
}

type proxyBuffers struct{}

func (proxyBuffers) Get() []byte  { return *relayBuffers.Get().(*[]byte) }
func (proxyBuffers) Put(b []byte) { relayBuffers.Put(&b) }

// webConn is a guest's HTTP connection: bytes are counted and the flow ends
// with it.
type webConn struct {
	net.Conn
	src  io.Reader
	flow *flow
	net  *Net
}

func (c *webConn) Read(b []byte) (int, error) {
	k, err := c.src.Read(b)
	c.flow.up.Add(int64(k))
	return k, err
}

func (c *webConn) Write(b []byte) (int, error) {
	k, err := c.Conn.Write(b)
	c.flow.down.Add(int64(k))
	return k, err
}

func (c *webConn) Close() error {
	err := c.Conn.Close()
	c.net.end(c.flow)
	return err
}
