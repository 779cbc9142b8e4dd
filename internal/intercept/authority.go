// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package intercept

import (
	"crypto/tls"
	"crypto/x509/pkix"
	"errors"
	"io/fs"
	"os"
	"sync"
	"time"

	"github.com/warren-vm/warren/internal/ca"
	"github.com/warren-vm/warren/vm"
)

// A guest's clock may be far behind when a program first looks at the certificates.
const (
	slack     = 365 * 24 * time.Hour
	caYears   = 50
	leafYears = 10
	maxLeaves = 128 // certificates in memory
)

// Authority is the CA of one VM, which only that VM trusts. Its key stays on the host.
type Authority struct {
	own *ca.CA

	mu     sync.Mutex
	leaves map[string]*tls.Certificate // guarded by mu
}

// OpenAuthority reads a VM's CA from its files, or makes it.
func OpenAuthority(cert, key string) (*Authority, error) {
	_, err := os.Stat(cert)
	if errors.Is(err, fs.ErrNotExist) {
		err = ca.Make(cert, key, pkix.Name{CommonName: vm.InterceptCA}, nil, slack, caYears)
	}
	var own *ca.CA
	if err == nil {
		own, err = ca.Load(cert, key)
	}
	if err != nil {
		return nil, vm.Errorf(vm.Internal, cert, "the VM's own CA cannot be read: %w", err).
			WithHint("remove %s: the next start of the VM makes a new one", cert)
	}
	return &Authority{own: own, leaves: map[string]*tls.Certificate{}}, nil
}

// PEM is the CA's certificate.
func (a *Authority) PEM() []byte { return ca.PEM(a.own.Cert.Raw) }

// leaf returns a certificate for a name.
func (a *Authority) leaf(name string) (*tls.Certificate, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if have := a.leaves[name]; have != nil {
		return have, nil
	}
	now := time.Now()
	made, err := a.own.Issue(name, now.Add(-slack), now.AddDate(leafYears, 0, 0))
	if err != nil {
		return nil, err
	}
	if len(a.leaves) >= maxLeaves {
		clear(a.leaves)
	}
	a.leaves[name] = made
	return made, nil
}
