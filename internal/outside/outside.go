// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

// Package outside makes the connections that a user's request asks the server for: it
// fetches repositories and archives, and calls webhooks. It connects only to public
// addresses, and to the private ones that the operator has allowed. The check is made
// on the address that is dialled, so that neither a name that changes its address nor
// a redirect gets around it. Programs that make connections of their own, such as git,
// go through a Tunnel.
package outside

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"syscall"
	"time"

	"github.com/warren-vm/warren/internal/egress"
	"github.com/warren-vm/warren/vm"
)

const (
	dialTimeout  = 10 * time.Second
	maxRedirects = 5
	maxURL       = 2048
)

// Net makes connections. Its methods may be called at once from many goroutines.
type Net struct {
	allow []netip.Prefix
	host  func() ([]netip.Addr, error)
}

// New returns a Net that may reach public addresses, and those in allow.
func New(allow []netip.Prefix) *Net {
	return &Net{allow: allow, host: egress.HostAddresses}
}

// CheckURL parses the address of something to fetch or to call: http or https, with a
// host. Kind Invalid.
func CheckURL(raw string) (*url.URL, error) {
	if len(raw) > maxURL {
		return nil, vm.Errorf(vm.Invalid, "url", "longer than %d bytes", maxURL)
	}
	if strings.ContainsFunc(raw, func(r rune) bool { return r <= ' ' || r == 0x7f }) {
		return nil, vm.Errorf(vm.Invalid, "url", "the URL contains spaces or control characters")
	}
	u, err := url.Parse(raw)
	switch {
	case err != nil:
		return nil, vm.Errorf(vm.Invalid, "url", "not a URL").WithHint("use a URL such as https://example.com/repo.git")
	case u.Scheme != "http" && u.Scheme != "https":
		return nil, vm.Errorf(vm.Invalid, u.Redacted(), "only http and https are fetched").WithHint("use a URL such as https://example.com/repo.git")
	case u.Hostname() == "" || u.Opaque != "" || strings.HasPrefix(u.Host, "-"):
		return nil, vm.Errorf(vm.Invalid, u.Redacted(), "the URL names no host")
	}
	return u, nil
}

// Check returns nil if ip may be reached. Kind Denied.
func (n *Net) Check(ip netip.Addr) error {
	ip = ip.Unmap()
	for _, p := range n.allow {
		if p.Contains(ip) {
			return nil
		}
	}
	own, err := n.host()
	if err != nil {
		return vm.Errorf(vm.Internal, "", "%w", err)
	}
	if why := egress.Private(ip, own); why != "" {
		return vm.Errorf(vm.Denied, ip.String(), "the server does not connect to %s for users", why).
			WithHint("use a public address; the operator can allow a private one with `reachPrivate` in server.yaml")
	}
	return nil
}

// Dial connects to a TCP address. It checks the address that the name led to.
func (n *Net) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	d := net.Dialer{Timeout: dialTimeout, Control: func(_, addr string, _ syscall.RawConn) error {
		to, err := netip.ParseAddrPort(addr)
		if err != nil {
			return vm.Errorf(vm.Internal, addr, "not an address: %w", err)
		}
		return n.Check(to.Addr())
	}}
	conn, err := d.DialContext(ctx, network, address)
	var refused *vm.Error
	if errors.As(err, &refused) {
		return nil, refused
	}
	return conn, err
}

// transport dials by Dial and uses no proxy, whatever the environment says.
func (n *Net) transport() *http.Transport {
	return &http.Transport{
		DialContext: n.Dial, TLSHandshakeTimeout: dialTimeout, ResponseHeaderTimeout: 30 * time.Second,
		MaxResponseHeaderBytes: 64 << 10, IdleConnTimeout: 30 * time.Second, MaxIdleConns: 16,
	}
}

// Client returns a client that follows redirects to http and https, at most five.
func (n *Net) Client() *http.Client {
	return &http.Client{Transport: n.transport(), CheckRedirect: func(r *http.Request, via []*http.Request) error {
		if len(via) > maxRedirects {
			return vm.Errorf(vm.Invalid, r.URL.Redacted(), "more than %d redirects", maxRedirects)
		}
		_, err := CheckURL(r.URL.String())
		return err
	}}
}

// Fixed returns a client that follows no redirect.
func (n *Net) Fixed() *http.Client {
	return &http.Client{Transport: n.transport(), CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}

// CheckHost looks up the host of a URL and refuses it if it leads to an address that may
// not be reached. A host that cannot be looked up now is no error: Dial checks again.
func (n *Net) CheckHost(ctx context.Context, u *url.URL) error {
	ctx, stop := context.WithTimeout(ctx, 3*time.Second)
	defer stop()
	ips, err := net.DefaultResolver.LookupNetIP(ctx, "ip", u.Hostname())
	if err != nil {
		return nil //nolint:nilerr // Dial checks again
	}
	for _, ip := range ips {
		if err := n.Check(ip); err != nil {
			return err
		}
	}
	return nil
}
