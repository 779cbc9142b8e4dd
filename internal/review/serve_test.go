// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package review_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/warren-vm/warren/internal/review"
	"github.com/warren-vm/warren/vm"
)

// serve asks the program's one function, and returns its whole answer.
func serve(t testing.TB, r review.Request, files ...[]byte) ([]byte, error) {
	t.Helper()
	data, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	var layers []io.ReaderAt
	for _, f := range files {
		layers = append(layers, bytes.NewReader(f))
	}
	var out bytes.Buffer
	if err := review.Serve(t.Context(), bytes.NewReader(data), &out, layers); err != nil {
		t.Fatalf("the answer could not be written: %v", err)
	}
	return io.ReadAll(review.Answer(&out))
}

// damaged is what a hostile guest damages: a base, and a layer above it whose journal
// must be replayed.
func damaged(t testing.TB) (base, top []byte) {
	t.Helper()
	dir, tree := t.TempDir(), t.TempDir()
	for name, text := range map[string]string{
		"work/.git/HEAD": "ref: refs/heads/main\n", "work/.git/config": "[core]\n", "work/.gitignore": "*.log\n", "work/a.go": "package a\n",
		"work/b": strings.Repeat("line\n", 2000), "etc/passwd": "root:x:0:0::/root:/bin/sh\n", "etc/systemd/system/x.service": "[Service]\nExecStart=/x\n",
		"var/lib/dpkg/status": "Package: a\nStatus: install ok installed\nVersion: 1\n\n", "deep/er/and/deeper": "x",
	} {
		path := filepath.Join(tree, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	raw, changed := filepath.Join(dir, "raw"), filepath.Join(dir, "changed")
	run(t, "", "mke2fs", "-q", "-t", "ext4", "-b", "4096", "-J", "size=4", "-d", tree, raw, "16M")
	run(t, "", "cp", raw, changed)
	text := filepath.Join(dir, "text")
	if err := os.WriteFile(text, []byte("root:x:0:0::/root:/bin/sh\nagent:x:0:0::/:/bin/sh\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	change(t, changed, "rm work/b", "rm etc/passwd", "mkdir new", "ln work/a.go work/c.go", "ea_set work/a.go user.x y", "symlink work/l ../etc")
	block := filepath.Join(dir, "block")
	if err := os.WriteFile(block, bytes.Repeat([]byte{7}, 4096), 0o600); err != nil {
		t.Fatal(err)
	}
	run(t, fmt.Sprintf("jo\njw -b 3000 %s\njc\n", block), "debugfs", "-w", changed)
	paths := []string{filepath.Join(dir, "base"), filepath.Join(dir, "top")}
	run(t, "", "qemu-img", "convert", "-f", "raw", "-O", "qcow2", raw, paths[0])
	run(t, "", "qemu-img", "convert", "-f", "raw", "-O", "qcow2", changed, paths[1])
	run(t, "", "qemu-img", "rebase", "-f", "qcow2", "-F", "qcow2", "-b", paths[0], paths[1])
	for i, to := range []*[]byte{&base, &top} {
		data, err := os.ReadFile(paths[i])
		if err != nil {
			t.Fatal(err)
		}
		*to = data
	}
	return base, top
}

var (
	compared = review.Request{Verb: review.VerbDiff, From: []int{0}, To: []int{1, 0}, Options: review.Options{Workdir: "/work", Hunks: true, Patch: true, All: true}}
	packed   = review.Request{Verb: review.VerbTar, To: []int{1, 0}, Options: review.Options{Paths: []vm.GuestPath{"/"}}, Bytes: 64 << 20}
)

// Serve answers with a difference, with a tar, and with the kind of a failure. A request
// that is none is refused.
func TestServe(t *testing.T) {
	base, top := damaged(t)
	data, err := serve(t, compared, base, top)
	if err != nil {
		t.Fatal(err)
	}
	var d vm.Diff
	if err := json.Unmarshal(data, &d); err != nil {
		t.Fatal(err)
	}
	if d.Stat.Added == 0 || d.Stat.Deleted == 0 {
		t.Errorf("the difference counts %+v, want files that came and went", d.Stat)
	}
	if data, err := serve(t, packed, base, top); err != nil || len(data) < 10<<10 {
		t.Errorf("a tar of everything has %d bytes, %v", len(data), err)
	}
	if _, err := serve(t, compared, base, bytes.Repeat([]byte{1}, len(top))); vm.KindOf(err) != vm.Corrupt {
		t.Errorf("a layer that is none: %v, want kind corrupt", err)
	}
	for name, r := range map[string]review.Request{
		"no verb":            {},
		"no disks":           {Verb: review.VerbDiff},
		"a layer too many":   {Verb: review.VerbDiff, From: []int{0}, To: []int{2}},
		"a layer below zero": {Verb: review.VerbTar, To: []int{-1}},
	} {
		if _, err := serve(t, r, base, top); err == nil {
			t.Errorf("a request with %s is answered", name)
		}
	}
}

// damage changes bytes of a layer, as a seed says: mostly of tables.
func damage(layer []byte, seed, n uint64) []byte {
	bad := bytes.Clone(layer)
	r := rand.New(rand.NewPCG(seed, n))
	for range n%40 + 1 {
		at := r.IntN(len(bad))
		for tries := 0; bad[at] == 0 && tries < 2000 && at+1 < len(bad); tries++ { // where something is
			at++
		}
		switch r.IntN(5) {
		case 0:
			copy(bad[at:], []byte{0xff, 0xff, 0xff, 0xff})
		case 1:
			clear(bad[at:min(len(bad), at+r.IntN(64))])
		case 2: // a block of another place
			from, to := r.IntN(len(bad))&^4095, at&^4095
			copy(bad[to:min(len(bad), to+4096)], layer[from:])
		case 3:
			bad[at] ^= 1 << r.IntN(8)
		default:
			bad[at] = byte(r.Uint32())
		}
	}
	return bad
}

// FuzzServe: whatever the headers, tables, journals, directories and files of a disk hold,
// the program ends soon, with a bounded answer and without a panic. The older side is
// damaged, too, for a guest wrote it as well.
func FuzzServe(f *testing.F) {
	base, top := damaged(f)
	for seed := range uint64(150) {
		f.Add(seed, seed%7, seed%3 == 0)
	}
	f.Fuzz(func(t *testing.T, seed, n uint64, both bool) {
		a, b := base, damage(top, seed, n)
		if both {
			a = damage(base, n, seed)
		}
		for _, r := range []review.Request{compared, packed} {
			begun := time.Now()
			data, err := serve(t, r, a, b)
			if took := time.Since(begun); took > 20*time.Second {
				t.Errorf("%s took %v (%v)", r.Verb, took, err)
			}
			if len(data) > 128<<20 {
				t.Errorf("%s answers with %d bytes", r.Verb, len(data))
			}
			if vm.KindOf(err) == vm.Internal {
				t.Errorf("%s fails with %v, want a kind that names the damage", r.Verb, err)
			}
		}
	})
}
