// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package oci

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/warren-vm/warren/internal/layout"
	"github.com/warren-vm/warren/vm"
)

// maxBlob bounds the bytes of one part of an image, as it is stored.
const maxBlob = 32 << 30

// A store keeps parts of images in a directory, each by the SHA-256 of its bytes.
type store struct{ dir string }

func (s store) path(h v1.Hash) string { return filepath.Join(s.dir, h.Hex) }

// has reports whether the part is there, and notes that it was used.
func (s store) has(h v1.Hash) bool {
	now := time.Now()
	return os.Chtimes(s.path(h), now, now) == nil
}

// put stores the bytes of a part and checks its digest. Nothing is stored if that is another.
func (s store) put(ctx context.Context, h v1.Hash, size int64, from io.Reader, moved func(int64)) error {
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		return fileError(s.dir, err)
	}
	sum := sha256.New()
	limit := int64(maxBlob)
	if size > 0 {
		limit = min(limit, size)
	}
	err := layout.WriteFunc(s.path(h), 0o600, func(w io.Writer) error {
		n, err := io.Copy(io.MultiWriter(w, sum), &counting{ctx: ctx, r: io.LimitReader(from, limit+1), moved: moved})
		switch {
		case err != nil:
			return err
		case n > limit || size > 0 && n != size:
			return damaged(h.String(), "has not the size that the image says")
		case hex.EncodeToString(sum.Sum(nil)) != h.Hex:
			return damaged(h.String(), "the data has another digest")
		}
		return nil
	})
	return fileError(s.path(h), err)
}

// putAny stores bytes whose digest is not known before.
func (s store) putAny(ctx context.Context, from io.Reader) (v1.Hash, int64, error) {
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		return v1.Hash{}, 0, fileError(s.dir, err)
	}
	f, err := os.CreateTemp(s.dir, ".tmp-")
	if err != nil {
		return v1.Hash{}, 0, fileError(s.dir, err)
	}
	sum := sha256.New()
	n, err := io.Copy(io.MultiWriter(f, sum), &counting{ctx: ctx, r: io.LimitReader(from, maxBlob+1)})
	if err == nil && n > maxBlob {
		err = tooLarge(f.Name(), "a part is larger than %d GiB", maxBlob>>30)
	}
	h := v1.Hash{Algorithm: "sha256", Hex: hex.EncodeToString(sum.Sum(nil))}
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), s.path(h))
	}
	if err != nil {
		_ = os.Remove(f.Name())
		return v1.Hash{}, 0, fileError(s.dir, err)
	}
	return h, n, nil
}

// small reads a part of at most limit bytes, and checks its digest.
func (s store) small(h v1.Hash, limit int64) ([]byte, error) {
	f, err := os.Open(s.path(h))
	if err != nil {
		return nil, fileError(s.path(h), err)
	}
	defer f.Close() // read only
	b, err := io.ReadAll(io.LimitReader(f, limit+1))
	switch {
	case err != nil:
		return nil, fileError(s.path(h), err)
	case int64(len(b)) > limit:
		return nil, tooLarge(h.String(), "is larger than %d KiB", limit>>10)
	}
	if sum := sha256.Sum256(b); hex.EncodeToString(sum[:]) != h.Hex {
		s.drop(h)
		return nil, damaged(h.String(), "the copy in the cache has another digest")
	}
	return b, nil
}

// drop removes a damaged part, so that the next import gets it again.
func (s store) drop(h v1.Hash) { _ = os.Remove(s.path(h)) }

// counting tells how much was read, and ends with ctx.
type counting struct {
	ctx   context.Context
	r     io.Reader
	moved func(int64)
}

func (c *counting) Read(p []byte) (int, error) {
	if err := c.ctx.Err(); err != nil {
		return 0, err
	}
	n, err := c.r.Read(p)
	if c.moved != nil && n > 0 {
		c.moved(int64(n))
	}
	return n, err
}

func damaged(subject, why string) error {
	return vm.Errorf(vm.Corrupt, subject, "%s", why).WithCode("OCI_DIGEST_MISMATCH").
		WithHint("the data was discarded; what was right of it stays in the cache: try again, or get the image from elsewhere")
}

func tooLarge(subject, format string, args ...any) error {
	return vm.Errorf(vm.Limit, vm.Clip(subject, 200), format, args...).WithCode("OCI_TOO_LARGE").
		WithHint("make the image smaller; no image that people use comes near this limit")
}

// fileError gives an error of the operating system a kind.
func fileError(path string, err error) error {
	var e *vm.Error
	switch {
	case err == nil, errors.As(err, &e), errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return err
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return vm.Errorf(vm.NoSpace, path, "%w", err).WithHint("free some space and run the same command: what was downloaded stays in the cache")
	case errors.Is(err, fs.ErrNotExist):
		return vm.Errorf(vm.NotFound, path, "%w", err).WithCode("OCI_NOT_FOUND")
	case errors.Is(err, fs.ErrPermission):
		return vm.Errorf(vm.Denied, path, "%w", err)
	}
	return vm.Errorf(vm.Internal, path, "%w", err)
}
