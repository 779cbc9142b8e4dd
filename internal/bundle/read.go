// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package bundle

import (
	"archive/tar"
	stdctx "context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"hash"
	"io"

	"github.com/klauspost/compress/zstd"

	"github.com/warren-vm/warren/vm"
)

// Archive is an archive whose seal is valid. Its entries may be damaged anyway
// until Each has returned without an error. It may be read by several goroutines.
type Archive struct {
	Manifest Manifest
	Signer   string // the fingerprint of the key that signed it
	Size     int64  // bytes of the archive

	r    io.ReaderAt
	seal seal
}

// Open reads the seal and the manifest of an archive of size bytes. Kinds: Corrupt (it is
// cut off, changed or no archive), Invalid (its paths), Unsupported (a newer version),
// Limit.
func Open(r io.ReaderAt, size int64, lim Limits) (*Archive, error) {
	if size < sealSize {
		return nil, notWhole("it is too short")
	}
	b := make([]byte, sealSize)
	if _, err := r.ReadAt(b, size-sealSize); err != nil && !errors.Is(err, io.EOF) {
		return nil, readError(err)
	}
	s, err := decodeSeal(b, size)
	if err != nil {
		return nil, err
	}
	a := &Archive{r: r, seal: s, Signer: Fingerprint(s.signer), Size: size}
	data, err := a.readManifest(lim)
	if err != nil {
		return nil, err
	}
	if sha256.Sum256(data) != s.manifest {
		return nil, notWhole("its manifest is not the one that was signed")
	}
	// The version first: a newer manifest may have other members.
	var version struct{ Version int }
	if err := json.Unmarshal(data, &version); err != nil {
		return nil, vm.Errorf(vm.Corrupt, manifestName, "it cannot be read: %w", err)
	}
	if version.Version != Version {
		return nil, vm.Errorf(vm.Unsupported, manifestName, "the archive has format %d, this warren knows %d", version.Version, Version).
			WithHint("use the warren that made it, or a newer one")
	}
	if err := json.Unmarshal(data, &a.Manifest); err != nil {
		return nil, vm.Errorf(vm.Corrupt, manifestName, "it cannot be read: %w", err)
	}
	return a, a.Manifest.check(lim)
}

// decoder decompresses a part of an archive.
func decoder(r io.Reader) (*zstd.Decoder, error) {
	d, err := zstd.NewReader(r, zstd.WithDecoderMaxWindow(window), zstd.WithDecoderLowmem(true))
	if err != nil {
		return nil, vm.Errorf(vm.Internal, "archive", "%w", err)
	}
	return d, nil
}

func (a *Archive) readManifest(lim Limits) ([]byte, error) {
	d, err := decoder(io.NewSectionReader(a.r, a.seal.manifestAt, a.seal.size-a.seal.manifestAt))
	if err != nil {
		return nil, err
	}
	defer d.Close()
	t := tar.NewReader(d)
	h, err := t.Next()
	if err != nil {
		return nil, readError(err)
	}
	if h.Name != manifestName || h.Typeflag != tar.TypeReg {
		return nil, notWhole("it has no manifest")
	}
	if h.Size < 0 || h.Size > lim.Manifest {
		return nil, vm.Errorf(vm.Limit, manifestName, "it has %d bytes, at most %d are read", h.Size, lim.Manifest)
	}
	data, err := io.ReadAll(io.LimitReader(t, lim.Manifest))
	if err != nil {
		return nil, readError(err)
	}
	return data, nil
}

// readError is the error for bytes that cannot be read or decompressed.
func readError(err error) error {
	var known *vm.Error
	if errors.As(err, &known) || errors.Is(err, stdctx.Canceled) || errors.Is(err, stdctx.DeadlineExceeded) {
		return err
	}
	return vm.Errorf(vm.Corrupt, "archive", "it cannot be read: %w", err).
		WithHint("it was cut off or changed, or is no archive of Warren's: copy it again, or use another one")
}

// hashing hashes what is read of a part of the archive.
type hashing struct {
	ctx stdctx.Context
	r   io.Reader
	sum hash.Hash
}

func (h hashing) Read(p []byte) (int, error) {
	if err := h.ctx.Err(); err != nil {
		return 0, stdctx.Cause(h.ctx)
	}
	n, err := h.r.Read(p)
	h.sum.Write(p[:n])
	return n, err
}

// Each reads the whole archive and calls f with each entry in its order. What f leaves of
// an entry is skipped. Only when Each returns nil were the bytes that f saw those that
// were signed: until then, f's work must be able to be undone. f's error ends it and is
// returned as it is.
func (a *Archive) Each(ctx stdctx.Context, f func(Entry, io.Reader) error) error {
	sum := sha256.New()
	body := hashing{ctx, io.NewSectionReader(a.r, 0, a.seal.manifestAt), sum}
	if err := a.entries(body, f); err != nil {
		return err
	}
	rest := hashing{ctx, io.NewSectionReader(a.r, a.seal.manifestAt, a.seal.size-a.seal.manifestAt), sum}
	if _, err := io.Copy(io.Discard, rest); err != nil {
		return readError(err)
	}
	if [sha256.Size]byte(sum.Sum(nil)) != a.seal.archive {
		return notWhole("its bytes are not those that were signed")
	}
	return nil
}

func (a *Archive) entries(body io.Reader, f func(Entry, io.Reader) error) error {
	d, err := decoder(body)
	if err != nil {
		return err
	}
	defer d.Close()
	t := tar.NewReader(d)
	for _, e := range a.Manifest.Entries {
		h, err := t.Next()
		if errors.Is(err, io.EOF) {
			return vm.Errorf(vm.Corrupt, printable(e.Path), "the archive does not contain it, but its manifest does")
		}
		if err != nil {
			return readError(err)
		}
		if h.Typeflag != tar.TypeReg || h.Name != e.Path || h.Size != e.Size {
			return vm.Errorf(vm.Corrupt, printable(h.Name), "the archive has it where its manifest has %s, with %d bytes", printable(e.Path), e.Size)
		}
		if err := each(e, t, f); err != nil {
			return err
		}
	}
	switch h, err := t.Next(); {
	case err == nil:
		return vm.Errorf(vm.Corrupt, printable(h.Name), "the archive contains it, but its manifest does not")
	case !errors.Is(err, io.EOF):
		return readError(err)
	}
	// Whatever follows belongs to no entry.
	if n, err := io.Copy(io.Discard, d); err != nil || n > 0 {
		return notWhole("there are bytes between its entries and its manifest")
	}
	if n, err := io.Copy(io.Discard, body); err != nil || n > 0 {
		return notWhole("there are bytes between its entries and its manifest")
	}
	return nil
}

// each passes one entry to f and checks its digest.
func each(e Entry, r io.Reader, f func(Entry, io.Reader) error) error {
	sum := sha256.New()
	in := &teed{r: r, sum: sum}
	if err := f(e, in); err != nil {
		if in.err != nil {
			return readError(in.err)
		}
		return err
	}
	if _, err := io.Copy(io.Discard, struct{ io.Reader }{in}); err != nil {
		return readError(err)
	}
	if hex.EncodeToString(sum.Sum(nil)) != e.SHA256 {
		return vm.Errorf(vm.Corrupt, printable(e.Path), "its digest is not the one in the manifest")
	}
	return nil
}

// teed hashes what is read, and remembers why reading failed.
type teed struct {
	r   io.Reader
	sum hash.Hash
	err error
}

func (t *teed) Read(p []byte) (int, error) {
	n, err := t.r.Read(p)
	t.sum.Write(p[:n])
	if err != nil && !errors.Is(err, io.EOF) {
		t.err = err
	}
	return n, err
}

// Verify reads the whole archive and checks every byte of it.
func (a *Archive) Verify(ctx stdctx.Context) error {
	return a.Each(ctx, func(Entry, io.Reader) error { return nil })
}

// About names the file in an error of its contents.
func About(path string, err error) error {
	var e *vm.Error
	if errors.As(err, &e) && (e.Subject == "archive" || e.Subject == "") {
		c := *e
		c.Subject = path
		return &c
	}
	return err
}
