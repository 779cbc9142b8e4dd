// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package proxy

import (
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"
)

// Config is what a Proxy needs. Log may be nil.
type Config struct {
	// Certificate is the file of Authority.WriteLeaf. It is read at each handshake, because
	// a server that starts replaces it.
	Certificate string
	Names       map[string]http.Handler // by lower-case host name
	Log         *slog.Logger
}

// Proxy answers for its names inside one VM. The guest's bytes are hostile.
type Proxy struct {
	cfg    Config
	tls    *tls.Config
	server *http.Server
	conns  chan net.Conn
	done   chan struct{} // closed by Close
	start  sync.Once
	stop   sync.Once
	served sync.WaitGroup
}

// Bounds of what a guest may send before a handler reads it.
const (
	headerBytes   = 64 << 10
	headerTimeout = 30 * time.Second
	idleTimeout   = 2 * time.Minute
)

// New returns a Proxy. Close it once.
func New(cfg Config) *Proxy {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	p := &Proxy{cfg: cfg, conns: make(chan net.Conn), done: make(chan struct{})}
	p.tls = &tls.Config{GetCertificate: p.certificate, MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"}}
	p.server = &http.Server{
		Handler:           http.HandlerFunc(p.handle),
		ReadHeaderTimeout: headerTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    headerBytes,
		ErrorLog:          slog.NewLogLogger(cfg.Log.Handler(), slog.LevelDebug),
	}
	return p
}

// Has reports whether the proxy answers for a host name in lower case.
func (p *Proxy) Has(name string) bool { return p.cfg.Names[name] != nil }

// Serve takes over a connection of the guest to a port, and closes it at its end: port
// 443 is TLS, any other plain HTTP.
func (p *Proxy) Serve(c net.Conn, port uint16) {
	if port == 443 {
		c = tls.Server(c, p.tls)
	}
	p.start.Do(func() {
		p.served.Go(func() { _ = p.server.Serve(listener{p}) }) // ends with Close
	})
	select {
	case p.conns <- c:
	case <-p.done:
		_ = c.Close()
	}
}

// Close ends every connection and waits until the proxy accepts no more.
func (p *Proxy) Close() error {
	p.stop.Do(func() { close(p.done) })
	err := p.server.Close()
	p.start.Do(func() {}) // nothing starts any more
	p.served.Wait()
	return err
}

// listener gives the server the connections that Serve got.
type listener struct{ p *Proxy }

func (l listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.p.conns:
		return c, nil
	case <-l.p.done:
		return nil, net.ErrClosed
	}
}

func (l listener) Close() error {
	l.p.stop.Do(func() { close(l.p.done) })
	return nil
}

func (l listener) Addr() net.Addr { return &net.TCPAddr{} }

// certificate finds the certificate for a greeting.
func (p *Proxy) certificate(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	if !p.Has(strings.ToLower(hello.ServerName)) {
		return nil, errors.New("the guest asks for a name that nobody has here")
	}
	pair, err := tls.LoadX509KeyPair(p.cfg.Certificate, p.cfg.Certificate)
	if err != nil {
		p.cfg.Log.Warn("a name inside the VM has no certificate", "name", hello.ServerName, "err", err)
		return nil, err
	}
	return &pair, nil
}

// handle passes a request to the handler of its name.
func (p *Proxy) handle(w http.ResponseWriter, r *http.Request) {
	name := r.Host
	if h, _, err := net.SplitHostPort(name); err == nil {
		name = h
	}
	name = strings.ToLower(name)
	h := p.cfg.Names[name]
	switch {
	case h == nil:
		http.Error(w, "warren: nothing has this name", http.StatusMisdirectedRequest)
	case r.TLS != nil && strings.ToLower(r.TLS.ServerName) != name:
		http.Error(w, "warren: the request names another host than the connection", http.StatusMisdirectedRequest)
	case r.Method == http.MethodConnect || !strings.HasPrefix(r.URL.Path, "/"):
		http.Error(w, "warren: this is no proxy", http.StatusMethodNotAllowed)
	default:
		h.ServeHTTP(w, r)
	}
}
