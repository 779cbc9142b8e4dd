//go:build system

// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package system

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// TestOCIDockerfile: a Dockerfile that fails is reported with its line and makes no image. The corrected one
// finds the layers of the first build, on an image that only the host can pull, and `up` starts a VM of it.
func TestOCIDockerfile(t *testing.T) {
	if os.Getenv("WARREN_SOAK") == "" {
		t.Skip("WARREN_SOAK is not set: an emulated builder takes minutes; `make soak` sets it")
	}
	h := importer(t)
	h.serve()
	t.Cleanup(h.close)
	app := filepath.Join(t.TempDir(), "app")
	build := exec.Command("go", "build", "-trimpath", "-ldflags=-s -w", "-o", app, "./testdata/ociapp")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("the program is not built: %v\n%s", err, out)
	}
	body, err := os.ReadFile(app)
	if err != nil {
		t.Fatalf("the program is not there: %v", err)
	}
	ref := strings.TrimPrefix(pushed(t, "test/app:1", v1.Config{Env: []string{"PATH=/"}}, layerOf(t, map[string][]byte{"app": body})), "oci:")

	dir := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatalf("%s is not written: %v", name, err)
		}
	}
	good := "ARG VERSION\nFROM " + ref + "\nCOPY note.txt /note\nRUN [\"/app\", \"read\", \"/note\"]\nENV GREETING=built\nENTRYPOINT [\"/app\"]\n"
	write("warren.yaml", "name: built\ndockerfile: ./Dockerfile\nargs: {VERSION: '1'}\n")
	write("note.txt", "from the build context\n")
	write("secret.txt", "not for the build\n")
	write(".dockerignore", "secret.txt\n")
	write("Dockerfile", good+"RUN [\"/app\", \"read\", \"/secret.txt\"]\n")
	h.ok("trust", "add", dir)
	began := time.Now()
	r := h.runWithin(6*time.Minute, "", nil, "image", "build", dir)
	r.wants(t, 2, `Dockerfile:7: the instruction "RUN [\"/app\", \"read\", \"/secret.txt\"]" failed`)
	t.Logf("a build that fails: %v", time.Since(began))
	if out := h.ok("image", "ls"); strings.Contains(out, "built") {
		t.Errorf("a build that failed left an image:\n%s", out)
	}

	write("Dockerfile", good)
	h.ok("trust", "add", dir)
	began = time.Now()
	r = h.runWithin(6*time.Minute, "", nil, "up", dir, "--name", "b")
	t.Logf("a build with a cache, and the start of a VM: %v", time.Since(began))
	r.wants(t, 0, "2 steps, 2 of them from the cache")
	if out := h.ok("exec", "b", "--", "/app", "read", "/note"); out != "from the build context\n" {
		t.Errorf("the file of the build context holds %q", out)
	}
	h.eventually("the entrypoint's log", func() bool {
		return strings.Contains(h.run("logs", "b", "--service", "app").stdout, "greeting built")
	})
}
