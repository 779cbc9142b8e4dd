// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package inside

import (
	"context"
	"crypto/sha256"
	"io"

	"github.com/warren-vm/warren/vm"
)

// ListTree returns the entries of a tree with digests, as lines of JSON that the
// guest wrote. The caller closes it.
func (in *Inside) ListTree(ctx context.Context, c *vm.Call, ref, user, path string, o vm.TreeOptions) (io.ReadCloser, error) {
	d, err := in.download(ctx, c, ref, path, user, func(ctx context.Context, v *visit) (io.ReadCloser, error) {
		return v.guest.ListTree(ctx, user, v.path(path), o)
	})
	if err != nil {
		return nil, err
	}
	return d, nil
}

// PickFiles returns the contents of many files below path. The caller closes it.
func (in *Inside) PickFiles(ctx context.Context, c *vm.Call, ref, user, path string, p vm.TreePick) (io.ReadCloser, error) {
	d, err := in.download(ctx, c, ref, path, user, func(ctx context.Context, v *visit) (io.ReadCloser, error) {
		return v.guest.PickFiles(ctx, user, v.path(path), p)
	})
	if err != nil {
		return nil, err
	}
	d.whole = sha256.New()
	return d, nil
}

// PlaceFiles makes many changes below path, each only if the path is as the change
// says, and then sets the pair's mark.
func (in *Inside) PlaceFiles(ctx context.Context, c *vm.Call, ref, user, path, pair, mark string, r io.Reader) (vm.TreePlaced, error) {
	var out vm.TreePlaced
	err := in.upload(ctx, c, ref, path, user, facts{"as": "changes of the files below it"}, r, func(ctx context.Context, v *visit, r io.Reader) (err error) {
		out, err = v.guest.PlaceFiles(ctx, user, v.path(path), pair, mark, r)
		return err
	})
	return out, err
}
