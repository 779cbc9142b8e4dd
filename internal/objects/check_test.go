// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package objects_test

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/warren-vm/warren/internal/layout"
	"github.com/warren-vm/warren/internal/objects"
)

// TestCheck: a copy of the objects is whole by its sizes and digests, and a missing or
// changed file is found.
func TestCheck(t *testing.T) {
	h := newHost(t)
	h.put("small", []byte("small"))
	h.put("large", random(100_000))
	h.put("kept", random(50_000))
	copied := layout.Dir(t.TempDir())
	h.must(os.MkdirAll(copied.Objects(), 0o700))
	index, err := os.Create(copied.ObjectIndex())
	h.must(err)
	h.must(h.room.Snapshot(h.Context(), index, func(b objects.Body) error {
		r, err := b.Open(h.Context())
		h.must(err)
		defer r.Close()
		h.copyFile(r, filepath.Join(copied.Objects(), b.ID))
		return nil
	}))
	h.must(index.Close())
	n, faults, err := objects.Check(h.Context(), copied)
	if err != nil || n != 3 || len(faults) != 0 {
		t.Fatalf("the copy has %d versions and the faults %v, %v; want 3 and none", n, faults, err)
	}
	list, err := filepath.Glob(filepath.Join(copied.Objects(), "*"))
	h.must(err)
	for _, path := range list {
		if filepath.Base(path) == "index.db" {
			continue
		}
		data, err := os.ReadFile(path)
		h.must(err)
		data[len(data)/2] ^= 1
		h.must(os.WriteFile(path, data, 0o600))
	}
	if _, faults, err := objects.Check(h.Context(), copied); err != nil || len(faults) != 2 || !strings.Contains(faults[0], "digest") {
		t.Errorf("changed bytes of two versions give the faults %v, %v", faults, err)
	}
	for _, path := range list {
		if filepath.Base(path) != "index.db" {
			h.must(os.Remove(path))
		}
	}
	if _, faults, err := objects.Check(h.Context(), copied); err != nil || len(faults) != 2 || !strings.Contains(faults[0], "gone") {
		t.Errorf("missing bytes of two versions give the faults %v, %v", faults, err)
	}
	if n, faults, err := objects.Check(h.Context(), layout.Dir(t.TempDir())); n != 0 || len(faults) != 0 || err != nil {
		t.Errorf("a directory without objects has %d versions, faults %v, %v", n, faults, err)
	}
}

func (h *host) copyFile(from io.Reader, to string) {
	h.Helper()
	h.must(os.MkdirAll(filepath.Dir(to), 0o700))
	f, err := os.Create(to)
	h.must(err)
	_, err = io.Copy(f, from)
	h.must(err)
	h.must(f.Close())
}
