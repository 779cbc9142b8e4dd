// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package handoff

import (
	"context"
	"encoding/json"
	"os"

	"github.com/warren-vm/warren/internal/bundle"
	"github.com/warren-vm/warren/internal/layout"
	"github.com/warren-vm/warren/vm"
)

// Inspect checks every byte of a bundle in a file, and returns its manifest and the
// fingerprint of its signer. Kinds: NotFound, Corrupt, Invalid.
func Inspect(ctx context.Context, path string) (m bundle.Manifest, signer string, err error) {
	f, err := os.Open(path)
	if err != nil {
		return m, "", layout.Error(path, err)
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return m, "", layout.Error(path, err)
	}
	a, err := bundle.Open(f, st.Size(), bundle.Own)
	if err != nil {
		return m, "", bundle.About(path, err)
	}
	if a.Manifest.Kind != bundle.OfVM {
		return m, "", a.Manifest.WrongKind(path)
	}
	return a.Manifest, a.Signer, bundle.About(path, a.Verify(ctx))
}

// FactsOf returns the part of a manifest that only bundles have.
func FactsOf(m bundle.Manifest) (f Facts, err error) {
	if err := json.Unmarshal(m.Facts, &f); err != nil {
		return f, vm.Errorf(vm.Corrupt, "manifest.json", "its facts cannot be read: %w", err)
	}
	return f, nil
}
