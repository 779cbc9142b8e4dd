// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package seal

import (
	"crypto/ed25519"
	"crypto/rand"
	"errors"
	"io/fs"
	"os"

	"github.com/warren-vm/warren/internal/layout"
	"github.com/warren-vm/warren/vm"
)

// SigningKey returns the key with which the server of a data directory signs archives, and
// makes it at the first use. It is stored wrapped by the host's key. Kinds: Corrupt, and
// those of the host's key.
func SigningKey(dir layout.Dir) (ed25519.PrivateKey, error) {
	wrapped, err := os.ReadFile(dir.BundleKey())
	if errors.Is(err, fs.ErrNotExist) {
		return newSigningKey(dir)
	}
	if err != nil {
		return nil, layout.Error(dir.BundleKey(), err)
	}
	host, err := LoadHostKey(dir.HostKey())
	if err != nil {
		return nil, err
	}
	seed, err := Unwrap(host, wrapped)
	if err != nil || len(seed) != ed25519.SeedSize {
		return nil, vm.Errorf(vm.Corrupt, dir.BundleKey(), "the signing key does not open").
			WithHint("put back host.key and bundle.key, or remove bundle.key: the next archive is then signed by a new key")
	}
	return ed25519.NewKeyFromSeed(seed), nil
}

func newSigningKey(dir layout.Dir) (ed25519.PrivateKey, error) {
	host, err := EnsureHostKey(dir.HostKey())
	if err != nil {
		return nil, err
	}
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, vm.Errorf(vm.Internal, "signing key", "%w", err)
	}
	wrapped, err := Wrap(host, key.Seed())
	if err != nil {
		return nil, err
	}
	return key, layout.WriteFile(dir.BundleKey(), wrapped, 0o600)
}
