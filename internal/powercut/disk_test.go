// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package powercut_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/warren-vm/warren/internal/layout"
	"github.com/warren-vm/warren/internal/powercut"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestDisk holds that the disk is one while it has power, and that a cut leaves
// what was synced and nothing else.
func TestDisk(t *testing.T) {
	d := powercut.Mount(t)
	in := func(name string) string { return filepath.Join(d.Dir, name) }
	big := bytes.Repeat([]byte("0123456789abcdef"), 20_000)
	must(t, os.WriteFile(in("old"), big, 0o640))
	d.SyncAll()

	f, err := os.OpenFile(in("old"), os.O_RDWR, 0)
	must(t, err)
	_, err = f.WriteAt([]byte("synced"), 5000)
	must(t, err)
	must(t, f.Sync())
	_, err = f.WriteAt([]byte("UNSYNCED"), 5000)
	must(t, err)
	must(t, f.Truncate(6000))
	must(t, f.Truncate(7000))
	must(t, f.Close())
	now, err := os.ReadFile(in("old"))
	must(t, err)
	want := append(bytes.Clone(big[:6000]), make([]byte, 1000)...)
	copy(want[5000:], "UNSYNCED")
	if !bytes.Equal(now, want) {
		t.Errorf("the live file has %d bytes, not those that were written", len(now))
	}
	must(t, os.Mkdir(in("dir"), 0o700))
	must(t, os.WriteFile(in("dir/tmp"), []byte("content"), 0o600))
	must(t, os.Rename(in("dir/tmp"), in("dir/final")))
	must(t, os.Link(in("old"), in("second")))

	lost, kept := d.Cut(t, powercut.NamesLost), d.Cut(t, powercut.NamesKept)
	want = bytes.Clone(big)
	copy(want[5000:], "synced")
	for _, path := range []string{lost + "/old", kept + "/old", kept + "/second"} {
		got, err := os.ReadFile(path)
		must(t, err)
		if !bytes.Equal(got, want) {
			t.Errorf("%s is not as its last fsync left it", path)
		}
	}
	if names, err := os.ReadDir(lost); err != nil || len(names) != 1 {
		t.Errorf("names that were not synced survived: %v, %v", names, err)
	}
	if got, err := os.ReadFile(kept + "/dir/final"); err != nil || len(got) != 0 {
		t.Errorf("a file that was renamed without an fsync holds %q, %v", got, err)
	}

	must(t, layout.SyncFile(in("dir/final")))
	must(t, layout.SyncDir(in("dir")))
	must(t, layout.SyncDir(d.Dir))
	must(t, os.Remove(in("second")))
	lost = d.Cut(t, powercut.NamesLost)
	if got, err := os.ReadFile(lost + "/dir/final"); err != nil || string(got) != "content" {
		t.Errorf("after all was synced the file holds %q, %v", got, err)
	}
	if _, err := os.Stat(lost + "/second"); err != nil {
		t.Errorf("a removal that was not synced survived: %v", err)
	}
	must(t, os.RemoveAll(in("dir")))
	if _, err := os.Stat(in("dir")); !os.IsNotExist(err) {
		t.Errorf("the directory is still there: %v", err)
	}
}
