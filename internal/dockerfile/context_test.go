// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package dockerfile

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/warren-vm/warren/vm"
)

func packed(t *testing.T, dir string) (names []string) {
	t.Helper()
	var b bytes.Buffer
	if err := writeContext(t.Context(), &b, dir, "Dockerfile"); err != nil {
		t.Fatal("the context is not written:", err)
	}
	tr := tar.NewReader(&b)
	for {
		h, err := tr.Next()
		if errors.Is(err, io.EOF) {
			return names
		}
		if err != nil {
			t.Fatal("the context is no tar:", err)
		}
		if h.Typeflag == tar.TypeSymlink {
			h.Name += " -> " + h.Linkname
		}
		names = append(names, h.Name)
	}
}

func TestContext(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"Dockerfile": "FROM scratch\n", "app/main.go": "package main\n", "node_modules/a/b": "x", "app/debug.log": "x", "app/keep.log": "x",
	} {
		path := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o644)); err != nil {
			t.Fatal("a file is not written:", err)
		}
	}
	if err := os.Symlink("/etc/passwd", filepath.Join(dir, "app/out")); err != nil {
		t.Fatal("a link is not made:", err)
	}
	want := []string{"Dockerfile", "app/", "app/debug.log", "app/keep.log", "app/main.go", "app/out -> /etc/passwd", "node_modules/", "node_modules/a/", "node_modules/a/b"}
	if got := packed(t, dir); !slices.Equal(got, want) {
		t.Errorf("without .dockerignore the context has %q, not %q", got, want)
	}
	if err := os.WriteFile(filepath.Join(dir, ".dockerignore"), []byte("# comment\nnode_modules\n**/*.log\n!app/keep.log\nDockerfile\n"), 0o644); err != nil {
		t.Fatal("a file is not written:", err)
	}
	want = []string{".dockerignore", "Dockerfile", "app/", "app/keep.log", "app/main.go", "app/out -> /etc/passwd"}
	if got := packed(t, dir); !slices.Equal(got, want) {
		t.Errorf("with .dockerignore the context has %q, not %q", got, want)
	}
}

func TestReadStaysInside(t *testing.T) {
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "in"), 0o755); err != nil {
		t.Fatal("a directory is not made:", err)
	}
	if err := os.WriteFile(filepath.Join(dir, "Dockerfile"), []byte("FROM scratch\n"), 0o644); err != nil {
		t.Fatal("a file is not written:", err)
	}
	if _, err := Read(dir, "./Dockerfile", nil); err != nil {
		t.Error("a Dockerfile in its directory is refused:", err)
	}
	if _, err := Read(filepath.Join(dir, "in"), "../Dockerfile", nil); vm.KindOf(err) != vm.NotFound {
		t.Errorf("a Dockerfile outside of the directory: the error is %v, not of kind not-found", err)
	}
}

func TestReason(t *testing.T) {
	said := "#5 [2/2] RUN make\n#5 0.412 make: *** No targets.  Stop.\n#5 ERROR: executor failed running [/bin/sh -c make]: exit code: 2\n------\n > [2/2] RUN make:\n------\nexecutor failed running [/bin/sh -c make]: exit code: 2\n"
	want := "[2/2] RUN make; make: *** No targets.  Stop.; ERROR: executor failed running [/bin/sh -c make]: exit code: 2; executor failed running [/bin/sh -c make]: exit code: 2"
	if got := reason(said); got != want {
		t.Errorf("the reason is %q, not %q", got, want)
	}
}

func TestCount(t *testing.T) {
	said := "#1 [internal] load build definition\n#1 DONE 0.1s\n#4 [1/3] FROM x\n#4 CACHED\n#5 [2/3] COPY a /a\n#5 CACHED\n#6 [build 3/3] RUN make\n#6 0.3 CACHED is a word\n#6 DONE 1.0s\n#7 exporting\n"
	if got, want := count(said), (Report{Steps: 2, Cached: 1}); got != want {
		t.Errorf("counted %+v, not %+v", got, want)
	}
}
