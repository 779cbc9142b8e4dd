// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package proxy

import (
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"strings"
	"time"

	"github.com/warren-vm/warren/vm"
)

// headerVM names the VM for which a monitor speaks.
const headerVM = "Warren-Inside-Vm"

// maxRequests bounds the requests of one VM that are forwarded at once.
const maxRequests = 32

// secrets are headers of a guest that the server must not act on: a VM calls as itself.
var secrets = []string{"Authorization", "Proxy-Authorization", "Cookie", "Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto", "X-Real-Ip"}

// Upstream returns a handler that forwards requests to the server's Door, as the VM
// itself. The server may be restarted meanwhile; a request then fails with 503.
func Upstream(socket string, id vm.ID, log *slog.Logger) http.Handler {
	places := make(chan struct{}, maxRequests)
	forward := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.Out.URL.Scheme, r.Out.URL.Host = "http", "inside"
			r.Out.Host = strings.ToLower(r.In.Host)
			for name := range r.Out.Header {
				if strings.HasPrefix(name, "Warren-") || strings.HasPrefix(name, "X-Freestyle-") {
					r.Out.Header.Del(name)
				}
			}
			for _, name := range secrets {
				r.Out.Header.Del(name)
			}
			r.Out.Header.Del("Expect") // this end has answered it
			r.Out.Header.Set(headerVM, string(id))
		},
		Transport: &http.Transport{
			DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
				var d net.Dialer
				return d.DialContext(ctx, "unix", socket)
			},
			DisableCompression: true,
			MaxIdleConns:       4,
			IdleConnTimeout:    10 * time.Second,
		},
		FlushInterval: -1,
		ErrorLog:      slog.NewLogLogger(log.Handler(), slog.LevelDebug),
		ErrorHandler: func(w http.ResponseWriter, r *http.Request, err error) {
			log.Debug("a request from the guest was not forwarded", "err", err)
			say(w, http.StatusServiceUnavailable, "warren: the server did not answer; try again")
		},
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case places <- struct{}{}:
			defer func() { <-places }()
			_ = http.NewResponseController(w).EnableFullDuplex() // an early answer does not close the request's body
			forward.ServeHTTP(lowerMeta{w}, r)
		default:
			say(w, http.StatusServiceUnavailable, "warren: this VM has 32 requests open; wait for one to end")
		}
	})
}

// lowerMeta writes the names of an object's metadata in lower case, as S3 does: some clients
// show them as they are written.
type lowerMeta struct{ http.ResponseWriter }

func (w lowerMeta) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func (w lowerMeta) WriteHeader(status int) {
	h := w.Header()
	for name, values := range h {
		if strings.HasPrefix(name, "X-Amz-Meta-") {
			delete(h, name)
			h[strings.ToLower(name)] = values
		}
	}
	w.ResponseWriter.WriteHeader(status)
}

// Client returns a client that reaches the server's Door as a VM itself, for its monitor's
// own requests.
func Client(socket string, id vm.ID) *http.Client {
	return &http.Client{
		Transport: speaker{id, &http.Transport{
			DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
				var d net.Dialer
				return d.DialContext(ctx, "unix", socket)
			},
			DisableCompression:  true,
			MaxIdleConnsPerHost: 8,
			IdleConnTimeout:     10 * time.Second,
			ReadBufferSize:      64 << 10,
		}},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// speaker says for which VM a request is.
type speaker struct {
	id   vm.ID
	next http.RoundTripper
}

func (s speaker) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set(headerVM, string(s.id))
	return s.next.RoundTrip(r)
}

// say answers with a sentence, which git shows to its user.
func say(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, text+"\n")
}
