// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package house

import (
	"context"
	"slices"

	"github.com/warren-vm/warren/internal/changes"
	"github.com/warren-vm/warren/internal/objects"
	"github.com/warren-vm/warren/vm"
)

// published lists the versions of objects that were published from a VM, the newest first:
// those that are stored as they were published, and that the caller may read.
func (h *House) published(ctx context.Context, c *vm.Call, of vm.ID) (list []changes.Published, err error) {
	for _, g := range h.Engine.PublishedFrom(of) {
		for _, p := range slices.Backward(g.Published) {
			o, err := h.Objects.Head(ctx, c, objects.Which{Bucket: p.Bucket, Key: p.Key, Version: p.Version})
			switch kind := vm.KindOf(err); {
			case kind == vm.NotFound || kind == vm.Denied:
				continue
			case err != nil:
				return nil, err
			case o.SHA256 != p.SHA256 || o.Scan == vm.Refused:
				continue
			}
			copied := vm.DataCopy{Place: vm.PlaceObject, Bucket: p.Bucket, Key: p.Key, Version: p.Version}
			list = append(list, changes.Published{Object: copied, Path: p.Path, Generation: g.ID})
		}
	}
	return list, nil
}

// object finds a stored version of an object that the caller may read.
func (h *House) object(ctx context.Context, c *vm.Call, ref vm.ObjectRef) (vm.Object, error) {
	return h.Objects.Head(ctx, c, objects.Which{Bucket: ref.Bucket, Key: ref.Key, Version: ref.Version})
}

// publishedRefs is published without what truth needs.
func (h *House) publishedRefs(ctx context.Context, c *vm.Call, of vm.ID) (list []vm.ObjectRef, err error) {
	all, err := h.published(ctx, c, of)
	for _, p := range all {
		list = append(list, vm.ObjectRef{Bucket: p.Object.Bucket, Key: p.Object.Key, Version: p.Object.Version})
	}
	return list, err
}
