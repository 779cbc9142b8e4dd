// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package agent_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/warren-vm/warren/internal/treesync"
	"github.com/warren-vm/warren/vm"
)

// TestTree: a tree is listed with digests, files of it are fetched together, and
// changes are made only where a path is as they say; then the mark is set. A
// directory that is not there is not found.
func TestTree(t *testing.T) {
	r := newRig(t)
	dir := t.TempDir()
	must := func(what string, err error) {
		t.Helper()
		if err != nil {
			t.Fatalf("%s failed: %v", what, err)
		}
	}
	must("making files", errors.Join(os.Mkdir(filepath.Join(dir, "d"), 0o755), os.WriteFile(filepath.Join(dir, "d/a"), []byte("one"), 0o644), os.WriteFile(filepath.Join(dir, "b"), []byte("two"), 0o755)))
	list := func() treesync.Listing {
		t.Helper()
		body, err := r.ListTree(within(t, 10*time.Second), "", dir, vm.TreeOptions{Pair: "p", Exclude: []string{"skip"}})
		must("listing", err)
		defer body.Close()
		l, err := treesync.ReadListing(body)
		must("decoding the listing", err)
		return l
	}
	l := list()
	if a := l.Entries["d/a"]; len(l.Entries) != 3 || a == nil || len(a.Digest) != 64 || !l.Entries["b"].Exec || l.Mark != "" {
		t.Errorf("the listing is %+v, want d, d/a with a digest and b, which is executable, without a mark", l)
	}
	body, err := r.PickFiles(within(t, 10*time.Second), "", dir, vm.TreePick{Names: []vm.GuestPath{"b", "gone", "d/a"}})
	must("picking", err)
	data, err := io.ReadAll(body)
	must("reading the files", errors.Join(err, body.Close()))
	if got := string(data); !strings.Contains(got, "two") || !strings.Contains(got, "one") || !strings.Contains(got, `"gone":true`) {
		t.Errorf("the files are %q, want both contents and the one that is gone", got)
	}

	var ops bytes.Buffer
	for _, op := range []treesync.Op{
		{Path: "b", Was: l.Entries["b"]},
		{Path: "d/a", Was: l.Entries["b"]},
		{Path: "n", New: &treesync.Entry{Type: treesync.TypeDir}},
		{End: true},
	} {
		line, err := json.Marshal(op)
		must("encoding", err)
		ops.Write(append(line, '\n'))
	}
	placed, err := r.PlaceFiles(within(t, 10*time.Second), "", dir, "p", "m1", &ops)
	must("placing", err)
	if placed.Done != 3 || len(placed.Failed) != 1 || placed.Failed[0].Op != 1 {
		t.Errorf("the answer is %+v, want 3 changes of which the second failed", placed)
	}
	if l := list(); l.Entries["b"] != nil || l.Entries["n"] == nil || l.Entries["d/a"] == nil || l.Mark != "m1" {
		t.Errorf("after the changes the listing is %+v, want b deleted, n made, d/a as it was, and the mark", l)
	}
	_, err = r.ListTree(within(t, 10*time.Second), "", dir+"/none", vm.TreeOptions{})
	wantError(t, "a directory that is not there", err, vm.NotFound, "FILE_NOT_FOUND")
	_, err = r.PlaceFiles(within(t, 10*time.Second), "", dir, "p", "m2", strings.NewReader("no change\n"))
	if err == nil || list().Mark != "m1" {
		t.Errorf("a malformed change: %v and the mark %q, want an error and the old mark", err, list().Mark)
	}
}
