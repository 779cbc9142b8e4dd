//go:build system

// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package system

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

var libraryPath = regexp.MustCompile(`(/\S+) \(0x`)

// smallSystem is a layer with a shell, a few of this host's programs, and a user.
func smallSystem(t *testing.T) v1.Layer {
	t.Helper()
	files := map[string][]byte{}
	add := func(path string) {
		t.Helper()
		body, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		files[strings.TrimPrefix(path, "/")] = body
	}
	for _, program := range []string{"/bin/sh", "/bin/bash", "/bin/mkdir", "/bin/chown", "/bin/cat", "/bin/ls", "/usr/bin/id", "/usr/bin/stat", "/usr/bin/tr"} {
		add(program)
		out, err := exec.Command("ldd", program).Output()
		if err != nil {
			t.Fatalf("the libraries of %s: %v", program, err)
		}
		for _, m := range libraryPath.FindAllSubmatch(out, -1) {
			add(string(m[1]))
		}
	}
	files["etc/passwd"] = []byte("root:x:0:0:root:/root:/bin/bash\ndev:x:1000:1000:dev:/home/dev:/bin/bash\n")
	files["etc/group"] = []byte("root:x:0:\ndev:x:1000:\n")
	files["home/dev/.profile"], files["tmp/.keep"] = nil, nil
	return layerOf(t, files)
}

// TestDevcontainerUp: `up DIR` makes a VM of the image that the project's devcontainer.json
// names, with the project's files and variables, runs its commands, and names what it ignores.
func TestDevcontainerUp(t *testing.T) {
	if os.Getenv("WARREN_SOAK") == "" {
		t.Skip("WARREN_SOAK is not set: an image is imported and booted, which takes minutes; `make soak` sets it")
	}
	h := importer(t)
	h.serve()
	t.Cleanup(h.close)
	ref := strings.TrimPrefix(pushed(t, "team/tools:1", v1.Config{}, smallSystem(t)), "oci:")
	dir := filepath.Join(t.TempDir(), "shop")
	write := func(file, text string) {
		t.Helper()
		path := filepath.Join(dir, file)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("src/main.txt", "the project\n")
	write(".devcontainer/devcontainer.json", `{
	// what this project is worked on in
	"image": "`+ref+`",
	"remoteUser": "dev",
	"containerEnv": {"APP_ENV": "it's \"test\""},
	"remoteEnv": {"HERE": "${containerWorkspaceFolder}"},
	"onCreateCommand": "echo created >made",
	"postCreateCommand": {"list": ["sh", "-c", "ls -d $HERE >>made"], "who": "id -un >>made"},
	"postStartCommand": "tr a-z A-Z <src/main.txt >>made",
	"forwardPorts": [3000],
	"features": {"ghcr.io/devcontainers/features/node:1": {}},
}`)
	r := h.run("up", dir, "--name", "shop")
	if r.code != 0 {
		t.Fatalf("up: %s", r)
	}
	t.Logf("up of a project, with the import: %.1f s", r.took.Seconds())
	for _, want := range []string{"ignored: features", "postCreateCommand: id -un"} {
		if !strings.Contains(r.stderr, want) {
			t.Errorf("up does not say %q:\n%s", want, r.stderr)
		}
	}
	for _, want := range []string{"/workspaces/shop", "3000"} {
		if !strings.Contains(r.stdout, want) {
			t.Errorf("up does not print %q:\n%s", want, r.stdout)
		}
	}
	got := h.sh("shop", "cat made; stat -c %U src/main.txt; echo $APP_ENV")
	if want := "created\n/workspaces/shop\ndev\nTHE PROJECT\ndev\nit's \"test\""; got != want {
		t.Errorf("the commands of the project left %q, want %q", got, want)
	}
	write(".devcontainer/devcontainer.json", `{"image": "`+ref+`", "postCreateCommand": "echo no network; exit 3"}`)
	if r := h.run("up", dir, "--name", "broken"); r.code == 0 || !strings.Contains(r.stderr, "status 3") || h.find("broken").State != "running" {
		t.Errorf("a command that fails: %s, want its status said, and the VM kept", r)
	}
}
