// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package image

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/warren-vm/warren/vm"
)

func (b *bench) layerFiles() []string {
	b.t.Helper()
	entries, err := os.ReadDir(b.opts.Dir.Layers())
	if err != nil {
		b.t.Fatal(err)
	}
	var out []string
	for _, e := range entries {
		name, _, _ := strings.Cut(e.Name(), "-")
		out = append(out, name)
	}
	return out
}

func (b *bench) build(r Recipe) {
	b.t.Helper()
	b.ran, b.restored = nil, ""
	b.opts.Recipe = r
	if _, err := Build(b.t.Context(), b.opts); err != nil {
		b.t.Fatal(err)
	}
}

// told is what customize.sh reads in a variable.
func (b *bench) told(name string) string {
	for _, e := range b.env {
		if v, ok := strings.CutPrefix(e, name+"="); ok {
			return v
		}
	}
	return ""
}

// A build saves the layer that it builds on, and the next build starts from it.
func TestLayers(t *testing.T) {
	b := newBench(t)
	b.build(Recipe{Name: "one", Packages: []string{"jq"}})
	if !slices.Contains(b.args, "--variant=minbase") || b.told("WARREN_SAVE") != "1" || b.told("WARREN_PACKAGES") != "jq" {
		t.Errorf("the first build: %q, %q", b.args, b.env)
	}
	if got := b.layerFiles(); !slices.Equal(got, []string{"base"}) {
		t.Errorf("saved %q", got)
	}
	b.build(Recipe{Name: "two", Packages: []string{"git", "tmux"}})
	if !slices.Contains(b.args, "--variant=custom") || b.restored != "system 1" || b.told("WARREN_PACKAGES") != "tmux" {
		t.Errorf("the second build starts from %q: %q, %q", b.restored, b.args, b.env)
	}
	if b.told("WARREN_SAVE") != "0" || b.told("WARREN_RESTORED") != "1" {
		t.Errorf("the second build saves what is saved: %q", b.env)
	}
	b.build(Recipe{Name: "base"})
	if b.restored == "" {
		t.Errorf("base itself is built from nothing")
	}
}

// A recipe above dev starts from base if only that exists, and saves dev.
func TestLayerOfDev(t *testing.T) {
	b := newBench(t)
	withDownloads(t, b)
	b.build(Recipe{Name: "one"})
	b.build(Recipe{Name: "shop", From: "dev", Packages: []string{"redis"}})
	if !strings.Contains(b.told("WARREN_BELOW"), "build-essential") || strings.Contains(b.told("WARREN_BELOW"), "python3 ") {
		t.Errorf("between base and dev: %q", b.told("WARREN_BELOW"))
	}
	if b.told("WARREN_PACKAGES") != "redis" {
		t.Errorf("above dev: %q", b.told("WARREN_PACKAGES"))
	}
	if got := b.layerFiles(); !slices.Equal(got, []string{"base", "dev"}) {
		t.Errorf("saved %q", got)
	}
	b.build(Recipe{Name: "shop", From: "dev", Packages: []string{"redis", "nginx"}})
	if b.told("WARREN_BELOW") != "" || b.told("WARREN_PACKAGES") != "redis nginx" {
		t.Errorf("from dev: %q", b.env)
	}
}

// A recipe without a shipped base neither saves a layer nor starts from one.
func TestLayerOfNothing(t *testing.T) {
	b := newBench(t)
	b.build(Recipe{Name: "own", From: fromNothing, Packages: []string{"systemd-sysv"}})
	if _, err := os.Stat(b.opts.Dir.Layers()); err == nil || !slices.Contains(b.args, "--include=systemd-sysv") {
		t.Errorf("the layer has error %v and the build's arguments are %q, want no layer and the package in the arguments", err, b.args)
	}
}

// A layer stays when a later step of the build fails; an incomplete one does
// not. Other apt sources have separate layers, which replace the old one.
func TestLayerOfFailedBuild(t *testing.T) {
	b := newBench(t)
	b.fail["mmdebstrap"] = vm.Errorf(vm.Internal, "mmdebstrap", "exit status 1")
	b.layerFails = true
	if _, err := Build(t.Context(), b.opts); err == nil || len(b.layerFiles()) != 0 {
		t.Errorf("cut short: %v, %q", err, b.layerFiles())
	}
	b.layerFails = false
	if _, err := Build(t.Context(), b.opts); err == nil || len(b.layerFiles()) != 1 {
		t.Errorf("failed later: %v, %q", err, b.layerFiles())
	}
	b.fail = nil
	list := filepath.Join(b.opts.hostRoot, "etc/apt/sources.list")
	if err := os.WriteFile(list, []byte("deb http://other.example/debian bookworm main\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	b.build(Recipe{Name: "mine"})
	if b.restored != "" || len(b.layerFiles()) != 1 {
		t.Errorf("with other sources it starts from %q; layers %q", b.restored, b.layerFiles())
	}
}

// Layers that no build used for a month are removed; others stay.
func TestPrune(t *testing.T) {
	b := newBench(t)
	b.build(Recipe{Name: "one"})
	dir := b.opts.Dir.Layers()
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 1 {
		t.Fatal(entries, err)
	}
	old := time.Now().Add(-31 * 24 * time.Hour)
	for name, at := range map[string]time.Time{entries[0].Name(): old, "dev-0.tar": old, "dev-1.tar": time.Now(), ".tmp-1": time.Now().Add(-25 * time.Hour), ".tmp-2": time.Now()} {
		f, err := os.OpenFile(filepath.Join(dir, name), os.O_CREATE, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(f.Name(), at, at); err != nil {
			t.Fatal(err)
		}
	}
	b.build(Recipe{Name: "two"})
	if got := b.layerFiles(); !slices.Equal(got, []string{".tmp", "base", "dev"}) {
		t.Errorf("left: %q", got)
	}
}
