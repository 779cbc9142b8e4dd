// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package objects

import (
	"context"
	"time"

	"github.com/warren-vm/warren/vm"
)

// Swept is what one run of the lifecycle rules has done.
type Swept struct {
	Expired int `json:"expired"` // keys that got a delete marker
	Removed int `json:"removed"` // versions
	Aborted int `json:"aborted"` // multipart uploads
}

// Sweep carries out the lifecycle rules of all buckets. Retained versions stay. Each bucket
// in which something ends gets an audit record.
func (o *Objects) Sweep(ctx context.Context) (all Swept, err error) {
	for _, b := range o.buckets.All() {
		if len(b.Rules) == 0 {
			continue
		}
		one, err := o.sweepBucket(ctx, b)
		all.Expired, all.Removed, all.Aborted = all.Expired+one.Expired, all.Removed+one.Removed, all.Aborted+one.Aborted
		if err != nil {
			return all, vm.WithOp(vm.OpLifecycle, b.Name, err)
		}
	}
	if all.Removed+all.Aborted > 0 {
		o.collect()
	}
	return all, nil
}

// due is what the rules of a bucket end.
type due struct {
	expire []stored // newest versions
	remove []stored
	abort  []upload
}

func (d *due) len() int { return len(d.expire) + len(d.remove) + len(d.abort) }

// markers ends a delete marker that hides nothing, if a rule ends old versions of its key.
func (d *due) markers(b vm.Bucket, s stored) {
	for _, r := range b.Rules {
		if r.Applies(s.Key) && (r.KeepVersions > 0 || r.OldDays > 0) {
			d.remove = append(d.remove, s)
			return
		}
	}
}

// duePage is how much one transaction ends.
const duePage = 500

func (o *Objects) sweepBucket(ctx context.Context, b vm.Bucket) (done Swept, err error) {
	now := o.cfg.Now()
	var end func(error, map[string]any)
	defer func() {
		if end != nil {
			end(err, map[string]any{"expired": done.Expired, "removed": done.Removed, "aborted": done.Aborted})
		}
	}()
	c := &vm.Call{Actor: vm.Actor{Account: b.Account, System: "lifecycle"}}
	for {
		if err := context.Cause(ctx); err != nil {
			return done, err
		}
		d, err := o.due(b, now)
		if err != nil || d.len() == 0 {
			return done, err
		}
		if end == nil {
			if end, err = o.begin(ctx, c, vm.OpLifecycle, b.Name, nil); err != nil {
				return done, err
			}
		}
		if err := o.end1(b, d, now, &done); err != nil {
			return done, err
		}
	}
}

// end1 ends one page.
func (o *Objects) end1(b vm.Bucket, d due, now time.Time, done *Swept) error {
	page := Swept{}
	err := o.index.update(func(t *tx) error {
		page = Swept{}
		for _, s := range d.remove {
			have, err := t.version(b, s.Key, s.Version)
			if vm.KindOf(err) == vm.NotFound || err == nil && have.Retained(now) {
				continue
			}
			if err == nil {
				err = t.remove(b, have)
			}
			if err != nil {
				return err
			}
			page.Removed++
		}
		for _, s := range d.expire {
			last, there, err := t.latest(b, s.Key)
			if err != nil {
				return err
			}
			if !there || last.Version != s.Version {
				continue
			}
			if _, err := t.mark(b, s.Key, stored{Object: vm.Object{At: now.UTC(), By: "system lifecycle", Deleted: true}}); err != nil {
				return err
			}
			page.Expired++
		}
		for _, u := range d.abort {
			gone, err := t.dropUpload(b, u)
			if err != nil {
				return err
			}
			if gone {
				page.Aborted++
			}
		}
		return nil
	})
	if err == nil {
		done.Expired, done.Removed, done.Aborted = done.Expired+page.Expired, done.Removed+page.Removed, done.Aborted+page.Aborted
	}
	return err
}

// due finds a page of what the rules of a bucket end now.
func (o *Objects) due(b vm.Bucket, now time.Time) (d due, err error) {
	older := func(at time.Time, days int) bool { return days > 0 && now.Sub(at) >= time.Duration(days)*24*time.Hour }
	err = o.index.view(func(t *tx) error {
		nth, replaced := 0, time.Time{} // of the key; when the version was replaced
		var alone *stored               // a delete marker of a key of which no other entry was seen
		markers := func() {
			if alone != nil && older(alone.At, 1) {
				d.markers(b, *alone)
			}
			alone = nil
		}
		err := t.each(b, "", func(s stored, newest bool) error {
			if newest {
				markers()
				nth, replaced = 0, time.Time{}
				if s.Deleted {
					alone = &s
				}
			} else {
				alone = nil
			}
			if !s.Deleted {
				nth++
			}
			was := replaced
			replaced = s.At
			for _, r := range b.Rules {
				if !r.Applies(s.Key) {
					continue
				}
				switch {
				case newest && !s.Deleted && older(s.At, r.ExpireDays):
					d.expire = append(d.expire, s)
				case !newest && !s.Retained(now) && (r.KeepVersions > 0 && nth > r.KeepVersions || older(was, r.OldDays)):
					d.remove = append(d.remove, s)
				default:
					continue
				}
				break
			}
			if d.len() >= duePage {
				return errEnough
			}
			return nil
		})
		if err != nil && err != errEnough { //nolint:errorlint // it is this very value
			return err
		}
		markers()
		return t.uploads(b, "", func(u upload) error {
			for _, r := range b.Rules {
				if r.Applies(u.Key) && older(u.At, r.AbortDays) && d.len() < duePage {
					d.abort = append(d.abort, u)
					break
				}
			}
			return nil
		})
	})
	return d, err
}
