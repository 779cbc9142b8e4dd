// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package objects

import (
	"context"
	"strings"

	"github.com/warren-vm/warren/vm"
)

// Inherit gives a new VM the grants that another one has. The record of the verb that makes
// the VM says so.
func (o *Objects) Inherit(ctx context.Context, from, to vm.ID) error {
	for _, g := range o.grants.By(byHolder, holder("", from)) {
		g.ID, g.VM, g.Host = vm.NewUUID(), to, ""
		if err := o.grants.Create(ctx, g); err != nil {
			return err
		}
	}
	return nil
}

// LetRead lets a VM read the keys of a bucket that begin with a prefix, unless a grant of it
// does already; undo ends that grant.
func (o *Objects) LetRead(ctx context.Context, c *vm.Call, id vm.ID, bucket, prefix string) (undo func(context.Context) error, err error) {
	nothing := func(context.Context) error { return nil }
	b, err := o.ofOwner(c, bucket)
	if err != nil {
		return nothing, err
	}
	for _, g := range o.grants.By(byHolder, holder("", id)) {
		if g.Bucket == b.ID && strings.HasPrefix(prefix, g.Prefix) {
			return nothing, nil
		}
	}
	made, err := o.Grant(ctx, c, bucket, vm.ObjectGrant{VM: id, Prefix: prefix, Access: vm.ObjectRead})
	if err != nil {
		return nothing, err
	}
	return func(ctx context.Context) error { return o.grants.Drop(ctx, made.ID) }, nil
}

// DropVM removes the grants of a VM that is gone.
func (o *Objects) DropVM(ctx context.Context, id vm.ID) error {
	for _, g := range o.grants.By(byHolder, holder("", id)) {
		if err := o.grants.Drop(ctx, g.ID); err != nil {
			return err
		}
	}
	return nil
}
