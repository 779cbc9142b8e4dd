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
			forward.ServeHTTP(w, r)
		default:
			say(w, http.StatusServiceUnavailable, "warren: this VM has 32 requests open; wait for one to end")
		}
	})
}

// say answers with a sentence, which git shows to its user.
func say(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, text+"\n")
}
