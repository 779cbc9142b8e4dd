// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package backup_test

import (
	"crypto/ed25519"
	"crypto/rand"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/warren-vm/warren/internal/backup"
	"github.com/warren-vm/warren/internal/bundle"
	"github.com/warren-vm/warren/vm"
)

// forged is a backup with one more record, signed by a key that nobody knows.
func forged(t *testing.T, src backup.Source, kind string, value any) backup.Source {
	t.Helper()
	a, f, err := src.Open()
	must(t, err)
	defer f.Close()
	_, key, err := ed25519.GenerateKey(rand.Reader)
	must(t, err)
	path := filepath.Join(t.TempDir(), "forged.tar.zst")
	out, err := os.Create(path)
	must(t, err)
	w, err := bundle.NewWriter(out, bundle.Manifest{Kind: a.Manifest.Kind, Server: a.Manifest.Server, At: a.Manifest.At}, key)
	must(t, err)
	must(t, a.Each(t.Context(), func(e bundle.Entry, r io.Reader) error {
		if e.Path != "records.jsonl" {
			return w.Add(e, r)
		}
		text, err := io.ReadAll(r)
		if err != nil {
			return err
		}
		data, err := json.Marshal(value)
		if err != nil {
			return err
		}
		line, err := json.Marshal(map[string]any{"kind": kind, "id": "forged", "value": data})
		if err != nil {
			return err
		}
		e.Size, e.SHA256 = int64(len(text)+len(line)), ""
		return w.Add(e, strings.NewReader(string(text)+string(line)))
	}))
	_, err = w.Close(a.Manifest.Facts)
	must(t, err)
	must(t, out.Close())
	return source(path)
}

// TestForgedRecords: a record of a hostile backup cannot name a directory elsewhere on the
// host, in which a verification or a restore would write files.
func TestForgedRecords(t *testing.T) {
	good := newServer(t).copied(t)
	for _, restore := range []bool{false, true} {
		home := t.TempDir()
		victim := filepath.Join(home, "victim")
		must(t, os.Mkdir(victim, 0o700))
		must(t, os.WriteFile(filepath.Join(victim, "config"), []byte("mine"), 0o600))
		up := "../../../../../../../../../../../.." + victim
		for name, bad := range map[string]struct {
			kind  string
			value any
		}{
			"a repository":          {"repositories", vm.Repository{ID: up, DefaultBranch: "main"}},
			"a VM":                  {"vms", vm.VM{ID: vm.ID(up), DiskOn: "sl-a"}},
			"a VM's disk":           {"vms", vm.VM{ID: vm.NewID(), DiskOn: vm.GenerationID(up)}},
			"a generation":          {"generations", vm.Generation{ID: vm.GenerationID(up)}},
			"a record of two kinds": {"repositories", map[string]any{"id": up, "defaultBranch": "main", "image": 5, "diskOn": 5}},
			"the parent itself":     {"repositories", vm.Repository{ID: ".."}},
		} {
			src := forged(t, good, bad.kind, bad.value)
			var err error
			if restore {
				_, err = backup.Restore(t.Context(), src, filepath.Join(home, "data"))
			} else {
				_, err = backup.Verify(t.Context(), src, home)
			}
			if vm.KindOf(err) != vm.Invalid {
				t.Errorf("%s with a path (restore: %v) gives %v, want kind %s", name, restore, err, vm.Invalid)
			}
		}
		if left := names(t, victim); len(left) != 1 || left[0] != "config" {
			t.Errorf("restore: %v: elsewhere it made %v", restore, left)
		}
		text, err := os.ReadFile(filepath.Join(victim, "config"))
		must(t, err)
		if string(text) != "mine" {
			t.Errorf("restore: %v: a file elsewhere has become %q", restore, text)
		}
	}
}
