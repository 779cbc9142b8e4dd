// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

// Package gateway shows ports of VMs to browsers: HTTPS for
// <port>-<VM>.<preview domain> and for mapped domains. There may be several preview
// domains. It ends TLS, decides who
// may enter, wakes the VM, and passes requests on. What comes from outside is
// not trusted: a request reaches a guest only with a host name that was found,
// and without anything that only the gateway may say. Nor is the guest: it sees
// no credentials of Warren's.
package gateway

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/warren-vm/warren/vm"
)

// Engine is what the gateway needs of the engine.
type Engine interface {
	Authenticate(ctx context.Context, secret string) (vm.Actor, error)
	// PreviewSite finds a VM by its id, or by a name that only one VM has.
	PreviewSite(label string, port uint16) (vm.Site, bool)
	// DomainSite finds the port that a domain is mapped to.
	DomainSite(name string) (vm.Site, bool)
	// EnterPreview wakes the VM of a site and holds it awake until leave is called.
	EnterPreview(ctx context.Context, c *vm.Call, at vm.Site) (in vm.Site, leave func(), err error)
	// DialPort connects to a port; only bytes count as activity.
	DialPort(ctx context.Context, c *vm.Call, ref string, port uint16) (net.Conn, error)
	Stats(ctx context.Context, c *vm.Call, ref string) (vm.Stats, error)
	// MayPreview reports whether an actor may see a port of a VM.
	MayPreview(a vm.Actor, site vm.Site) bool
	// PreviewSession ends with the right of an actor, or of who came by a link or
	// because it is public, to see a site.
	PreviewSession(ctx context.Context, a vm.Actor, site vm.Site) (context.Context, context.CancelFunc)
}

// Config is what a gateway needs.
type Config struct {
	Engine Engine
	Log    *slog.Logger
	// Domains are the preview domains, such as warren.localhost, none below another.
	// The first is that of addresses that are given out.
	Domains []string
	// Port is what the gateway listens on, for addresses that it gives.
	Port int
	// LinkKey signs links.
	LinkKey []byte
	CA      *CA
	// Certs has certificates of mapped domains outside the preview domains, and
	// wildcard ones of the preview domains that it says; nil = there are none.
	Certs *Certs
	// Settle is how long after a VM's start its server may take to listen, before
	// the gateway says that nothing does; 0 = 15 s.
	Settle time.Duration
}

// Gateway serves previews.
type Gateway struct {
	Config
	proxy   *proxy
	tickets tickets
}

// New returns a gateway.
func New(c Config) *Gateway {
	if c.Settle == 0 {
		c.Settle = 15 * time.Second
	}
	g := &Gateway{Config: c, tickets: tickets{open: map[string]ticket{}}}
	g.proxy = newProxy(g)
	return g
}

const (
	maxConns      = 8192
	maxNear       = 512 // of them, from one address, or one IPv6 network of 64 bits
	headerTimeout = 10 * time.Second
	idleTimeout   = 2 * time.Minute
	maxHeader     = 64 << 10
)

// Serve answers connections until ctx ends: HTTPS, and plain HTTP with a
// redirect to it. It closes the listener.
func (g *Gateway) Serve(ctx context.Context, l net.Listener) error {
	s := splitListener(l, maxConns, maxNear, g.tlsConfig())
	log := slog.NewLogLogger(g.Log.Handler(), slog.LevelDebug)
	server := func(h http.Handler) *http.Server {
		return &http.Server{Handler: h, ReadHeaderTimeout: headerTimeout, IdleTimeout: idleTimeout, MaxHeaderBytes: maxHeader, ErrorLog: log, DisableGeneralOptionsHandler: true}
	}
	secure, plain := server(g), server(http.HandlerFunc(g.redirect))
	var wg sync.WaitGroup
	failed := make(chan error, 3)
	for _, run := range []func() error{s.run, func() error { return secure.Serve(s.secure) }, func() error { return plain.Serve(s.plain) }} {
		wg.Go(func() { failed <- run() }) // ends with the closing below
	}
	var err error
	select {
	case err = <-failed:
	case <-ctx.Done():
	}
	s.close()
	_ = plain.Close()
	// Pages in the middle of their answer get a moment; WebSockets are cut.
	grace, stop := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
	defer stop()
	if secure.Shutdown(grace) != nil {
		_ = secure.Close()
	}
	g.proxy.close()
	wg.Wait()
	if err == nil || errors.Is(err, http.ErrServerClosed) || errors.Is(err, net.ErrClosed) {
		return nil
	}
	return vm.Errorf(vm.Internal, l.Addr().String(), "previews: %w", err)
}

func (g *Gateway) tlsConfig() *tls.Config {
	protos := []string{"h2", "http/1.1"}
	if g.Certs != nil {
		protos = append(protos, acmeTLS) // a connection that agrees on it ends with its handshake
	}
	return &tls.Config{MinVersion: tls.VersionTLS12, NextProtos: protos, GetCertificate: g.findCertificate}
}

// findCertificate makes or finds the certificate of a name that may be shown.
func (g *Gateway) findCertificate(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	name, err := vm.HostName(hello.ServerName)
	if err != nil {
		return nil, err
	}
	if g.ownCA(name) {
		return g.CA.Leaf(name)
	}
	if g.Certs != nil {
		return g.Certs.get(name, hello)
	}
	return nil, vm.Errorf(vm.NotFound, name, "no certificate for this name")
}

// Certificate says in words what certificate a mapped name has.
func (g *Gateway) Certificate(ctx context.Context, name string) string {
	switch {
	case g.ownCA(name):
		return "the host's own CA"
	case g.Certs == nil:
		return "none: this server has no ACME server"
	}
	return g.Certs.state(ctx, name)
}

// ownCA reports whether the host's own CA speaks for a name: it is of a preview
// domain that has no wildcard certificate.
func (g *Gateway) ownCA(name string) bool {
	_, _, below := g.below(name)
	return (below || g.entrance(name)) && (g.Certs == nil || !g.Certs.hostsOwn(name))
}

// below splits a name that is one label below a preview domain.
func (g *Gateway) below(name string) (label, domain string, ok bool) {
	label, domain, _ = strings.Cut(name, ".")
	return label, domain, label != "" && g.entrance(domain)
}

// entrance reports whether a name is a preview domain itself, where people log in.
func (g *Gateway) entrance(name string) bool { return slices.Contains(g.Domains, name) }

// redirect sends plain HTTP to HTTPS on the same port.
func (g *Gateway) redirect(w http.ResponseWriter, r *http.Request) {
	name, err := g.hostOf(r)
	if err != nil {
		g.refuse(w, r, http.StatusBadRequest, err)
		return
	}
	if g.Certs != nil && g.Certs.challenge(w, r, name) {
		return
	}
	_, _, below := g.below(name)
	if _, ok := g.find(name); !ok && !below && !g.entrance(name) {
		g.refuse(w, r, http.StatusMisdirectedRequest, vm.Errorf(vm.NotFound, name, "not a name of this gateway"))
		return
	}
	// 308 keeps the method; a form that was sent in the clear is sent again.
	w.Header().Set("Location", g.URL(name)+r.URL.RequestURI())
	w.WriteHeader(http.StatusPermanentRedirect)
}

// URL is the address of a host name at this gateway, without a path.
func (g *Gateway) URL(name string) string {
	if g.Port == 443 {
		return "https://" + name
	}
	return "https://" + name + ":" + itoa(g.Port)
}

// ServeHTTP answers one request that came by TLS.
func (g *Gateway) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	name, err := g.hostOf(r)
	if err != nil {
		g.refuse(w, r, http.StatusBadRequest, err)
		return
	}
	if sni, err := vm.HostName(r.TLS.ServerName); err != nil || sni != name {
		g.refuse(w, r, http.StatusMisdirectedRequest, vm.Errorf(vm.Invalid, name, "the connection was made for another name"))
		return
	}
	if g.entrance(name) {
		g.login(w, r)
		return
	}
	site, ok := g.find(name)
	entry := g.enter(r, name, site, ok)
	switch {
	case entry.redirect != "":
		http.SetCookie(w, entry.cookie)
		w.Header().Set("Cache-Control", "no-store")
		w.Header().Set("Referrer-Policy", "no-referrer")
		w.Header().Set("Location", entry.redirect)
		w.WriteHeader(http.StatusSeeOther)
	case !entry.open:
		g.closed(w, r, name)
	default:
		g.show(w, r, name, site, entry)
	}
}

// show passes a request on for as long as what let it in is good.
func (g *Gateway) show(w http.ResponseWriter, r *http.Request, name string, site vm.Site, by entry) {
	ctx, end := g.Engine.PreviewSession(r.Context(), by.actor, site)
	defer end()
	if !by.until.IsZero() {
		var stop context.CancelFunc
		ctx, stop = context.WithDeadline(ctx, by.until)
		defer stop()
	}
	g.proxy.serve(w, r.WithContext(ctx), name, site, by.insider)
}
