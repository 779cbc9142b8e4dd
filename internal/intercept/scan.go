// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package intercept

import (
	"bytes"
	"errors"
	"io"
	"net/http"

	"github.com/warren-vm/warren/vm"
)

// Scan returns why a plain HTTP request must not leave: it has a placeholder, which belongs
// only into requests with TLS. "" = it has none. A long body is searched while it is sent.
func (i *Interceptor) Scan(p vm.NetworkPolicy, r *http.Request) string {
	if len(p.Secrets) == 0 {
		return ""
	}
	t := target{host: r.Host, methods: []string{r.Method}, path: r.URL.EscapedPath()}
	_, bad := look(p.Secrets, r, t) // no use has port 0, so each placeholder is a stray
	if bad == nil && r.Body != nil && r.Body != http.NoBody && r.ContentLength != 0 {
		bad = i.scanBody(p, r, t)
	}
	if bad == nil {
		return ""
	}
	return i.plain(p, t, *bad)
}

// scanBody reads a short body, and has a long one searched while it is sent.
func (i *Interceptor) scanBody(p vm.NetworkPolicy, r *http.Request, t target) *stray {
	needles := allPlaceholders(p.Secrets)
	if r.ContentLength > 0 && r.ContentLength <= readAhead {
		body, err := io.ReadAll(r.Body)
		for _, n := range needles {
			if bytes.Contains(body, n) {
				return &stray{nameOf(p.Secrets, string(n)), "the body"}
			}
		}
		r.Body = &readBody{bytes.NewReader(body), err}
		return nil
	}
	r.Body = &plainBody{in: newFilter(r.Body, needles, nil), src: r.Body, found: func() {
		i.plain(p, t, stray{namesOf(p.Secrets), "the body"})
	}}
	return nil
}

// plainBody is a body that is searched while it is sent.
type plainBody struct {
	in    *filter
	src   io.ReadCloser
	found func()
}

func (b *plainBody) Read(p []byte) (int, error) {
	n, err := b.in.Read(p)
	if errors.Is(err, errFound) {
		b.found()
	}
	return n, err
}

func (b *plainBody) Close() error { return b.src.Close() }

// ScanBytes is Scan for bytes without TLS.
func (i *Interceptor) ScanBytes(p vm.NetworkPolicy, window []byte) string {
	for _, n := range allPlaceholders(p.Secrets) {
		if bytes.Contains(window, n) {
			return i.plain(p, target{}, stray{nameOf(p.Secrets, string(n)), "a connection without TLS"})
		}
	}
	return ""
}

// plain reports a stray outside of TLS and says what is wrong.
func (i *Interceptor) plain(p vm.NetworkPolicy, t target, bad stray) string {
	m := vm.Misplaced{Name: bad.name, Where: bad.where, Host: t.host}
	if len(t.methods) > 0 {
		m.Method, m.Path = t.methods[0], hidden(p.Secrets, t.path)
	}
	i.misplaced(m)
	return strayReason(bad)
}
