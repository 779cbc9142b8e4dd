// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"strings"
	"sync"
	"time"

	"github.com/warren-vm/warren/vm"
)

const (
	copyBuffer = 64 << 10
	keepIdle   = 30 * time.Second // how long an unused connection to a guest is kept
	maxIdle    = 64               // unused connections per port
	maxPools   = 1024
	redial     = 50 * time.Millisecond
)

// proxy forwards requests to guests.
type proxy struct {
	g       *Gateway
	buffers buffers

	mu    sync.Mutex
	pools map[target]*pool
}

// target is one port of a VM.
type target struct {
	vm   vm.ID
	port uint16
}

// pool holds the connections to a port since one start of the machine.
// Connections of an earlier start are dead.
type pool struct {
	instance  string
	transport *http.Transport
}

func newProxy(g *Gateway) *proxy { return &proxy{g: g, pools: map[target]*pool{}} }

func (p *proxy) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for t, o := range p.pools {
		o.transport.CloseIdleConnections()
		delete(p.pools, t)
	}
}

// transport returns the connections to a site's current machine.
func (p *proxy) transport(site vm.Site) *http.Transport {
	p.mu.Lock()
	defer p.mu.Unlock()
	t := target{site.VM, site.Port}
	o := p.pools[t]
	if o != nil && o.instance == site.Instance {
		return o.transport
	}
	if o != nil {
		o.transport.CloseIdleConnections()
	} else if len(p.pools) >= maxPools {
		for k, old := range p.pools { // drop any one
			old.transport.CloseIdleConnections()
			delete(p.pools, k)
			break
		}
	}
	c := callOf(site)
	o = &pool{instance: site.Instance, transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return p.dial(ctx, c, site)
		},
		DisableCompression:  true, // bytes pass unchanged
		MaxIdleConnsPerHost: maxIdle,
		IdleConnTimeout:     keepIdle,
		WriteBufferSize:     copyBuffer,
		ReadBufferSize:      copyBuffer,
	}}
	p.pools[t] = o
	return o.transport
}

// callOf returns a call in which the gateway acts for the site's account.
func callOf(site vm.Site) *vm.Call {
	return &vm.Call{Actor: vm.Actor{Account: site.Account, System: "preview"}}
}

// dialUntilKey is the context key of the time until which a dial may be repeated.
type dialUntilKey struct{}

// dial connects to the guest. After a wake its server may need a moment.
func (p *proxy) dial(ctx context.Context, c *vm.Call, site vm.Site) (net.Conn, error) {
	until, _ := ctx.Value(dialUntilKey{}).(time.Time)
	for {
		conn, err := p.g.Engine.DialPort(ctx, c, string(site.VM), site.Port)
		if err == nil || vm.KindOf(err) != vm.Unavailable || !time.Now().Before(until) {
			return conn, err
		}
		timer := time.NewTimer(redial)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return nil, err
		}
	}
}

// serve wakes the VM, holds the request until it runs, and forwards it. Only an
// insider sees why that failed.
func (p *proxy) serve(w http.ResponseWriter, r *http.Request, name string, site vm.Site, insider bool) {
	now, leave, err := p.g.Engine.EnterPreview(r.Context(), callOf(site), site)
	if err != nil {
		p.g.fault(w, r, site, insider, err)
		return
	}
	defer leave()
	site.Instance = now.Instance
	ctx := context.WithValue(r.Context(), dialUntilKey{}, now.Started.Add(p.g.ListenGrace))
	rp := &httputil.ReverseProxy{
		Rewrite:    func(q *httputil.ProxyRequest) { rewrite(q, name) },
		Transport:  p.transport(site),
		BufferPool: &p.buffers,
		ErrorLog:   slog.NewLogLogger(p.g.Log.Handler(), slog.LevelDebug),
		ModifyResponse: func(resp *http.Response) error {
			guestCookies(resp.Header)
			if resp.StatusCode == http.StatusSwitchingProtocols {
				leave() // from here on only transferred bytes count as activity
			}
			return nil
		},
		ErrorHandler: func(w http.ResponseWriter, r *http.Request, err error) { p.g.fault(w, r, site, insider, err) },
	}
	// Else Go's server closes the request's body with the head of the answer. If the end of the body was not read yet, the
	// copy to the guest fails, and takes the rest of the answer with it.
	_ = http.NewResponseController(w).EnableFullDuplex()
	rp.ServeHTTP(ownCookies{w}, r.WithContext(ctx))
}

// ownCookies filters the cookies of every response header, including
// informational ones (1xx), which ModifyResponse does not see.
type ownCookies struct{ http.ResponseWriter }

// WriteHeader removes foreign cookies and sends the header.
func (w ownCookies) WriteHeader(code int) {
	guestCookies(w.Header())
	w.ResponseWriter.WriteHeader(code)
}

// Unwrap gives http.ResponseController the wrapped writer.
func (w ownCookies) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// rewrite builds the guest's request. ReverseProxy has already removed
// hop-by-hop headers, Forwarded and the usual X-Forwarded ones.
func rewrite(q *httputil.ProxyRequest, name string) {
	out := q.Out
	out.URL.Scheme, out.URL.Host = "http", name
	out.URL.RawQuery = q.In.URL.RawQuery // unchanged: the guest validates it
	out.Host = q.In.Host
	for h := range out.Header {
		// CGI servers read _ as -, which would let these headers in.
		plain := strings.ToLower(strings.ReplaceAll(h, "_", "-"))
		if strings.HasPrefix(plain, "x-forwarded-") || plain == "x-real-ip" || plain == "forwarded" || strings.HasPrefix(plain, "x-warren-") {
			delete(out.Header, h)
		}
	}
	withoutOurs(out.Header)
	q.SetXForwarded()
	out.Header.Set("X-Forwarded-Host", q.In.Host)
	out.Header.Set("X-Forwarded-Proto", "https")
}

// buffers are reused between copies.
type buffers struct{ pool sync.Pool }

// Get returns a buffer.
func (b *buffers) Get() []byte {
	if p, ok := b.pool.Get().(*[]byte); ok {
		return *p
	}
	return make([]byte, copyBuffer)
}

// Put takes a buffer back.
func (b *buffers) Put(p []byte) { b.pool.Put(&p) }
