// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package objects

import (
	"cmp"
	"context"
	"slices"

	"github.com/warren-vm/warren/vm"
)

// Grant lets an identity or a VM of the account use the keys of a bucket that begin with a
// prefix. A second grant for the same holder, bucket and prefix replaces the first. The
// caller of this package has checked that the holder exists.
func (o *Objects) Grant(ctx context.Context, c *vm.Call, bucket string, g vm.ObjectGrant) (out vm.ObjectGrant, err error) {
	defer func() { err = vm.WithOp(vm.OpBucketGrant, bucket, err) }()
	b, err := o.ofOwner(c, bucket)
	switch {
	case err != nil:
		return out, err
	case g.Access != vm.ObjectRead && g.Access != vm.ObjectWrite:
		return out, vm.Errorf(vm.Invalid, vm.Clip(string(g.Access), 40), "is not an access to objects").WithCode("INVALID_REQUEST").WithHint("use read or write")
	case (g.Identity == "") == (g.VM == ""):
		return out, vm.Errorf(vm.Invalid, "", "a grant is for an identity or for a VM").WithCode("INVALID_REQUEST")
	case len(g.Prefix) > maxKey:
		return out, vm.Errorf(vm.Invalid, "", "the prefix is too long").WithCode("INVALID_REQUEST")
	}
	g.ID, g.Account, g.Bucket, g.GrantedAt, g.Host = vm.NewUUID(), b.Account, b.ID, o.cfg.Now().UTC(), ""
	end, err := o.begin(ctx, c, vm.OpBucketGrant, b.Name, map[string]any{"to": holder(g.Identity, g.VM), "prefix": vm.GuestPath(g.Prefix).String(), "access": string(g.Access)})
	if err != nil {
		return out, err
	}
	defer func() { end(err, nil) }()
	o.granting.Lock()
	defer o.granting.Unlock()
	if have, ok := o.granted(b, g); ok {
		return o.grants.Change(ctx, have.ID, func(old *vm.ObjectGrant) error {
			old.Access, old.GrantedAt = g.Access, g.GrantedAt
			return nil
		})
	}
	if len(o.grants.By(byBucket, b.ID)) >= maxOwned {
		return out, tooMany("grants for a bucket", maxOwned)
	}
	return g, o.grants.Create(ctx, g)
}

// granted finds the grant of the same holder for the same prefix.
func (o *Objects) granted(b vm.Bucket, g vm.ObjectGrant) (vm.ObjectGrant, bool) {
	for _, have := range o.grants.By(byHolder, holder(g.Identity, g.VM)) {
		if have.Bucket == b.ID && have.Prefix == g.Prefix {
			return have, true
		}
	}
	return vm.ObjectGrant{}, false
}

// Revoke ends a grant. It takes effect on the holder's next request.
func (o *Objects) Revoke(ctx context.Context, c *vm.Call, bucket string, g vm.ObjectGrant) (err error) {
	defer func() { err = vm.WithOp(vm.OpBucketGrant, bucket, err) }()
	b, err := o.ofOwner(c, bucket)
	if err != nil {
		return err
	}
	have, ok := o.granted(b, g)
	if !ok {
		return vm.Errorf(vm.NotFound, b.Name, "no such grant").WithCode("PERMISSION_NOT_FOUND").WithHint("`warren bucket grants %s` lists them", b.Name)
	}
	end, err := o.begin(ctx, c, vm.OpBucketGrant, b.Name, map[string]any{"revoke": holder(g.Identity, g.VM), "prefix": vm.GuestPath(g.Prefix).String()})
	if err != nil {
		return err
	}
	defer func() { end(err, nil) }()
	return o.grants.Drop(ctx, have.ID)
}

// Grants returns the grants of a bucket, oldest first.
func (o *Objects) Grants(_ context.Context, c *vm.Call, bucket string) ([]vm.ObjectGrant, error) {
	b, err := o.ofOwner(c, bucket)
	if err != nil {
		return nil, vm.WithOp(vm.OpList, bucket, err)
	}
	list := o.grants.By(byBucket, b.ID)
	slices.SortFunc(list, func(a, b vm.ObjectGrant) int {
		return cmp.Or(a.GrantedAt.Compare(b.GrantedAt), cmp.Compare(a.ID, b.ID))
	})
	return list, nil
}

// GrantsOf returns the buckets' names and grants of a VM or an identity.
func (o *Objects) GrantsOf(account vm.AccountID, identity vm.IdentityID, machine vm.ID) map[string][]vm.ObjectGrant {
	names := map[string]string{}
	for _, b := range o.buckets.By(byAccount, string(account)) {
		names[b.ID] = b.Name
	}
	out := map[string][]vm.ObjectGrant{}
	for _, g := range o.grants.By(byHolder, holder(identity, machine)) {
		if name := names[g.Bucket]; name != "" {
			out[name] = append(out[name], g)
		}
	}
	return out
}
