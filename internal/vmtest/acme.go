// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package vmtest

import (
	"crypto/x509"
	"encoding/pem"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"github.com/letsencrypt/pebble/v2/ca"
	"github.com/letsencrypt/pebble/v2/db"
	"github.com/letsencrypt/pebble/v2/va"
	"github.com/letsencrypt/pebble/v2/wfe"
)

// ACME is Pebble, Let's Encrypt's test server, in this process. It validates names over
// the network on the gateway's ports, and resolves them with the given name server.
type ACME struct {
	server *httptest.Server
	ca     *ca.CAImpl
	orders atomic.Int64
	fail   atomic.Bool
	hang   atomic.Bool
	awake  chan struct{}
}

// NewACME starts an ACME server. Certificates are valid for life, in whole seconds; 0 = 90 days. It
// validates with TLS-ALPN-01 and HTTP-01 on the given ports.
func NewACME(dns *DNS, tlsPort, httpPort int, life time.Duration) (*ACME, error) {
	// By default Pebble sleeps before validations and rejects some valid nonces, which
	// would repeat orders.
	for _, name := range []string{"PEBBLE_VA_NOSLEEP=1", "PEBBLE_WFE_NONCEREJECT=0"} {
		key, value, _ := strings.Cut(name, "=")
		if err := os.Setenv(key, value); err != nil {
			return nil, err
		}
	}
	quiet := log.New(io.Discard, "", 0)
	store := db.NewMemoryStore()
	a := &ACME{awake: make(chan struct{})}
	a.ca = ca.New(quiet, store, "", "ecdsa", 0, 1, map[string]ca.Profile{"default": {Description: "the only one", ValidityPeriod: uint64(life / time.Second)}})
	v := va.New(quiet, httpPort, tlsPort, true, dns.Address(), store)
	front := wfe.New(quiet, store, v, a.ca, []string{"pebble.example"}, true, false, 1, 1)
	handler := front.Handler()
	a.server = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/order-plz") {
			a.orders.Add(1)
			switch {
			case a.hang.Load():
				select {
				case <-r.Context().Done():
				case <-a.awake:
				}
				return
			case a.fail.Load():
				w.Header().Set("Content-Type", "application/problem+json")
				w.WriteHeader(http.StatusForbidden)
				_, _ = io.WriteString(w, `{"type":"urn:ietf:params:acme:error:rejectedIdentifier","detail":"made to fail","status":403}`)
				return
			}
		}
		handler.ServeHTTP(w, r)
	}))
	return a, nil
}

// Directory is the address of the server's directory.
func (a *ACME) Directory() string { return a.server.URL + wfe.DirectoryPath }

// OwnRoots trust the server's own certificate.
func (a *ACME) OwnRoots() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(a.server.Certificate())
	return pool
}

// OwnPEM is the server's own certificate.
func (a *ACME) OwnPEM() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.server.Certificate().Raw})
}

// Roots trust the certificates that the server issues.
func (a *ACME) Roots() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(a.ca.GetRootCert(0).PEM())
	return pool
}

// Orders is the number of orders made, including failed ones.
func (a *ACME) Orders() int { return int(a.orders.Load()) }

// Fail makes the server refuse new orders.
func (a *ACME) Fail(on bool) { a.fail.Store(on) }

// Hang leaves new orders without an answer.
func (a *ACME) Hang() { a.hang.Store(true) }

// Close ends the server.
func (a *ACME) Close() {
	close(a.awake)
	a.server.Close()
}
