// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package e2b

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/warren-vm/warren/vm"
)

// packed makes an archive: a name that ends with / is a directory, a>b a symbolic link, a=b a
// hard link.
func packed(t *testing.T, names ...string) []byte {
	t.Helper()
	var out bytes.Buffer
	tw := tar.NewWriter(&out)
	for _, n := range names {
		h := &tar.Header{Name: n, Typeflag: tar.TypeReg, Mode: 0o640, Size: int64(len(n))}
		if strings.HasSuffix(n, "/") {
			h.Typeflag, h.Size = tar.TypeDir, 0
		} else if from, to, ok := strings.Cut(n, ">"); ok {
			h.Name, h.Linkname, h.Typeflag, h.Size = from, to, tar.TypeSymlink, 0
		} else if from, to, ok := strings.Cut(n, "="); ok {
			h.Name, h.Linkname, h.Typeflag, h.Size = from, to, tar.TypeLink, 0
		}
		if err := tw.WriteHeader(h); err != nil {
			t.Fatalf("no entry %s: %v", n, err)
		}
		if h.Size > 0 {
			if _, err := io.WriteString(tw, n); err != nil {
				t.Fatalf("no content of %s: %v", n, err)
			}
		}
	}
	if err := tw.Close(); err != nil {
		t.Fatalf("the archive does not end: %v", err)
	}
	return out.Bytes()
}

// TestCopyTakes: a COPY takes of a directory what is in it, of a file the file, and of a
// pattern what it finds, as in a Dockerfile.
func TestCopyTakes(t *testing.T) {
	for _, c := range []struct {
		src    string
		names  []string
		want   string
		single string
	}{
		{"main.py", []string{"main.py"}, "main.py", "main.py"},
		{"app/main.py", []string{"app/main.py"}, "main.py", "main.py"},
		{"./app/", []string{"app/", "app/a", "app/lib/", "app/lib/b"}, "a lib/ lib/b", ""},
		{"app", []string{"app/x"}, "x", ""},
		{".", []string{"a", "app/", "app/b"}, "a app/ app/b", ""},
		{"*.txt", []string{"a.txt"}, "a.txt", ""},
		{"*", []string{"a.txt", "dir/", "dir/b"}, "a.txt b", ""},
		{"app", []string{"app/", "app/a", "app/l>a", "app/h=app/a"}, "a l>a h=a", ""},
	} {
		var out bytes.Buffer
		got, err := repack(&out, bytes.NewReader(packed(t, c.names...)), c.src, mostCopied)
		if err != nil {
			t.Errorf("a copy of %s fails: %v", c.src, err)
			continue
		}
		var names []string
		for tr := tar.NewReader(&out); ; {
			h, err := tr.Next()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatalf("a copy of %s is no archive: %v", c.src, err)
			}
			name := h.Name
			switch h.Typeflag {
			case tar.TypeSymlink:
				name += ">" + h.Linkname
			case tar.TypeLink:
				name += "=" + h.Linkname
			}
			names = append(names, name)
		}
		for i, n := range names {
			if strings.HasPrefix(n, "lib") && !strings.Contains(n, "/b") {
				names[i] = "lib/"
			}
			if n == "app" {
				names[i] = "app/"
			}
		}
		if strings.Join(names, " ") != c.want {
			t.Errorf("a copy of %s takes %v, want %s", c.src, names, c.want)
		}
		if got.single != c.single {
			t.Errorf("a copy of %s has the single file %q, want %q", c.src, got.single, c.single)
		}
	}
}

// TestCopyRefuses: an archive that leads out of its directory, is damaged or grows too large is
// refused.
func TestCopyRefuses(t *testing.T) {
	whole := packed(t, "a", "b")
	var zipped bytes.Buffer
	z := gzip.NewWriter(&zipped)
	if _, err := z.Write(whole); err != nil {
		t.Fatalf("no gzip: %v", err)
	}
	if err := z.Close(); err != nil {
		t.Fatalf("no gzip: %v", err)
	}
	if _, err := repack(io.Discard, bytes.NewReader(zipped.Bytes()), ".", mostCopied); err != nil {
		t.Errorf("an archive in gzip is refused: %v", err)
	}
	few := copyLimits{bytes: 1 << 20, entries: 10, names: 10000}
	for what, data := range map[string][]byte{
		"a name above":      packed(t, "../a"),
		"an absolute name":  packed(t, "/etc/passwd"),
		"a name with ..":    packed(t, "x/../../a"),
		"a link above":      packed(t, "a", "l=../../etc/shadow"),
		"a link to nothing": packed(t, "l=a"),
		"a long name":       packed(t, strings.Repeat("x/", 3000)+"y"),
		"a deep name":       packed(t, strings.Repeat("x/", 200)+"y"),
		"no entry":          packed(t),
		"no tar":            []byte(strings.Repeat("no tar ", 200)),
		"half an archive":   whole[:512],
		"half a gzip":       zipped.Bytes()[:zipped.Len()/2],
		"too many files":    packed(t, strings.Split("abcdefghijk", "")...),
		"names too long":    packed(t, strings.Repeat("x", 4000), strings.Repeat("y", 4000), strings.Repeat("z", 4000)),
	} {
		want := vm.Invalid
		if strings.HasPrefix(what, "too many") || strings.HasPrefix(what, "names") {
			want = vm.Limit
		}
		if _, err := repack(io.Discard, bytes.NewReader(data), "*", few); vm.KindOf(err) != want {
			t.Errorf("an archive with %s: %v, want kind %s", what, err, want)
		}
	}
	bomb := &tar.Header{Name: "zeros", Typeflag: tar.TypeReg, Mode: 0o600, Size: mostCopied.bytes + 1}
	var out bytes.Buffer
	if err := tar.NewWriter(&out).WriteHeader(bomb); err != nil {
		t.Fatalf("no header: %v", err)
	}
	if _, err := repack(io.Discard, &out, "*", mostCopied); vm.KindOf(err) != vm.Limit {
		t.Errorf("a file that is too large: %v, want kind %s", err, vm.Limit)
	}
}

// TestContainerNames: a container image has one name, however it is written.
func TestContainerNames(t *testing.T) {
	got := []string{containerName("python"), containerName("docker.io/library/python:latest"), containerName("ghcr.io/me/app"), containerName("localhost:5000/a")}
	want := []string{"python:latest", "python:latest", "ghcr.io/me/app:latest", "localhost:5000/a:latest"}
	if !slices.Equal(got, want) {
		t.Errorf("names are %v, want %v", got, want)
	}
}
