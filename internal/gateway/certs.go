// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/caddyserver/certmagic"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"golang.org/x/sync/singleflight"

	"github.com/warren-vm/warren/vm"
)

const (
	// acmeTLS is the ALPN protocol of an ACME challenge (RFC 8737).
	acmeTLS = "acme-tls/1"
	// handshakeWait is how long a visitor waits for a certificate that is being
	// ordered. After that the order continues.
	handshakeWait = 30 * time.Second
	// expiredKeep is how long the files of an expired certificate are kept.
	expiredKeep = 30 * 24 * time.Hour
)

// CertConfig configures certificates for real domains.
type CertConfig struct {
	// Directory is the address of the ACME server's directory; "" = Let's Encrypt's.
	Directory string
	// Email is sent to the ACME server; it may be empty.
	Email string
	// Roots are the CAs to verify the ACME server's own certificate with; nil = the system's.
	Roots *x509.CertPool
	// Store is the directory of keys and certificates.
	Store string
	// Address is where the gateway listens. It answers challenges there.
	Address net.Addr
	// May returns the account for which a certificate of a name may be
	// ordered, or an error if none may be ordered.
	May func(name string) (vm.AccountID, error)
	// Own are the preview domains that get a certificate and a wildcard certificate, both by
	// DNS-01. DNSHook is the program that sets their DNS records; without it they get none.
	Own     []string
	DNSHook string
	Log     *slog.Logger
}

// Certs manages certificates of preview domains and of mapped domains that are
// real names. It orders each from an ACME server when the first visitor comes. It
// orders only for those names, and only if May allows it.
type Certs struct {
	own     []string
	may     func(string) (vm.AccountID, error)
	magic   *certmagic.Config
	cache   *certmagic.Cache
	issuer  *issuer
	flights singleflight.Group
	wait    time.Duration
	life    context.Context
	end     context.CancelFunc
	stop    func()
}

// NewCerts returns a source of certificates that works until lifetime ends or Close is called.
func NewCerts(lifetime context.Context, c CertConfig) (*Certs, error) {
	addr, ok := c.Address.(*net.TCPAddr)
	if !ok {
		return nil, vm.Errorf(vm.Internal, "", "the gateway has no TCP address")
	}
	if c.Directory == "" {
		c.Directory = certmagic.LetsEncryptProductionCA
	}
	log := zap.New(logCore{c.Log})
	s := &Certs{wait: handshakeWait}
	if c.DNSHook != "" {
		s.own = c.Own
	}
	s.may = func(name string) (vm.AccountID, error) {
		if s.hostsOwn(name) {
			return "", nil // it is ordered for the host
		}
		return c.May(name)
	}
	s.life, s.end = context.WithCancel(lifetime)
	s.cache = certmagic.NewCache(certmagic.CacheOptions{
		GetConfigForCert: func(certmagic.Certificate) (*certmagic.Config, error) { return s.magic, nil },
		Logger:           log,
	})
	s.magic = certmagic.New(s.cache, certmagic.Config{
		Storage:    &certmagic.FileStorage{Path: c.Store},
		Logger:     log,
		OCSP:       certmagic.OCSPConfig{DisableStapling: true},
		DisableARI: true, // certificates are renewed when a third of their life remains
		OnDemand: &certmagic.OnDemandConfig{DecisionFunc: func(_ context.Context, name string) error {
			_, err := s.may(name)
			return err
		}},
		SubjectTransformer: func(_ context.Context, name string) string { return s.subject(name) },
	})
	by := certmagic.ACMEIssuer{
		CA: c.Directory, Email: c.Email, TrustedRoots: c.Roots, Agreed: true, Logger: log, CertObtainTimeout: orderTimeout,
		// The gateway already listens there and answers both challenges.
		ListenHost: addr.IP.String(), AltTLSALPNPort: addr.Port, AltHTTPPort: addr.Port, DisableDistributedSolvers: true,
	}
	s.issuer = &issuer{
		ACMEIssuer: certmagic.NewACMEIssuer(s.magic, by),
		own:        s.hostsOwn, may: s.may, life: s.life, log: c.Log, orders: newOrders(time.Now),
	}
	if c.DNSHook != "" {
		by.DNS01Solver, by.CertObtainTimeout = dnsHook{program: c.DNSHook}, dnsTimeout
		s.issuer.byDNS = certmagic.NewACMEIssuer(s.magic, by)
	}
	s.stop = sync.OnceFunc(func() {
		s.end()
		s.cache.Stop()
	})
	s.magic.Issuers = []certmagic.Issuer{s.issuer}
	return s, nil
}

// Sweep removes the files of certificates that expired more than expiredKeep ago.
func (s *Certs) Sweep(ctx context.Context) error {
	return certmagic.CleanStorage(ctx, s.magic.Storage, certmagic.CleanStorageOptions{
		Logger: s.magic.Logger, ExpiredCerts: true, ExpiredCertGracePeriod: expiredKeep, Interval: time.Hour,
	})
}

// Close cancels orders in progress.
func (s *Certs) Close() { s.stop() }

// hostsOwn reports whether a name is a preview domain with its own certificates, or is below one.
func (s *Certs) hostsOwn(name string) bool {
	_, parent, _ := strings.Cut(name, ".")
	return slices.Contains(s.own, name) || slices.Contains(s.own, parent)
}

// subject returns the name of the certificate for a host name: below a preview
// domain it is the wildcard.
func (s *Certs) subject(name string) string {
	if _, parent, _ := strings.Cut(name, "."); slices.Contains(s.own, parent) && !slices.Contains(s.own, name) {
		return "*." + parent
	}
	return name
}

// get returns the certificate of a name, and orders it if there is none. For
// an ACME server's challenge it returns the answer to that.
func (s *Certs) get(name string, hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	account, err := s.may(name)
	if err != nil {
		return nil, err
	}
	if len(hello.SupportedProtos) == 1 && hello.SupportedProtos[0] == acmeTLS {
		return s.magic.GetCertificate(hello)
	}
	name = s.subject(name)
	if len(s.cache.AllMatchingCertificates(name)) == 0 {
		if err := s.issuer.orders.failed(name); err != nil {
			return nil, err
		}
	}
	// The server's deadline is meant for slow clients, not for this wait.
	_ = hello.Conn.SetDeadline(time.Now().Add(s.wait + headerTimeout))
	defer func() { _ = hello.Conn.SetDeadline(time.Now().Add(headerTimeout)) }()
	made := s.flights.DoChan(name, func() (any, error) {
		ctx, stop := context.WithTimeout(s.life, s.issuer.within(name))
		defer stop()
		cert, err := s.magic.GetCertificateWithContext(ctx, hello)
		if err != nil && s.issuer.orders.failed(name) == nil { // it failed before an order was placed
			s.issuer.failed(name, account, err, "look at the disk of the data directory")
		}
		return cert, err
	})
	timer := time.NewTimer(s.wait)
	defer timer.Stop()
	select {
	case r := <-made:
		cert, _ := r.Val.(*tls.Certificate)
		return cert, r.Err
	case <-timer.C:
		return nil, vm.Errorf(vm.Timeout, name, "the certificate is still being made")
	}
}

// state describes the certificate of a name.
func (s *Certs) state(ctx context.Context, name string) string {
	name = s.subject(name)
	list := s.cache.AllMatchingCertificates(name)
	if len(list) == 0 {
		if c, err := s.magic.CacheManagedCertificate(ctx, name); err == nil {
			list = append(list, c)
		}
	}
	err := s.issuer.orders.failed(name)
	switch {
	case len(list) > 0 && !list[0].Expired():
		return "until " + list[0].Leaf.NotAfter.UTC().Format(time.RFC3339)
	case err != nil:
		return vm.AsError(err).Msg
	}
	return "ordered for the first visitor"
}

// challenge answers an ACME server's challenge over plain HTTP.
func (s *Certs) challenge(w http.ResponseWriter, r *http.Request, name string) bool {
	if !certmagic.LooksLikeHTTPChallenge(r) {
		return false
	}
	if _, err := s.may(name); err != nil {
		return false
	}
	if _, ours := certmagic.GetACMEChallenge(name); !ours {
		return false
	}
	return s.issuer.HandleHTTPChallenge(w, r)
}

// logCore writes the library's errors to the server's log. issuer reports failed orders itself.
type logCore struct{ log *slog.Logger }

// Enabled accepts only levels that an operator may want to act on.
func (c logCore) Enabled(l zapcore.Level) bool { return l >= zapcore.ErrorLevel }

// With ignores the fields that all entries share.
func (c logCore) With([]zapcore.Field) zapcore.Core { return c }

// Check adds this core to entries that it accepts.
func (c logCore) Check(e zapcore.Entry, ce *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	if c.Enabled(e.Level) {
		return ce.AddCore(e, c)
	}
	return ce
}

// Write logs an entry.
func (c logCore) Write(e zapcore.Entry, fields []zapcore.Field) error {
	enc := zapcore.NewMapObjectEncoder()
	for _, f := range fields {
		f.AddTo(enc)
	}
	c.log.Debug("certificates: "+e.Message, "fields", enc.Fields)
	return nil
}

// Sync does nothing.
func (c logCore) Sync() error { return nil }
