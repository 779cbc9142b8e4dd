// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package review_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/warren-vm/warren/internal/qcow"
	"github.com/warren-vm/warren/internal/review"
	"github.com/warren-vm/warren/vm"
)

// run runs a program on disks that the test made.
func run(t testing.TB, stdin, program string, args ...string) string {
	t.Helper()
	if _, err := exec.LookPath(program); err != nil {
		t.Skipf("%s is not installed", program)
	}
	cmd := exec.Command(program, args...)
	cmd.Stdin = strings.NewReader(stdin)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s %v failed: %v: %s", program, args, err, out)
	}
	return string(out)
}

// disk is a raw disk in memory.
type disk struct{ *bytes.Reader }

func (disk) Zeros(int64, int64) (int64, error) { return 0, nil }

func load(t testing.TB, path string) disk {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return disk{bytes.NewReader(data)}
}

// everything says that any byte may differ.
func everything(a, b disk) review.Differ {
	return func(f func(off, n int64) error) error { return f(0, max(a.Size(), b.Size())) }
}

// base makes a file system with some files, and returns its path and a copy's.
func base(t testing.TB) (before, after string) {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"work/app.go": "package main\n", "work/same": "same", "work/mode": "m", "work/owner": "o", "work/attr": "a",
		"work/silent": strings.Repeat("quiet\n", 100), "work/gone": "g", "work/old": strings.Repeat("moved\n", 50),
		"tree/deep/one": "1", "tree/deep/two": "2", "etc/unit": "[Unit]\n", "swap": "before",
	} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		// Older than the change: times have whole seconds here.
		if old := time.Now().Add(-time.Hour); os.Chtimes(path, old, old) != nil {
			t.Fatal("a file's times cannot be set")
		}
	}
	if err := os.Symlink("same", filepath.Join(dir, "work/link")); err != nil {
		t.Fatal(err)
	}
	before, after = filepath.Join(t.TempDir(), "before"), filepath.Join(t.TempDir(), "after")
	run(t, "", "mke2fs", "-q", "-t", "ext4", "-b", "4096", "-d", dir, before, "64M")
	data, err := os.ReadFile(before)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(after, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return before, after
}

// change has debugfs change a file system, as a guest's kernel does.
func change(t testing.TB, path string, commands ...string) {
	t.Helper()
	out := run(t, strings.Join(commands, "\n")+"\n", "debugfs", "-w", path)
	for line := range strings.Lines(out) {
		if !strings.HasPrefix(line, "debugfs") && !strings.HasPrefix(line, "Allocated") && strings.TrimSpace(line) != "" {
			t.Fatalf("debugfs said %q", line)
		}
	}
}

// said describes a change in a line.
func said(c review.Change) string {
	line := string(c.Verb) + " " + c.Path
	if c.From != "" {
		line += " from " + c.From
	}
	for _, x := range []struct {
		is   bool
		word string
	}{{c.Content, "content"}, {c.Mode, "mode"}, {c.Owner, "owner"}, {c.Attrs, "attrs"}, {c.Links, "links"}, {c.Silent, "SILENT"}} {
		if x.is {
			line += " " + x.word
		}
	}
	return line
}

func compare(t testing.TB, before, after string) *review.Result {
	t.Helper()
	a, b := load(t, before), load(t, after)
	r, err := review.Compare(t.Context(), a, b, everything(a, b))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func wantChanges(t *testing.T, r *review.Result, want ...string) {
	t.Helper()
	var got []string
	for _, c := range r.Changes {
		got = append(got, said(c))
	}
	for _, w := range want {
		if !slices.Contains(got, w) {
			t.Errorf("missing: %s", w)
		}
	}
	for _, g := range got {
		if !slices.Contains(want, g) {
			t.Errorf("found, and not made: %s", g)
		}
	}
}

// Two equal disks do not differ.
func TestNoChange(t *testing.T) {
	before, after := base(t)
	r := compare(t, before, after)
	wantChanges(t, r)
	if r.Unowned != 0 {
		t.Errorf("%d blocks without an owner differ, want 0", r.Unowned)
	}
}

// Every kind of change is found, each with its name.
func TestEveryChange(t *testing.T) {
	before, after := base(t)
	text := filepath.Join(t.TempDir(), "text")
	if err := os.WriteFile(text, []byte("new text\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	change(t, after,
		"mkdir dir", // before the number of an inode is free: debugfs gives no generation
		"cd work",
		"write "+text+" added",
		"rm gone",
		"sif mode mode 0100755",
		"sif owner uid 1000",
		"ea_set attr user.x y",
		"ln old new", "unlink old",
		"rm link", "symlink link mode",
		"rm app.go", "write "+text+" app.go",
		"cd /tree/deep", "rm one", "rm two", "cd /tree", "rmdir deep", "cd /", "rmdir tree",
	)
	r := compare(t, before, after)
	wantChanges(t, r,
		"added /work/added", "deleted /work/gone", "modified /work/mode mode", "modified /work/owner owner", "modified /work/attr attrs",
		"renamed /work/new from /work/old", "modified /work/link content", "modified /work/app.go content mode",
		"deleted /tree", "deleted /tree/deep", "deleted /tree/deep/one", "deleted /tree/deep/two", "added /dir")
	if len(r.Oddities) != 0 {
		t.Errorf("oddities are found: %q", r.Oddities)
	}
}

// A block that somebody wrote below the file system is found, and shown as that.
func TestSilentChange(t *testing.T) {
	before, after := base(t)
	data, err := os.ReadFile(after)
	if err != nil {
		t.Fatal(err)
	}
	at := bytes.Index(data, []byte("quiet\nquiet\n"))
	if at < 0 {
		t.Fatal("the file's block is not there")
	}
	copy(data[at:], "LOUD!")
	if err := os.WriteFile(after, data, 0o600); err != nil {
		t.Fatal(err)
	}
	wantChanges(t, compare(t, before, after), "modified /work/silent content SILENT")
}

// A comparison that cannot be made is an error, never an empty result.
func TestNoComparison(t *testing.T) {
	before, _ := base(t)
	a := load(t, before)
	for name, b := range map[string]disk{
		"zeros": {bytes.NewReader(make([]byte, a.Size()))},
		"other blocks": func() disk {
			path := filepath.Join(t.TempDir(), "small")
			run(t, "", "mke2fs", "-q", "-t", "ext4", "-b", "1024", path, "64M")
			return load(t, path)
		}(),
	} {
		t.Run(name, func(t *testing.T) {
			_, err := review.Compare(t.Context(), a, b, everything(a, b))
			if vm.KindOf(err) != vm.Unsupported {
				t.Errorf("the comparison ends with %v, want kind unsupported", err)
			}
		})
	}
}

// A caller that goes away ends the comparison.
func TestCancelled(t *testing.T) {
	before, after := base(t)
	a, b := load(t, before), load(t, after)
	ctx, stop := context.WithCancelCause(t.Context())
	stop(vm.Cancelled)
	if _, err := review.Compare(ctx, a, b, everything(a, b)); vm.KindOf(err) != vm.Cancelled {
		t.Errorf("the comparison ends with %v, want kind cancelled", err)
	}
}

// A name in two directories and a directory with two parents are shown as what no
// kernel makes.
func TestOddities(t *testing.T) {
	before, after := base(t)
	change(t, after, "ln /tree/deep /work/deep")
	r := compare(t, before, after)
	if len(r.Oddities) != 1 || !strings.Contains(r.Oddities[0], "two parents") {
		t.Errorf("the oddities are %q, want one of a directory with two parents", r.Oddities)
	}
}

// Through the layers of two qcow2 chains the same is found as on the raw disks, and
// only what lies above the shared layer is read.
func TestThroughLayers(t *testing.T) {
	before, after := base(t)
	text := filepath.Join(t.TempDir(), "text")
	if err := os.WriteFile(text, bytes.Repeat([]byte("x"), 300000), 0o600); err != nil {
		t.Fatal(err)
	}
	change(t, after, "cd work", "write "+text+" added", "rm gone")
	dir := t.TempDir()
	lower, upper := filepath.Join(dir, "lower.qcow2"), filepath.Join(dir, "upper.qcow2")
	run(t, "", "qemu-img", "convert", "-O", "qcow2", before, lower)
	run(t, "", "qemu-img", "create", "-q", "-f", "qcow2", "-F", "qcow2", "-b", lower, upper)
	write(t, before, after, upper)
	l, u := layer(t, lower), layer(t, upper)
	a, err := qcow.NewChain(l)
	if err != nil {
		t.Fatal(err)
	}
	b, err := qcow.NewChain(u, l)
	if err != nil {
		t.Fatal(err)
	}
	compared := int64(0)
	r, err := review.Compare(t.Context(), a, b, func(f func(off, n int64) error) error {
		return qcow.Differ(a, b, func(off, n int64) error {
			compared += n
			return f(off, n)
		})
	})
	if err != nil {
		t.Fatal(err)
	}
	wantChanges(t, r, "added /work/added", "deleted /work/gone")
	if compared > 16<<20 {
		t.Errorf("%d bytes of 64 MiB are compared", compared)
	}
}

func layer(t *testing.T, path string) *qcow.DiskLayer {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	l, err := qcow.OpenLayer(f)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// write writes what differs between two raw disks to a layer.
func write(t *testing.T, before, after, to string) {
	t.Helper()
	a, b := load(t, before), load(t, after)
	pa, pb := make([]byte, qcow.ClusterSize), make([]byte, qcow.ClusterSize)
	part := filepath.Join(t.TempDir(), "part")
	for off := int64(0); off < b.Size(); off += qcow.ClusterSize {
		if _, err := a.ReadAt(pa, off); err != nil {
			t.Fatal(err)
		}
		if _, err := b.ReadAt(pb, off); err != nil {
			t.Fatal(err)
		}
		if bytes.Equal(pa, pb) {
			continue
		}
		if err := os.WriteFile(part, pb, 0o600); err != nil {
			t.Fatal(err)
		}
		run(t, "", "qemu-io", "-c", fmt.Sprintf("write -s %s %d %d", part, off, len(pb)), to)
	}
}

// FuzzCompare: whatever two disks hold, the comparison ends soon and without a panic.
func FuzzCompare(f *testing.F) {
	before, after := base(f)
	change(f, after, "cd work", "rm gone", "mkdir d", "ln old new", "unlink old")
	good, err := os.ReadFile(after)
	if err != nil {
		f.Fatal(err)
	}
	a := load(f, before)
	used := int64(0) // the tables and the directories lie before this
	for i, c := range good {
		if c != 0 && int64(i) < 8<<20 {
			used = int64(i)
		}
	}
	for seed := range uint64(60) {
		f.Add(seed, uint16(8))
	}
	f.Fuzz(func(t *testing.T, seed uint64, n uint16) {
		bad := bytes.Clone(good)
		for range n % 32 {
			seed = seed*6364136223846793005 + 1442695040888963407
			at := int64(seed>>20) % used
			for bad[at] == 0 && at < used && seed%4 != 0 { // where something is
				at++
			}
			bad[at] = byte(seed >> 8)
		}
		begun := time.Now()
		b := disk{bytes.NewReader(bad)}
		_, err := review.Compare(t.Context(), a, b, everything(a, b))
		if took := time.Since(begun); took > 20*time.Second {
			t.Errorf("it took %v (%v)", took, err)
		}
	})
}
