// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package ca

import (
	"crypto/x509"
	"crypto/x509/pkix"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// TestCA: a CA that was made is read again, its certificates are good for its domains and
// for no others, and only its owner can read its key.
func TestCA(t *testing.T) {
	dir := t.TempDir()
	cert, key := filepath.Join(dir, "ca.pem"), filepath.Join(dir, "ca.key")
	if err := Make(cert, key, pkix.Name{CommonName: "a test"}, []string{"one.example"}, time.Hour, 1); err != nil {
		t.Fatal(err)
	}
	if st, err := os.Stat(key); err != nil || st.Mode().Perm() != 0o600 {
		t.Errorf("the key has mode %v (%v), want 0600", st.Mode(), err)
	}
	c, err := Load(cert, key)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AddCert(c.Cert)
	for name, good := range map[string]bool{"a.one.example": true, "*.one.example": true, "two.example": false} {
		leaf, err := c.Issue(name, time.Now().Add(-time.Minute), time.Now().Add(time.Hour))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := leaf.Leaf.Verify(x509.VerifyOptions{Roots: roots}); (err == nil) != good {
			t.Errorf("a certificate for %s is verified with %v, want it good: %v", name, err, good)
		}
	}
	if err := os.WriteFile(key, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Load(cert, key); err == nil {
		t.Error("a CA with a damaged key is read")
	}
}
