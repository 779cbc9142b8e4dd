// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package outside

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/warren-vm/warren/vm"
)

// Tunnel is a proxy on the loopback interface for one program that makes HTTP
// connections of its own. It connects by a Net's rules, and takes at most so many bytes
// from outside. Close it once.
type Tunnel struct {
	net    *Net
	server *http.Server
	addr   string
	secret string
	left   atomic.Int64 // bytes that may still come from outside
	take   func(n int64) error
	ended  context.CancelFunc

	mu    sync.Mutex
	why   error // the first refusal; guarded by mu
	conns map[net.Conn]bool
}

// Tunnel opens a proxy that takes at most limit bytes from outside. take is told of bytes
// that came, and its error ends the connection; nil = nobody wants to know. Connections
// call it at once.
func (n *Net) Tunnel(ctx context.Context, limit int64, take func(n int64) error) (*Tunnel, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, vm.Errorf(vm.Internal, "", "the proxy for git cannot listen: %w", err)
	}
	ctx, cancel := context.WithCancel(ctx)
	t := &Tunnel{net: n, addr: l.Addr().String(), secret: rand.Text(), take: take, ended: cancel, conns: map[net.Conn]bool{}}
	t.left.Store(limit)
	t.server = &http.Server{Handler: t, ReadHeaderTimeout: 10 * time.Second, BaseContext: func(net.Listener) context.Context { return ctx }}
	go t.server.Serve(l) //nolint:errcheck // it ends with Close
	return t, nil
}

// URL is the proxy's address with its credentials. Keep it out of the process list.
func (t *Tunnel) URL() string {
	u := url.URL{Scheme: "http", User: url.UserPassword("warren", t.secret), Host: t.addr}
	return u.String()
}

// Refused returns why the tunnel refused or cut a connection; nil = it did not.
func (t *Tunnel) Refused() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.why
}

// Close ends the proxy and its connections.
func (t *Tunnel) Close() {
	t.ended()
	_ = t.server.Close()
	t.mu.Lock()
	defer t.mu.Unlock()
	for c := range t.conns {
		_ = c.Close()
	}
}

// refuse remembers the first refusal.
func (t *Tunnel) refuse(err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.why == nil {
		t.why = err
	}
}

// keep closes a connection when the tunnel closes.
func (t *Tunnel) keep(c net.Conn) (release func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.conns[c] = true
	return func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		delete(t.conns, c)
		_ = c.Close()
	}
}

// ServeHTTP answers CONNECT, and requests with an absolute http URL.
func (t *Tunnel) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	auth := &http.Request{Header: http.Header{"Authorization": r.Header["Proxy-Authorization"]}}
	_, secret, _ := auth.BasicAuth()
	if subtle.ConstantTimeCompare([]byte(secret), []byte(t.secret)) != 1 {
		w.Header().Set("Proxy-Authenticate", "Basic")
		http.Error(w, "credentials needed", http.StatusProxyAuthRequired)
		return
	}
	switch {
	case r.Method == http.MethodConnect:
		t.connect(w, r)
	case r.URL.Scheme == "http" && r.URL.Host != "":
		t.forward(w, r)
	default:
		http.Error(w, "only CONNECT and http URLs", http.StatusBadRequest)
	}
}

func (t *Tunnel) connect(w http.ResponseWriter, r *http.Request) {
	far, err := t.net.Dial(r.Context(), "tcp", r.Host)
	if err != nil {
		t.failed(w, err)
		return
	}
	defer t.keep(far)()
	near, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	defer t.keep(near)()
	if _, err := io.WriteString(near, "HTTP/1.1 200 Connection established\r\n\r\n"); err != nil {
		return
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = io.Copy(far, buffered)
		if c, ok := far.(*net.TCPConn); ok {
			_ = c.CloseWrite()
		}
	}()
	_, _ = io.Copy(near, &metered{far, t})
	_ = near.Close()
	<-done
}

func (t *Tunnel) failed(w http.ResponseWriter, err error) {
	if vm.KindOf(err) == vm.Denied {
		t.refuse(err)
		http.Error(w, "refused", http.StatusForbidden)
		return
	}
	http.Error(w, "no connection", http.StatusBadGateway)
}

// hopHeaders belong to one connection and are not passed on.
var hopHeaders = []string{"Connection", "Proxy-Connection", "Keep-Alive", "Proxy-Authenticate", "Proxy-Authorization", "Te", "Trailer", "Transfer-Encoding", "Upgrade"}

func (t *Tunnel) forward(w http.ResponseWriter, r *http.Request) {
	out := r.Clone(r.Context())
	out.RequestURI = ""
	for _, name := range hopHeaders {
		out.Header.Del(name)
	}
	tr := t.net.transport()
	tr.DisableCompression = true // bytes pass unchanged
	defer tr.CloseIdleConnections()
	resp, err := tr.RoundTrip(out)
	if err != nil {
		t.failed(w, err)
		return
	}
	defer resp.Body.Close()
	for name, values := range resp.Header {
		w.Header()[name] = values
	}
	for _, name := range hopHeaders {
		w.Header().Del(name)
	}
	w.WriteHeader(resp.StatusCode)
	if _, err := io.Copy(w, &metered{resp.Body, t}); err != nil {
		panic(http.ErrAbortHandler) // so that git does not take a part for the whole
	}
}

// metered counts what comes from outside.
type metered struct {
	from io.Reader
	t    *Tunnel
}

func (m *metered) Read(p []byte) (int, error) {
	n, err := m.from.Read(p)
	var over error
	if m.t.left.Add(-int64(n)) < 0 {
		over = vm.Errorf(vm.Limit, "", "the source sends more than this import may take")
	} else if m.t.take != nil && n > 0 {
		over = m.t.take(int64(n))
	}
	if over != nil {
		m.t.refuse(over)
		return 0, over
	}
	return n, err
}

// GitConfig returns the settings that make git use the tunnel and no other protocol than
// http and https, as name=value; see Environment.
func (t *Tunnel) GitConfig() []string {
	return []string{
		"http.proxy=" + t.URL(), "http.proxyAuthMethod=basic", "http.followRedirects=initial", "http.sslVerify=true",
		"protocol.allow=never", "protocol.http.allow=always", "protocol.https.allow=always",
	}
}

// Environment returns git's settings, given as name=value, as variables of its
// environment, where they are in no process list.
func Environment(settings []string) []string {
	out := []string{"GIT_CONFIG_COUNT=" + strconv.Itoa(len(settings))}
	for i, s := range settings {
		name, value, _ := strings.Cut(s, "=")
		out = append(out, "GIT_CONFIG_KEY_"+strconv.Itoa(i)+"="+name, "GIT_CONFIG_VALUE_"+strconv.Itoa(i)+"="+value)
	}
	return out
}
