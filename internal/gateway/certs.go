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
	// acmeTLS is what an ACME server's challenge agrees on (RFC 8737).
	acmeTLS = "acme-tls/1"
	// handshakeWait is how long a visitor waits for a certificate that is being
	// made; the order continues without it.
	handshakeWait = 30 * time.Second
	// expiredKeep is how long files of a certificate stay that nobody renewed.
	expiredKeep = 30 * 24 * time.Hour
)

// CertConfig is what certificates of real domains need.
type CertConfig struct {
	// Directory is the address of the ACME server's directory; empty = Let's
	// Encrypt's.
	Directory string
	// Email is told to the ACME server; may be empty.
	Email string
	// Roots are the CAs that the ACME server's own certificate may be of; nil =
	// the system's.
	Roots *x509.CertPool
	// Store is the directory of keys and certificates.
	Store string
	// Address is where the gateway listens, and answers challenges.
	Address net.Addr
	// May says for which account a certificate of a name may be ordered; its
	// error means that it may not.
	May func(name string) (vm.AccountID, error)
	// Own are the preview domains that have a certificate of their own and a wildcard
	// one, by DNS-01; DNSHook is the program that sets the records for it, and without
	// it there are none.
	Own     []string
	DNSHook string
	Log     *slog.Logger
}

// Certs has certificates of mapped domains that are real names, and of preview
// domains, ordered of an ACME server when the first visitor comes. Nobody can have
// it ask for another name than these, and those that May allows.
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

// NewCerts returns a source of certificates that lives until the end of lifetime,
// or Close.
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
		DisableARI: true, // certificates are renewed at a third of their life
		OnDemand: &certmagic.OnDemandConfig{DecisionFunc: func(_ context.Context, name string) error {
			_, err := s.may(name)
			return err
		}},
		SubjectTransformer: func(_ context.Context, name string) string { return s.subject(name) },
	})
	by := certmagic.ACMEIssuer{
		CA: c.Directory, Email: c.Email, TrustedRoots: c.Roots, Agreed: true, Logger: log, CertObtainTimeout: orderTimeout,
		// The gateway listens there already, and answers both challenges.
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

// Sweep removes files of certificates that ended long ago.
func (s *Certs) Sweep(ctx context.Context) error {
	return certmagic.CleanStorage(ctx, s.magic.Storage, certmagic.CleanStorageOptions{
		Logger: s.magic.Logger, ExpiredCerts: true, ExpiredCertGracePeriod: expiredKeep, Interval: time.Hour,
	})
}

// Close ends orders that are under way.
func (s *Certs) Close() { s.stop() }

// hostsOwn reports whether a name is a preview domain that has certificates here, or
// lies below one.
func (s *Certs) hostsOwn(name string) bool {
	_, parent, _ := strings.Cut(name, ".")
	return slices.Contains(s.own, name) || slices.Contains(s.own, parent)
}

// subject is the name of the certificate that a name is shown with: of what lies
// below a preview domain the wildcard one.
func (s *Certs) subject(name string) string {
	if _, parent, _ := strings.Cut(name, "."); slices.Contains(s.own, parent) && !slices.Contains(s.own, name) {
		return "*." + parent
	}
	return name
}

// get returns the certificate of a name, ordered when there is none yet, or
// what answers an ACME server's challenge.
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
	// The server's deadline is for clients that are slow, not for this wait.
	_ = hello.Conn.SetDeadline(time.Now().Add(s.wait + headerTimeout))
	defer func() { _ = hello.Conn.SetDeadline(time.Now().Add(headerTimeout)) }()
	made := s.flights.DoChan(name, func() (any, error) {
		ctx, stop := context.WithTimeout(s.life, s.issuer.within(name))
		defer stop()
		cert, err := s.magic.GetCertificateWithContext(ctx, hello)
		if err != nil && s.issuer.orders.failed(name) == nil { // it did not come to an order
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

// state says in words what certificate a name has.
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

// challenge answers an ACME server's question over plain HTTP.
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

// logCore routes the library's errors into our log. What an order fails with is
// said by issuer already.
type logCore struct{ log *slog.Logger }

// Enabled keeps what an operator may want to act on.
func (c logCore) Enabled(l zapcore.Level) bool { return l >= zapcore.ErrorLevel }

// With drops what is common to all entries.
func (c logCore) With([]zapcore.Field) zapcore.Core { return c }

// Check adds this core to entries that it takes.
func (c logCore) Check(e zapcore.Entry, ce *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	if c.Enabled(e.Level) {
		return ce.AddCore(e, c)
	}
	return ce
}

// Write hands an entry on.
func (c logCore) Write(e zapcore.Entry, fields []zapcore.Field) error {
	enc := zapcore.NewMapObjectEncoder()
	for _, f := range fields {
		f.AddTo(enc)
	}
	c.log.Debug("certificates: "+e.Message, "fields", enc.Fields)
	return nil
}

// Sync has nothing to flush.
func (c logCore) Sync() error { return nil }
