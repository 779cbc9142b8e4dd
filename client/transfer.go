// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"hash"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"sync"

	"github.com/warren-vm/warren/api"
	"github.com/warren-vm/warren/vm"
)

// stream is an answer's body that reports a broken connection as an error of this package.
type stream struct {
	c    *Client
	ctx  context.Context // of the request, whose body this is
	body io.ReadCloser
}

// Read returns a bare io.EOF at the end.
func (s *stream) Read(p []byte) (int, error) {
	n, err := s.body.Read(p)
	if err != nil && !errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		err = s.c.broken(s.ctx, err)
	}
	return n, err
}

// Close ends the request.
func (s *stream) Close() error { return s.body.Close() }

// rawReader counts and hashes a file, and checks both at its end.
type rawReader struct {
	stream
	path string
	left int64
	sum  hash.Hash
	resp *http.Response
}

func (r *rawReader) Read(p []byte) (int, error) {
	n, err := r.stream.Read(p)
	if int64(n) > r.left {
		return 0, vm.Errorf(vm.Corrupt, r.path, "more was sent than announced")
	}
	r.left -= int64(n)
	r.sum.Write(p[:n])
	if !errors.Is(err, io.EOF) {
		return n, err
	}
	switch digest := r.resp.Trailer.Get(api.HeaderDigest); {
	case r.left > 0:
		return n, vm.Errorf(vm.Corrupt, r.path, "incomplete: %d bytes are missing: %w", r.left, io.ErrUnexpectedEOF).WithHint("copy it again")
	case digest == "":
		return n, vm.Errorf(vm.Corrupt, r.path, "the digest is missing: %w", io.ErrUnexpectedEOF).WithHint("copy it again")
	case digest != hex.EncodeToString(r.sum.Sum(nil)):
		return n, vm.Errorf(vm.Corrupt, r.path, "the digest does not match the received data").WithHint("copy it again")
	}
	return n, io.EOF
}

// GetRaw reads a file of the guest. A file larger than maxBytes is refused before any
// byte is sent (0 = any size). The reader returns exactly size bytes and then io.EOF,
// or fails: at its end also if the length or the digest is wrong or missing.
func (c *Client) GetRaw(ctx context.Context, ref, user, path string, maxBytes int64) (size int64, r io.ReadCloser, err error) {
	q := url.Values{}
	if maxBytes > 0 {
		q.Set("maxBytes", strconv.FormatInt(maxBytes, 10))
	}
	resp, err := c.send(ctx, call{method: "GET", path: vmPath(ref, "raw", path), query: q, header: as(user)})
	if err != nil {
		return 0, nil, err
	}
	size, err = strconv.ParseInt(resp.Header.Get(api.HeaderLength), 10, 64)
	switch {
	case err != nil || size < 0:
		err = c.foreign(resp)
	case maxBytes > 0 && size > maxBytes:
		err = vm.Errorf(vm.Limit, path, "has %d bytes, the limit is %d", size, maxBytes)
	default:
		return size, &rawReader{stream: stream{c: c, ctx: ctx, body: resp.Body}, path: path, left: size, sum: sha256.New(), resp: resp}, nil
	}
	resp.Body.Close()
	return 0, nil, err
}

// upload is a request's body. It hashes the data, remembers why reading
// failed, and stops using its reader when the call has returned.
type upload struct {
	r io.Reader

	mu   sync.Mutex
	over bool
	sum  hash.Hash
	err  error
}

// The transport may still call Read after the answer came.
func (u *upload) Read(p []byte) (int, error) {
	u.mu.Lock()
	over := u.over
	u.mu.Unlock()
	if over {
		return 0, io.ErrClosedPipe
	}
	n, err := u.r.Read(p)
	u.mu.Lock()
	defer u.mu.Unlock()
	u.sum.Write(p[:n])
	if err != nil && !errors.Is(err, io.EOF) {
		u.err = err
	}
	return n, err
}

// finish returns the digest of the data, and the error of reading it.
func (u *upload) finish() (string, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.over = true
	return hex.EncodeToString(u.sum.Sum(nil)), u.err
}

// put sends a body that may be large, without the header Expect: only without it does a Go server
// that refuses in the middle keep the connection open long enough for its answer to be read.
func put[T any](ctx context.Context, c *Client, q call, size int64, r io.Reader) (out T, digest string, err error) {
	u := &upload{r: r, sum: sha256.New()}
	q.method, q.body, q.size = http.MethodPut, u, size
	if q.header.Get("Content-Type") == "" {
		q.header.Set("Content-Type", "application/octet-stream")
	}
	resp, err := c.send(ctx, q)
	if err == nil {
		defer resp.Body.Close()
		err = c.decode(ctx, resp, &out)
	}
	digest, readErr := u.finish()
	if readErr != nil && (err == nil || errors.Is(err, vm.Unavailable)) {
		err = readErr
	}
	return out, digest, err
}

// PutRaw writes a file into the guest: size bytes of r, or all of r if size is
// -1. mode 0 is 0644; parents creates missing directories. The file appears whole
// or not at all, and PutRaw has compared the server's digest with the data read.
func (c *Client) PutRaw(ctx context.Context, ref, user, path string, mode uint32, parents bool, size int64, r io.Reader) (api.WrittenFile, error) {
	q := url.Values{}
	if mode != 0 {
		q.Set("mode", "0"+strconv.FormatUint(uint64(mode), 8))
	}
	if parents {
		q.Set("parents", "true")
	}
	w, digest, err := put[api.WrittenFile](ctx, c, call{path: vmPath(ref, "raw", path), query: q, header: as(user)}, size, r)
	if err == nil && w.Digest != digest {
		err = vm.Errorf(vm.Corrupt, path, "the server received other data than was sent").WithHint("copy it again")
	}
	return w, err
}

// tarReader checks the end mark.
type tarReader struct {
	stream
	path string
	resp *http.Response
}

func (r *tarReader) Read(p []byte) (int, error) {
	n, err := r.stream.Read(p)
	if errors.Is(err, io.EOF) && r.resp.Trailer.Get(api.HeaderEnd) != "ok" {
		err = vm.Errorf(vm.Corrupt, r.path, "the stream is incomplete: %w", io.ErrUnexpectedEOF).WithHint("copy it again")
	}
	return n, err
}

// destination is the key of a context's value.
type destination struct{}

// WithDestination returns a context whose downloads name their destination on the caller's
// computer, such as "laptop:/home/me/out". The server does not check it; the audit record of
// the download and the report of `done` contain it.
func WithDestination(ctx context.Context, place string) context.Context {
	return context.WithValue(ctx, destination{}, place)
}

// GetTar reads a tree of the guest as a tar stream. The reader fails at its end if the
// tree is incomplete, so read it to io.EOF. The guest wrote the data: do not trust it.
func (c *Client) GetTar(ctx context.Context, ref, user, path string) (io.ReadCloser, error) {
	resp, err := c.send(ctx, call{method: "GET", path: vmPath(ref, "tar", path), header: as(user)}) //nolint:bodyclose // the returned reader closes it
	if err != nil {
		return nil, err
	}
	return &tarReader{stream: stream{c: c, ctx: ctx, body: resp.Body}, path: path, resp: resp}, nil
}

// PutTar unpacks a tar stream below a directory of the guest.
func (c *Client) PutTar(ctx context.Context, ref, user, path string, r io.Reader) error {
	_, _, err := put[none](ctx, c, call{path: vmPath(ref, "tar", path), query: nil, header: as(user)}, -1, r)
	return err
}
