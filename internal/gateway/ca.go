// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"io/fs"
	"math/big"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/warren-vm/warren/internal/layout"
	"github.com/warren-vm/warren/vm"
)

const (
	caYears    = 10
	leafLife   = 30 * 24 * time.Hour
	leafRenew  = 10 * 24 * time.Hour
	maxLeaves  = 4096
	clockSlack = time.Hour
)

// CA issues certificates for names below the preview domains. Its own certificate
// permits no other names, so it is safe to trust.
type CA struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pem  []byte

	mu     sync.Mutex
	leaves map[string]*tls.Certificate
}

// OpenCA reads the CA of a data directory, or creates it for all domains at the
// first start. It fails if the CA does not cover the domains in need.
func OpenCA(dir layout.Dir, need, all []string) (*CA, error) {
	cert, err := os.ReadFile(dir.PreviewCA())
	if errors.Is(err, fs.ErrNotExist) {
		if err := makeCA(dir, all); err != nil {
			return nil, err
		}
		cert, err = os.ReadFile(dir.PreviewCA())
	}
	if err != nil {
		return nil, layout.Error(dir.PreviewCA(), err)
	}
	pair, err := tls.LoadX509KeyPair(dir.PreviewCA(), dir.PreviewCAKey())
	if err != nil {
		return nil, vm.Errorf(vm.Corrupt, dir.PreviewCA(), "the CA of the previews cannot be read: %w", err).
			WithHint("put it back from a backup, or remove %s and %s; then browsers must trust the new one", dir.PreviewCA(), dir.PreviewCAKey())
	}
	key, ok := pair.PrivateKey.(*ecdsa.PrivateKey)
	parsed := pair.Leaf
	if !ok || parsed == nil || !parsed.IsCA {
		return nil, vm.Errorf(vm.Corrupt, dir.PreviewCA(), "is not the CA of the previews")
	}
	for _, d := range need {
		if !slices.Contains(parsed.PermittedDNSDomains, d) {
			return nil, vm.Errorf(vm.Invalid, dir.PreviewCA(), "the CA is for the preview domains %s, not for %s", strings.Join(parsed.PermittedDNSDomains, " "), d).
				WithHint("set previewDomain back, or remove %s and %s; then browsers must trust the new one", dir.PreviewCA(), dir.PreviewCAKey())
		}
	}
	return &CA{cert: parsed, key: key, pem: cert, leaves: map[string]*tls.Certificate{}}, nil
}

// makeCA writes the key first, so that no certificate exists without its key.
func makeCA(dir layout.Dir, domains []string) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return vm.Errorf(vm.Internal, "", "key of the CA: %w", err)
	}
	now := time.Now()
	t := &x509.Certificate{
		SerialNumber: serial(), Subject: pkix.Name{CommonName: "Warren previews of " + hostname(), Organization: []string{"Warren (this host's own CA)"}},
		NotBefore: now.Add(-clockSlack), NotAfter: now.AddDate(caYears, 0, 0),
		IsCA: true, BasicConstraintsValid: true, MaxPathLenZero: true, KeyUsage: x509.KeyUsageCertSign,
		PermittedDNSDomainsCritical: true, PermittedDNSDomains: domains,
	}
	der, err := x509.CreateCertificate(rand.Reader, t, t, key.Public(), key)
	if err != nil {
		return vm.Errorf(vm.Internal, "", "certificate of the CA: %w", err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return vm.Errorf(vm.Internal, "", "key of the CA: %w", err)
	}
	if err := layout.WriteFile(dir.PreviewCAKey(), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret}), 0o600); err != nil {
		return err
	}
	return layout.WriteFile(dir.PreviewCA(), pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o644)
}

func hostname() string {
	name, err := os.Hostname()
	if err != nil {
		return "this host"
	}
	return name
}

func serial() *big.Int {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	b[0] &= 0x7f
	return new(big.Int).SetBytes(b[:])
}

// PEM returns the CA's certificate.
func (c *CA) PEM() []byte { return c.pem }

// Leaf returns a certificate for a name below a domain, and issues it if necessary.
func (c *CA) Leaf(name string) (*tls.Certificate, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	if l := c.leaves[name]; l != nil && now.Before(l.Leaf.NotAfter.Add(-leafRenew)) {
		return l, nil
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, vm.Errorf(vm.Internal, name, "key: %w", err)
	}
	t := &x509.Certificate{
		SerialNumber: serial(), Subject: pkix.Name{CommonName: name[:min(len(name), 64)]}, DNSNames: []string{name},
		NotBefore: now.Add(-clockSlack), NotAfter: now.Add(leafLife),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, t, c.cert, key.Public(), c.key)
	if err != nil {
		return nil, vm.Errorf(vm.Internal, name, "certificate: %w", err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, vm.Errorf(vm.Internal, name, "certificate: %w", err)
	}
	if len(c.leaves) >= maxLeaves { // anybody can invent names: drop all
		clear(c.leaves)
	}
	made := &tls.Certificate{Certificate: [][]byte{der, c.cert.Raw}, PrivateKey: key, Leaf: leaf}
	c.leaves[name] = made
	return made, nil
}

// LinkKey reads the key that signs links, or creates it at the first start.
func LinkKey(dir layout.Dir) ([]byte, error) {
	key, err := os.ReadFile(dir.PreviewKey())
	if errors.Is(err, fs.ErrNotExist) {
		key = make([]byte, 32)
		_, _ = rand.Read(key) // never fails
		return key, layout.WriteFile(dir.PreviewKey(), key, 0o600)
	}
	if err != nil {
		return nil, layout.Error(dir.PreviewKey(), err)
	}
	if len(key) != 32 {
		return nil, vm.Errorf(vm.Corrupt, dir.PreviewKey(), "is not a key").WithHint("remove it; existing signed links then stop working")
	}
	return key, nil
}

// Authority returns the certificate of the gateway's own CA, as PEM.
func (g *Gateway) Authority() []byte { return g.CA.PEM() }
