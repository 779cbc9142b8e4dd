// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package objects_test

import (
	"bytes"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/warren-vm/warren/internal/objects"
	"github.com/warren-vm/warren/vm"
)

// TestMultipart: an upload in parts is one version with the bytes of the parts in order; one
// that is not completed is no object, and the lifecycle removes all of it.
func TestMultipart(t *testing.T) {
	h := newHost(t)
	start := func(key string) objects.Upload {
		u, err := h.room.StartUpload(t.Context(), h.call, objects.UploadRequest{PutRequest: objects.PutRequest{Bucket: "box", Key: key}})
		h.must(err)
		return u
	}
	part := func(u objects.Upload, n int, body []byte) objects.Part {
		p, err := h.room.PutPart(t.Context(), h.call, objects.PartRequest{Bucket: "box", Key: u.Key, Upload: u.ID, Number: n, Size: int64(len(body))}, bytes.NewReader(body))
		h.must(err)
		return p
	}
	u := start("big")
	a, b, c := random(5<<20), random(5<<20), random(100)
	part(u, 2, random(5<<20))
	parts := []objects.Part{part(u, 1, a), part(u, 2, b), part(u, 7, c)}
	part(u, 9, random(10)) // not listed below
	complete := func(list ...objects.Part) (vm.Object, error) {
		return h.room.CompleteUpload(t.Context(), h.call, objects.CompleteRequest{Bucket: "box", Key: "big", Upload: u.ID, Parts: list})
	}
	h.refused("parts in another order", second(complete(parts[1], parts[0])), "OBJECT_INVALID_PART_ORDER")
	h.refused("a part that is not there", second(complete(objects.Part{Number: 5, ETag: "x"})), "OBJECT_INVALID_PART")
	h.refused("a small part that is not the last", second(complete(parts[2], objects.Part{Number: 9, ETag: "x"})), "OBJECT_PART_TOO_SMALL")
	o, err := complete(parts...)
	h.must(err)
	whole := slices.Concat(a, b, c)
	if !bytes.Equal(h.bytes("big", ""), whole) {
		t.Error("the object has other bytes than its parts")
	}
	if !strings.HasSuffix(o.ETag, "-3") || o.Size != int64(len(whole)) {
		t.Errorf("it has ETag %s and %d bytes", o.ETag, o.Size)
	}
	content, err := h.room.Get(t.Context(), h.call, objects.Which{Bucket: "box", Key: "big"})
	h.must(err)
	r, err := content.Range(t.Context(), 5<<20-3, 6)
	h.must(err)
	got, err := io.ReadAll(r)
	h.must(errors.Join(err, r.Close()))
	if !bytes.Equal(got, whole[5<<20-3:5<<20+3]) {
		t.Error("a range over two parts has other bytes")
	}
	h.soon("three files are left", func() bool { return h.files() == 3 })
	h.refused("a second completion", second(complete(parts...)), "UPLOAD_NOT_FOUND")
	cut := start("cut")
	part(cut, 1, a)
	if u := h.use(); u.Uploads != 5<<20 || u.Pending != 1 || u.Objects != 1 {
		t.Errorf("with an upload in progress the use is %+v", u)
	}
	h.must(second(h.room.ChangeBucket(t.Context(), h.call, "box", objects.Change{Rules: &[]vm.LifecycleRule{{ID: "a", AbortDays: 1}}})))
	h.clock.Advance(25 * time.Hour)
	if done, err := h.room.Sweep(t.Context()); err != nil || done.Aborted != 1 {
		t.Errorf("the lifecycle removes %d uploads, %v", done.Aborted, err)
	}
	h.soon("its file is gone", func() bool { return h.files() == 3 })
	if u := h.use(); u.Uploads != 0 || u.Pending != 0 {
		t.Errorf("after the lifecycle the use is %+v", u)
	}
}

// TestLifecycle: rules mark old objects as deleted, keep so many versions and remove replaced
// ones, except those that are retained.
//
// 001-25
func TestLifecycle(t *testing.T) {
	h := newHost(t)
	count := func(prefix string) (versions, markers int) {
		p, err := h.room.Versions(t.Context(), h.call, objects.ListRequest{Bucket: "box", Prefix: prefix})
		h.must(err)
		for _, o := range p.Objects {
			if o.Deleted {
				markers++
			} else {
				versions++
			}
		}
		return versions, markers
	}
	h.must(second(h.room.ChangeBucket(t.Context(), h.call, "box", objects.Change{Rules: &[]vm.LifecycleRule{
		{ID: "expire", Prefix: "tmp/", ExpireDays: 7}, {ID: "keep", Prefix: "log/", KeepVersions: 2}, {ID: "old", Prefix: "old/", OldDays: 3},
	}})))
	for range 5 {
		h.put("log/a", []byte("x"))
		h.put("old/a", []byte("x"))
		h.put("tmp/a", []byte("x"))
		h.put("stays", []byte("x"))
	}
	held := h.put("log/b", []byte("x"))
	for range 3 {
		h.put("log/b", []byte("y"))
	}
	h.must(second(h.room.SetHold(t.Context(), h.call, objects.Which{Bucket: "box", Key: "log/b", Version: held.Version}, true)))
	done, err := h.room.Sweep(t.Context())
	h.must(err)
	if v, _ := count("log/a"); v != 2 || done.Expired != 0 {
		t.Errorf("log/a has %d versions, want 2; %d expired", v, done.Expired)
	}
	if v, _ := count("log/b"); v != 3 { // two, and the one that is held
		t.Errorf("log/b has %d versions, want 3", v)
	}
	h.clock.Advance(8 * 24 * time.Hour)
	h.must(second(h.room.Sweep(t.Context())))
	if v, m := count("tmp/"); v != 5 || m != 1 {
		t.Errorf("tmp/ has %d versions and %d markers, want 5 and 1", v, m)
	}
	if v, _ := count("old/"); v != 1 {
		t.Errorf("old/ has %d versions, want 1", v)
	}
	h.must(second(h.room.Remove(t.Context(), h.call, objects.RemoveRequest{Bucket: "box", Key: "old/a"})))
	h.clock.Advance(5 * 24 * time.Hour)
	h.must(second(h.room.Sweep(t.Context()))) // the version, and then the marker that hides nothing
	h.must(second(h.room.Sweep(t.Context())))
	if v, m := count("old/"); v != 0 || m != 0 {
		t.Errorf("of a deleted object there are %d versions and %d markers left, want none", v, m)
	}
	if v, _ := count("stays"); v != 5 {
		t.Errorf("an object without a rule has %d versions, want 5", v)
	}
}
