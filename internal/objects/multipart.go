// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package objects

import (
	"bytes"
	"cmp"
	"context"
	"crypto/md5" //nolint:gosec // the ETag of S3
	"encoding/binary"
	"encoding/hex"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/warren-vm/warren/vm"
)

// upload is a multipart upload in progress. It is no version until it is completed.
type upload struct {
	ID    string    `json:"id"`
	Key   string    `json:"-"`
	At    time.Time `json:"at"`
	By    string    `json:"by"`
	Props vm.Object `json:"props"` // what the version will have
	// ChecksumAlgorithm and ChecksumType are what the client named.
	ChecksumAlgorithm string `json:"checksumAlgorithm,omitempty"`
	ChecksumType      string `json:"checksumType,omitempty"`
}

// part is one part of an upload.
type part struct {
	segment
	At        time.Time         `json:"at"`
	Checksums map[string]string `json:"checksums,omitempty"`
}

// Upload is a multipart upload in progress.
type Upload struct {
	ID, Key, By                     string
	At                              time.Time
	ChecksumAlgorithm, ChecksumType string
}

// Part is one part of an upload.
type Part struct {
	Number    int
	Size      int64
	ETag      string
	At        time.Time
	Checksums map[string]string
}

// MaxParts is the number of parts that an upload may have, and MinPart the bytes that each
// but the last has at least; both as in S3.
const (
	MaxParts = 10_000
	MinPart  = 5 << 20
	maxPart  = 5 << 30

	maxUploads = 10_000 // unfinished ones of a bucket
)

func uploadKey(b vm.Bucket, key, id string) []byte { return append(keyPrefix(b.ID, key), id...) }

func partKey(id string, number int) []byte {
	return binary.BigEndian.AppendUint16([]byte(id), uint16(number))
}

// uploads calls f for the uploads of a bucket whose keys have the prefix, by key.
func (t *tx) uploads(b vm.Bucket, prefix string, f func(upload) error) error {
	cur := t.Bucket(inUploads).Cursor()
	head := []byte(b.ID + prefix)
	for k, v := cur.Seek(head); k != nil && bytes.HasPrefix(k, head); k, v = cur.Next() {
		var u upload
		if err := decode(v, &u); err != nil {
			return err
		}
		u.Key = string(k[len(b.ID):bytes.LastIndexByte(k, 0)])
		if err := f(u); err != nil {
			return err
		}
	}
	return nil
}

// parts calls f for the parts of an upload, by number.
func (t *tx) parts(id string, f func(part) error) error {
	cur := t.Bucket(inParts).Cursor()
	for k, v := cur.Seek([]byte(id)); k != nil && bytes.HasPrefix(k, []byte(id)); k, v = cur.Next() {
		var p part
		if err := decode(v, &p); err != nil {
			return err
		}
		if err := f(p); err != nil {
			return err
		}
	}
	return nil
}

func (t *tx) findUpload(b vm.Bucket, key, id string) (upload, error) {
	var u upload
	ok, err := t.getJSON(inUploads, uploadKey(b, key, id), &u)
	if err == nil && !ok {
		err = noUpload(b.Name, key)
	}
	u.Key = key
	return u, err
}

func noUpload(bucket, key string) error {
	return vm.Errorf(vm.NotFound, shownKey(bucket, key), "no such multipart upload: it may be completed or abandoned").WithCode("UPLOAD_NOT_FOUND").WithHint("begin a new one")
}

// UploadRequest begins a multipart upload. The fields of PutRequest that describe bytes or
// conditions are not used.
type UploadRequest struct {
	PutRequest
	ChecksumAlgorithm, ChecksumType string
}

// StartUpload begins a multipart upload.
func (o *Objects) StartUpload(ctx context.Context, c *vm.Call, req UploadRequest) (out Upload, err error) {
	defer func() { err = vm.WithOp(vm.OpUpload, shownKey(req.Bucket, req.Key), err) }()
	b, _, err := o.reach(c, req.Bucket, req.Key, write)
	if err == nil {
		err = req.check(c, o.cfg.Now())
	}
	if err != nil {
		return out, err
	}
	end, err := o.begin(ctx, c, vm.OpUpload, shownKey(b.Name, req.Key), originDetail(req.Origin))
	if err != nil {
		return out, err
	}
	defer func() { end(err, map[string]any{"upload": out.ID}) }()
	u := upload{ID: newBody(), Key: req.Key, At: o.cfg.Now().UTC(), By: actorName(c.Actor), ChecksumAlgorithm: req.ChecksumAlgorithm, ChecksumType: req.ChecksumType, Props: vm.Object{
		ContentType: req.ContentType, Headers: req.Headers, Meta: req.Meta, Tags: req.Tags,
		Retain: req.Retain, RetainTo: req.RetainTo.UTC(), Hold: req.Hold, Origin: withReceipt(req.Origin, c.Receipt),
	}}
	err = o.index.update(func(t *tx) error {
		if err := o.still(b); err != nil {
			return err
		}
		var use vm.BucketUse
		if _, err := t.getJSON(inUse, []byte(b.ID), &use); err != nil {
			return err
		}
		if use.Pending >= maxUploads {
			return vm.Errorf(vm.Limit, b.Name, "the bucket has %d unfinished multipart uploads, and may have no more", use.Pending).WithCode("OBJECT_QUOTA_EXCEEDED").
				WithHint("abandon some, or set a rule: `warren bucket lifecycle %s --rule uploads --abort 1d`", b.Name)
		}
		if err := t.use(b, func(u *vm.BucketUse) { u.Pending++ }); err != nil {
			return err
		}
		return t.putJSON(inUploads, uploadKey(b, req.Key, u.ID), u)
	})
	return u.shown(), err
}

func (u upload) shown() Upload {
	return Upload{ID: u.ID, Key: u.Key, By: u.By, At: u.At, ChecksumAlgorithm: u.ChecksumAlgorithm, ChecksumType: u.ChecksumType}
}

// PartRequest is a part of an upload.
type PartRequest struct {
	Bucket, Key, Upload string
	Number              int   // from 1 to MaxParts
	Size                int64 // -1 = not known
	// Done may set the part's checksums, after the bytes were read.
	Done func(*Part) error
}

// PutPart stores a part of an upload, in place of one with the same number.
func (o *Objects) PutPart(ctx context.Context, c *vm.Call, req PartRequest, body io.Reader) (out Part, err error) {
	defer func() { err = vm.WithOp(vm.OpUpload, shownKey(req.Bucket, req.Key), err) }()
	b, _, err := o.reach(c, req.Bucket, req.Key, write)
	switch {
	case err != nil:
		return out, err
	case req.Number < 1 || req.Number > MaxParts:
		return out, vm.Errorf(vm.Invalid, strconv.Itoa(req.Number), "a part has a number from 1 to %d", MaxParts).WithCode("OBJECT_INVALID_PART")
	case req.Size > maxPart:
		return out, vm.Errorf(vm.Invalid, "", "a part has at most 5 GiB").WithCode("OBJECT_TOO_LARGE")
	}
	if err := o.index.view(func(t *tx) error { _, err := t.findUpload(b, req.Key, req.Upload); return err }); err != nil {
		return out, err
	}
	held, err := o.hold(ctx, b.Account, req.Size)
	if err != nil {
		return out, err
	}
	defer func() { held.settle(err == nil) }()
	var s stored
	w, err := o.receive(ctx, b, PutRequest{Size: req.Size, file: true, Done: func(obj *vm.Object) error {
		out = Part{Number: req.Number, Size: obj.Size, ETag: obj.ETag, At: o.cfg.Now().UTC()}
		if req.Done != nil {
			return req.Done(&out)
		}
		return nil
	}}, body, held, &s)
	if err != nil {
		return Part{}, err
	}
	p := part{segment{Body: s.Body, Inline: s.Inline, Size: s.Size, ETag: s.ETag, Number: req.Number}, out.At, out.Checksums}
	err = o.index.update(func(t *tx) error { return t.addPart(b, req, p, w.inline) })
	if err != nil {
		w.abort()
		return Part{}, err
	}
	o.settleBody(b.Account, w)
	o.collect()
	return out, nil
}

// addPart writes a part in place of an earlier one.
func (t *tx) addPart(b vm.Bucket, req PartRequest, p part, inline []byte) error {
	if _, err := t.findUpload(b, req.Key, req.Upload); err != nil {
		return err
	}
	var old part
	had, err := t.getJSON(inParts, partKey(req.Upload, req.Number), &old)
	if err != nil {
		return err
	}
	if had {
		if err := t.discard(b.Account, old.segment); err != nil {
			return err
		}
	}
	if p.Inline {
		if err := t.putInline(p.Body, inline); err != nil {
			return err
		}
	} else if err := t.keep(b.Account, p.Body); err != nil {
		return err
	}
	if err := t.putJSON(inParts, partKey(req.Upload, req.Number), p); err != nil {
		return err
	}
	return t.use(b, func(u *vm.BucketUse) { u.Uploads += p.Size - old.Size })
}

// Uploads returns the uploads in progress of a bucket, by key.
func (o *Objects) Uploads(_ context.Context, c *vm.Call, bucket, prefix string) (list []Upload, err error) {
	b, r, err := o.find(c, bucket)
	if err == nil {
		err = r.may(c, bucket, prefix, read)
	}
	if err == nil {
		err = o.index.view(func(t *tx) error {
			return t.uploads(b, prefix, func(u upload) error {
				list = append(list, u.shown())
				return nil
			})
		})
	}
	return list, vm.WithOp(vm.OpList, bucket, err)
}

// Parts returns an upload and its parts after a number, at most limit.
func (o *Objects) Parts(_ context.Context, c *vm.Call, bucket, key, id string, after, limit int) (u Upload, list []Part, more bool, err error) {
	b, _, err := o.reach(c, bucket, key, read)
	if err == nil {
		err = o.index.view(func(t *tx) error {
			found, err := t.findUpload(b, key, id)
			if err != nil {
				return err
			}
			u = found.shown()
			return t.parts(id, func(p part) error {
				switch {
				case p.Number <= after:
				case len(list) == limit:
					more = true
				default:
					list = append(list, Part{p.Number, p.Size, p.ETag, p.At, p.Checksums})
				}
				return nil
			})
		})
	}
	return u, list, more, vm.WithOp(vm.OpList, shownKey(bucket, key), err)
}

// AbortUpload removes an upload with its parts.
func (o *Objects) AbortUpload(ctx context.Context, c *vm.Call, bucket, key, id string) (err error) {
	defer func() { err = vm.WithOp(vm.OpUpload, shownKey(bucket, key), err) }()
	b, _, err := o.reach(c, bucket, key, write)
	if err != nil {
		return err
	}
	end, err := o.begin(ctx, c, vm.OpUpload, shownKey(b.Name, key), map[string]any{"abort": vm.Clip(id, 40)})
	if err != nil {
		return err
	}
	defer func() { end(err, nil) }()
	err = o.index.update(func(t *tx) error {
		u, err := t.findUpload(b, key, id)
		if err == nil {
			_, err = t.dropUpload(b, u)
		}
		return err
	})
	o.collect()
	return err
}

// dropUpload removes an upload with its parts; false = it is gone already.
func (t *tx) dropUpload(b vm.Bucket, u upload) (bool, error) {
	if t.get(inUploads, uploadKey(b, u.Key, u.ID)) == nil {
		return false, nil
	}
	var list []part
	if err := t.parts(u.ID, func(p part) error { list = append(list, p); return nil }); err != nil {
		return false, err
	}
	if err := t.drop(inUploads, uploadKey(b, u.Key, u.ID)); err != nil {
		return false, err
	}
	var size int64
	for _, p := range list {
		size += p.Size
		if err := t.discard(b.Account, p.segment); err != nil {
			return false, err
		}
		if err := t.drop(inParts, partKey(u.ID, p.Number)); err != nil {
			return false, err
		}
	}
	return true, t.use(b, func(use *vm.BucketUse) { use.Uploads, use.Pending = use.Uploads-size, use.Pending-1 })
}

// abortBefore removes the uploads of a bucket that began before a time.
func (o *Objects) abortBefore(b vm.Bucket, prefix string, before time.Time) error {
	return o.index.update(func(t *tx) error {
		var list []upload
		err := t.uploads(b, prefix, func(u upload) error {
			if u.At.Before(before) {
				list = append(list, u)
			}
			return nil
		})
		for _, u := range list {
			if err == nil {
				_, err = t.dropUpload(b, u)
			}
		}
		return err
	})
}

// CompleteRequest makes a version of the parts of an upload.
type CompleteRequest struct {
	Bucket, Key, Upload string
	Parts               []Part // in the order of their numbers; each with number and ETag
	Condition
	Size *int64 // that the version must have; nil = any
	// Done may set the checksums of the version from those of its parts.
	Done func(*vm.Object, Upload, []Part) error
}

// CompleteUpload makes a version of the parts that the caller lists. No byte is copied: the
// version is a list of the parts. Other parts are removed.
func (o *Objects) CompleteUpload(ctx context.Context, c *vm.Call, req CompleteRequest) (out vm.Object, err error) {
	defer func() { err = vm.WithOp(vm.OpObjectPut, shownKey(req.Bucket, req.Key), err) }()
	b, _, err := o.reach(c, req.Bucket, req.Key, write)
	if err != nil {
		return out, err
	}
	end, err := o.begin(ctx, c, vm.OpObjectPut, shownKey(b.Name, req.Key), map[string]any{"upload": vm.Clip(req.Upload, 40), "parts": len(req.Parts)})
	if err != nil {
		return out, err
	}
	defer func() { end(err, putDetail(out)) }()
	now := o.cfg.Now().UTC()
	err = o.index.update(func(t *tx) error {
		u, err := t.findUpload(b, req.Key, req.Upload)
		if err != nil {
			return err
		}
		if err := checkNow(t, b, req.Key, req.Condition); err != nil {
			return err
		}
		s := stored{Object: u.Props, Body: newBody()}
		s.At, s.By, s.Scan = now, actorName(c.Actor), vm.Unscanned
		retainByDefault(&s.Object, b, now)
		segments, err := t.assemble(req, &s)
		if err == nil && req.Size != nil && *req.Size != s.Size {
			err = vm.Errorf(vm.Invalid, "", "the parts have %d bytes, and the request says %d", s.Size, *req.Size).WithCode("OBJECT_INCOMPLETE")
		}
		if err == nil && req.Done != nil {
			err = req.Done(&s.Object, u.shown(), shownParts(t, req))
		}
		if err != nil {
			return err
		}
		made, err := t.complete(b, u, s, segments)
		out = made.Object
		return err
	})
	if err != nil {
		return out, err
	}
	o.collect()
	o.written(c, b, out)
	return out, nil
}

// shownParts returns the stored parts that the request lists. assemble has checked them.
func shownParts(t *tx, req CompleteRequest) (list []Part) {
	for _, want := range req.Parts {
		var p part
		_, _ = t.getJSON(inParts, partKey(req.Upload, want.Number), &p)
		list = append(list, Part{p.Number, p.Size, p.ETag, p.At, p.Checksums})
	}
	return list
}

// assemble checks the listed parts and returns their segments.
func (t *tx) assemble(req CompleteRequest, s *stored) ([]segment, error) {
	bad := func(number int, code, why string) error {
		return vm.Errorf(vm.Invalid, "part "+strconv.Itoa(number), "%s", why).WithCode(code, "part", number)
	}
	if len(req.Parts) == 0 || len(req.Parts) > MaxParts {
		return nil, bad(0, "OBJECT_INVALID_PART", "an upload is completed from 1 to 10000 parts")
	}
	sum := md5.New() //nolint:gosec // the ETag of S3
	var list []segment
	for i, want := range req.Parts {
		if i > 0 && want.Number <= req.Parts[i-1].Number {
			return nil, bad(want.Number, "OBJECT_INVALID_PART_ORDER", "the parts are not listed in the order of their numbers")
		}
		var p part
		ok := want.Number > 0 && want.Number <= MaxParts
		if ok {
			var err error
			if ok, err = t.getJSON(inParts, partKey(req.Upload, want.Number), &p); err != nil {
				return nil, err
			}
		}
		switch {
		case !ok || strings.Trim(want.ETag, `"`) != p.ETag:
			return nil, bad(want.Number, "OBJECT_INVALID_PART", "it was not uploaded, or its ETag is another one")
		case p.Size < MinPart && i < len(req.Parts)-1:
			return nil, bad(want.Number, "OBJECT_PART_TOO_SMALL", "a part that is not the last has at least 5 MiB")
		}
		raw, err := hex.DecodeString(p.ETag)
		if err != nil {
			return nil, vm.Errorf(vm.Corrupt, "part "+strconv.Itoa(want.Number), "its record is damaged: %w", err)
		}
		_, _ = sum.Write(raw) // documented never to fail
		s.Size += p.Size
		list = append(list, p.segment)
	}
	s.ETag, s.Parts = hex.EncodeToString(sum.Sum(nil))+"-"+strconv.Itoa(len(list)), len(list)
	return list, nil
}

// complete writes the version of an upload, and removes the upload.
func (t *tx) complete(b vm.Bucket, u upload, s stored, segments []segment) (stored, error) {
	used := map[int]bool{}
	for _, one := range segments {
		used[one.Number] = true
	}
	var all []part
	if err := t.parts(u.ID, func(p part) error { all = append(all, p); return nil }); err != nil {
		return s, err
	}
	var size int64
	for _, p := range all {
		size += p.Size
		if !used[p.Number] {
			if err := t.discard(b.Account, p.segment); err != nil {
				return s, err
			}
		}
		if err := t.drop(inParts, partKey(u.ID, p.Number)); err != nil {
			return s, err
		}
	}
	err := cmp.Or(t.drop(inUploads, uploadKey(b, u.Key, u.ID)), t.putJSON(inSegments, []byte(s.Body), segments),
		t.use(b, func(use *vm.BucketUse) { use.Uploads, use.Pending = use.Uploads-size, use.Pending-1 }))
	if err != nil {
		return s, err
	}
	return t.add(b, u.Key, s)
}
