// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package guest

import (
	"bytes"
	"context"
	"encoding/json"
	"io"

	"github.com/warren-vm/warren/vm"
)

// ListTree streams the entries of a tree with digests, as lines of JSON. The
// guest chooses the names, so decode with care.
func (c *Client) ListTree(ctx context.Context, user, path string, o vm.TreeOptions) (io.ReadCloser, error) {
	q := where(user, path)
	q.Set("from", itoa(o.HashFrom))
	q.Set("pair", o.Pair)
	q["exclude"] = o.Exclude
	resp, err := c.do(ctx, "GET", "/tree", q, nil, 0) //nolint:bodyclose // the caller closes it, as body
	if err != nil {
		return nil, err
	}
	return &body{ctx: ctx, r: resp.Body, left: -1}, nil
}

// PickFiles streams the contents of many files below a directory.
func (c *Client) PickFiles(ctx context.Context, user, path string, p vm.TreePick) (io.ReadCloser, error) {
	b, err := json.Marshal(p)
	if err != nil {
		return nil, &vm.Error{Kind: vm.Internal, Err: err}
	}
	resp, err := c.do(ctx, "POST", "/pick", where(user, path), bytes.NewReader(b), int64(len(b))) //nolint:bodyclose // the caller closes it, as body
	if err != nil {
		return nil, err
	}
	return &body{ctx: ctx, r: resp.Body, left: -1}, nil
}

// PlaceFiles makes many changes below a directory and then sets a mark there.
func (c *Client) PlaceFiles(ctx context.Context, user, path, pair, mark string, r io.Reader) (vm.TreePlaced, error) {
	var out vm.TreePlaced
	q := where(user, path)
	q.Set("pair", pair)
	q.Set("mark", mark)
	b, err := c.upload(ctx, "/place", q, &source{r: r}, -1)
	if err != nil {
		return out, err
	}
	return out, odd(json.Unmarshal(b, &out))
}
