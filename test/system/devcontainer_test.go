//go:build system

// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package system

import (
	"archive/tar"
	"bytes"
	"io"
	"log"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	ociregistry "github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

var libraryPath = regexp.MustCompile(`(/\S+) \(0x`)

// smallSystem is a container image with a shell, a few of this host's programs, and a user.
func smallSystem(t *testing.T) v1.Image {
	t.Helper()
	files := map[string]string{}
	add := func(path string) {
		t.Helper()
		body, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		files[strings.TrimPrefix(path, "/")] = string(body)
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
	files["etc/passwd"] = "root:x:0:0:root:/root:/bin/bash\ndev:x:1000:1000:dev:/home/dev:/bin/bash\n"
	files["etc/group"] = "root:x:0:\ndev:x:1000:\n"
	files["home/dev/.profile"], files["tmp/.keep"] = "", ""
	var layer bytes.Buffer
	w := tar.NewWriter(&layer)
	for path, body := range files {
		if err := w.WriteHeader(&tar.Header{Name: path, Mode: 0o755, Size: int64(len(body)), Typeflag: tar.TypeReg}); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(w, body); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	l, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(layer.Bytes())), nil })
	if err != nil {
		t.Fatal(err)
	}
	img, err := mutate.AppendLayers(empty.Image, l)
	if err != nil {
		t.Fatal(err)
	}
	cfg, err := img.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	cfg.OS, cfg.Architecture = "linux", "amd64"
	if img, err = mutate.ConfigFile(img, cfg); err != nil {
		t.Fatal(err)
	}
	return img
}

// TestDevcontainerUp: `up DIR` makes a VM of the image that the project's devcontainer.json
// names, with the project's files and variables, runs its commands, and names what it ignores.
func TestDevcontainerUp(t *testing.T) {
	registry := httptest.NewServer(ociregistry.New(ociregistry.Logger(log.New(io.Discard, "", 0))))
	t.Cleanup(registry.Close)
	ref, err := name.ParseReference(strings.TrimPrefix(registry.URL, "http://") + "/team/tools:1")
	if err != nil {
		t.Fatal(err)
	}
	if err := remote.Write(ref, smallSystem(t)); err != nil {
		t.Fatal(err)
	}
	h := ownImages(t)
	base, err := filepath.Abs(env("WARREN_TEST_IMAGES", "../../.work/data/images"))
	if err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("cp", "-a", base+"/.", filepath.Join(h.data, "images")).CombinedOutput(); err != nil {
		t.Fatalf("the tests' images are not copied: %v\n%s", err, out)
	}
	h.serve()
	t.Cleanup(h.close)

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
	"image": "`+ref.String()+`",
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
	write(".devcontainer/devcontainer.json", `{"image": "`+ref.String()+`", "postCreateCommand": "echo no network; exit 3"}`)
	if r := h.run("up", dir, "--name", "broken"); r.code == 0 || !strings.Contains(r.stderr, "status 3") || h.find("broken").State != "running" {
		t.Errorf("a command that fails: %s, want its status said, and the VM kept", r)
	}
}
