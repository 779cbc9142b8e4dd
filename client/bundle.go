// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"
	"io"
	"net/http"
	"net/url"
	"strconv"

	"github.com/warren-vm/warren/api"
)

// BundleOptions choose what a bundle contains.
type BundleOptions struct {
	Machine bool // its disk and memory
	Image   bool // the image below
	// MaxBytes is how many bytes of published objects it has, the newest first; 0 = any
	// number, nil = the server's default.
	MaxBytes *int64
}

// Bundle packs a VM for another server. The reader returns the bundle and then io.EOF, or
// fails if the bundle is incomplete. Close it.
func (c *Client) Bundle(ctx context.Context, ref string, o BundleOptions) (io.ReadCloser, error) {
	q := url.Values{}
	if o.Machine {
		q.Set("machine", "true")
	}
	if o.Image {
		q.Set("image", "true")
	}
	if o.MaxBytes != nil {
		q.Set("maxBytes", strconv.FormatInt(*o.MaxBytes, 10))
	}
	resp, err := c.send(ctx, call{method: "POST", path: vmPath(ref, "bundle"), query: q}) //nolint:bodyclose // the returned reader closes it
	if err != nil {
		return nil, err
	}
	return &tarReader{stream: stream{c: c, ctx: ctx, body: resp.Body}, path: ref, resp: resp}, nil
}

// OpenBundle uploads a bundle of size bytes and opens it. trust are the fingerprints of
// signers that are trusted; name is the VM's, "" = as it was.
func (c *Client) OpenBundle(ctx context.Context, r io.Reader, size int64, name string, trust []string) (api.OpenedBundle, error) {
	q := url.Values{}
	if name != "" {
		q.Set("name", name)
	}
	for _, fp := range trust {
		q.Add("trust", fp)
	}
	out, _, err := put[api.OpenedBundle](ctx, c, call{path: pathOf("v1", "bundles"), query: q, header: http.Header{}}, size, r)
	return out, err
}

// Signer returns the fingerprint of the key that signs the server's bundles and backups.
func (c *Client) Signer(ctx context.Context) (string, error) {
	s, err := do[api.Signer](ctx, c, call{method: "GET", path: pathOf("v1", "bundles", "signer")}, nil)
	return s.Fingerprint, err
}
