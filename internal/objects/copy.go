// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package objects

import (
	"bytes"
	"context"
	"io"

	"github.com/warren-vm/warren/vm"
)

// Copy makes a new version of a key with the bytes of another version. No byte is copied:
// both versions have one body. The fields of req that describe the new version replace
// those of the source only if replace and retag say so. It returns the new version and the
// source's.
func (o *Objects) Copy(ctx context.Context, c *vm.Call, from Which, req PutRequest, replace, retag bool) (out, src vm.Object, err error) {
	defer func() { err = vm.WithOp(vm.OpObjectPut, shownKey(req.Bucket, req.Key), err) }()
	content, err := o.Get(ctx, c, from)
	if err != nil {
		return out, src, err
	}
	src = content.Object
	if !replace {
		req.ContentType, req.Headers, req.Meta = src.ContentType, src.Headers, src.Meta
	}
	if !retag {
		req.Tags = src.Tags
	}
	b, _, err := o.reach(c, req.Bucket, req.Key, write)
	if err == nil {
		err = req.check(c, o.cfg.Now())
	}
	if err != nil {
		return out, src, err
	}
	held, err := o.hold(ctx, b.Account, 0) // for its record
	if err != nil {
		return out, src, err
	}
	defer func() { held.settle(err == nil) }()
	end, err := o.begin(ctx, c, vm.OpObjectPut, shownKey(b.Name, req.Key), map[string]any{"from": shownKey(src.Bucket, src.Key), "fromVersion": src.Version})
	if err != nil {
		return out, src, err
	}
	defer func() { end(err, putDetail(out)) }()
	now := o.cfg.Now().UTC()
	head := make([]byte, min(headSize, src.Size))
	if _, err := (&randomReader{ctx, content}).ReadAt(head, 0); err != nil && len(head) > 0 {
		return out, src, err
	}
	judged := stored{Object: vm.Object{Size: src.Size, ContentType: req.ContentType}}
	o.judge(ctx, b, req.Key, &judged, head) // by its new name
	source, _, err := o.find(c, from.Bucket)
	if err != nil {
		return out, src, err
	}
	err = o.index.update(func(t *tx) error {
		if err := o.still(b); err != nil {
			return err
		}
		was, err := t.version(source, from.Key, src.Version)
		if err != nil {
			return err
		}
		if err := checkNow(t, b, req.Key, req.Condition); err != nil {
			return err
		}
		s := was
		s.At, s.By, s.ContentType, s.Headers, s.Meta, s.Tags = now, actorName(c.Actor), req.ContentType, req.Headers, req.Meta, req.Tags
		s.Scan, s.ScanReason = judged.Scan, judged.ScanReason
		s.Retain, s.RetainTo, s.Hold = req.Retain, req.RetainTo.UTC(), req.Hold
		retainByDefault(&s.Object, b, now)
		if err := t.share(was.Body); err != nil {
			return err
		}
		made, err := t.add(b, req.Key, s)
		out = made.Object
		return err
	})
	if err != nil {
		return out, src, err
	}
	o.written(c, b, out)
	return out, src, nil
}

// CopyPart makes a part of an upload from a range of a version; n < 0 = to the end.
func (o *Objects) CopyPart(ctx context.Context, c *vm.Call, from Which, at, n int64, req PartRequest) (out Part, src vm.Object, err error) {
	content, err := o.Get(ctx, c, from)
	if err != nil {
		return out, src, err
	}
	if n < 0 {
		n = content.Size - at
	}
	body, err := content.Range(ctx, at, n)
	if err != nil {
		return out, content.Object, err
	}
	defer body.Close()
	req.Size = n
	out, err = o.PutPart(ctx, c, req, body)
	return out, content.Object, err
}

// Bytes reads a whole version into memory, if it has at most limit bytes. Kind Limit
// otherwise.
func (c *Content) Bytes(ctx context.Context, limit int64) ([]byte, error) {
	if c.Size > limit {
		return nil, vm.Errorf(vm.Limit, shownKey(c.Bucket, c.Key), "it has %d bytes, and at most %d are read", c.Size, limit)
	}
	body, err := c.Range(ctx, 0, -1)
	if err != nil {
		return nil, err
	}
	defer body.Close()
	var out bytes.Buffer
	_, err = io.Copy(&out, body)
	return out.Bytes(), err
}
