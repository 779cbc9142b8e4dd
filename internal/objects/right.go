// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package objects

import (
	"cmp"
	"context"
	"strings"
	"unicode/utf8"

	"github.com/warren-vm/warren/vm"
)

// right is what a caller may do with a bucket.
type right struct {
	owner  bool // an API key of the account, or an access key that acts as the account
	grants []vm.ObjectGrant
}

// need is the right that a verb needs.
type need int

const (
	read need = iota
	write
	own
)

// find returns the bucket that a name names, with the caller's right to it. A bucket of
// another account does not exist for the caller.
func (o *Objects) find(c *vm.Call, name string) (vm.Bucket, right, error) {
	if o.index == nil {
		return vm.Bucket{}, right{}, vm.Errorf(vm.Unavailable, "", "object storage is not open")
	}
	b, ok := o.buckets.Get(name)
	if !ok || b.Account != c.Actor.Account {
		return vm.Bucket{}, right{}, noBucket(name)
	}
	if c.Actor.Identity == "" && c.Actor.VM == "" {
		return b, right{owner: true}, nil
	}
	var r right
	for _, g := range o.grants.By(byHolder, holder(c.Actor.Identity, c.Actor.VM)) {
		if g.Bucket == b.ID {
			r.grants = append(r.grants, g)
		}
	}
	if len(r.grants) == 0 {
		return vm.Bucket{}, r, denied(c, name, "the caller has no grant for this bucket")
	}
	return b, r, nil
}

// may refuses a verb on a key.
func (r right) may(c *vm.Call, bucket, key string, n need) error {
	if r.owner {
		return nil
	}
	if n == own {
		return denied(c, bucket, "only the account's owner may do this")
	}
	for _, g := range r.grants {
		if strings.HasPrefix(key, g.Prefix) && (n == read || g.Access == vm.ObjectWrite) {
			return nil
		}
	}
	return denied(c, shownKey(bucket, key), "the caller's grant does not allow this")
}

// reach is find for a verb on a key.
func (o *Objects) reach(c *vm.Call, bucket, key string, n need) (vm.Bucket, right, error) {
	b, r, err := o.find(c, bucket)
	if err == nil {
		err = CheckKey(key)
	}
	if err == nil {
		err = r.may(c, bucket, key, n)
	}
	return b, r, err
}

// ofOwner is find for a verb of the account's owner.
func (o *Objects) ofOwner(c *vm.Call, bucket string) (vm.Bucket, error) {
	b, r, err := o.find(c, bucket)
	if err == nil {
		err = r.may(c, bucket, "", own)
	}
	return b, err
}

// MayWrite refuses a caller that may not write a key, before it makes the bytes.
func (o *Objects) MayWrite(c *vm.Call, bucket, key string) error {
	_, _, err := o.reach(c, bucket, key, write)
	return vm.WithOp(vm.OpObjectPut, shownKey(bucket, key), err)
}

func noBucket(name string) *vm.Error {
	return vm.Errorf(vm.NotFound, vm.GuestPath(vm.Clip(name, 100)).String(), "no such bucket").WithCode("BUCKET_NOT_FOUND").WithHint("`warren bucket ls` lists buckets")
}

func denied(c *vm.Call, subject, why string) *vm.Error {
	who := "--identity IDENTITY"
	if c.Actor.VM != "" {
		who = "--vm " + string(c.Actor.VM)
	}
	return vm.Errorf(vm.Denied, subject, "%s", why).WithCode("OBJECT_ACCESS_DENIED").
		WithHint("the account's owner can grant it: `warren bucket grant s3://BUCKET/PREFIX %s --write`", who)
}

// maxKey is the length of the longest key in bytes, as in S3.
const maxKey = 1024

// CheckKey refuses what is not a key: it is UTF-8 without control characters, and has no
// part "." or "..", so that it stays inside any directory that a client writes it to. Kind
// Invalid, code OBJECT_INVALID_KEY.
func CheckKey(key string) error {
	why := ""
	switch {
	case key == "":
		why = "a key is not empty"
	case len(key) > maxKey:
		why = "a key has at most 1024 bytes"
	case !utf8.ValidString(key):
		why = "a key is UTF-8"
	case strings.ContainsFunc(key, func(r rune) bool { return r < 0x20 || r == 0x7f || r >= 0x80 && r < 0xa0 }):
		why = "a key has no control characters"
	case strings.HasPrefix(key, "/"):
		why = "a key does not begin with a slash"
	}
	for part := range strings.SplitSeq(key, "/") {
		if part == "." || part == ".." {
			why = "no part of a key is \".\" or \"..\""
		}
	}
	if why == "" {
		return nil
	}
	return vm.Errorf(vm.Invalid, vm.GuestPath(vm.Clip(key, 100)).String(), "%s", why).WithCode("OBJECT_INVALID_KEY").WithHint("use a key such as reports/2026/june.pdf")
}

// actorName is who did something.
func actorName(a vm.Actor) string {
	switch {
	case a.System != "":
		return "system " + a.System
	case a.VM != "":
		return "vm " + string(a.VM)
	case a.Identity != "":
		return "identity " + string(a.Identity)
	}
	return "key " + string(a.Key)
}

// emit stores an event about a bucket or an object.
func (o *Objects) emit(c *vm.Call, kind string, b vm.Bucket, data map[string]any) {
	out := map[string]any{"bucket": b.Name}
	for k, v := range data {
		out[k] = v
	}
	o.cfg.Journal.Emit(vm.Event{Type: kind, VM: c.Actor.VM, Actor: actorName(c.Actor), Account: b.Account, Data: out})
}

// begin writes the audit record of an action on a bucket or a key. It is a record of the
// VM that acts, or that the bytes come from.
func (o *Objects) begin(ctx context.Context, c *vm.Call, op vm.Op, subject string, detail map[string]any) (end func(err error, detail map[string]any), err error) {
	from, _ := detail["vm"].(string)
	receipt, err := o.cfg.Journal.Begin(ctx, c, vm.AuditEntry{Op: op, VM: cmp.Or(c.Actor.VM, vm.ID(from)), Subject: subject, Detail: detail})
	if err != nil {
		return nil, err
	}
	return receipt.End, nil
}
