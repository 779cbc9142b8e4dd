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
	"sync/atomic"
	"time"

	"github.com/warren-vm/warren/internal/egress"
)

// web is the HTTP side of a Net: the proxy for plain HTTP connections where only named
// hosts are allowed, which judges each request's host, method and path, in HTTP/1 and plain
// HTTP/2, and the page at the gateway that explains the policy. It starts with its first
// connection.
type web struct {
	net      *Net
	server   *http.Server
	conns    chan net.Conn
	asked    chan struct{} // one for each request
	done     chan struct{} // closed at the end of the Net
	once     sync.Once     // starts the server
	stopOnce sync.Once
}

// Bounds of the plain HTTP of one VM.
const (
	maxRequests = 256 // at once
	maxStreams  = 32  // at once in a connection of HTTP/2
	maxOnward   = 8   // connections to the outside at once of a connection of the guest
)

type (
	connKey    struct{} // the *webConn of a request
	requestKey struct{} // the egress.Request of a request that is forwarded
)

func newWeb(n *Net) *web {
	w := &web{net: n, conns: make(chan net.Conn), asked: make(chan struct{}, maxRequests), done: make(chan struct{})}
	w.server = &http.Server{
		Handler:           http.HandlerFunc(w.handle),
		ReadHeaderTimeout: 30 * time.Second,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    64 << 10,
		Protocols:         new(http.Protocols),
		HTTP2:             &http.HTTP2Config{MaxConcurrentStreams: maxStreams},
		ErrorLog:          slog.NewLogLogger(n.log.Handler(), slog.LevelDebug),
		BaseContext:       func(net.Listener) context.Context { return n.ctx },
		ConnContext: func(ctx context.Context, c net.Conn) context.Context {
			return context.WithValue(ctx, connKey{}, c)
		},
	}
	w.server.Protocols.SetHTTP1(true)
	w.server.Protocols.SetUnencryptedHTTP2(true)
	return w
}

// forwarder sends the requests of one guest connection on, over connections to the outside
// that no other guest connection shares. http2 says how the guest speaks: its requests to a
// host then share one connection, unless the host takes fewer at once than the guest sends.
func (w *web) forwarder(f *flow, http2 bool) http.Handler {
	t := &http.Transport{
		DialContext:           w.dial,
		DisableCompression:    true,
		MaxIdleConns:          4,
		MaxIdleConnsPerHost:   4,
		MaxConnsPerHost:       4, // HTTP/1 needs one, and another while that one closes
		IdleConnTimeout:       30 * time.Second,
		ResponseHeaderTimeout: 5 * time.Minute,
		WriteBufferSize:       16 << 10,
		ReadBufferSize:        16 << 10,
		Protocols:             new(http.Protocols),
	}
	t.Protocols.SetHTTP1(!http2)
	t.Protocols.SetUnencryptedHTTP2(http2)
	if http2 {
		t.MaxConnsPerHost = 1
	}
	f.own(t.CloseIdleConnections)
	return &httputil.ReverseProxy{
		Rewrite:       func(*httputil.ProxyRequest) {}, // handle has built the URL
		Transport:     t,
		FlushInterval: -1,
		ErrorHandler:  w.failed,
		BufferPool:    proxyBuffers{},
		ErrorLog:      slog.NewLogLogger(w.net.log.Handler(), slog.LevelDebug),
	}
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
	return w.server.Close()
}

// handle judges one request and forwards it, or explains why not.
func (w *web) handle(rw http.ResponseWriter, r *http.Request) {
	c := r.Context().Value(connKey{}).(*webConn)
	f := c.flow
	if f.service {
		w.explain(rw, http.StatusOK, "this is the gateway of a Warren VM")
		return
	}
	select {
	case w.asked <- struct{}{}:
		defer func() { <-w.asked }()
	default:
		http.Error(rw, fmt.Sprintf("warren: this VM has %d requests open; wait for one to end", maxRequests), http.StatusServiceUnavailable)
		return
	}
	ask := egress.Request{Proto: egress.TCP, Port: f.dst.Port(), Method: r.Method, Path: r.URL.EscapedPath()}
	v, done := w.judge(f, r, &ask)
	defer done()
	if r.ProtoMajor == 2 {
		var leave func()
		v, leave = w.net.meters.stream(f, v)
		defer leave()
	}
	f.requested(v)
	if !v.Allow {
		w.refuse(rw, r, f, ask.Name, v)
		return
	}
	if up := r.Header.Get("Upgrade"); up != "" && !strings.EqualFold(strings.TrimSpace(up), "websocket") {
		dropUpgrade(r.Header) // the server answers in HTTP/1, as the client must accept
	}
	r.Header.Del("Host")
	host := ask.Name
	if host == "" {
		host = ask.IP.String()
	}
	r.URL = &url.URL{Scheme: "http", Host: net.JoinHostPort(host, strconv.Itoa(int(ask.Port))), Path: r.URL.Path, RawPath: r.URL.RawPath, RawQuery: r.URL.RawQuery, ForceQuery: r.URL.ForceQuery}
	_ = http.NewResponseController(rw).EnableFullDuplex() // an early answer does not close the request's body
	c.forward(r.ProtoMajor == 2).ServeHTTP(rw, r.WithContext(context.WithValue(r.Context(), requestKey{}, ask)))
}

// judge judges one request, and completes ask by the host that it names. The caller calls
// done when the request has ended.
func (w *web) judge(f *flow, r *http.Request, ask *egress.Request) (v egress.Verdict, done func()) {
	opened := []func(){}
	done = func() {
		for _, end := range opened {
			end()
		}
	}
	if v = w.judgeHost(f, r, ask); v.Reason != "" {
		return v, done
	}
	methods := []string{r.Method}
	if egress.Requests(w.net.Policy(), ask.Name, int(ask.Port)) {
		methods = egress.Methods(r.Method, r.Header)
	}
	for _, m := range methods {
		one := *ask
		one.Method = m
		var end func()
		v, end = w.net.openNamed(f, one)
		opened = append(opened, end)
		if !v.Allow {
			return v, done
		}
	}
	if w.net.cfg.Scan != nil {
		if why := w.net.cfg.Scan(w.net.Policy(), r); why != "" {
			return egress.Verdict{Reason: why}, done
		}
	}
	if ask.Name != "" {
		f.named(ask.Name)
	}
	return v, done
}

// judgeHost completes ask by the host that a request names. An empty Reason means that it
// does not refuse.
func (w *web) judgeHost(f *flow, r *http.Request, ask *egress.Request) egress.Verdict {
	name, port, err := splitHost(r.Host, f.dst.Port())
	ip, ipErr := netip.ParseAddr(name)
	switch {
	case err != nil:
		return egress.Verdict{Reason: err.Error()}
	case r.Method == http.MethodConnect:
		return egress.Verdict{Reason: "tunnels (CONNECT) are refused where only named hosts are allowed"}
	case r.Header.Get("Host") != "" && r.Header.Get("Host") != r.Host:
		return egress.Verdict{Reason: "the request names two hosts"}
	case port != f.dst.Port():
		return egress.Verdict{Reason: fmt.Sprintf("the request names port %d on a connection to port %d", port, f.dst.Port())}
	case ipErr == nil && ip != f.dst.Addr():
		return egress.Verdict{Reason: "the request names another address than that of its connection"}
	case ipErr == nil:
		ask.IP = ip
		if name, v := w.net.deniedAt(f); name != "" {
			return v
		}
	case !egress.ValidName(name):
		return egress.Verdict{Reason: fmt.Sprintf("%q is not a host name", printable(name))}
	default:
		ask.Name = name
	}
	return egress.PathMoved(w.net.Policy(), ask.Name, int(port), r.Header)
}

// deniedAt returns a name that the policy denies and that leads to the flow's address.
func (n *Net) deniedAt(f *flow) (string, egress.Verdict) {
	_, sight := egress.Look(n.Policy(), egress.Request{IP: f.dst.Addr(), Port: f.dst.Port(), Host: n.host.get()})
	if !sight.Strict {
		return "", egress.Verdict{}
	}
	name, v := n.nameAt(f, egress.Sight{Strict: true, Denied: sight.Denied})
	if name == "" || v.Allow {
		return "", egress.Verdict{}
	}
	return name, v
}

// dropUpgrade removes the offer of another protocol.
func dropUpgrade(h http.Header) {
	h.Del("Upgrade")
	h.Del("Http2-Settings")
	h.Del("Connection")
}

// refuse answers a request that the policy does not allow, records it, and ends the
// connection.
func (w *web) refuse(rw http.ResponseWriter, r *http.Request, f *flow, name string, v egress.Verdict) {
	host := name
	if host == "" {
		host = r.Host
	}
	w.net.refuseRequest(f, cut(host, 255), r.Method, r.URL.EscapedPath(), v)
	Refuse(rw, r, host, r.URL.EscapedPath(), w.net.Policy(), v)
}

func (w *web) failed(rw http.ResponseWriter, r *http.Request, err error) {
	f := r.Context().Value(connKey{}).(*webConn).flow
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

// dial connects to where the request in ctx may go, judging the address.
func (w *web) dial(ctx context.Context, _, address string) (net.Conn, error) {
	ask, ok := ctx.Value(requestKey{}).(egress.Request)
	c, isConn := ctx.Value(connKey{}).(*webConn)
	if !ok || !isConn {
		return nil, fmt.Errorf("dial %s: no request asks for it", address)
	}
	if c.onward.Add(1) > maxOnward {
		c.onward.Add(-1)
		return nil, fmt.Errorf("dial %s: the guest's connection has too many to the outside", address)
	}
	leave := sync.OnceFunc(func() { c.onward.Add(-1) })
	ask.Method, ask.Path = "", ""
	ask.IP = netip.Addr{}
	up, err := c.flow.keep(w.net.dialJudged(ctx, c.flow, ask))
	if err != nil {
		leave()
		return nil, err
	}
	return onward{up, leave}, nil
}

// onward is a connection to the outside of a guest's HTTP connection.
type onward struct {
	net.Conn
	leave func()
}

func (o onward) Close() error {
	o.leave()
	return o.Conn.Close()
}

func (o onward) CloseWrite() error { return halfClose(o.Conn) }

// splitHost reads a Host header; without a port it is the connection's.
func splitHost(host string, port uint16) (string, uint16, error) {
	name := strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	if h, p, err := net.SplitHostPort(host); err == nil {
		v, err := strconv.ParseUint(p, 10, 16)
		if err != nil {
			return "", 0, errors.New("the request's Host has no proper port")
		}
		name, port = h, uint16(v)
	}
	if name == "" {
		return "", 0, errors.New("the request names no host")
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

	onward atomic.Int64 // its connections to the outside

	mu  sync.Mutex
	fwd [2]http.Handler // for HTTP/1 and HTTP/2
}

// forward is the connection's forwarder.
func (c *webConn) forward(http2 bool) http.Handler {
	c.mu.Lock()
	defer c.mu.Unlock()
	i := map[bool]int{true: 1}[http2]
	if c.fwd[i] == nil {
		c.fwd[i] = c.net.web.forwarder(c.flow, http2)
	}
	return c.fwd[i]
}

// CloseWrite ends the guest's direction of the connection.
func (c *webConn) CloseWrite() error { return halfClose(c.Conn) }

func (c *webConn) Read(b []byte) (int, error) {
	k, err := c.src.Read(b)
	if no := c.flow.sent(k); no != nil {
		return 0, no
	}
	return k, err
}

func (c *webConn) Write(b []byte) (int, error) {
	if err := c.flow.received(len(b)); err != nil {
		return 0, err
	}
	return c.Conn.Write(b)
}

func (c *webConn) Close() error {
	err := c.Conn.Close()
	c.net.end(c.flow)
	return err
}
