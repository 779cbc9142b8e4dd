// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package scan_test

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"encoding/json"
	"io"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"

	"github.com/warren-vm/warren/internal/scan"
)

// TestQuick: an upload whose bytes are not what its name or content type promises is
// refused, and so is a name that deceives.
func TestQuick(t *testing.T) {
	const elf, png, html = "\x7fELF\x02\x01\x01", "\x89PNG\r\n\x1a\n....", "<!DOCTYPE html><p>"
	for _, c := range []struct{ key, kind, head, refused string }{
		{"report.pdf", "", "%PDF-1.7", ""},
		{"report.pdf", "", elf, "its name ends with .pdf, and it is an ELF program"},
		{"report.PDF", "", "MZ\x90\x00", "a Windows program"},
		{"a.png", "image/png", png, ""},
		{"a.png", "image/png", html, "an HTML page"},
		{"photo", "image/jpeg", html, "its content type is image/jpeg"},
		{"notes.txt", "text/plain; charset=utf-8", "hello", ""},
		{"notes.txt", "text/plain", "#!/bin/sh", ""},
		{"data.csv", "", "PK\x03\x04....", "a zip archive"},
		{"tool", "application/octet-stream", elf, ""},
		{"random.bin", "", "\x00\x01\x02", ""},
		{"a.png", "", "\x00\x01\x02", ""},
		{"empty.pdf", "", "", ""},
		{"invoice\u202efdp.exe", "", "MZ", "turn text around"},
		{"in\u200bvoice", "", "x", "not seen"},
	} {
		v := scan.Quick(scan.Input{Key: c.key, ContentType: c.kind, Size: int64(len(c.head)), Head: []byte(c.head)})
		if (v.Refused == "") != (c.refused == "") || !strings.Contains(v.Refused, c.refused) {
			t.Errorf("%q of type %q beginning with %q is refused for %q, want %q", c.key, c.kind, c.head, v.Refused, c.refused)
		}
	}
}

func zipOf(t *testing.T, fill func(*zip.Writer)) []byte {
	t.Helper()
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	fill(z)
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func entry(t *testing.T, z *zip.Writer, name string, content io.Reader) {
	t.Helper()
	w, err := z.Create(name)
	if err == nil {
		_, err = io.Copy(w, content)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func tarOf(t *testing.T, list ...tar.Header) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, h := range list {
		if err := w.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
		if _, err := io.CopyN(w, zeros{}, h.Size); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

func gz(t *testing.T, r io.Reader) []byte {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if _, err := io.Copy(w, r); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// bombs are uploads that are refused by what is in them, and others that are not.
func bombs(t *testing.T) map[string]struct {
	key, refused string
	data         []byte
} {
	type one = struct {
		key, refused string
		data         []byte
	}
	plain := zipOf(t, func(z *zip.Writer) { entry(t, z, "docs/a.txt", strings.NewReader("hello")) })
	nest := plain
	for range 5 {
		in := nest
		nest = zipOf(t, func(z *zip.Writer) { entry(t, z, "inner.zip", bytes.NewReader(in)) })
	}
	zeros300 := io.LimitReader(zeros{}, 300<<20)
	var z bytes.Buffer
	w, err := zstd.NewWriter(&z)
	if err == nil {
		_, err = io.CopyN(w, zeros{}, 300<<20)
	}
	if err != nil || w.Close() != nil {
		t.Fatal(err)
	}
	return map[string]one{
		"a zip":                       {"a.zip", "", plain},
		"a tar.gz":                    {"a.tgz", "", gz(t, bytes.NewReader(tarOf(t, tar.Header{Name: "a/b", Size: 10, Mode: 0o644}, tar.Header{Name: "a/link", Typeflag: tar.TypeSymlink, Linkname: "b"})))},
		"a tar.gz that expands":       {"a.tgz", "", gz(t, bytes.NewReader(tarOf(t, tar.Header{Name: "zeros", Size: 80 << 20})))}, // counted once: below freeRatio
		"a gzip that expands":         {"log.gz", "times its size", gz(t, zeros300)},
		"a zstd that expands":         {"log.zst", "times its size", z.Bytes()},
		"a zip that expands":          {"a.zip", "times its size", zipOf(t, func(z *zip.Writer) { entry(t, z, "zeros", io.LimitReader(zeros{}, 300<<20)) })},
		"archives in archives":        {"a.zip", "archives in archives", nest},
		"a zip that leaves":           {"a.zip", "outside its directory", zipOf(t, func(z *zip.Writer) { entry(t, z, "a/../../etc/passwd", strings.NewReader("x")) })},
		"a zip that leaves backwards": {"a.zip", "outside its directory", zipOf(t, func(z *zip.Writer) { entry(t, z, `..\..\x`, strings.NewReader("x")) })},
		"an absolute path":            {"a.tar", "absolute path", tarOf(t, tar.Header{Name: "/etc/passwd", Size: 1})},
		"a link that leaves":          {"a.tar", "leads outside", tarOf(t, tar.Header{Name: "a", Typeflag: tar.TypeSymlink, Linkname: "../../x"})},
		"a hard link that leaves":     {"a.tar", "leads outside", tarOf(t, tar.Header{Name: "a", Typeflag: tar.TypeLink, Linkname: "../x"})},
		"a device":                    {"a.tar", "is a device", tarOf(t, tar.Header{Name: "sda", Typeflag: tar.TypeBlock})},
		"entries that share bytes":    {"a.zip", "share their bytes", shared(t)},
		"a damaged zip":               {"a.zip", "", plain[:len(plain)-10]},
	}
}

// shared is a zip whose directory lists one entry twice.
func shared(t *testing.T) []byte {
	t.Helper()
	data := zipOf(t, func(z *zip.Writer) { entry(t, z, "a", strings.NewReader(strings.Repeat("a", 1000))) })
	end := len(data) - 22
	from := int(binary.LittleEndian.Uint32(data[end+16:]))
	directory := data[from:end]
	out := append(append(append([]byte{}, data[:end]...), directory...), data[end:]...)
	tail := out[len(out)-22:]
	binary.LittleEndian.PutUint16(tail[8:], 2)
	binary.LittleEndian.PutUint16(tail[10:], 2)
	binary.LittleEndian.PutUint32(tail[12:], uint32(2*len(directory)))
	return out
}

// TestWhole: an archive is refused if it would unpack to too much, or outside its directory.
func TestWhole(t *testing.T) {
	for name, c := range bombs(t) {
		in := scan.Input{Key: c.key, Size: int64(len(c.data)), Head: c.data[:min(len(c.data), 4096)]}
		if v := scan.Quick(in); !v.More {
			t.Errorf("%s: its first bytes do not ask for all of it: %+v", name, v)
		}
		v, err := scan.Whole(in, bytes.NewReader(c.data))
		if err != nil || (v.Refused == "") != (c.refused == "") || !strings.Contains(v.Refused, c.refused) {
			t.Errorf("%s is refused for %q (%v), want %q", name, v.Refused, err, c.refused)
		}
	}
}

// TestServe: over its messages the scanner says the same.
func TestServe(t *testing.T) {
	for name, c := range bombs(t) {
		toR, toW := io.Pipe()
		fromR, fromW := io.Pipe()
		go func() { fromW.CloseWithError(scan.Serve(toR, fromW)) }() // ends when the pipe is closed
		in, err := json.Marshal(scan.Input{Key: c.key, Size: int64(len(c.data)), Head: c.data[:min(len(c.data), 4096)]})
		if err == nil {
			err = scan.Send(toW, scan.All, in)
		}
		if err != nil {
			t.Fatal(err)
		}
		for {
			kind, data, err := scan.Receive(fromR)
			if err != nil {
				t.Fatalf("%s: no answer: %v", name, err)
			}
			if kind == scan.Want {
				at, n := binary.BigEndian.Uint64(data), binary.BigEndian.Uint32(data[8:])
				if err := scan.Send(toW, scan.Have, c.data[at:at+uint64(n)]); err != nil {
					t.Fatal(err)
				}
				continue
			}
			var v scan.Verdict
			if err := json.Unmarshal(data, &v); err != nil || !strings.Contains(v.Refused, c.refused) || (c.refused == "") != (v.Refused == "") {
				t.Errorf("%s is answered with %s, want %q", name, data, c.refused)
			}
			break
		}
		toW.Close()
	}
}

// FuzzWhole: no upload makes the scanner panic or take much memory.
func FuzzWhole(f *testing.F) {
	f.Add("a.zip", []byte("PK\x03\x04"))
	f.Add("a.tar", append(make([]byte, 257), "ustar"...))
	f.Fuzz(func(_ *testing.T, key string, data []byte) {
		_, _ = scan.Whole(scan.Input{Key: key, Size: int64(len(data)), Head: data[:min(len(data), 4096)]}, bytes.NewReader(data))
	})
}
