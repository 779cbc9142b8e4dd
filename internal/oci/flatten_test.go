// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package oci

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/warren-vm/warren/vm"
)

// entry is one entry of a layer in a test.
type entry struct {
	name, body, link string
	kind             byte // 0 = a file
	mode             int64
	uid              int
	xattrs           map[string]string
}

func file(name, body string) entry   { return entry{name: name, body: body} }
func dir(name string) entry          { return entry{name: name, kind: tar.TypeDir, mode: 0o755} }
func link(name, target string) entry { return entry{name: name, kind: tar.TypeSymlink, link: target} }
func hard(name, target string) entry { return entry{name: name, kind: tar.TypeLink, link: target} }

// layerTar writes a layer.
func layerTar(t testing.TB, list ...entry) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, e := range list {
		h := &tar.Header{Name: e.name, Linkname: e.link, Typeflag: e.kind, Mode: e.mode, Uid: e.uid, Size: int64(len(e.body)), Format: tar.FormatPAX, PAXRecords: map[string]string{}}
		if e.kind == 0 {
			h.Typeflag = tar.TypeReg
		}
		if h.Mode == 0 {
			h.Mode = 0o644
		}
		for k, v := range e.xattrs {
			h.PAXRecords[xattrPrefix+k] = v
		}
		if err := w.WriteHeader(h); err != nil {
			t.Fatalf("the header of %s is not written: %v", e.name, err)
		}
		if _, err := io.WriteString(w, e.body); err != nil {
			t.Fatalf("the body of %s is not written: %v", e.name, err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatalf("the layer is not written: %v", err)
	}
	return b.Bytes()
}

func zip(b []byte) []byte {
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	_, _ = w.Write(b) // to memory
	_ = w.Close()
	return out.Bytes()
}

func hashOf(b []byte) v1.Hash {
	sum := sha256.Sum256(b)
	return v1.Hash{Algorithm: "sha256", Hex: hex.EncodeToString(sum[:])}
}

// stack makes an image of layers, which are tars.
func stack(t testing.TB, layers ...[]byte) *Image {
	t.Helper()
	img := &Image{Source: "oci:test", store: store{t.TempDir()}}
	for _, l := range layers {
		blob := zip(l)
		if err := img.store.put(t.Context(), hashOf(blob), int64(len(blob)), bytes.NewReader(blob), nil); err != nil {
			t.Fatalf("a layer is not stored: %v", err)
		}
		img.layers = append(img.layers, part{blob: hashOf(blob), size: int64(len(blob)), diff: hashOf(l)})
	}
	return img
}

// flat flattens layers and describes each entry in a line.
func flat(t *testing.T, layers ...[]byte) []string {
	t.Helper()
	tree, err := stack(t, layers...).Tree(t.Context())
	if err != nil {
		t.Fatalf("the layers are refused: %v", err)
	}
	return lines(t, tree)
}

func lines(t *testing.T, tree *Tree) (out []string) {
	t.Helper()
	var b bytes.Buffer
	if err := tree.Write(t.Context(), &b); err != nil {
		t.Fatalf("the tree is not written: %v", err)
	}
	r := tar.NewReader(&b)
	for {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return out
		}
		if err != nil {
			t.Fatalf("the tree is no tar: %v", err)
		}
		body, err := io.ReadAll(r)
		if err != nil {
			t.Fatalf("%s is not readable: %v", h.Name, err)
		}
		line := h.Name
		switch h.Typeflag {
		case tar.TypeSymlink:
			line += " -> " + h.Linkname
		case tar.TypeLink:
			line += " == " + h.Linkname
		case tar.TypeReg:
			line += " " + string(body)
		}
		if h.Mode&0o7000 != 0 {
			line += fmt.Sprintf(" %o", h.Mode)
		}
		for k, v := range h.PAXRecords {
			if name, ok := strings.CutPrefix(k, xattrPrefix); ok {
				line += " " + name + "=" + v
			}
		}
		out = append(out, line)
	}
}

// TestFlatten: what layers make together is what a container of them would see.
func TestFlatten(t *testing.T) {
	for name, c := range map[string]struct {
		layers [][]byte
		want   []string
	}{
		"a file is replaced": {
			[][]byte{layerTar(t, dir("etc"), file("etc/a", "one")), layerTar(t, file("etc/a", "two"))},
			[]string{"./", "./etc/", "./etc/a two"},
		},
		"a whiteout removes what was below": {
			[][]byte{layerTar(t, file("a", "1"), file("d/b", "2"), file("d/c", "3")), layerTar(t, file(".wh.a", ""), file("d/.wh.b", ""))},
			[]string{"./", "./d/", "./d/c 3"},
		},
		"a whiteout leaves what its own layer puts there": {
			[][]byte{layerTar(t, file("d/old", "1")), layerTar(t, file("d/new", "2"), file(".wh.d", ""))},
			[]string{"./", "./d/", "./d/new 2"},
		},
		"an opaque directory": {
			[][]byte{layerTar(t, file("d/old", "1"), file("d/e/older", "1")), layerTar(t, file("d/new", "2"), file("d/.wh..wh..opq", ""))},
			[]string{"./", "./d/", "./d/new 2"},
		},
		"a hard link keeps the contents that it had": {
			[][]byte{layerTar(t, file("a", "1"), hard("b", "a")), layerTar(t, file("a", "2"))},
			[]string{"./", "./b 1", "./a 2"},
		},
		"two names of one file": {
			[][]byte{layerTar(t, file("a", "1"), hard("b", "/a"))},
			[]string{"./", "./a 1", "./b == ./a"},
		},
		"a path through a link stays inside": {
			[][]byte{layerTar(t, dir("usr/lib"), link("lib", "usr/lib"), link("out", "../../../usr")), layerTar(t, file("lib/x", "1"), file("out/y", "2"))},
			[]string{"./", "./usr/", "./usr/lib/", "./usr/lib/x 1", "./usr/y 2", "./lib -> usr/lib", "./out -> ../../../usr"},
		},
		"absolute names and links": {
			[][]byte{layerTar(t, file("/etc/a", "1"), link("/b", "/etc/a"), file("/up/c", "2")), layerTar(t, link("/up", "/etc"), file("/up/d", "3"))},
			[]string{"./", "./etc/", "./etc/a 1", "./etc/d 3", "./b -> /etc/a", "./up -> /etc"},
		},
		"set-user-ID files stay, device nodes do not": {
			[][]byte{layerTar(t, entry{name: "su", body: "x", mode: 0o4755}, entry{name: "mem", kind: tar.TypeChar, mode: 0o600}, entry{name: "sda", kind: tar.TypeBlock})},
			[]string{"./", "./su x 4755"},
		},
		"attributes that a guest can use": {
			[][]byte{layerTar(t, entry{name: "ping", body: "x", xattrs: map[string]string{"security.capability": "cap", "security.selinux": "label", "trusted.overlay.opaque": "y"}})},
			[]string{"./", "./ping x security.capability=cap"},
		},
		"a file in place of a directory": {
			[][]byte{layerTar(t, file("d/a", "1")), layerTar(t, file("d", "2"))},
			[]string{"./", "./d 2"},
		},
	} {
		if got := flat(t, c.layers...); !slices.Equal(got, c.want) {
			t.Errorf("%s:\n got %q\nwant %q", name, got, c.want)
		}
	}
}

// TestHostileLayers: a layer that is no tree of files is refused with what is wrong, and its code.
func TestHostileLayers(t *testing.T) {
	deep := strings.Repeat("d/", maxDepth+5) + "x"
	loop := []entry{link("a", "b"), link("b", "a"), file("a/x", "")}
	deeper := []entry{file(strings.Repeat("d/", 150)+"x", ""), link("l", strings.TrimSuffix(strings.Repeat("d/", 150), "/")), file("l/"+strings.Repeat("e/", 150)+"x", "")}
	for name, c := range map[string]struct {
		layer []byte
		code  string
	}{
		"a name that leads out":             {layerTar(t, file("../../etc/passwd", "x")), "OCI_INVALID"},
		"a name that leads out in between":  {layerTar(t, file("a/../../x", "x")), "OCI_INVALID"},
		"a hard link that leads out":        {layerTar(t, hard("a", "../../etc/shadow")), "OCI_INVALID"},
		"a hard link to a file of the host": {layerTar(t, hard("a", "/etc/shadow")), "OCI_INVALID"},
		"links that lead in a circle":       {layerTar(t, loop...), "OCI_INVALID"},
		"a user that no namespace has":      {layerTar(t, entry{name: "a", uid: 70_000}), "OCI_INVALID"},
		"a name of 300 bytes":               {layerTar(t, file(strings.Repeat("n", 300), "")), "OCI_TOO_LARGE"},
		"a deep path":                       {layerTar(t, file(deep, "")), "OCI_TOO_LARGE"},
		"a deep path through a link":        {layerTar(t, deeper...), "OCI_TOO_LARGE"},
		"attributes without end":            {layerTar(t, entry{name: "a", xattrs: map[string]string{"user.a": strings.Repeat("x", maxXattrs+1)}}), "OCI_TOO_LARGE"},
		"no tar":                            {bytes.Repeat([]byte("no tar "), 1000), "OCI_INVALID"},
		"half a tar":                        {layerTar(t, file("a", strings.Repeat("x", 5000)))[:1024], "OCI_INVALID"},
	} {
		_, err := stack(t, c.layer).Tree(t.Context())
		if code := vm.AsError(err).Code; err == nil || code != c.code {
			t.Errorf("%s: code %q, want %s: %v", name, code, c.code, err)
		}
	}
}

// TestBomb: a layer of zeros ends once it has grown out of all proportion.
func TestBomb(t *testing.T) {
	img := stack(t, layerTar(t, file("zeros", strings.Repeat("\x00", 4<<20))))
	tree := &Tree{image: img, tree: newTree(img.Source)}
	err := tree.scan(t.Context(), func() (io.ReadCloser, error) { return img.store.open(img.layers[0]) }, io.Discard, 1<<20, tree.tree.entry)
	if code := vm.AsError(err).Code; code != "OCI_TOO_LARGE" {
		t.Errorf("a layer that grows beyond its limit has the code %q: %v", code, err)
	}
}

// TestHoles: a file of holes, which is small in its layer and large on a disk, is refused.
func TestHoles(t *testing.T) {
	dir := t.TempDir()
	f, err := os.Create(filepath.Join(dir, "holes"))
	if err != nil {
		t.Fatalf("no file: %v", err)
	}
	if err := errors.Join(f.Truncate(1<<30), f.Close()); err != nil {
		t.Fatalf("no holes: %v", err)
	}
	for _, format := range []string{"posix", "gnu"} {
		layer, err := exec.Command("tar", "-C", dir, "--sparse", "--format="+format, "-cf", "-", "holes").Output()
		if err != nil || len(layer) > 1<<20 {
			t.Fatalf("tar writes %d bytes: %v", len(layer), err)
		}
		_, err = stack(t, layer).Tree(t.Context())
		if code := vm.AsError(err).Code; code != "OCI_INVALID" {
			t.Errorf("holes in the format %s have the code %q: %v", format, code, err)
		}
	}
}

// TestManyEntries: 100,000 files are an image like others, and take no time out of proportion.
func TestManyEntries(t *testing.T) {
	list := make([]entry, 100_000)
	for i := range list {
		list[i] = file(fmt.Sprintf("d%d/f%d", i%100, i), "")
	}
	tree, err := stack(t, layerTar(t, list...)).Tree(t.Context())
	if err != nil {
		t.Fatalf("100,000 files are refused: %v", err)
	}
	if got := tree.Summary().Files; got != len(list) {
		t.Errorf("the tree has %d files, want %d", got, len(list))
	}
	if err := tree.Write(t.Context(), io.Discard); err != nil {
		t.Errorf("100,000 files are not written: %v", err)
	}
}

// TestLayerDigest: a layer that is not the one of the image's configuration is refused, and leaves the cache.
func TestLayerDigest(t *testing.T) {
	img := stack(t, layerTar(t, file("a", "1")))
	img.layers[0].diff = hashOf([]byte("another"))
	_, err := img.Tree(t.Context())
	if code := vm.AsError(err).Code; code != "OCI_DIGEST_MISMATCH" {
		t.Errorf("the code is %q, want OCI_DIGEST_MISMATCH: %v", code, err)
	}
	if img.store.has(img.layers[0].blob) {
		t.Error("the damaged layer is still in the cache")
	}
}

// TestOwnLayer: Warren's own files never lead out of the tree, whatever links the image has.
func TestOwnLayer(t *testing.T) {
	tree, err := stack(t, layerTar(t, link("etc", "../../../tmp"), link("tmp", "/home"))).Tree(t.Context())
	if err != nil {
		t.Fatalf("the image is refused: %v", err)
	}
	own := layerTar(t, file("etc/hostname", "warren"))
	if err := tree.Add(t.Context(), func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(own)), nil }); err != nil {
		t.Fatalf("the own layer is refused: %v", err)
	}
	if got, want := lines(t, tree), []string{"./", "./home/", "./home/hostname warren", "./etc -> ../../../tmp", "./tmp -> /home"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// FuzzFlatten: whatever layers hold, what comes out is a tar whose names stay inside, in an order in which no
// name leads through a link.
func FuzzFlatten(f *testing.F) {
	f.Add(layerTar(f, file("a", "1"), hard("b", "a"), link("c", "/b")), layerTar(f, file(".wh.a", ""), dir("c")))
	f.Add(layerTar(f, link("lib", "usr/lib"), file("lib/x", "1")), layerTar(f, file("lib/.wh..wh..opq", "")))
	f.Fuzz(func(t *testing.T, one, two []byte) {
		tree := &Tree{image: &Image{Source: "fuzz"}, tree: newTree("fuzz")}
		for _, l := range [][]byte{one, two} {
			if tree.Add(context.Background(), func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(l)), nil }) != nil {
				return
			}
		}
		var b bytes.Buffer
		if err := tree.Write(context.Background(), &b); err != nil {
			return
		}
		checkFlat(t, &b)
	})
}

// checkFlat reads a tree's tar.
func checkFlat(t *testing.T, from io.Reader) {
	t.Helper()
	seen := map[string]byte{}
	r := tar.NewReader(from)
	for {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			t.Fatalf("what was written is no tar: %v", err)
		}
		name := strings.TrimSuffix(strings.TrimPrefix(h.Name, "./"), "/")
		if slices.Contains(strings.Split(name, "/"), "..") || strings.HasPrefix(name, "/") {
			t.Fatalf("the name %q leads out", h.Name)
		}
		if i := strings.LastIndexByte(name, '/'); i >= 0 && seen[name[:i]] != tar.TypeDir {
			t.Fatalf("%q lies in %q, which is no directory that came before", name, name[:i])
		}
		if _, again := seen[name]; again && name != "" {
			t.Fatalf("%q comes twice", name)
		}
		if h.Typeflag == tar.TypeLink && seen[strings.TrimPrefix(h.Linkname, "./")] == 0 {
			t.Fatalf("%q is another name of %q, which did not come before", name, h.Linkname)
		}
		seen[name] = h.Typeflag
	}
}
