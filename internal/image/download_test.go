// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package image

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/warren-vm/warren/vm"
)

// tgz is an archive with files of the given modes and text; a text that begins
// with "-> " makes a symbolic link.
func tgz(t *testing.T, entries ...[3]string) []byte {
	t.Helper()
	var buf bytes.Buffer
	z := gzip.NewWriter(&buf)
	w := tar.NewWriter(z)
	for _, e := range entries {
		h := &tar.Header{Typeflag: tar.TypeReg, Name: e[0], Mode: 0o644, Size: int64(len(e[2]))}
		if e[1] == "x" {
			h.Mode = 0o700
		}
		if target, ok := strings.CutPrefix(e[2], "-> "); ok {
			h.Typeflag, h.Linkname, h.Size = tar.TypeSymlink, target, 0
		}
		if err := w.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		if h.Size > 0 {
			if _, err := w.Write([]byte(e[2])); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := errors.Join(w.Close(), z.Close()); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

func wheelFile(t *testing.T, name string) []byte {
	t.Helper()
	var buf bytes.Buffer
	z := zip.NewWriter(&buf)
	h := &zip.FileHeader{Name: name, Method: zip.Deflate}
	h.SetMode(0o755)
	w, err := z.CreateHeader(h)
	if err == nil {
		_, err = w.Write([]byte("uv"))
	}
	if err := errors.Join(err, z.Close()); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

func sri(data []byte) string {
	sum := sha512.Sum512(data)
	return "sha512-" + base64.StdEncoding.EncodeToString(sum[:])
}

// registries is a server that is an npm registry and a Python index in one; it
// counts what it is asked for.
type registries struct {
	*httptest.Server
	files map[string][]byte
	asked []string
}

func newRegistries(t *testing.T) *registries {
	t.Helper()
	r := &registries{files: map[string][]byte{}}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		r.asked = append(r.asked, q.URL.Path)
		body, ok := r.files[q.URL.Path]
		if !ok {
			http.NotFound(w, q)
			return
		}
		_, _ = w.Write(body) // a client that went away
	}))
	t.Cleanup(r.Close)
	t.Setenv("npm_config_registry", r.URL+"/npm")
	t.Setenv("PIP_INDEX_URL", r.URL+"/simple")
	return r
}

// withDownloads replaces the downloads of the shipped recipes by small archives.
func withDownloads(t *testing.T, b *bench) {
	t.Helper()
	b.opts.fetch = func(_ context.Context, d RecipeDownload) (string, error) {
		file := filepath.Join(t.TempDir(), "archive")
		body := tgz(t, [3]string{d.Path + "/file", "", "x"})
		if archiveKind(d.From) == "zip" {
			body = wheelFile(t, d.Path+"/file")
		}
		return file, os.WriteFile(file, body, 0o600)
	}
}

// A download comes from the registry in the environment, is used only with
// the recipe's digest, and is fetched once.
func TestDownload(t *testing.T) {
	reg := newRegistries(t)
	node := tgz(t, [3]string{"package/bin/node", "x", "ELF"}, [3]string{"package/README", "", "text"})
	uv := wheelFile(t, "uv-1.0.data/scripts/uv")
	reg.files["/npm/@x/node/-/node-24.0.0.tgz"] = node
	reg.files["/simple/my-uv/"] = []byte(`<a href="../../f/my_uv-1.0-py3-none-any.whl.metadata">m</a> <a href="../../f/my_uv-1.0-py3-none-any.whl#sha256=0">my_uv</a>`)
	reg.files["/f/my_uv-1.0-py3-none-any.whl"] = uv
	sum := sha256.Sum256(uv)
	b := newBench(t)
	b.opts.Recipe = Recipe{Name: "mine", Downloads: []RecipeDownload{
		{From: "npm:@x/node@24.0.0", Digest: sri(node), Path: "package/bin", To: "/usr/local/bin"},
		{From: "pypi:my_uv-1.0-py3-none-any.whl", Digest: "sha256:" + hex.EncodeToString(sum[:]), Path: "uv-1.0.data/scripts", To: "/usr/local/bin"},
	}}
	if _, err := Build(t.Context(), b.opts); err != nil {
		t.Fatal(err)
	}
	if b.seen["usr/local/bin/node"] != "ELF" || b.seen["usr/local/bin/uv"] != "uv" {
		t.Errorf("in the image: %q", b.seen)
	}
	if _, there := b.seen["usr/local/bin/README"]; there {
		t.Errorf("more of the archive than the recipe names is in the image")
	}
	if b.modes["usr/local/bin/node"] != 0o755 || b.modes["usr/local/bin/uv"] != 0o755 {
		t.Errorf("modes %v", b.modes)
	}
	asked := len(reg.asked)
	if _, err := Build(t.Context(), b.opts); err != nil || len(reg.asked) != asked {
		t.Errorf("built again: %v, asked for %q", err, reg.asked[asked:])
	}
}

// Data with a wrong digest is not kept, and a changed file in the cache is fetched again.
func TestDownloadDigest(t *testing.T) {
	reg := newRegistries(t)
	good := tgz(t, [3]string{"package/a", "", "1"})
	reg.files["/npm/a/-/a-1.0.0.tgz"] = tgz(t, [3]string{"package/a", "", "2"})
	b := newBench(t)
	f := newDownloader(b.opts.Dir, nil)
	d := RecipeDownload{From: "npm:a@1.0.0", Digest: sri(good), To: "/x"}
	if _, err := f.get(t.Context(), d); !errors.Is(err, vm.Corrupt) {
		t.Errorf("another archive: %v", err)
	}
	if left, err := os.ReadDir(b.opts.Dir.Downloads()); err != nil || len(left) != 0 {
		t.Errorf("kept: %v, %v", left, err)
	}
	reg.files["/npm/a/-/a-1.0.0.tgz"] = good
	path, err := f.get(t.Context(), d)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte("changed"), 0o600); err != nil {
		t.Fatal(err)
	}
	if path, err = f.get(t.Context(), d); err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(path); err != nil || !bytes.Equal(got, good) {
		t.Errorf("a changed file is used: %q, %v", got, err)
	}
}

func TestDownloadErrors(t *testing.T) {
	reg := newRegistries(t)
	b := newBench(t)
	f := newDownloader(b.opts.Dir, nil)
	digest := sri(nil)
	if _, err := f.get(t.Context(), RecipeDownload{From: "npm:nosuch@1.0.0", Digest: digest}); !errors.Is(err, vm.NotFound) {
		t.Errorf("no such package: %v", err)
	}
	reg.files["/simple/nosuch/"] = []byte("<html></html>")
	if _, err := f.get(t.Context(), RecipeDownload{From: "pypi:nosuch-1.0-py3-none-any.whl", Digest: digest}); !errors.Is(err, vm.NotFound) {
		t.Errorf("no such wheel: %v", err)
	}
	reg.Close()
	t.Setenv("npm_config_registry", strings.Replace(reg.URL, "http://", "http://me:secret@", 1))
	_, err := f.get(t.Context(), RecipeDownload{From: "npm:a@1.0.0", Digest: digest})
	if !errors.Is(err, vm.Unavailable) {
		t.Errorf("no server: %v", err)
	}
	if strings.Contains(fmt.Sprintf("%v %v", err, vm.AsError(err)), "secret") {
		t.Errorf("the registry's password is in the error: %v", err)
	}
	t.Setenv("npm_config_registry", "no-url")
	if _, err := f.get(t.Context(), RecipeDownload{From: "npm:a@1.0.0", Digest: digest}); !errors.Is(err, vm.Invalid) {
		t.Errorf("a registry that is no URL: %v", err)
	}
}

// unpacked is what an archive of one entry puts into the image.
func unpacked(t *testing.T, d RecipeDownload, entry [3]string) (*tar.Header, error) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "a.tgz")
	if err := os.WriteFile(file, tgz(t, entry), 0o600); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	w := &treeWriter{tw: tar.NewWriter(&out), made: map[string]bool{}}
	w.archive(d, file)
	if w.err != nil {
		return nil, w.err
	}
	return tar.NewReader(&out).Next()
}

// An archive writes only below its directory of the image.
func TestArchiveEscapes(t *testing.T) {
	d := RecipeDownload{From: "npm:a@1", To: "/usr/local"}
	for name, entry := range map[string][3]string{
		"a name that leads up":              {"package/../../etc/passwd", "", "x"},
		"an absolute name":                  {"/etc/passwd", "", "x"},
		"a link that leads up":              {"l", "", "-> ../x"},
		"a link that leads up from further": {"a/b/l", "", "-> ../../../x"},
		"an absolute link":                  {"a/l", "", "-> /etc"},
	} {
		if h, err := unpacked(t, d, entry); !errors.Is(err, vm.Corrupt) {
			t.Errorf("the archive with %s gives %+v (%v), want corrupt", name, h, err)
		}
	}
	d.Path = "package"
	if _, err := unpacked(t, d, [3]string{"other/file", "", "x"}); !errors.Is(err, vm.Invalid) {
		t.Errorf("nothing that is wanted: %v", err)
	}
	for to, want := range map[string]string{"/": "bin/npm", "/usr": "usr/bin/npm"} {
		d.To = to
		h, err := unpacked(t, d, [3]string{"package/bin/npm", "", "-> ../lib/npm"})
		if err != nil || h.Linkname != "../lib/npm" || h.Name != want {
			t.Errorf("a link that stays inside %s: %+v, %v", to, h, err)
		}
	}
}

func TestDownloadChecked(t *testing.T) {
	digest := sri(nil)
	for _, c := range []struct{ from, digest, path, to, says string }{
		{"npm:node@24.1.0", digest, "package", "/usr/local", ""},
		{"https://files.example/a.tar.gz", "sha256:" + strings.Repeat("0", 64), "", "/opt/a", ""},
		{"npm:node", digest, "", "/x", "npm:NAME@VERSION"},
		{"npm:../x@1", digest, "", "/x", "npm:NAME@VERSION"},
		{"pypi:uv==1", digest, "", "/x", "wheel"},
		{"file:///etc/passwd", digest, "", "/x", "a URL"},
		{"https://files.example/a.deb", digest, "", "/x", "ends in"},
		{"npm:a@1", "", "", "/x", "digest"},
		{"npm:a@1", "sha512-AAAA", "", "/x", "digest"},
		{"npm:a@1", "sha256:00", "", "/x", "digest"},
		{"npm:a@1", digest, "../x", "/x", "inside the archive"},
		{"npm:a@1", digest, "", "x", "absolute"},
	} {
		text := fmt.Sprintf("name: a\ndownloads:\n  - {from: %q, digest: %q, path: %q, to: %q}\n", c.from, c.digest, c.path, c.to)
		_, err := Parse("f.yaml", []byte(text))
		if c.says == "" && err != nil || c.says != "" && (!errors.Is(err, vm.Invalid) || !strings.Contains(err.Error(), c.says) || !strings.Contains(err.Error(), "f.yaml:3")) {
			t.Errorf("the download %s %s %s %s: %v, want %q", c.from, c.digest, c.path, c.to, err, c.says)
		}
	}
	dev, err := Shipped("dev")
	if err != nil || len(dev.Downloads) == 0 || slices.ContainsFunc(dev.Downloads, func(d RecipeDownload) bool { return d.check() != "" }) {
		t.Errorf("dev: %+v, %v", dev.Downloads, err)
	}
}
