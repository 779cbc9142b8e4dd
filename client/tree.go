// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/url"
	"strconv"

	"github.com/warren-vm/warren/vm"
)

// ListTree streams the entries of a tree with digests, as lines of JSON. The reader
// fails at its end if the answer is incomplete. The guest wrote the data: do not
// trust it.
func (c *Client) ListTree(ctx context.Context, ref, user, path string, o vm.TreeOptions) (io.ReadCloser, error) {
	q := url.Values{"path": {path}, "from": {strconv.FormatInt(o.HashFrom, 10)}, "exclude": o.Exclude}
	if o.Pair != "" {
		q.Set("pair", o.Pair)
	}
	return c.ended(ctx, path, call{method: "GET", path: vmPath(ref, "fs", "tree"), query: q, header: as(user)})
}

// PickFiles streams the contents of many files below a directory, each after a line
// that describes it. The guest wrote the data: do not trust it.
func (c *Client) PickFiles(ctx context.Context, ref, user, path string, p vm.TreePick) (io.ReadCloser, error) {
	b, err := json.Marshal(p)
	if err != nil {
		return nil, vm.Errorf(vm.Internal, path, "%w", err)
	}
	h := as(user)
	h.Set("Content-Type", "application/json")
	return c.ended(ctx, path, call{
		method: "POST", path: vmPath(ref, "fs", "pick"), query: url.Values{"path": {path}}, header: h,
		body: bytes.NewReader(b), size: int64(len(b)),
	})
}

// ended sends a request whose answer has a mark at its end.
func (c *Client) ended(ctx context.Context, path string, q call) (io.ReadCloser, error) {
	resp, err := c.send(ctx, q) //nolint:bodyclose // the returned reader closes it
	if err != nil {
		return nil, err
	}
	return &tarReader{stream: stream{c: c, ctx: ctx, body: resp.Body}, path: path, resp: resp}, nil
}

// PlaceFiles makes the changes that r holds below a directory of the guest, each
// only if the path is as the change says, and then sets the pair's mark there.
func (c *Client) PlaceFiles(ctx context.Context, ref, user, path, pair, mark string, r io.Reader) (vm.TreePlaced, error) {
	q := url.Values{"path": {path}, "pair": {pair}, "mark": {mark}}
	out, _, err := put[vm.TreePlaced](ctx, c, call{path: vmPath(ref, "fs", "place"), query: q, header: as(user)}, -1, r)
	return out, err
}
