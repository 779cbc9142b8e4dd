// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

// Package ca makes this host's own CAs and the certificates that they issue. A CA of it
// permits some domains and no other names, so that it is safe to trust.
package ca

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"time"

	"github.com/warren-vm/warren/internal/layout"
	"github.com/warren-vm/warren/vm"
)

// CA issues certificates.
type CA struct {
	Cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// Make writes a new CA that is valid from now minus slack on, for years. The key, of mode
// 0600, is written first, so that no certificate exists without its key.
func Make(cert, key string, subject pkix.Name, domains []string, slack time.Duration, years int) error {
	secret, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return vm.Errorf(vm.Internal, cert, "key of the CA: %w", err)
	}
	now := time.Now()
	t := &x509.Certificate{
		SerialNumber: serial(), Subject: subject, NotBefore: now.Add(-slack), NotAfter: now.AddDate(years, 0, 0),
		IsCA: true, BasicConstraintsValid: true, MaxPathLenZero: true, KeyUsage: x509.KeyUsageCertSign,
		PermittedDNSDomainsCritical: true, PermittedDNSDomains: domains,
	}
	der, err := x509.CreateCertificate(rand.Reader, t, t, secret.Public(), secret)
	if err != nil {
		return vm.Errorf(vm.Internal, cert, "certificate of the CA: %w", err)
	}
	text, err := KeyPEM(secret)
	if err != nil {
		return err
	}
	if err := layout.WriteFile(key, text, 0o600); err != nil {
		return err
	}
	return layout.WriteFile(cert, PEM(der), 0o644)
}

// Load reads a CA that Make wrote. Its errors have no kind: the caller says what to do.
func Load(cert, key string) (*CA, error) {
	pair, err := tls.LoadX509KeyPair(cert, key)
	if err != nil {
		return nil, err
	}
	secret, ok := pair.PrivateKey.(*ecdsa.PrivateKey)
	if !ok || pair.Leaf == nil || !pair.Leaf.IsCA {
		return nil, errors.New("it is another certificate")
	}
	return &CA{pair.Leaf, secret}, nil
}

// Issue makes a certificate of a server for a name, which may begin with "*.", with a key
// of its own. The CA's certificate comes with it.
func (c *CA) Issue(name string, from, until time.Time) (*tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, vm.Errorf(vm.Internal, name, "key: %w", err)
	}
	t := &x509.Certificate{
		SerialNumber: serial(), Subject: pkix.Name{CommonName: name[:min(len(name), 64)]}, DNSNames: []string{name},
		NotBefore: from, NotAfter: until,
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, t, c.Cert, key.Public(), c.key)
	if err != nil {
		return nil, vm.Errorf(vm.Internal, name, "certificate: %w", err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, vm.Errorf(vm.Internal, name, "certificate: %w", err)
	}
	return &tls.Certificate{Certificate: [][]byte{der, c.Cert.Raw}, PrivateKey: key, Leaf: leaf}, nil
}

// PEM writes a certificate.
func PEM(der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

// KeyPEM writes a private key in PKCS 8. Kind Internal.
func KeyPEM(key any) ([]byte, error) {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, vm.Errorf(vm.Internal, "", "a key cannot be written: %w", err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), nil
}

func serial() *big.Int {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	b[0] &= 0x7f
	return new(big.Int).SetBytes(b[:])
}
