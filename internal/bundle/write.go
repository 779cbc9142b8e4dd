// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package bundle

import (
	"archive/tar"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"hash"
	"io"

	"github.com/klauspost/compress/zstd"

	"github.com/warren-vm/warren/vm"
)

// Writer writes an archive to a stream. It serves one goroutine. After an error nothing
// more can be written, and the archive is incomplete: a reader refuses it.
type Writer struct {
	out   *counted
	comp  *zstd.Encoder
	tar   *tar.Writer
	key   ed25519.PrivateKey
	man   Manifest
	paths paths
	buf   []byte
	err   error
}

// counted counts and hashes what is written.
type counted struct {
	w   io.Writer
	n   int64
	sum hash.Hash
}

func (c *counted) Write(p []byte) (int, error) {
	n, err := c.w.Write(p)
	c.n += int64(n)
	c.sum.Write(p[:n])
	return n, err
}

const (
	window  = 4 << 20 // of the compression; a reader needs as much memory
	copyBuf = 1 << 20
)

// NewWriter begins an archive with the kind, server, program and time of m. Call Close,
// or Abort.
func NewWriter(w io.Writer, m Manifest, key ed25519.PrivateKey) (*Writer, error) {
	out := &counted{w: w, sum: sha256.New()}
	comp, err := zstd.NewWriter(out, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithWindowSize(window), zstd.WithEncoderCRC(true))
	if err != nil {
		return nil, vm.Errorf(vm.Internal, "archive", "%w", err)
	}
	m.Version, m.Entries = Version, []Entry{}
	return &Writer{out: out, comp: comp, tar: tar.NewWriter(comp), key: key, man: m, paths: newPaths(), buf: make([]byte, copyBuf)}, nil
}

// Written is how many bytes the archive has so far.
func (w *Writer) Written() int64 { return w.out.n }

// Add adds an entry with exactly e.Size bytes of r; it finds out the digest, and compares
// it with e.SHA256 if that is set. Kinds: Corrupt when r ends early or has another digest,
// that of r's error, and that of the stream's.
func (w *Writer) Add(e Entry, r io.Reader) error {
	if w.err == nil {
		w.err = w.entry(e, r)
	}
	return w.err
}

func (w *Writer) entry(e Entry, r io.Reader) error {
	if err := w.paths.add(e.Path); err != nil {
		return err
	}
	if err := w.header(e.Path, e.Size); err != nil {
		return err
	}
	sum := sha256.New()
	n, err := io.CopyBuffer(struct{ io.Writer }{io.MultiWriter(w.tar, sum)}, struct{ io.Reader }{io.LimitReader(r, e.Size)}, w.buf)
	if err != nil {
		return err
	}
	if n != e.Size {
		return vm.Errorf(vm.Corrupt, e.Path, "it has %d bytes, %d were expected", n, e.Size)
	}
	got := hex.EncodeToString(sum.Sum(nil))
	if e.SHA256 != "" && e.SHA256 != got {
		return vm.Errorf(vm.Corrupt, e.Path, "its bytes are not those of its digest")
	}
	e.SHA256 = got
	w.man.Entries = append(w.man.Entries, e)
	return nil
}

func (w *Writer) header(path string, size int64) error {
	return w.tar.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: path, Size: size, Mode: 0o600, ModTime: w.man.At})
}

// Close writes the manifest, with the facts that only this kind of archive has, and the
// seal. It returns the manifest. It does not close the stream.
func (w *Writer) Close(facts any) (Manifest, error) {
	if w.err == nil {
		w.err = w.finish(facts)
	}
	err := w.err
	w.Abort()
	return w.man, err
}

// Abort ends the writing and leaves an incomplete archive. It may be called after Close.
func (w *Writer) Abort() {
	if w.err == nil {
		w.err = vm.Errorf(vm.Cancelled, "archive", "the writing has ended")
	}
	w.comp.Reset(nil) // ends its goroutines and writes nothing
}

func (w *Writer) finish(facts any) (err error) {
	if w.man.Facts, err = json.Marshal(facts); err != nil {
		return vm.Errorf(vm.Internal, manifestName, "%w", err)
	}
	// The manifest begins a frame of its own: a reader finds it without reading all.
	if err := w.tar.Flush(); err != nil {
		return err
	}
	if err := w.comp.Close(); err != nil {
		return err
	}
	s := seal{manifestAt: w.out.n}
	w.comp.Reset(w.out)
	data, err := json.Marshal(w.man)
	if err != nil {
		return vm.Errorf(vm.Internal, manifestName, "%w", err)
	}
	if err := w.header(manifestName, int64(len(data))); err != nil {
		return err
	}
	if _, err := w.tar.Write(data); err != nil {
		return err
	}
	if err := w.tar.Close(); err != nil {
		return err
	}
	if err := w.comp.Close(); err != nil {
		return err
	}
	s.size, s.manifest = w.out.n, sha256.Sum256(data)
	copy(s.archive[:], w.out.sum.Sum(nil))
	_, err = w.out.w.Write(s.encode(w.key))
	return err
}
