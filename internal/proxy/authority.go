// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package proxy

import (
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"io/fs"
	"os"
	"slices"
	"time"

	"github.com/warren-vm/warren/internal/ca"
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
type Authority struct{ own *ca.CA }

// OpenAuthority reads the CA of a data directory, or makes it at the first start. Kind
// Corrupt when its files do not belong together.
func OpenAuthority(dir layout.Dir) (*Authority, error) {
	_, err := os.Stat(dir.InsideCA())
	if errors.Is(err, fs.ErrNotExist) {
		err = ca.Make(dir.InsideCA(), dir.InsideCAKey(), pkix.Name{CommonName: vm.InsideCA}, []string{vm.InsideDomain}, slack, caYears)
	}
	if err != nil {
		return nil, layout.Error(dir.InsideCA(), err)
	}
	own, err := ca.Load(dir.InsideCA(), dir.InsideCAKey())
	if err == nil {
		if slices.Equal(own.Cert.PermittedDNSDomains, []string{vm.InsideDomain}) {
			return &Authority{own}, nil
		}
		err = errors.New("it is another certificate")
	}
	return nil, vm.Errorf(vm.Corrupt, dir.InsideCA(), "the CA for names inside VMs cannot be read: %w", err).
		WithHint("put it back from a backup, or remove %s and %s: the next start of a VM brings the new one", dir.InsideCA(), dir.InsideCAKey())
}

// WriteLeaf replaces the file that monitors read: a new certificate for every name
// directly below warren.internal, the CA's certificate and the new one's key.
func (a *Authority) WriteLeaf(path string) error {
	now := time.Now()
	leaf, err := a.own.Issue("*."+vm.InsideDomain, now.Add(-slack), now.AddDate(leafYears, 0, 0))
	if err != nil {
		return err
	}
	secret, err := ca.KeyPEM(leaf.PrivateKey)
	if err != nil {
		return err
	}
	return layout.WriteFile(path, slices.Concat(ca.PEM(leaf.Certificate[0]), ca.PEM(leaf.Certificate[1]), secret), 0o600)
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
	return ca.PEM(last)
}
