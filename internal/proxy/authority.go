// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package proxy

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
	"time"

	"github.com/warren-vm/warren/internal/layout"
	"github.com/warren-vm/warren/vm"
)

// A guest's clock may be far behind when a program first looks at the certificates.
const (
	slack     = 365 * 24 * time.Hour
	caYears   = 50
	leafYears = 10
)

// Authority is the CA of one host for the names inside its VMs. Its certificate permits
// no other names. The key never leaves the data directory.
type Authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// OpenAuthority reads the CA of a data directory, or makes it at the first start. Kind
// Corrupt when its files do not belong together.
func OpenAuthority(dir layout.Dir) (*Authority, error) {
	_, err := os.Stat(dir.InsideCA())
	if errors.Is(err, fs.ErrNotExist) {
		err = makeAuthority(dir)
	}
	if err != nil {
		return nil, layout.Error(dir.InsideCA(), err)
	}
	pair, err := tls.LoadX509KeyPair(dir.InsideCA(), dir.InsideCAKey())
	if err == nil {
		key, ok := pair.PrivateKey.(*ecdsa.PrivateKey)
		if ok && pair.Leaf != nil && pair.Leaf.IsCA && slices.Equal(pair.Leaf.PermittedDNSDomains, []string{vm.InsideDomain}) {
			return &Authority{pair.Leaf, key}, nil
		}
		err = errors.New("it is another certificate")
	}
	return nil, vm.Errorf(vm.Corrupt, dir.InsideCA(), "the CA for names inside VMs cannot be read: %w", err).
		WithHint("put it back from a backup, or remove %s and %s: the next start of a VM brings the new one", dir.InsideCA(), dir.InsideCAKey())
}

// makeAuthority writes the key first, so that no certificate exists without its key.
func makeAuthority(dir layout.Dir) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return vm.Errorf(vm.Internal, "", "key of the CA: %w", err)
	}
	now := time.Now()
	t := &x509.Certificate{
		SerialNumber: serial(), Subject: pkix.Name{CommonName: vm.InsideCA},
		NotBefore: now.Add(-slack), NotAfter: now.AddDate(caYears, 0, 0),
		IsCA: true, BasicConstraintsValid: true, MaxPathLenZero: true, KeyUsage: x509.KeyUsageCertSign,
		PermittedDNSDomainsCritical: true, PermittedDNSDomains: []string{vm.InsideDomain},
	}
	der, err := x509.CreateCertificate(rand.Reader, t, t, key.Public(), key)
	if err != nil {
		return vm.Errorf(vm.Internal, "", "certificate of the CA: %w", err)
	}
	secret, err := secretPEM(key)
	if err != nil {
		return err
	}
	if err := layout.WriteFile(dir.InsideCAKey(), secret, 0o600); err != nil {
		return err
	}
	return layout.WriteFile(dir.InsideCA(), certPEM(der), 0o644)
}

// WriteLeaf replaces the file that monitors read: a new certificate for every name
// directly below warren.internal, the CA's certificate and the new one's key.
func (a *Authority) WriteLeaf(path string) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return vm.Errorf(vm.Internal, path, "key: %w", err)
	}
	now := time.Now()
	t := &x509.Certificate{
		SerialNumber: serial(), Subject: pkix.Name{CommonName: "*." + vm.InsideDomain}, DNSNames: []string{"*." + vm.InsideDomain},
		NotBefore: now.Add(-slack), NotAfter: now.AddDate(leafYears, 0, 0),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, t, a.cert, key.Public(), a.key)
	if err != nil {
		return vm.Errorf(vm.Internal, path, "certificate: %w", err)
	}
	secret, err := secretPEM(key)
	if err != nil {
		return err
	}
	return layout.WriteFile(path, slices.Concat(certPEM(der), certPEM(a.cert.Raw), secret), 0o600)
}

// CA returns the CA's certificate, as PEM, from a file that WriteLeaf wrote; nil if there
// is none.
func CA(path string) []byte {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil
	}
	var last []byte
	for block, rest := pem.Decode(data); block != nil; block, rest = pem.Decode(rest) {
		if block.Type == "CERTIFICATE" {
			last = block.Bytes
		}
	}
	if last == nil {
		return nil
	}
	return certPEM(last)
}

func certPEM(der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

func secretPEM(key *ecdsa.PrivateKey) ([]byte, error) {
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
