// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package objects

import (
	"context"
	"net"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/warren-vm/warren/vm"
)

var goodBucket = regexp.MustCompile(`^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$`)

// CheckBucket refuses what is not a name of a bucket by S3's rules. Kind Invalid, code
// BUCKET_INVALID_NAME.
func CheckBucket(name string) error {
	if goodBucket.MatchString(name) && !strings.Contains(name, "..") && net.ParseIP(name) == nil &&
		!strings.HasPrefix(name, "xn--") && !strings.HasSuffix(name, "-s3alias") {
		return nil
	}
	return vm.Errorf(vm.Invalid, vm.GuestPath(vm.Clip(name, 100)).String(), "is not a name of a bucket").WithCode("BUCKET_INVALID_NAME").
		WithHint("use 3 to 63 of a-z, 0-9, dots and dashes; begin and end with a letter or digit")
}

// CreateBucket makes an empty, private bucket. Kind Exists, code BUCKET_EXISTS, when the
// name is taken; the field owned says whether the caller's account has it.
func (o *Objects) CreateBucket(ctx context.Context, c *vm.Call, name string) (b vm.Bucket, err error) {
	defer func() { err = vm.WithOp(vm.OpBucketCreate, name, err) }()
	if o.index == nil {
		return b, closed()
	}
	if err := c.Actor.OwnerOnly(name); err != nil {
		return b, denied(c, name, "only the account's owner may make a bucket")
	}
	if err := CheckBucket(name); err != nil {
		return b, err
	}
	if have, there := o.buckets.Get(name); there {
		return b, taken(name, have.Account == c.Actor.Account)
	}
	if o.Owned(c.Actor.Account) >= maxOwned {
		return b, tooMany("buckets", maxOwned)
	}
	b = vm.Bucket{ID: vm.NewBucketID(), Name: name, Account: c.Actor.Account, CreatedAt: o.cfg.Now().UTC()}
	end, err := o.begin(ctx, c, vm.OpBucketCreate, name, map[string]any{"id": b.ID})
	if err != nil {
		return b, err
	}
	defer func() { end(err, nil) }()
	if err = o.buckets.Create(ctx, b); vm.KindOf(err) == vm.Exists {
		return b, taken(name, false)
	}
	if err == nil {
		o.emit(c, "bucket.created", b, nil)
	}
	return b, err
}

// maxOwned bounds the buckets, the access keys and the grants for one bucket of an account.
const maxOwned = 1000

func tooMany(what string, most int) error {
	return vm.Errorf(vm.Limit, "", "there may be at most %d %s", most, what).WithHint("remove some first")
}

func taken(name string, owned bool) error {
	return vm.Errorf(vm.Exists, name, "the name of a bucket is taken").WithCode("BUCKET_EXISTS", "owned", owned).WithHint("names are shared by all accounts of the server: choose another one")
}

// Bucket returns a bucket that the caller may read from.
func (o *Objects) Bucket(_ context.Context, c *vm.Call, name string) (vm.Bucket, error) {
	b, _, err := o.find(c, name)
	return b, vm.WithOp(vm.OpGet, name, err)
}

// ListBuckets returns the buckets that the caller may use, by name.
func (o *Objects) ListBuckets(_ context.Context, c *vm.Call) (list []vm.Bucket, err error) {
	for _, b := range o.buckets.By(byAccount, string(c.Actor.Account)) {
		if _, _, err := o.find(c, b.Name); err == nil {
			list = append(list, b)
		}
	}
	slices.SortFunc(list, func(a, b vm.Bucket) int { return strings.Compare(a.Name, b.Name) })
	return list, nil
}

// RemoveBucket removes a bucket. Without force it must have no version, no delete marker
// and no multipart upload; kind Busy, code BUCKET_NOT_EMPTY. With force all of them are
// removed first, unless one is retained.
func (o *Objects) RemoveBucket(ctx context.Context, c *vm.Call, name string, force bool) (err error) {
	defer func() { err = vm.WithOp(vm.OpBucketRemove, name, err) }()
	b, err := o.ofOwner(c, name)
	if err != nil {
		return err
	}
	end, err := o.begin(ctx, c, vm.OpBucketRemove, name, map[string]any{"id": b.ID, "force": force})
	if err != nil {
		return err
	}
	defer func() { end(err, nil) }()
	if force {
		if err := o.empty(ctx, b, false); err != nil {
			return err
		}
	}
	if err := o.dropBucket(ctx, b); err != nil {
		return err
	}
	o.emit(c, "bucket.removed", b, nil)
	return nil
}

// dropBucket drops an empty bucket with its grants. No version is committed to it while the
// index is asked, and none afterwards, because the record is gone.
func (o *Objects) dropBucket(ctx context.Context, b vm.Bucket) error {
	err := o.index.update(func(t *tx) error {
		w := t.walk(b, ListRequest{})
		k, _ := w.from(w.prefix)
		cur := t.Bucket(inUploads).Cursor()
		u, _ := cur.Seek([]byte(b.ID))
		if k != nil || u != nil && strings.HasPrefix(string(u), b.ID) {
			return vm.Errorf(vm.Busy, b.Name, "the bucket is not empty").WithCode("BUCKET_NOT_EMPTY").
				WithHint("`warren artifact versions s3://%s` lists what it has; `warren bucket rm --force` removes all of it", b.Name)
		}
		if err := o.buckets.Drop(ctx, b.Name); err != nil {
			return err
		}
		return t.drop(inUse, []byte(b.ID))
	})
	if err != nil {
		return err
	}
	for _, g := range o.grants.By(byBucket, b.ID) {
		if err := o.grants.Drop(ctx, g.ID); err != nil {
			o.cfg.Log.Warn("a grant of a removed bucket remains, without effect", "grant", g.ID, "err", err)
		}
	}
	return nil
}

// emptyPage is how many versions one transaction removes.
const emptyPage = 500

// empty removes all versions and uploads of a bucket; retained ones only with all.
func (o *Objects) empty(ctx context.Context, b vm.Bucket, all bool) error {
	now := o.cfg.Now()
	if !all {
		err := o.index.view(func(t *tx) error {
			return t.each(b, "", func(s stored, _ bool) error {
				if s.Retained(now) {
					return retained(b, &s)
				}
				return nil
			})
		})
		if err != nil {
			return err
		}
	}
	for more := true; more; {
		if err := context.Cause(ctx); err != nil {
			return err
		}
		err := o.index.update(func(t *tx) error {
			var page []stored
			more = false
			err := t.each(b, "", func(s stored, _ bool) error {
				if len(page) == emptyPage {
					more = true
					return errEnough
				}
				page = append(page, s)
				return nil
			})
			if err != nil && err != errEnough { //nolint:errorlint // it is this very value
				return err
			}
			for _, s := range page {
				if !all && s.Retained(now) {
					return retained(b, &s)
				}
				if err := t.remove(b, s); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	if err := o.abortBefore(b, "", now.Add(time.Hour)); err != nil {
		return err
	}
	o.collect()
	return nil
}

// errEnough ends a walk.
var errEnough = vm.Errorf(vm.Internal, "", "enough")

// Change sets what is not nil of a bucket.
type Change struct {
	Rules  *[]vm.LifecycleRule
	Retain **vm.RetainDefault // a pointer to nil ends it
	Tags   *map[string]string
}

const (
	maxRules      = 100
	maxBucketTags = 50
	maxDays       = 36500
)

// ChangeBucket sets lifecycle rules, the default retention or tags.
func (o *Objects) ChangeBucket(ctx context.Context, c *vm.Call, name string, ch Change) (b vm.Bucket, err error) {
	defer func() { err = vm.WithOp(vm.OpBucketChange, name, err) }()
	if b, err = o.ofOwner(c, name); err != nil {
		return b, err
	}
	detail := map[string]any{}
	if ch.Rules != nil {
		if err := checkRules(*ch.Rules); err != nil {
			return b, err
		}
		detail["rules"] = len(*ch.Rules)
	}
	if ch.Retain != nil {
		if r := *ch.Retain; r != nil {
			if r.Mode != vm.Governance && r.Mode != vm.Compliance || r.Days < 1 || r.Days > maxDays {
				return b, vm.Errorf(vm.Invalid, "retain", "a default retention has a mode, GOVERNANCE or COMPLIANCE, and 1 to %d days", maxDays).WithCode("OBJECT_INVALID_REQUEST")
			}
			detail["retain"] = string(r.Mode)
			detail["days"] = r.Days
		} else {
			detail["retain"] = "none"
		}
	}
	if ch.Tags != nil {
		if err := checkTags(*ch.Tags, maxBucketTags); err != nil {
			return b, err
		}
		detail["tags"] = len(*ch.Tags)
	}
	end, err := o.begin(ctx, c, vm.OpBucketChange, name, detail)
	if err != nil {
		return b, err
	}
	defer func() { end(err, nil) }()
	return o.buckets.Change(ctx, name, func(b *vm.Bucket) error {
		if ch.Rules != nil {
			b.Rules = *ch.Rules
		}
		if ch.Retain != nil {
			b.Retain = *ch.Retain
		}
		if ch.Tags != nil {
			b.Tags = *ch.Tags
		}
		return nil
	})
}

func checkRules(rules []vm.LifecycleRule) error {
	bad := func(id, why string) error {
		return vm.Errorf(vm.Invalid, vm.GuestPath(vm.Clip(id, 60)).String(), "%s", why).WithCode("OBJECT_INVALID_REQUEST").
			WithHint("a rule has an id, a prefix, and days to expire, versions to keep, days of old versions or days to abort")
	}
	if len(rules) > maxRules {
		return bad("", "there are more than 100 rules")
	}
	seen := map[string]bool{}
	for _, r := range rules {
		switch {
		case r.ID == "" || len(r.ID) > 255 || seen[r.ID]:
			return bad(r.ID, "the id of a rule is empty, too long or used twice")
		case len(r.Prefix) > maxKey:
			return bad(r.ID, "the prefix is too long")
		case min(r.ExpireDays, r.KeepVersions, r.OldDays, r.AbortDays) < 0 || max(r.ExpireDays, r.OldDays, r.AbortDays) > maxDays:
			return bad(r.ID, "a number is negative or too large")
		case r.ExpireDays+r.KeepVersions+r.OldDays+r.AbortDays == 0:
			return bad(r.ID, "the rule does nothing")
		}
		seen[r.ID] = true
	}
	return nil
}

// Usage returns what each bucket of the caller's account holds, by name.
func (o *Objects) Usage(ctx context.Context, c *vm.Call) (list []vm.BucketUse, err error) {
	if err := c.Actor.OwnerOnly(""); err != nil {
		return nil, vm.WithOp(vm.OpList, "", err)
	}
	buckets, err := o.ListBuckets(ctx, c)
	if err != nil {
		return nil, err
	}
	err = o.index.view(func(t *tx) error {
		for _, b := range buckets {
			u := vm.BucketUse{}
			if _, err := t.getJSON(inUse, []byte(b.ID), &u); err != nil {
				return err
			}
			u.Bucket = b.Name
			list = append(list, u)
		}
		return nil
	})
	return list, vm.WithOp(vm.OpList, "", err)
}

// Owned is the number of buckets of an account.
func (o *Objects) Owned(account vm.AccountID) int {
	return len(o.buckets.By(byAccount, string(account)))
}

// Forget removes everything of an account that is deleted, retained versions, too.
func (o *Objects) Forget(ctx context.Context, account vm.AccountID) error {
	for _, b := range o.buckets.By(byAccount, string(account)) {
		if err := o.empty(ctx, b, true); err != nil {
			return err
		}
		if err := o.dropBucket(ctx, b); err != nil {
			return err
		}
	}
	for _, k := range o.keys.By(byAccount, string(account)) {
		if err := o.keys.Drop(ctx, k.ID); err != nil {
			return err
		}
	}
	for _, g := range o.grants.By(byAccount, string(account)) {
		if err := o.grants.Drop(ctx, g.ID); err != nil {
			return err
		}
	}
	return nil
}
