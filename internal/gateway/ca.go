// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"crypto/rand"
	"crypto/tls"
	"crypto/x509/pkix"
	"errors"
	"io/fs"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/warren-vm/warren/internal/ca"
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
	own *ca.CA
	pem []byte

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
	own, err := ca.Load(dir.PreviewCA(), dir.PreviewCAKey())
	if err != nil {
		return nil, vm.Errorf(vm.Corrupt, dir.PreviewCA(), "the CA of the previews cannot be read: %w", err).
			WithHint("put it back from a backup, or remove %s and %s; then browsers must trust the new one", dir.PreviewCA(), dir.PreviewCAKey())
	}
	domains := own.Cert.PermittedDNSDomains
	for _, d := range need {
		if !slices.Contains(domains, d) {
			return nil, vm.Errorf(vm.Invalid, dir.PreviewCA(), "the CA is for the preview domains %s, not for %s", strings.Join(domains, " "), d).
				WithHint("set previewDomain back, or remove %s and %s; then browsers must trust the new one", dir.PreviewCA(), dir.PreviewCAKey())
		}
	}
	return &CA{own: own, pem: cert, leaves: map[string]*tls.Certificate{}}, nil
}

func makeCA(dir layout.Dir, domains []string) error {
	subject := pkix.Name{CommonName: "Warren previews of " + hostname(), Organization: []string{"Warren (this host's own CA)"}}
	return ca.Make(dir.PreviewCA(), dir.PreviewCAKey(), subject, domains, clockSlack, caYears)
}

func hostname() string {
	name, err := os.Hostname()
	if err != nil {
		return "this host"
	}
	return name
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
	made, err := c.own.Issue(name, now.Add(-clockSlack), now.Add(leafLife))
	if err != nil {
		return nil, err
	}
	if len(c.leaves) >= maxLeaves { // anybody can invent names: drop all
		clear(c.leaves)
	}
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
