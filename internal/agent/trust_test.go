// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/warren-vm/warren/vm"
)

// trusting returns an agent in a guest of its own, with a directory of certificates.
func trusting(t *testing.T) (a *Agent, root, certs string) {
	t.Helper()
	root = t.TempDir()
	certs = filepath.Join(root, "etc/ssl/certs")
	if err := os.MkdirAll(certs, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(root, "run/warren"), 0o755); err != nil {
		t.Fatal(err)
	}
	cfg := Config{RunDir: filepath.Join(root, "run/warren"), EtcDir: filepath.Join(root, "etc")}
	return &Agent{cfg: cfg, log: slog.New(slog.DiscardHandler)}, root, certs
}

// The disk gets two links, which do not depend on the host; the certificate is in /run.
func TestTrust(t *testing.T) {
	a, root, certs := trusting(t)
	a.trust(nil) // as in a machine without a server, which boots an image
	before, err := os.ReadDir(certs)
	if err != nil || len(before) != 4 {
		t.Fatalf("an image's first boot leaves %v, %v, want four links", before, err)
	}
	stat := func() (out [4]os.FileInfo) {
		for i, e := range before {
			if out[i], err = os.Lstat(filepath.Join(certs, e.Name())); err != nil {
				t.Fatal(err)
			}
		}
		return out
	}
	first := stat()
	for _, ca := range []string{"first", "second"} {
		a.trust([]byte(ca))
		for _, e := range before {
			if strings.Contains(e.Name(), "-vm") || strings.HasPrefix(e.Name(), vm.InterceptCAHash) {
				continue // the VM's own CA is not there
			}
			if got, err := os.ReadFile(filepath.Join(certs, e.Name())); err != nil || string(got) != ca {
				t.Errorf("%s leads to %q, %v, want %q", e.Name(), got, err, ca)
			}
		}
	}
	if st, err := os.Stat(filepath.Join(root, "run/warren-ca.pem")); err != nil || st.Mode().Perm() != 0o644 {
		t.Errorf("users of the guest cannot read the certificate: %v, %v", st.Mode(), err)
	}
	for i, now := range stat() {
		if !os.SameFile(first[i], now) || !now.ModTime().Equal(first[i].ModTime()) {
			t.Errorf("%s changed on the disk", before[i].Name())
		}
	}
}

// What the guest's root put there stays, and a guest without certificates stays as it is.
func TestTrustTouchesNothingElse(t *testing.T) {
	a, root, certs := trusting(t)
	own := filepath.Join(certs, "warren.pem")
	if err := os.WriteFile(own, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	a.trust([]byte("ca"))
	if got, err := os.ReadFile(own); err != nil || string(got) != "mine" {
		t.Errorf("a file of the guest's root became %q, %v", got, err)
	}
	if err := os.RemoveAll(filepath.Join(root, "etc/ssl")); err != nil {
		t.Fatal(err)
	}
	a.trust([]byte("ca"))
	if _, err := os.Stat(filepath.Join(root, "etc/ssl")); !os.IsNotExist(err) {
		t.Errorf("a guest without certificates has %v", err)
	}
}
