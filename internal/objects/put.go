// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package objects

import (
	"bytes"
	"context"
	"crypto/md5" //nolint:gosec // the ETag of S3; nothing is trusted by it
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"maps"
	"strings"
	"sync"
	"time"

	"github.com/warren-vm/warren/vm"
)

// PutRequest describes a new version of a key.
type PutRequest struct {
	Bucket, Key string
	Size        int64 // of the body in bytes; -1 = not known
	ContentType string
	Headers     map[string]string
	Meta        map[string]string
	Tags        map[string]string
	Retain      vm.RetainMode // "" = the bucket's default
	RetainTo    time.Time
	Hold        bool
	Condition
	SHA256 string // hex, that the body must have; "" = any
	Origin *vm.ObjectOrigin
	// Checked is the hex SHA-256 of the body if the reader itself compares it at its end;
	// it is not computed again. "" = it does not.
	Checked string
	// Done is called after the body was read and before the version is committed; it may
	// set the checksums. An error of it refuses the version. nil = nothing to do.
	Done func(*vm.Object) error

	file  bool         // a small body gets a file, too
	begin func() error // called before a body gets a file; nil = nothing to do
}

// Condition is what must be true of the newest version of a key when a write is committed.
type Condition struct {
	IfMatch     string // its ETag; "" = anything
	IfNoneMatch string // "*": there is none; an ETag: it is another one; "" = anything
}

func (c Condition) check(last stored, there bool) error {
	there = there && !last.Deleted
	same := func(etag string) bool { return strings.Trim(etag, `"`) == last.ETag }
	switch {
	case c.IfMatch != "" && !there:
		return noObject(last.Bucket, last.Key)
	case c.IfNoneMatch == "*" && there:
		return vm.Errorf(vm.Exists, "", "it exists, and the request wants a new object").WithCode("OBJECT_CONDITION_FAILED").
			WithHint("name another key; or leave the condition out: another version does not change this one")
	case c.IfMatch != "" && c.IfMatch != "*" && !same(c.IfMatch),
		c.IfNoneMatch != "" && c.IfNoneMatch != "*" && there && same(c.IfNoneMatch):
		return vm.Errorf(vm.Exists, "", "the object is not as the condition of the request says").WithCode("OBJECT_CONDITION_FAILED").
			WithHint("read its ETag again, then decide")
	}
	return nil
}

const (
	maxMeta      = 2 << 10 // bytes of the user's metadata, as in S3
	maxHeaders   = 8 << 10
	maxTags      = 10
	maxTagKey    = 128
	maxTagValue  = 256
	quotaStep    = 8 << 20   // bytes that are reserved at a time for a body of unknown size
	versionBytes = 1 << 10   // what a version takes beside its bytes
	maxObject    = 5 << 40   // of a body, as in S3
	bufferSize   = 128 << 10 // of a copy, of which a large body has three
)

// buffers are for copies of bodies.
var buffers = sync.Pool{New: func() any { b := make([]byte, bufferSize); return &b }}

// checkProps bounds what a caller attaches to a version.
func checkProps(contentType string, headers, meta, tags map[string]string) error {
	size := func(m map[string]string) (n int) {
		for k, v := range m {
			n += len(k) + len(v)
		}
		return n
	}
	switch {
	case size(meta) > maxMeta:
		return vm.Errorf(vm.Invalid, "metadata", "it has more than %d bytes", maxMeta).WithCode("OBJECT_INVALID_REQUEST")
	case size(headers)+len(contentType) > maxHeaders:
		return vm.Errorf(vm.Invalid, "headers", "they have more than %d bytes", maxHeaders).WithCode("OBJECT_INVALID_REQUEST")
	}
	return checkTags(tags, maxTags)
}

func checkTags(tags map[string]string, most int) error {
	bad := func(why string) error {
		return vm.Errorf(vm.Invalid, "tags", "%s", why).WithCode("OBJECT_INVALID_TAG").WithHint("up to %d tags, names of 1 to %d characters, values of up to %d", most, maxTagKey, maxTagValue)
	}
	if len(tags) > most {
		return bad("there are too many")
	}
	for k, v := range tags {
		switch {
		case k == "" || len(k) > maxTagKey || len(v) > maxTagValue:
			return bad("a name or value is too long, or a name is empty")
		case strings.ContainsFunc(k+v, func(r rune) bool { return r < 0x20 || r == 0x7f || r == 0xfffd }):
			return bad("a name or value has a control character or is not UTF-8")
		}
	}
	return nil
}

// check bounds what a caller says of a new version.
func (r *PutRequest) check(c *vm.Call, now time.Time) error {
	if r.Retain != "" {
		if err := checkRetention(c, now, r.Retain, r.RetainTo); err != nil {
			return err
		}
	}
	return checkProps(r.ContentType, r.Headers, r.Meta, r.Tags)
}

// Put stores a new version of a key. It reads the body to its end. After an error nothing
// is left of it. Kinds: Limit with code OBJECT_QUOTA_EXCEEDED, Exists with code
// OBJECT_CONDITION_FAILED, Invalid, NoSpace.
func (o *Objects) Put(ctx context.Context, c *vm.Call, req PutRequest, body io.Reader) (out vm.Object, err error) {
	defer func() { err = vm.WithOp(vm.OpObjectPut, shownKey(req.Bucket, req.Key), err) }()
	b, _, err := o.reach(c, req.Bucket, req.Key, write)
	if err == nil {
		err = req.check(c, o.cfg.Now())
	}
	if err == nil && req.Size > maxObject {
		err = vm.Errorf(vm.Invalid, "", "an object has at most 5 TiB").WithCode("OBJECT_TOO_LARGE")
	}
	if err == nil && req.Condition != (Condition{}) { // again at the commit
		err = o.index.view(func(t *tx) error { return checkNow(t, b, req.Key, req.Condition) })
	}
	if err != nil {
		return out, err
	}
	held, err := o.hold(ctx, b.Account, req.Size)
	if err != nil {
		return out, err
	}
	defer func() { held.settle(err == nil) }()
	rec := &putRecord{o: o, ctx: ctx, c: c, subject: shownKey(b.Name, req.Key), origin: req.Origin}
	defer func() { rec.close(err, putDetail(out)) }()
	now := o.cfg.Now().UTC()
	s := stored{Object: vm.Object{
		At: now, By: actorName(c.Actor), ContentType: req.ContentType, Headers: req.Headers, Meta: req.Meta, Tags: req.Tags,
		Retain: req.Retain, RetainTo: req.RetainTo.UTC(), Hold: req.Hold,
	}}
	retainByDefault(&s.Object, b, now)
	req.begin = rec.write
	w, err := o.receive(ctx, b, req, body, held, &s)
	if err != nil {
		return out, err
	}
	defer func() {
		if err != nil {
			w.abort()
		}
	}()
	o.judge(ctx, b, req.Key, &s, w.head)
	rec.start()
	if out, err = o.commit(b, req.Key, s, req.Condition, w.inline, rec); err != nil {
		return out, err
	}
	o.settleBody(b.Account, w)
	o.written(c, b, out)
	return out, nil
}

func checkNow(t *tx, b vm.Bucket, key string, c Condition) error {
	last, there, err := t.latest(b, key)
	if err != nil {
		return err
	}
	last.Bucket, last.Key = b.Name, key
	return c.check(last, there)
}

func originDetail(origin *vm.ObjectOrigin) map[string]any {
	if origin == nil {
		return nil
	}
	return map[string]any{"vm": string(origin.VM), "generation": string(origin.Generation), "path": vm.GuestPath(origin.Path).String(), "command": vm.Clip(origin.Command, 500)}
}

func withReceipt(origin *vm.ObjectOrigin, receipt string) *vm.ObjectOrigin {
	if origin == nil {
		return nil
	}
	out := *origin
	out.Receipt = receipt
	return &out
}

func putDetail(out vm.Object) map[string]any {
	if out.Version == "" {
		return nil
	}
	d := map[string]any{"version": out.Version, "size": out.Size}
	if shownKey(out.Bucket, out.Key) != "s3://"+out.Bucket+"/"+out.Key {
		d["key"] = out.Key // the subject of the record has it shortened or escaped
	}
	if out.SHA256 != "" {
		d["sha256"] = out.SHA256
	}
	return d
}

// retainByDefault gives a version the retention of its bucket if its writer named none.
func retainByDefault(obj *vm.Object, b vm.Bucket, now time.Time) {
	if obj.Retain == "" && b.Retain != nil {
		obj.Retain, obj.RetainTo = b.Retain.Mode, now.AddDate(0, 0, b.Retain.Days)
	}
}

// written tells of a new version, and has it scanned.
func (o *Objects) written(c *vm.Call, b vm.Bucket, out vm.Object) {
	if out.Scan == vm.Unscanned {
		o.scans.nudge()
	}
	o.emit(c, "object.written", b, map[string]any{"key": out.Key, "version": out.Version, "size": out.Size, "scan": string(out.Scan)})
}

// hold is the quota that a body of unknown or known size has taken.
type hold struct {
	o       *Objects
	account vm.AccountID
	left    int64 // reserved and not yet used
	done    []func(bool)
}

func (o *Objects) hold(ctx context.Context, account vm.AccountID, size int64) (*hold, error) {
	h := &hold{o: o, account: account}
	return h, h.more(ctx, max(size, 0)+versionBytes)
}

func (h *hold) more(ctx context.Context, n int64) error {
	settle, err := h.o.quota.reserve(ctx, h.account, n)
	if err == nil {
		h.left += n
		h.done = append(h.done, settle)
	}
	return err
}

// take uses n bytes, and reserves more for a body of unknown size.
func (h *hold) take(ctx context.Context, n int64) error {
	if h.left < n {
		if err := h.more(ctx, max(n, quotaStep)); err != nil {
			return err
		}
	}
	h.left -= n
	return nil
}

func (h *hold) settle(kept bool) {
	for _, f := range h.done {
		f(kept)
	}
}

// received is a body that is on disk, or whose bytes go into the index.
type received struct {
	bodyWriter        // nil = inline
	inline     []byte // of a small body
	head       []byte // its first bytes, for the scan
}

func (r *received) abort() {
	if r.bodyWriter != nil {
		r.bodyWriter.abort()
	}
}

// headSize is how many bytes of a body the type is told by.
const headSize = 4 << 10

// receive reads a body and makes it durable, and sets what follows from the bytes.
func (o *Objects) receive(ctx context.Context, b vm.Bucket, req PutRequest, body io.Reader, held *hold, s *stored) (*received, error) {
	in := &intake{o: o, ctx: ctx, account: b.Account, held: held, whole: req.file, begin: req.begin, sum: req.Checked == ""}
	err := in.copy(body)
	if err == nil && req.Size >= 0 && in.size != req.Size {
		err = vm.Errorf(vm.Invalid, "", "the body has %d bytes, and the request says %d", in.size, req.Size).WithCode("OBJECT_INCOMPLETE").WithHint("send it again")
	}
	if err == nil {
		s.Size, s.ETag, s.SHA256 = in.size, hex.EncodeToString(in.md5.Sum(nil)), strings.ToLower(req.Checked)
		if in.sum || in.size == 0 {
			s.SHA256 = hex.EncodeToString(in.sha.Sum(nil))
		}
		if req.SHA256 != "" && req.SHA256 != s.SHA256 {
			err = vm.Errorf(vm.Invalid, "", "the SHA-256 of the body is %s, and the request says %s", s.SHA256, vm.Clip(req.SHA256, 64)).WithCode("OBJECT_BAD_DIGEST").WithHint("send it again")
		}
	}
	if err == nil && req.Done != nil {
		err = req.Done(&s.Object)
	}
	if err == nil && in.file != nil {
		err = in.file.finish()
	}
	if err != nil {
		if in.file != nil {
			in.file.abort()
		}
		return nil, err
	}
	r := &received{bodyWriter: in.file, head: in.head}
	if in.file == nil {
		s.Body, s.Inline, r.inline = newInline(o.cfg.Now()), true, in.small
		r.head = in.small[:min(len(in.small), headSize)]
	} else {
		s.Body = in.file.id()
	}
	return r, nil
}

// intake takes a body in: small ones into memory, others into a body of the store.
type intake struct {
	o       *Objects
	ctx     context.Context
	account vm.AccountID
	held    *hold
	whole   bool // a small body gets a file, too
	begin   func() error
	sum     bool // compute its SHA-256

	size  int64
	md5   hasher
	sha   hasher
	small []byte
	head  []byte
	file  bodyWriter
}

// hasher is what a hash of the standard library is.
type hasher interface {
	io.Writer
	Sum([]byte) []byte
}

func (in *intake) copy(body io.Reader) error {
	in.md5, in.sha = md5.New(), sha256.New() //nolint:gosec // see the import
	in.held.left -= versionBytes
	buffer, _ := buffers.Get().(*[]byte)
	defer buffers.Put(buffer)
	if err := context.Cause(in.ctx); err != nil {
		return err
	}
	n, err := fill(body, *buffer)
	if n > 0 {
		if err := in.add((*buffer)[:n]); err != nil {
			return err
		}
	}
	if err == nil {
		err = in.rest(body)
	}
	switch {
	case err == io.EOF: //nolint:errorlint // a wrapped one is no end
		return nil // a body that is too short is found by its size
	case errors.Is(err, io.ErrUnexpectedEOF):
		return vm.Errorf(vm.Invalid, "", "the body ends in the middle").WithCode("OBJECT_INCOMPLETE").WithHint("send it again")
	}
	return err
}

// rest reads what follows the first buffer, while another goroutine adds what was read. It
// returns the error of the reader, which is io.EOF at the end, or else that of add.
func (in *intake) rest(body io.Reader) error {
	type piece struct {
		buffer *[]byte
		n      int
	}
	pieces, failed := make(chan piece, 1), make(chan struct{})
	var wrong error // of add; belongs to the goroutine until it has ended
	var adding sync.WaitGroup
	adding.Go(func() { // ends when pieces is closed
		for p := range pieces {
			if wrong == nil {
				if wrong = in.add((*p.buffer)[:p.n]); wrong != nil {
					close(failed)
				}
			}
			buffers.Put(p.buffer)
		}
	})
	err := func() error {
		defer close(pieces)
		for {
			if err := context.Cause(in.ctx); err != nil {
				return err
			}
			buffer, _ := buffers.Get().(*[]byte)
			n, err := fill(body, *buffer)
			select {
			case pieces <- piece{buffer, n}:
			case <-failed:
				buffers.Put(buffer)
				return nil
			}
			if err != nil {
				return err
			}
		}
	}()
	adding.Wait()
	if wrong != nil {
		return wrong
	}
	return err
}

// fill reads until a buffer is full. Its error is the reader's own.
func fill(r io.Reader, p []byte) (n int, err error) {
	for n < len(p) && err == nil {
		var m int
		m, err = r.Read(p[n:])
		n += m
	}
	return n, err
}

// add takes a part of the body.
func (in *intake) add(p []byte) error {
	if err := in.held.take(in.ctx, int64(len(p))); err != nil {
		return err
	}
	if in.size += int64(len(p)); in.size > maxObject {
		return vm.Errorf(vm.Invalid, "", "an object has at most 5 TiB").WithCode("OBJECT_TOO_LARGE")
	}
	_, _ = in.md5.Write(p) // documented never to fail
	if in.sum {
		_, _ = in.sha.Write(p)
	}
	if in.file == nil && in.size <= maxInline && !in.whole {
		in.small = append(in.small, p...)
		return nil
	}
	if in.file == nil {
		if in.begin != nil {
			if err := in.begin(); err != nil {
				return err
			}
		}
		in.head = bytes.Clone(append(in.small, p...)[:min(headSize, len(in.small)+len(p))])
		file, err := in.o.bodies.create(in.ctx, in.account)
		if err != nil {
			return err
		}
		in.file = file
		if len(in.small) > 0 {
			if _, err := file.Write(in.small); err != nil {
				return err
			}
			in.small = nil
		}
	}
	_, err := in.file.Write(p)
	return err
}

// commit writes a version whose bytes are durable into the index, once its record is.
func (o *Objects) commit(b vm.Bucket, key string, s stored, cond Condition, inline []byte, rec *putRecord) (out vm.Object, err error) {
	err = o.index.updateAfter(rec.wait, func(t *tx) error {
		s.Origin = withReceipt(rec.origin, rec.c.Receipt)
		if err := checkNow(t, b, key, cond); err != nil {
			return err
		}
		if err := o.still(b); err != nil {
			return err
		}
		if s.Inline {
			if err := t.putInline(s.Body, inline); err != nil {
				return err
			}
		} else if err := t.keep(b.Account, s.Body); err != nil {
			return err
		}
		made, err := t.add(b, key, s)
		out = made.Object
		return err
	})
	return out, err
}

// still refuses a change of a bucket that was removed meanwhile, also if its name has become
// another bucket's.
func (o *Objects) still(b vm.Bucket) error {
	if have, there := o.buckets.Get(b.Name); !there || have.ID != b.ID {
		return noBucket(b.Name)
	}
	return nil
}

// add writes a version as the newest of its key.
func (t *tx) add(b vm.Bucket, key string, s stored) (stored, error) {
	last, there, err := t.latest(b, key)
	if err != nil {
		return s, err
	}
	seq, err := t.Bucket(inVersions).NextSequence()
	if err != nil {
		return s, err
	}
	t.dirty = true
	s.seq, s.Version = seq, newVersion(seq)
	if err := t.save(b, key, s); err != nil {
		return s, err
	}
	if there && len(last.Tags) > 0 {
		if err := t.untag(b, key, last); err != nil {
			return s, err
		}
	}
	if err := t.tag(b, key, s); err != nil {
		return s, err
	}
	if s.Scan == vm.Unscanned {
		if err := t.put(inScans, seqBytes(seq), keyPrefix(b.ID, key)); err != nil {
			return s, err
		}
	}
	err = t.use(b, func(u *vm.BucketUse) {
		u.Versions++
		u.Bytes += s.Size
		u.Small += s.small()
		switch was := there && !last.Deleted; {
		case s.Deleted && was:
			u.Objects--
		case !s.Deleted && !was:
			u.Objects++
		}
	})
	s.Bucket, s.Key, s.Latest = b.Name, key, true
	return s, err
}

// small is how many bytes of the version are in the index. Versions that share a body are
// counted each.
func (s *stored) small() int64 {
	if s.Inline {
		return s.Size
	}
	return 0
}

// save writes the record of a version.
func (t *tx) save(b vm.Bucket, key string, s stored) error {
	k := versionKey(b.ID, key, s.seq)
	s.Bucket, s.Key, s.Latest = "", "", false
	return t.putJSON(inVersions, k, s)
}

// settleBody moves a committed body to its place. A start does it otherwise.
func (o *Objects) settleBody(account vm.AccountID, r *received) {
	if r.bodyWriter == nil {
		return
	}
	if err := o.bodies.settle(account, r.id()); err != nil {
		o.cfg.Log.Warn("the body of an object is not at its place yet: the next start moves it", "body", r.id(), "err", err)
	}
}

// clonedObject is an object whose maps the caller may change.
func clonedObject(o vm.Object) vm.Object {
	o.Headers, o.Meta, o.Tags, o.Checksums = maps.Clone(o.Headers), maps.Clone(o.Meta), maps.Clone(o.Tags), maps.Clone(o.Checksums)
	return o
}
