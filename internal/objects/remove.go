// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package objects

import (
	"context"
	"time"

	"github.com/warren-vm/warren/vm"
)

// RetainRequest sets the retention of a version.
type RetainRequest struct {
	Which
	Mode vm.RetainMode
	To   time.Time // in the future
	// Bypass lets the account's owner shorten or weaken a governance retention.
	Bypass bool
}

// Retain sets or extends the retention of a version. A compliance retention is set by the
// account's owner alone, and never shortened; a governance retention is shortened only by
// the owner who asks for it.
func (o *Objects) Retain(ctx context.Context, c *vm.Call, req RetainRequest) (out vm.Object, err error) {
	defer func() { err = vm.WithOp(vm.OpObjectRetain, shownKey(req.Bucket, req.Key), err) }()
	now := o.cfg.Now()
	if err := checkRetention(c, now, req.Mode, req.To); err != nil {
		return out, err
	}
	detail := map[string]any{"mode": string(req.Mode), "until": req.To.UTC().Format(time.RFC3339)}
	return o.change(ctx, c, vm.OpObjectRetain, req.Which, write, detail, func(_ *tx, b vm.Bucket, s *stored) error {
		weaker := s.Retain != "" && now.Before(s.RetainTo) && (req.To.Before(s.RetainTo) || s.Retain == vm.Compliance && req.Mode != vm.Compliance)
		if weaker && (s.Retain == vm.Compliance || !mayBypass(c, req.Bypass)) {
			return retained(b, s)
		}
		s.Retain, s.RetainTo = req.Mode, req.To.UTC()
		return nil
	})
}

// checkRetention refuses a retention that nobody may ask for, and a compliance retention of
// an identity or a VM: nobody could ever free the space that it takes.
func checkRetention(c *vm.Call, now time.Time, mode vm.RetainMode, to time.Time) error {
	switch {
	case mode != vm.Governance && mode != vm.Compliance:
		return vm.Errorf(vm.Invalid, vm.Clip(string(mode), 40), "is not a mode of retention").WithCode("OBJECT_INVALID_REQUEST").WithHint("use GOVERNANCE or COMPLIANCE")
	case !to.After(now):
		return vm.Errorf(vm.Invalid, "", "a retention ends in the future").WithCode("OBJECT_INVALID_REQUEST")
	case to.After(now.AddDate(100, 0, 0)):
		return vm.Errorf(vm.Invalid, "", "a retention lasts at most 100 years").WithCode("OBJECT_INVALID_REQUEST")
	case mode == vm.Compliance && (c.Actor.Identity != "" || c.Actor.VM != ""):
		return vm.Errorf(vm.Denied, "COMPLIANCE", "only the account's owner may retain a version so that nobody can remove it").WithCode("OBJECT_ACCESS_DENIED").
			WithHint("use GOVERNANCE, which the owner can override")
	}
	return nil
}

// mayBypass reports whether a caller may override a governance retention.
func mayBypass(c *vm.Call, asked bool) bool {
	return asked && c.Actor.Identity == "" && c.Actor.VM == ""
}

func retained(b vm.Bucket, s *stored) error {
	why := "the version is retained until " + s.RetainTo.UTC().Format(time.RFC3339)
	if s.Hold {
		why = "the version is under a legal hold"
	}
	err := vm.Errorf(vm.Denied, shownKey(b.Name, s.Key), "%s", why).WithCode("OBJECT_RETAINED", "version", s.Version)
	switch {
	case s.Hold:
		return err.WithHint("lift the hold first: `warren artifact retain --hold=false`")
	case s.Retain == vm.Governance:
		return err.WithHint("the account's owner can override it with --bypass-retention")
	}
	return err.WithHint("nobody can remove it before then")
}

// SetHold sets or lifts the legal hold of a version. Only the account's owner lifts one.
func (o *Objects) SetHold(ctx context.Context, c *vm.Call, w Which, hold bool) (out vm.Object, err error) {
	n := write
	if !hold {
		n = own
	}
	out, err = o.change(ctx, c, vm.OpObjectRetain, w, n, map[string]any{"hold": hold}, func(_ *tx, _ vm.Bucket, s *stored) error {
		s.Hold = hold
		return nil
	})
	return out, vm.WithOp(vm.OpObjectRetain, shownKey(w.Bucket, w.Key), err)
}

// RemoveRequest removes a version, or marks a key as deleted.
type RemoveRequest struct {
	Bucket, Key string
	Version     string // "" = write a delete marker: older versions stay
	Bypass      bool   // override a governance retention; for the account's owner
	IfMatch     string // ETag of the newest version; "" = anything
}

// Remove removes one version with its bytes, or writes a delete marker. It returns the
// marker that it wrote, or the version that it removed. Kind Denied, code OBJECT_RETAINED,
// for a version that is retained. To remove what is not there is no error.
func (o *Objects) Remove(ctx context.Context, c *vm.Call, req RemoveRequest) (out vm.Object, err error) {
	defer func() { err = vm.WithOp(vm.OpObjectRemove, shownKey(req.Bucket, req.Key), err) }()
	b, _, err := o.reach(c, req.Bucket, req.Key, write)
	if err != nil {
		return out, err
	}
	settle, err := o.holdMarker(ctx, b, req)
	if err != nil {
		return out, err
	}
	defer func() { settle(err == nil) }()
	detail := map[string]any{}
	if req.Version != "" {
		detail["version"] = vm.Clip(req.Version, 40)
	}
	if mayBypass(c, req.Bypass) {
		detail["bypass"] = true
	}
	end, err := o.begin(ctx, c, vm.OpObjectRemove, shownKey(b.Name, req.Key), detail)
	if err != nil {
		return out, err
	}
	defer func() { end(err, nil) }()
	now := o.cfg.Now()
	err = o.index.update(func(t *tx) error {
		if err := o.still(b); err != nil {
			return err
		}
		if err := checkNow(t, b, req.Key, Condition{IfMatch: req.IfMatch}); err != nil {
			return err
		}
		if req.Version == "" {
			made, err := t.mark(b, req.Key, stored{Object: vm.Object{At: now.UTC(), By: actorName(c.Actor), Deleted: true}})
			out = made
			return err
		}
		s, err := t.version(b, req.Key, req.Version)
		if vm.KindOf(err) == vm.NotFound {
			out = vm.Object{Bucket: b.Name, Key: req.Key, Version: req.Version}
			return nil
		}
		if err != nil {
			return err
		}
		if s.Retained(now) && (s.Hold || s.Retain == vm.Compliance || !mayBypass(c, req.Bypass)) {
			return retained(b, &s)
		}
		out = s.Object
		return t.remove(b, s)
	})
	if err != nil {
		return out, err
	}
	o.collect()
	o.emit(c, "object.removed", b, map[string]any{"key": req.Key, "version": out.Version, "marker": out.Deleted && req.Version == ""})
	return out, nil
}

// holdMarker takes room for a delete marker that hides nothing. One that hides an object
// needs none: a full account can always delete.
func (o *Objects) holdMarker(ctx context.Context, b vm.Bucket, req RemoveRequest) (settle func(kept bool), err error) {
	hides := req.Version != ""
	if !hides {
		err = o.index.view(func(t *tx) error {
			last, there, err := t.latest(b, req.Key)
			hides = there && !last.Deleted
			return err
		})
	}
	if err != nil || hides {
		return func(bool) {}, err
	}
	held, err := o.hold(ctx, b.Account, 0)
	return held.settle, err
}

// mark writes a delete marker. A key without versions, or whose newest is a marker, gets
// one, too, as in S3.
func (t *tx) mark(b vm.Bucket, key string, s stored) (vm.Object, error) {
	made, err := t.add(b, key, s)
	return made.Object, err
}

// remove removes a version from the index and gives its bytes to the garbage.
func (t *tx) remove(b vm.Bucket, s stored) error {
	last, _, err := t.latest(b, s.Key)
	if err != nil {
		return err
	}
	if err := t.drop(inVersions, versionKey(b.ID, s.Key, s.seq)); err != nil {
		return err
	}
	if err := t.drop(inScans, seqBytes(s.seq)); err != nil {
		return err
	}
	lives, lived := false, last.seq == s.seq && !s.Deleted
	if last.seq == s.seq { // the one before becomes the newest
		if err := t.untag(b, s.Key, s); err != nil {
			return err
		}
		before, there, err := t.latest(b, s.Key)
		if err != nil {
			return err
		}
		if lives = there && !before.Deleted; lives {
			if err := t.tag(b, s.Key, before); err != nil {
				return err
			}
		}
	}
	if err := t.release(b, s); err != nil {
		return err
	}
	return t.use(b, func(u *vm.BucketUse) {
		u.Versions--
		u.Bytes -= s.Size
		u.Small -= s.small()
		switch {
		case lived && !lives:
			u.Objects--
		case !lived && lives:
			u.Objects++
		}
	})
}
