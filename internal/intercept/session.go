// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package intercept

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/warren-vm/warren/internal/usernet"
)

const (
	handshakeTimeout = 20 * time.Second
	maxAnswerHeader  = 256 << 10
)

// session is one connection of the guest, and those to the server that its requests use.
type session struct {
	i *Interceptor
	d usernet.Intercepted

	mu       sync.Mutex // guards the fields below
	closed   bool
	verified bool      // the server has shown a good certificate
	spare    *tls.Conn // a connection for which no request has been sent
	to       *http.Transport
}

// untrusted is a server's certificate that does not verify.
type untrusted struct{ reason string }

func (u untrusted) Error() string { return "its certificate does not verify: " + u.reason }

// transport returns the way to the server. A guest that speaks HTTP/1.1 may ask for an
// upgrade, so the server is spoken to in HTTP/1.1, too.
func (s *session) transport(h2 bool) *http.Transport {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.to != nil {
		return s.to
	}
	var protocols http.Protocols
	protocols.SetHTTP1(true)
	protocols.SetHTTP2(h2)
	s.to = &http.Transport{
		DialTLSContext:         func(ctx context.Context, _, _ string) (net.Conn, error) { return s.dial(ctx, h2) },
		Protocols:              &protocols,
		DisableCompression:     true,
		MaxResponseHeaderBytes: maxAnswerHeader,
		MaxIdleConnsPerHost:    4,
		IdleConnTimeout:        idleTimeout,
		WriteBufferSize:        16 << 10,
		ReadBufferSize:         16 << 10,
		HTTP2:                  &http.HTTP2Config{SendPingTimeout: time.Minute},
	}
	return s.to
}

// verify makes sure that the server has shown a good certificate in this session.
func (s *session) verify(ctx context.Context, h2 bool) error {
	s.mu.Lock()
	known := s.verified
	s.mu.Unlock()
	if known {
		return nil
	}
	c, err := s.connect(ctx, h2)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.spare != nil || s.closed {
		_ = c.Close()
		return nil
	}
	s.spare = c
	return nil
}

// dial returns a verified connection.
func (s *session) dial(ctx context.Context, h2 bool) (net.Conn, error) {
	s.mu.Lock()
	c := s.spare
	s.spare = nil
	s.mu.Unlock()
	if c != nil {
		return c, nil
	}
	return s.connect(ctx, h2)
}

// connect connects to the server and verifies its certificate with the host's roots.
func (s *session) connect(ctx context.Context, h2 bool) (*tls.Conn, error) {
	ctx, stop := context.WithTimeout(ctx, handshakeTimeout)
	defer stop()
	raw, err := s.d.Dial(ctx)
	if err != nil {
		return nil, err
	}
	protocols := []string{"http/1.1"}
	if h2 {
		protocols = []string{"h2", "http/1.1"}
	}
	c := tls.Client(raw, &tls.Config{ServerName: s.d.Name, RootCAs: s.i.cfg.Roots, NextProtos: protocols, MinVersion: tls.VersionTLS12})
	if err := c.HandshakeContext(ctx); err != nil {
		_ = raw.Close()
		var bad *tls.CertificateVerificationError
		if errors.As(err, &bad) {
			return nil, untrusted{certificateFault(bad.Err)}
		}
		return nil, err
	}
	s.mu.Lock()
	s.verified = true
	s.mu.Unlock()
	return c, nil
}

// certificateFault says what is wrong with a certificate.
func certificateFault(err error) string {
	var (
		unknown x509.UnknownAuthorityError
		invalid x509.CertificateInvalidError
		other   x509.HostnameError
	)
	switch {
	case errors.As(err, &other):
		return "it is for another host"
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return "it has expired or is not valid yet"
	case errors.As(err, &unknown):
		return "no CA that this host trusts has signed it"
	}
	return "it is not valid"
}

// close ends the connections to the server.
func (s *session) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	if s.spare != nil {
		_ = s.spare.Close()
		s.spare = nil
	}
	if s.to != nil {
		s.to.CloseIdleConnections()
	}
}
