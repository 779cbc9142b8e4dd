// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/warren-vm/warren/api"
	"github.com/warren-vm/warren/vm"
)

// project writes files into a new directory.
func projectDir(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "my shop")
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// TestUpDevcontainer: the file's image is asked for, and what it says in vain is told.
func TestUpDevcontainer(t *testing.T) {
	for _, place := range []string{".devcontainer/devcontainer.json", ".devcontainer.json"} {
		f := newFake(t)
		var got api.CreateVM
		f.mux.HandleFunc("POST /v1/vms", func(w http.ResponseWriter, r *http.Request) {
			if err := json.NewDecoder(r.Body).Decode(&got); err != nil {
				t.Error(err)
			}
			refuse(w, vm.Errorf(vm.NoSpace, "disk", "the test ends here"))
		})
		dir := projectDir(t, map[string]string{place: `{"image": "debian:12", "features": {}}`})
		p, err := findProject(dir)
		if err != nil || p == nil || p.Image != "debian:12" || p.Folder != "/workspaces/my-shop" {
			t.Fatalf("%s is read as %+v (%v), want the image debian:12 in /workspaces/my-shop", place, p, err)
		}
		var r api.CreateVM
		p.request(&r)
		if r.Image != "oci:debian:12" || r.Workdir != "/workspaces/my-shop" {
			t.Errorf("asks for the image %q in %q, want oci:debian:12 in the project's folder", r.Image, r.Workdir)
		}
		if r := run(t, f, Local{}, "", "up", dir); r.code == 0 || !strings.Contains(r.stderr, "ignored: features") {
			t.Errorf("up ends with %d and says %q, want what is ignored in it", r.code, r.stderr)
		}
	}
}

// TestUpDevcontainerBuilds: the host is asked to build the directory whose Dockerfile the file names.
func TestUpDevcontainerBuilds(t *testing.T) {
	dir := projectDir(t, map[string]string{".devcontainer.json": `{"build": {"dockerfile": "Dockerfile"}}`})
	var asked string
	local := Local{ImageBuild: func(_ context.Context, o BuildOptions) (vm.Image, error) {
		asked = o.Recipe
		return vm.Image{}, vm.Errorf(vm.NoSpace, "disk", "the test ends here")
	}}
	run(t, newFake(t), local, "", "up", dir).wants(t, 8, "the test ends here")
	if asked != dir {
		t.Errorf("the host is asked to build %q, want %q", asked, dir)
	}
}

// TestUpDevcontainerRefused: what cannot be done is refused before anything is made.
func TestUpDevcontainerRefused(t *testing.T) {
	dir := projectDir(t, map[string]string{".devcontainer.json": "{\n\"image\": 1}"})
	run(t, newFake(t), Local{}, "", "up", dir).wants(t, 2, ".devcontainer.json:2")
	dir = projectDir(t, map[string]string{"warren.yaml": "name: x\n", ".devcontainer.json": "nonsense"})
	if p, err := findProject(dir); p != nil || err != nil {
		t.Errorf("beside a warren.yaml it is read as %+v (%v), want not at all", p, err)
	}
	dir = projectDir(t, map[string]string{".devcontainer/devcontainer.json": "{}"})
	if err := os.Remove(filepath.Join(dir, ".devcontainer/devcontainer.json")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/etc/passwd", filepath.Join(dir, ".devcontainer/devcontainer.json")); err != nil {
		t.Fatal(err)
	}
	if _, err := findProject(dir); err == nil || strings.Contains(err.Error(), "root:") {
		t.Errorf("a link that leads out is followed: %v", err)
	}
}
