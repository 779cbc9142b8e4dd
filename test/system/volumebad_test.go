//go:build system

// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package system

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestVolumeRefused: what a volume does not open with, and files that are not
// what they were. Nothing here runs a VM.
func TestVolumeRefused(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	secret := func(text string) string {
		path := filepath.Join(t.TempDir(), "secret")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	unlock := func(name string, flags ...string) result {
		t.Helper()
		return h.run(append([]string{"volume", "unlock", name}, flags...)...)
	}
	h.ok("volume", "create", "safe", "--size", "64", "--passphrase-file", secret("right"))
	h.ok("volume", "create", "other", "--size", "64")
	unlock("safe").wants(t, 4, "--passphrase")
	// No oracle: a wrong passphrase and a volume that has none are told the same.
	wrong, noSlot := unlock("safe", "--passphrase-file", secret("wrong")), unlock("other", "--passphrase-file", secret("wrong"))
	wrong.wants(t, 4, "this secret opens none of the volume's slots")
	if said := strings.ReplaceAll(noSlot.stderr, h.volume("other").ID, h.volume("safe").ID); said != wrong.stderr || noSlot.code != 4 {
		t.Errorf("they can be told apart:\n%s%s", wrong.stderr, noSlot.stderr)
	}
	for range 5 { // each further one waits longer
		unlock("safe", "--passphrase-file", secret("wrong"))
	}
	unlock("safe", "--passphrase-file", secret("right")).wants(t, 8, "too many refused secrets")

	disk := filepath.Join(h.data, "volumes", h.volume("other").ID, "disk.qcow2")
	whole, err := os.ReadFile(disk)
	if err != nil {
		t.Fatal(err)
	}
	put := func(data []byte) {
		t.Helper()
		if err := os.WriteFile(disk, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	foreign, err := os.ReadFile(filepath.Join(h.data, "volumes", h.volume("safe").ID, "disk.qcow2"))
	if err != nil {
		t.Fatal(err)
	}
	for what, data := range map[string][]byte{"cut": whole[:100<<10], "foreign": foreign, "empty": nil} {
		put(data)
		if r := unlock("other"); r.code != 13 || !strings.Contains(r.stderr, "backup") {
			t.Errorf("unlock with a header that is %s: want status 13 and the backup, got %+v", what, r)
		}
		h.volumeIs("other", "locked", 0)
	}
	damaged := append([]byte("damage"), whole[6:]...)
	put(damaged)
	if r := unlock("other"); r.code != 0 || !strings.Contains(r.stderr, "header") {
		t.Errorf("a damaged header: %+v", r)
	}
	h.ok("volume", "lock", "other")
	if now, err := os.ReadFile(disk); err != nil || string(now[:6]) != string(whole[:6]) {
		t.Errorf("the header is not put back (%v)", err)
	}
}
