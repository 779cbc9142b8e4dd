// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"hash"
	"io"
	"net/http"
	"net/url"
	"strconv"

	"github.com/warren-vm/warren/api"
	"github.com/warren-vm/warren/vm"
)

// Download is a file's content on its way out of a guest. Read returns io.EOF
// only when length and digest are as announced, and an error of kind Corrupt
// or GuestFault otherwise. The caller closes it.
type Download struct {
	Size int64 // announced length; -1 = unknown

	body io.ReadCloser
	resp *http.Response
	c    *Client
	ctx  context.Context
	sum  hash.Hash
	n    int64
}

// Open starts the download of a file. A larger one than maxBytes is refused
// with kind Limit before anything is sent; 0 = no limit.
func (c *Client) Open(ctx context.Context, ref, path string, maxBytes int64) (*Download, error) {
	p, err := vmPath(ref, "raw", path)
	if err != nil {
		return nil, err
	}
	q := url.Values{}
	if maxBytes > 0 {
		q.Set("maxBytes", strconv.FormatInt(maxBytes, 10))
	}
	resp, err := c.send(ctx, call{method: http.MethodGet, path: p, query: q})
	if err != nil {
		return nil, err
	}
	size, err := strconv.ParseInt(resp.Header.Get(api.HeaderLength), 10, 64)
	if err != nil {
		size = -1
	}
	return &Download{Size: size, body: resp.Body, resp: resp, c: c, ctx: ctx, sum: sha256.New()}, nil
}

func (d *Download) Read(p []byte) (int, error) {
	n, err := d.body.Read(p)
	d.n += int64(n)
	d.sum.Write(p[:n])
	switch {
	case err == io.EOF:
		return n, d.check()
	case err != nil:
		return n, d.c.transportError(d.ctx, err)
	case d.Size >= 0 && d.n > d.Size:
		return n, vm.Errorf(vm.Corrupt, "", "more came than the %d bytes that were announced", d.Size)
	}
	return n, nil
}

// check compares what came with what was announced.
func (d *Download) check() error {
	if d.Size >= 0 && d.n != d.Size {
		return vm.Errorf(vm.GuestFault, "", "%d bytes came of %d", d.n, d.Size).WithHint("the file may have changed meanwhile; try again")
	}
	want := d.resp.Trailer.Get(api.HeaderDigest)
	if want == "" {
		return vm.Errorf(vm.Corrupt, "", "the stream ended without its digest").WithHint("try again")
	}
	if want != hex.EncodeToString(d.sum.Sum(nil)) {
		return vm.Errorf(vm.Corrupt, "", "the bytes that came have another digest than those that were sent").WithHint("try again")
	}
	return io.EOF
}

// Close ends the download.
func (d *Download) Close() error { return d.body.Close() }

// Upload writes a file from r: o.Size bytes, or all of them where that is -1.
// It appears whole or not at all. The digest of what the server received is
// compared with that of what was sent.
func (c *Client) Upload(ctx context.Context, ref, path string, o vm.WriteOptions, r io.Reader) (vm.FileInfo, error) {
	p, err := vmPath(ref, "raw", path)
	if err != nil {
		return vm.FileInfo{}, err
	}
	q := url.Values{}
	if o.Mode != 0 {
		q.Set("mode", strconv.FormatUint(uint64(o.Mode), 8))
	}
	if o.Parents {
		q.Set("parents", "true")
	}
	sum := sha256.New()
	var out api.WrittenFile
	k := call{method: http.MethodPut, path: p, query: q, body: io.TeeReader(r, sum), size: o.Size}
	k.header = http.Header{"Content-Type": {"application/octet-stream"}}
	if o.Size == 0 { // net/http takes 0 with a body for unknown
		k.body = http.NoBody
	}
	if err := c.json(ctx, k, &out); err != nil {
		return vm.FileInfo{}, err
	}
	if want := hex.EncodeToString(sum.Sum(nil)); out.Digest != want {
		return out.File, vm.Errorf(vm.Corrupt, path, "the server received other bytes than were sent").WithHint("try again")
	}
	return out.File, nil
}

// TarDown returns a tree as a tar stream. Read returns io.EOF only for a whole
// stream. The caller closes it.
func (c *Client) TarDown(ctx context.Context, ref, path string) (io.ReadCloser, error) {
	p, err := vmPath(ref, "tar", path)
	if err != nil {
		return nil, err
	}
	resp, err := c.send(ctx, call{method: http.MethodGet, path: p})
	if err != nil {
		return nil, err
	}
	return &tree{resp: resp, ReadCloser: resp.Body, c: c, ctx: ctx}, nil
}

type tree struct {
	io.ReadCloser
	resp *http.Response
	c    *Client
	ctx  context.Context
}

func (t *tree) Read(p []byte) (int, error) {
	n, err := t.ReadCloser.Read(p)
	switch {
	case err == io.EOF && t.resp.Trailer.Get(api.HeaderEnd) != "ok":
		return n, vm.Errorf(vm.GuestFault, "", "the tree was cut off").WithHint("try again")
	case err != nil && err != io.EOF:
		return n, t.c.transportError(t.ctx, err)
	}
	return n, err
}

// TarUp unpacks a tar stream below a directory, which is made where missing.
func (c *Client) TarUp(ctx context.Context, ref, path string, r io.Reader) error {
	p, err := vmPath(ref, "tar", path)
	if err != nil {
		return err
	}
	return c.json(ctx, call{
		method: http.MethodPut, path: p, body: r, size: -1,
		header: http.Header{"Content-Type": {"application/x-tar"}},
	}, nil)
}
