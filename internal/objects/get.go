// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package objects

import (
	"bytes"
	"context"
	"errors"
	"io"

	"github.com/warren-vm/warren/vm"
)

// Content is a version with its bytes, of which parts can be read.
type Content struct {
	vm.Object
	o        *Objects
	account  vm.AccountID
	small    []byte
	segments []segment
}

// Which names a version to read.
type Which struct {
	Bucket, Key string
	Version     string // "" = the newest
	// Refused allows the account's owner to read a version that a scan has refused.
	Refused bool
}

// Head returns a version without its bytes. A delete marker gives kind NotFound, code
// OBJECT_DELETED, and the marker.
func (o *Objects) Head(_ context.Context, c *vm.Call, w Which) (out vm.Object, err error) {
	s, _, err := o.lookup(c, w)
	return s.Object, vm.WithOp(vm.OpObjectRead, shownKey(w.Bucket, w.Key), err)
}

// lookup finds a version that the caller may read.
func (o *Objects) lookup(c *vm.Call, w Which) (s stored, b vm.Bucket, err error) {
	b, _, err = o.reach(c, w.Bucket, w.Key, read)
	if err != nil {
		return s, b, err
	}
	err = o.index.view(func(t *tx) error {
		s, err = t.version(b, w.Key, w.Version)
		return err
	})
	if err == nil && s.Deleted {
		err = vm.Errorf(vm.NotFound, shownKey(b.Name, w.Key), "the object is deleted; older versions may exist").WithCode("OBJECT_DELETED").
			WithHint("`warren artifact versions` lists them")
	}
	return s, b, err
}

// Get returns a version for reading. It waits for the scan of a version that was just
// written. Kinds Unavailable, code OBJECT_UNSCANNED, while it is not scanned, and Denied,
// code OBJECT_REFUSED, when a scan has refused it.
func (o *Objects) Get(ctx context.Context, c *vm.Call, w Which) (out *Content, err error) {
	defer func() { err = vm.WithOp(vm.OpObjectRead, shownKey(w.Bucket, w.Key), err) }()
	s, b, err := o.lookup(c, w)
	if err != nil {
		return &Content{Object: s.Object}, err
	}
	if s.Scan == vm.Unscanned {
		w.Version = s.Version
		if s, err = o.awaitScan(ctx, c, w); err != nil {
			return nil, err
		}
	}
	if s.Scan == vm.Refused && (!w.Refused || c.Actor.Identity != "" || c.Actor.VM != "") {
		return nil, vm.Errorf(vm.Denied, shownKey(b.Name, w.Key), "a scan has refused it: %s", s.ScanReason).WithCode("OBJECT_REFUSED", "reason", s.ScanReason).
			WithHint("the account's owner can read it with `warren artifact get --refused`, or remove it")
	}
	return o.content(b, s)
}

// CopiedOut writes the audit record of a version that is copied to the place that the call
// names. The caller ends it.
func (o *Objects) CopiedOut(ctx context.Context, c *vm.Call, v vm.Object) (end func(outcome error, detail map[string]any), err error) {
	at := vm.ObjectRef{Bucket: v.Bucket, Key: v.Key, Version: v.Version}
	return o.begin(ctx, c, vm.OpObjectRead, vm.Clip(at.String(), 1024), map[string]any{"to": vm.Clip(c.To, 1024)})
}

// content finds the bytes of a version.
func (o *Objects) content(b vm.Bucket, s stored) (*Content, error) {
	out := &Content{Object: clonedObject(s.Object), o: o, account: b.Account}
	err := o.index.view(func(t *tx) error {
		if s.Parts == 0 {
			out.segments = []segment{{Body: s.Body, Inline: s.Inline, Size: s.Size, Number: 1}}
		} else if ok, err := t.getJSON(inSegments, []byte(s.Body), &out.segments); err != nil || !ok {
			return errors.Join(err, vm.Errorf(vm.Corrupt, shownKey(b.Name, s.Key), "the list of its parts is gone"))
		}
		if s.Inline {
			out.small = bytes.Clone(t.get(inBodies, []byte(s.Body)))
			if int64(len(out.small)) != s.Size {
				return vm.Errorf(vm.Corrupt, shownKey(b.Name, s.Key), "its bytes are gone")
			}
		}
		return nil
	})
	return out, err
}

// Range reads n bytes from an offset on; n < 0 = to the end. The caller closes the reader.
// The end of ctx ends it.
func (c *Content) Range(ctx context.Context, from, n int64) (io.ReadCloser, error) {
	if n < 0 {
		n = c.Size - from
	}
	if from < 0 || n < 0 || from+n > c.Size {
		return nil, vm.Errorf(vm.Invalid, shownKey(c.Bucket, c.Key), "the range is not in the object").WithCode("OBJECT_INVALID_RANGE", "size", c.Size)
	}
	if c.small != nil || c.Size == 0 {
		return io.NopCloser(bytes.NewReader(c.small[from : from+n])), nil
	}
	return &chain{ctx: ctx, c: c, from: from, left: n, release: c.pin()}, nil
}

// pin keeps the files of the content until release is called.
func (c *Content) pin() (release func()) {
	var all []func()
	for _, s := range c.segments {
		if !s.Inline {
			all = append(all, c.o.pins.add(s.Body))
		}
	}
	return func() {
		for _, f := range all {
			f()
		}
		c.o.collect()
	}
}

// PartRange returns the range of a part, counted from 1, as it was uploaded. ok is false if
// there is no such part.
func (c *Content) PartRange(number int) (from, n int64, ok bool) {
	for i, s := range c.segments {
		if i+1 == number {
			return from, s.Size, true
		}
		from += s.Size
	}
	return 0, 0, false
}

// chain reads a range of a body that may have several files.
type chain struct {
	ctx  context.Context
	c    *Content
	from int64
	left int64
	open io.ReadCloser

	release func() // of the pins
}

// next opens the file that has the next byte.
func (r *chain) next() error {
	at := r.from
	for _, s := range r.c.segments {
		if at >= s.Size {
			at -= s.Size
			continue
		}
		n := min(r.left, s.Size-at)
		var err error
		if s.Inline {
			r.open, err = r.c.o.inlinePart(s, at, n)
		} else {
			r.open, err = r.c.o.bodies.open(r.ctx, r.c.account, s.Body, at, n)
		}
		return err
	}
	return io.ErrUnexpectedEOF
}

func (o *Objects) inlinePart(s segment, from, n int64) (io.ReadCloser, error) {
	var data []byte
	err := o.index.view(func(t *tx) error {
		all := t.get(inBodies, []byte(s.Body))
		if int64(len(all)) < from+n {
			return vm.Errorf(vm.Corrupt, s.Body, "the bytes of a part are gone")
		}
		data = bytes.Clone(all[from : from+n])
		return nil
	})
	return io.NopCloser(bytes.NewReader(data)), err
}

func (r *chain) Read(p []byte) (int, error) {
	for {
		if r.left == 0 {
			return 0, io.EOF
		}
		if r.open == nil {
			if err := r.next(); err != nil {
				return 0, err
			}
		}
		n, err := r.open.Read(p[:min(int64(len(p)), r.left)])
		r.from, r.left = r.from+int64(n), r.left-int64(n)
		if errors.Is(err, io.EOF) {
			err = r.open.Close()
			r.open = nil
		}
		if n > 0 || err != nil {
			return n, err
		}
	}
}

// WriteTo writes the rest. For files it leaves the copy to the kernel where w lets it.
func (r *chain) WriteTo(w io.Writer) (written int64, err error) {
	for r.left > 0 {
		if r.open == nil {
			if err := r.next(); err != nil {
				return written, err
			}
		}
		var from io.Reader = r.open
		if f, ok := r.open.(*fileReader); ok {
			from = io.LimitReader(f.file, f.left)
		}
		n, err := io.Copy(w, from)
		r.from, r.left, written = r.from+n, r.left-n, written+n
		err = errors.Join(err, r.open.Close())
		r.open = nil
		if err != nil {
			return written, err
		}
		if n == 0 {
			return written, io.ErrUnexpectedEOF
		}
	}
	return written, nil
}

func (r *chain) Close() error {
	r.release()
	if r.open == nil {
		return nil
	}
	err := r.open.Close()
	r.open = nil
	return err
}
