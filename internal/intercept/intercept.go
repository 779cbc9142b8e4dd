// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

// Package intercept reads the requests of a VM to hosts with a secret, or with a rule about
// methods or paths, and puts secrets in. It runs in the VM's monitor, and package usernet hands
// it such connections; all others pass untouched.
//
// It ends the guest's TLS with a certificate of the VM's own Authority, and verifies the
// server's certificate before it sends a request. A request that the policy allows and whose
// header has the VM's placeholder of a secret gets the secret's value: the monitor asks the
// server (vm.SecretAsk), which checks the grant, writes the audit record and answers. The value
// lives as long as the request. A placeholder anywhere else is refused and reported, and what
// the host answers to a request with a value does not contain the value for the guest.
//
// The guest's bytes are hostile, and so may be the server's.
package intercept

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/warren-vm/warren/internal/egress"
	"github.com/warren-vm/warren/internal/usernet"
	"github.com/warren-vm/warren/vm"
)

// Config is what an Interceptor needs. Roots and Log may be nil.
type Config struct {
	// Authority returns the VM's CA.
	Authority func() (*Authority, error)
	// Value asks the server for the value that belongs into a request. Kind Unavailable when
	// no server answers, Denied and NotFound when it refuses.
	Value func(ctx context.Context, ask vm.SecretAsk) (string, error)
	// Misplaced reports a placeholder that was sent where it does not belong. It may block
	// for a few seconds.
	Misplaced func(ctx context.Context, m vm.Misplaced)
	Roots     *x509.CertPool // that servers are verified with; nil = the host's
	Log       *slog.Logger
}

// Bounds of one VM.
const (
	maxConns      = 256
	maxRequests   = 256 // at once
	maxStreams    = 100 // at once in a connection of HTTP/2
	headerBytes   = 64 << 10
	headerTimeout = 30 * time.Second
	idleTimeout   = 5 * time.Minute
	writeTimeout  = 2 * time.Minute // in which a guest must take a part of an answer
	reportsKept   = 16
)

// Interceptor is the usernet.Interceptor of one VM.
type Interceptor struct {
	cfg    Config
	server *http.Server
	conns  chan net.Conn
	places chan struct{} // one for each connection
	asked  chan struct{} // one for each request
	life   context.Context
	end    context.CancelFunc
	start  sync.Once // of the server
	tell   sync.Once // of report
	tasks  sync.WaitGroup

	limit   *rate.Limiter
	reports chan vm.Misplaced
	mu      sync.Mutex
	skipped int // reports since the last; guarded by mu
}

// New returns an Interceptor. Close it once. It outlives ctx.
func New(ctx context.Context, cfg Config) *Interceptor {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	i := &Interceptor{
		cfg: cfg, conns: make(chan net.Conn), places: make(chan struct{}, maxConns), asked: make(chan struct{}, maxRequests),
		limit: rate.NewLimiter(1, 10), reports: make(chan vm.Misplaced, reportsKept),
	}
	i.life, i.end = context.WithCancel(context.WithoutCancel(ctx))
	i.server = &http.Server{
		Handler:           http.HandlerFunc(i.handle),
		ReadHeaderTimeout: headerTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    headerBytes,
		ErrorLog:          slog.NewLogLogger(cfg.Log.Handler(), slog.LevelDebug),
		HTTP2:             &http.HTTP2Config{MaxConcurrentStreams: maxStreams},
		BaseContext:       func(net.Listener) context.Context { return i.life },
		ConnContext: func(ctx context.Context, c net.Conn) context.Context {
			if t, ok := c.(*tls.Conn); ok {
				if g, ok := t.NetConn().(*guestConn); ok {
					return context.WithValue(ctx, sessionKey{}, g.session)
				}
			}
			return ctx
		},
	}
	return i
}

// Wants reports whether TLS connections to a name and port are intercepted under p.
func (i *Interceptor) Wants(p vm.NetworkPolicy, name string, port uint16) bool {
	return egress.Inspects(p, name, int(port))
}

// sessionKey is the context key of a request's session.
type sessionKey struct{}

// guestConn is the guest's end of an intercepted connection. A guest that does not read is
// cut.
type guestConn struct {
	net.Conn
	session *session
	closed  func()
}

func (g *guestConn) Write(b []byte) (int, error) {
	_ = g.Conn.SetWriteDeadline(time.Now().Add(writeTimeout))
	return g.Conn.Write(b)
}

func (g *guestConn) Close() error {
	g.closed()
	return g.Conn.Close()
}

// Serve takes over a connection of the guest, whose TLS greeting is still to be read from c,
// and closes it at its end.
func (i *Interceptor) Serve(c net.Conn, d usernet.Intercepted) {
	select {
	case i.places <- struct{}{}:
	default:
		d.Refuse("", "", egress.Verdict{Reason: "the VM has too many intercepted connections open (256)"})
		_ = c.Close()
		return
	}
	s := &session{i: i, d: d}
	g := &guestConn{Conn: c, session: s, closed: sync.OnceFunc(func() {
		s.close()
		<-i.places
	})}
	t := tls.Server(g, &tls.Config{
		MinVersion: tls.VersionTLS12,
		NextProtos: []string{"h2", "http/1.1"},
		GetCertificate: func(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
			if egress.Normal(hello.ServerName) != d.Name {
				return nil, errors.New("the greeting names another server")
			}
			a, err := i.cfg.Authority()
			if err != nil {
				i.cfg.Log.Warn("the VM's own CA is missing", "err", err)
				return nil, err
			}
			return a.leaf(d.Name)
		},
	})
	i.start.Do(func() {
		i.tasks.Go(func() { _ = i.server.Serve(listener{i}) }) // ends with Close
	})
	select {
	case i.conns <- t:
	case <-i.life.Done():
		_ = t.Close()
	}
}

// Close ends every connection and waits for the Interceptor's tasks.
func (i *Interceptor) Close() error {
	i.end()
	err := i.server.Close()
	i.start.Do(func() {}) // nothing starts any more
	i.tell.Do(func() {})
	i.tasks.Wait()
	return err
}

// listener gives the server the connections that Serve got.
type listener struct{ i *Interceptor }

func (l listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.i.conns:
		return c, nil
	case <-l.i.life.Done():
		return nil, net.ErrClosed
	}
}

func (l listener) Close() error {
	l.i.end()
	return nil
}

func (l listener) Addr() net.Addr { return &net.TCPAddr{} }

// misplaced reports a placeholder, unless there were too many.
func (i *Interceptor) misplaced(m vm.Misplaced) {
	i.tell.Do(func() { i.tasks.Go(i.report) })
	i.mu.Lock()
	defer i.mu.Unlock()
	m.More = i.skipped
	if i.limit.Allow() {
		select {
		case i.reports <- m:
			i.skipped = 0
			return
		default:
		}
	}
	i.skipped++
}

// report passes reports on until Close.
func (i *Interceptor) report() {
	for {
		select {
		case m := <-i.reports:
			if i.cfg.Misplaced != nil {
				i.cfg.Misplaced(i.life, m)
			}
		case <-i.life.Done():
			return
		}
	}
}
