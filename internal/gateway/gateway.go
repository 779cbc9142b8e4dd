// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

// Package gateway shows ports of VMs to browsers: HTTPS for <port>-<VM>.<preview domain>
// and for mapped domains. There may be several preview domains. It terminates TLS,
// checks access, wakes the VM, and forwards requests. It does not trust requests: one
// reaches a guest only with a known host name, and without headers that only the gateway
// may set. It does not trust guests either: they never see Warren's credentials.
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

// Engine has the methods of the engine that the gateway needs.
type Engine interface {
	Authenticate(ctx context.Context, secret string) (vm.Actor, error)
	// PreviewSite finds a VM by its id, or by its name if that is unique.
	PreviewSite(label string, port uint16) (vm.Site, bool)
	// DomainSite returns the port that a domain is mapped to.
	DomainSite(name string) (vm.Site, bool)
	// EnterPreview wakes the VM of a site and keeps it awake until leave is called.
	EnterPreview(ctx context.Context, c *vm.Call, at vm.Site) (in vm.Site, leave func(), err error)
	// DialPort connects to a port; only transferred bytes count as activity.
	DialPort(ctx context.Context, c *vm.Call, ref string, port uint16) (net.Conn, error)
	Stats(ctx context.Context, c *vm.Call, ref string) (vm.Stats, error)
	// MayPreview reports whether an actor may see a port of a VM.
	MayPreview(a vm.Actor, site vm.Site) bool
	// PreviewSession returns a context that ends when an actor may no longer see the site,
	// or, for a visitor without an account, when the link or the public access ends.
	PreviewSession(ctx context.Context, a vm.Actor, site vm.Site) (context.Context, context.CancelFunc)
}

// Config configures a gateway.
type Config struct {
	Engine Engine
	Log    *slog.Logger
	// Domains are the preview domains, such as warren.localhost; none is below
	// another. New addresses use the first.
	Domains []string
	// Port is the port that the gateway listens on; it appears in addresses.
	Port int
	// LinkKey signs links.
	LinkKey []byte
	CA      *CA
	// Certs has the certificates of mapped domains outside the preview domains,
	// and the wildcard certificates of preview domains in its Own; nil = none.
	Certs *Certs
	// Sandboxes answers the names of E2B's SDKs; nil = there is no such door.
	Sandboxes Sandboxes
	// ListenGrace is how long the gateway waits after a VM's start for its server to
	// listen, before it reports that nothing listens; 0 = 15 s.
	ListenGrace time.Duration
}

// Sandboxes answers names of E2B's SDKs, <label>.<preview domain>. It returns false for a
// name that is none of them.
type Sandboxes interface {
	Label(label string) (http.Handler, bool)
}

// Gateway serves previews.
type Gateway struct {
	Config
	proxy   *proxy
	tickets tickets
}

// New returns a gateway.
func New(c Config) *Gateway {
	if c.ListenGrace == 0 {
		c.ListenGrace = 15 * time.Second
	}
	g := &Gateway{Config: c, tickets: tickets{open: map[string]ticket{}}}
	g.proxy = newProxy(g)
	return g
}

const (
	maxConns      = 8192
	maxNear       = 512 // from one address, or one IPv6 /64 network
	headerTimeout = 10 * time.Second
	idleTimeout   = 2 * time.Minute
	maxHeader     = 64 << 10
)

// Serve answers HTTPS until ctx ends, and redirects plain HTTP to it. It closes the listener.
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
		wg.Go(func() { failed <- run() }) // ends when the server below is closed
	}
	var err error
	select {
	case err = <-failed:
	case <-ctx.Done():
	}
	s.close()
	_ = plain.Close()
	// Responses in progress get a short time; WebSockets are closed.
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
		protos = append(protos, acmeTLS) // a connection that negotiates it ends after the handshake
	}
	return &tls.Config{MinVersion: tls.VersionTLS12, NextProtos: protos, GetCertificate: g.findCertificate}
}

// findCertificate finds or issues the certificate of a name that may be shown.
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

// Certificate describes the certificate of a mapped name.
func (g *Gateway) Certificate(ctx context.Context, name string) string {
	switch {
	case g.ownCA(name):
		return "the host's own CA"
	case g.Certs == nil:
		return "none: this server has no ACME server"
	}
	return g.Certs.state(ctx, name)
}

// ownCA reports whether the host's own CA issues the certificate of a name: if
// it belongs to a preview domain without a wildcard certificate.
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
		g.refuse(w, r, http.StatusMisdirectedRequest, vm.Errorf(vm.NotFound, name, "is not a name of this gateway"))
		return
	}
	// 308 keeps the method: a form that was sent over plain HTTP is sent again.
	w.Header().Set("Location", g.URL(name)+r.URL.RequestURI())
	w.WriteHeader(http.StatusPermanentRedirect)
}

// URL returns the address of a host name at this gateway, without a path.
func (g *Gateway) URL(name string) string {
	if g.Port == 443 {
		return "https://" + name
	}
	return "https://" + name + ":" + itoa(g.Port)
}

// ServeHTTP answers one request over TLS.
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
	if h, ok := g.sandbox(name); ok {
		h.ServeHTTP(w, r)
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

// show forwards a request while the caller's permission lasts.
func (g *Gateway) show(w http.ResponseWriter, r *http.Request, name string, site vm.Site, by entry) {
	ctx, end := g.Engine.PreviewSession(r.Context(), by.actor, site)
	defer end()
	if !by.until.IsZero() {
		var stop context.CancelFunc
		ctx, stop = context.WithDeadline(ctx, by.until)
		defer stop()
	}
	if ofScreen(r, site) {
		g.showScreen(w, r.WithContext(ctx), site, by)
		return
	}
	g.proxy.serve(w, r.WithContext(ctx), name, site, by.insider)
}
