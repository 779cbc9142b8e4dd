// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package e2b

import (
	"context"
	"crypto/subtle"
	"crypto/tls"
	"net"
	"net/http"
	"net/http/httputil"
	"slices"
	"strings"

	"github.com/warren-vm/warren/internal/interpreter"
	"github.com/warren-vm/warren/vm"
)

// servePort forwards a request to a server in the sandbox. The ports of a sandbox are open to
// everybody who knows its id, unless it was made private.
func (d *Door) servePort(w http.ResponseWriter, r *http.Request, rec vm.VM, port uint16) {
	sb := rec.Sandbox
	if port == interpreter.Port {
		if err := d.interpreter(r, rec); err != nil {
			d.failFile(w, r, err)
			return
		}
	} else if sb.Private && subtle.ConstantTimeCompare([]byte(r.Header.Get(headerTraffic)), []byte(d.token(tokenTraffic, rec.ID))) != 1 {
		d.brake.Wait(r.Context())
		send(w, http.StatusForbidden, missing{Sandbox: string(rec.ID), Message: "Traffic access token is missing or invalid", Code: http.StatusForbidden})
		return
	}
	if err := d.Access.Valid(actorOf(rec)); err != nil {
		d.fail(w, r, err)
		return
	}
	call := &vm.Call{Actor: actorOf(rec), Request: vm.NewRequestID(), Via: vm.ActivityGateway}
	scheme := "http"
	if slices.Contains(sb.HTTPSPorts, port) {
		scheme = "https"
	}
	proxy := httputil.ReverseProxy{
		Rewrite: func(p *httputil.ProxyRequest) {
			p.Out.URL.Scheme, p.Out.URL.Host = scheme, net.JoinHostPort("127.0.0.1", itoa(int(port)))
			p.Out.Host = p.In.Host
			if sb.MaskHost != "" {
				p.Out.Host = strings.ReplaceAll(sb.MaskHost, "${PORT}", itoa(int(port)))
			}
			p.SetXForwarded()
			for _, h := range []string{headerSandbox, headerPort, headerTraffic, "X-Api-Key"} {
				p.Out.Header.Del(h)
			}
		},
		Transport:     d.portTransport(call, string(rec.ID), port),
		FlushInterval: -1,
		ErrorLog:      nil,
		ErrorHandler: func(w http.ResponseWriter, r *http.Request, err error) {
			if r.Context().Err() != nil {
				panic(http.ErrAbortHandler)
			}
			if port == interpreter.Port {
				d.interpreterLost(rec.ID)
			}
			out := missing{string(rec.ID), "The sandbox is running but port is not open", http.StatusBadGateway, int(port)}
			if _, ok := d.alive(rec.ID); !ok {
				out.Message, out.Port = "The sandbox was not found", 0
			}
			send(w, http.StatusBadGateway, out)
		},
	}
	if port == interpreter.Port {
		proxy.ModifyResponse = func(res *http.Response) error {
			res.Body = &interpreterBody{res.Body, func() { d.interpreterLost(rec.ID) }}
			return nil
		}
	}
	ctx, cancel := d.connected(r)
	defer cancel()
	w.Header().Del("Access-Control-Allow-Origin") // the guest's server decides
	w.Header().Del("Access-Control-Allow-Methods")
	w.Header().Del("Access-Control-Allow-Headers")
	w.Header().Del("Access-Control-Expose-Headers")
	w.Header().Del("Cache-Control")
	_ = http.NewResponseController(w).EnableFullDuplex() // an early answer does not close the request's body
	proxy.ServeHTTP(w, r.WithContext(ctx))
}

// portTransport sends requests to a port in the guest, each over a connection of its own.
func (d *Door) portTransport(call *vm.Call, ref string, port uint16) *http.Transport {
	return &http.Transport{
		DisableKeepAlives: true, DisableCompression: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return d.Inside.DialPort(ctx, call, ref, port)
		},
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, //nolint:gosec // the server is the guest's own, reached by the host's link
	}
}
