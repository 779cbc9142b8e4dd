// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package objects_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/warren-vm/warren/internal/objects"
	"github.com/warren-vm/warren/vm"
)

// TestVersions: every write makes a version that never changes, after a restart, too, and
// the bytes of a removed one are gone from the disk.
//
// 001-15, 001-20
func TestVersions(t *testing.T) {
	h := newHost(t)
	var bodies [][]byte
	var versions []string
	for _, n := range []int{0, 10, 16 << 10, 16<<10 + 1, 1 << 20} {
		bodies = append(bodies, random(n))
		versions = append(versions, h.put("a/b", bodies[len(bodies)-1]).Version)
	}
	h.reopen()
	for i, v := range versions {
		if !bytes.Equal(h.bytes("a/b", v), bodies[i]) {
			t.Errorf("version %d has other bytes", i)
		}
	}
	if u := h.use(); u.Bytes != 10+2*(16<<10)+1+(1<<20) || u.Objects != 1 || u.Versions != 5 {
		t.Errorf("the use is %+v", u)
	}
	for _, v := range versions {
		if _, err := h.room.Remove(t.Context(), h.call, objects.RemoveRequest{Bucket: "box", Key: "a/b", Version: v}); err != nil {
			t.Error(err)
		}
	}
	h.soon("no file is left", func() bool { return h.files() == 0 })
	if u := h.use(); u != (vm.BucketUse{Bucket: "box"}) {
		t.Errorf("after all versions are removed the use is %+v", u)
	}
	if err := h.room.RemoveBucket(t.Context(), h.call, "box", false); err != nil {
		t.Errorf("remove of the empty bucket: %v", err)
	}
}

// TestMarkers: a delete marker hides an object, its versions stay, and removing the marker
// brings it back.
func TestMarkers(t *testing.T) {
	h := newHost(t)
	v := h.put("x", []byte("one")).Version
	m, err := h.room.Remove(t.Context(), h.call, objects.RemoveRequest{Bucket: "box", Key: "x"})
	h.must(err)
	_, err = h.room.Get(t.Context(), h.call, objects.Which{Bucket: "box", Key: "x"})
	h.refused("get of a deleted object", err, "OBJECT_DELETED")
	if got := h.bytes("x", v); string(got) != "one" {
		t.Errorf("the version reads %q", got)
	}
	if u := h.use(); u.Objects != 0 || u.Versions != 2 {
		t.Errorf("with a marker the use is %+v", u)
	}
	_, err = h.room.Remove(t.Context(), h.call, objects.RemoveRequest{Bucket: "box", Key: "x", Version: m.Version})
	h.must(err)
	if got := h.bytes("x", ""); string(got) != "one" {
		t.Errorf("without its marker the object reads %q", got)
	}
	if u := h.use(); u.Objects != 1 || u.Versions != 1 {
		t.Errorf("without its marker the use is %+v", u)
	}
}

// TestKeys: what is no key is refused, and keys that are each other's prefixes are two
// objects.
func TestKeys(t *testing.T) {
	h := newHost(t)
	for _, key := range []string{"", "..", "a/../b", "./a", "a/..", "/a", "a\x00b", "a\nb", "a\x7f", "a\u0085", "\xff", strings.Repeat("k", 1025)} {
		_, err := h.room.Put(t.Context(), h.call, objects.PutRequest{Bucket: "box", Key: key, Size: 1}, strings.NewReader("x"))
		h.refused(fmt.Sprintf("put of %q", key), err, "OBJECT_INVALID_KEY")
	}
	for _, key := range []string{"a", "a/", "a/b", "a//b", "a b", "ä/…", strings.Repeat("k", 1024), "...", "..a"} {
		h.put(key, []byte(key))
	}
	for _, key := range []string{"a", "a/", "a/b", "a//b", "a b", "ä/…", strings.Repeat("k", 1024), "...", "..a"} {
		if got := h.bytes(key, ""); string(got) != key {
			t.Errorf("%q reads %q", key, got)
		}
	}
}

// list walks all pages of a list.
func (h *host) list(req objects.ListRequest) (keys, prefixes []string) {
	h.Helper()
	req.Bucket = "box"
	for {
		p, err := h.room.List(h.Context(), h.call, req)
		h.must(err)
		for _, o := range p.Objects {
			keys = append(keys, o.Key)
		}
		prefixes = append(prefixes, p.Prefixes...)
		if !p.More {
			return keys, prefixes
		}
		req.After = p.Next
	}
}

// TestList: a list has each key and common prefix once, in the order of bytes, whatever the
// size of its pages.
func TestList(t *testing.T) {
	h := newHost(t)
	var all []string
	for _, key := range []string{"a", "a/1", "a/2", "a/b/3", "b/1", "b/2", "c", "c/", "d-1", "d/1", "\u00e9/1", "z"} {
		h.put(key, []byte("x"))
		h.put(key, []byte("xx"))
		all = append(all, key)
	}
	h.put("gone/1", []byte("x"))
	_, err := h.room.Remove(t.Context(), h.call, objects.RemoveRequest{Bucket: "box", Key: "gone/1"})
	h.must(err)
	slices.Sort(all)
	for limit := 1; limit <= 4; limit++ {
		if keys, _ := h.list(objects.ListRequest{Limit: limit}); !slices.Equal(keys, all) {
			t.Errorf("in pages of %d the keys are %q, want %q", limit, keys, all)
		}
		keys, prefixes := h.list(objects.ListRequest{Limit: limit, Delimiter: "/"})
		if !slices.Equal(keys, []string{"a", "c", "d-1", "z"}) || !slices.Equal(prefixes, []string{"a/", "b/", "c/", "d/", "\u00e9/"}) {
			t.Errorf("in pages of %d with a delimiter: %q, %q", limit, keys, prefixes)
		}
		keys, prefixes = h.list(objects.ListRequest{Limit: limit, Delimiter: "/", Prefix: "a/"})
		if !slices.Equal(keys, []string{"a/1", "a/2"}) || !slices.Equal(prefixes, []string{"a/b/"}) {
			t.Errorf("below a/ in pages of %d: %q, %q", limit, keys, prefixes)
		}
	}
	n, req := 0, objects.ListRequest{Bucket: "box", Limit: 5}
	for {
		p, err := h.room.Versions(t.Context(), h.call, req)
		h.must(err)
		n += len(p.Objects)
		if !p.More {
			break
		}
		req.After, req.AfterVersion = p.Next, p.NextVersion
	}
	if n != 2*len(all)+2 {
		t.Errorf("the pages of versions have %d entries, want %d", n, 2*len(all)+2)
	}
}

// TestConditions: of many writers that want to be the first, or to change what they have
// read, one is; the others are told.
func TestConditions(t *testing.T) {
	h := newHost(t)
	race := func(cond objects.Condition) (won int) {
		var wg sync.WaitGroup
		errs := make(chan error, 16)
		for i := range 16 {
			wg.Go(func() {
				_, err := h.room.Put(t.Context(), &vm.Call{Actor: h.call.Actor}, objects.PutRequest{Bucket: "box", Key: "k", Size: -1, Condition: cond}, strings.NewReader(fmt.Sprint(i)))
				errs <- err
			})
		}
		wg.Wait()
		close(errs)
		for err := range errs {
			if err == nil {
				won++
			} else if vm.AsError(err).Code != "OBJECT_CONDITION_FAILED" {
				t.Error(err)
			}
		}
		return won
	}
	if won := race(objects.Condition{IfNoneMatch: "*"}); won != 1 {
		t.Errorf("%d writers made the object, want 1", won)
	}
	o, err := h.room.Head(t.Context(), h.call, objects.Which{Bucket: "box", Key: "k"})
	h.must(err)
	if won := race(objects.Condition{IfMatch: o.ETag}); won < 1 || won > 2 { // a writer of the same bytes has the same ETag
		t.Errorf("%d writers changed what they had read, want 1", won)
	}
	_, err = h.room.Put(t.Context(), h.call, objects.PutRequest{Bucket: "box", Key: "none", Condition: objects.Condition{IfMatch: "x"}}, strings.NewReader(""))
	h.refused("a change of nothing", err, "OBJECT_NOT_FOUND")
}

// TestNothingHalf: a body that breaks off, is too short, has another digest or is refused
// at its end leaves no version, no file and no use.
func TestNothingHalf(t *testing.T) {
	h := newHost(t)
	body := random(1 << 20)
	for what, req := range map[string]struct {
		objects.PutRequest
		body io.Reader
		code string
	}{
		"a body that breaks off":   {objects.PutRequest{Size: 2 << 20}, broken{bytes.NewReader(body), errors.New("reset")}, ""},
		"a body that is short":     {objects.PutRequest{Size: 2 << 20}, bytes.NewReader(body), "OBJECT_INCOMPLETE"},
		"a body that is long":      {objects.PutRequest{Size: 10}, bytes.NewReader(body), "OBJECT_INCOMPLETE"},
		"a body of another digest": {objects.PutRequest{Size: -1, SHA256: strings.Repeat("0", 64)}, bytes.NewReader(body), "OBJECT_BAD_DIGEST"},
		"a checksum that is wrong": {objects.PutRequest{Size: -1, Done: func(*vm.Object) error { return vm.Errorf(vm.Invalid, "", "no").WithCode("OBJECT_BAD_DIGEST") }}, bytes.NewReader(body), "OBJECT_BAD_DIGEST"},
		"a condition at the end":   {objects.PutRequest{Size: -1, Condition: objects.Condition{IfMatch: "x"}}, bytes.NewReader(body), "OBJECT_NOT_FOUND"},
	} {
		req.Bucket, req.Key = "box", "half"
		_, err := h.room.Put(t.Context(), h.call, req.PutRequest, req.body)
		if err == nil || req.code != "" && vm.AsError(err).Code != req.code {
			t.Errorf("%s gives %v, want %s", what, err, req.code)
		}
		if n, u := h.files(), h.use(); n != 0 || u != (vm.BucketUse{Bucket: "box"}) {
			t.Errorf("%s leaves %d files and %+v", what, n, u)
		}
	}
	ctx, stop := context.WithCancel(t.Context())
	_, err := h.room.Put(ctx, h.call, objects.PutRequest{Bucket: "box", Key: "half", Size: -1}, stopping{bytes.NewReader(body), stop})
	if !errors.Is(err, vm.Cancelled) && err == nil {
		t.Errorf("a caller that leaves gets %v", err)
	}
	if n := h.files(); n != 0 {
		t.Errorf("a caller that leaves leaves %d files", n)
	}
}

// stopping cancels its request while it is read.
type stopping struct {
	io.Reader
	stop func()
}

func (s stopping) Read(p []byte) (int, error) {
	s.stop()
	return s.Reader.Read(p)
}

// TestCrash: what a server had written and not committed is gone after the next start, and
// what it had committed and not moved is there.
func TestCrash(t *testing.T) {
	h := newHost(t)
	body := random(100 << 10)
	v := h.put("kept", body)
	var file string
	h.must(filepath.WalkDir(h.site.Dir.ObjectBodies(h.call.Actor.Account), func(path string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			file = path
		}
		return err
	}))
	h.close(h.House)
	incoming := h.site.Dir.ObjectIncoming()
	h.must(os.Rename(file, filepath.Join(incoming, filepath.Base(file)))) // as before the move
	h.must(os.WriteFile(filepath.Join(incoming, "lost"), body, 0o600))
	h.open()
	if !bytes.Equal(h.bytes("kept", v.Version), body) {
		t.Error("a committed version has other bytes after a crash")
	}
	if left, err := os.ReadDir(incoming); err != nil || len(left) != 0 {
		t.Errorf("after the start %d files are incoming, %v", len(left), err)
	}
	if _, err := os.Stat(file); err != nil {
		t.Errorf("the committed file is not at its place: %v", err)
	}
}

// TestQuota: an account with a quota stores as much as it allows; what is larger is refused
// before it is read if its size is known, else while it is read, and leaves nothing.
func TestQuota(t *testing.T) {
	h := newHost(t)
	other := h.account("small")
	_, err := h.SetQuota(t.Context(), h.call, other.Actor.Account, vm.Quota{Disk: 64 << 20})
	h.must(err)
	_, err = h.room.CreateBucket(t.Context(), other, "small")
	h.must(err)
	read := &counted{}
	_, err = h.room.Put(t.Context(), other, objects.PutRequest{Bucket: "small", Key: "large", Size: 5 << 30}, read)
	h.refused("5 GiB into 64 MiB", err, "OBJECT_QUOTA_EXCEEDED")
	if read.n != 0 {
		t.Errorf("%d bytes of it were read", read.n)
	}
	_, err = h.room.Put(t.Context(), other, objects.PutRequest{Bucket: "small", Key: "large", Size: -1}, read)
	h.refused("5 GiB of unknown size into 64 MiB", err, "OBJECT_QUOTA_EXCEEDED")
	if read.n > 80<<20 {
		t.Errorf("%d MiB of it were read", read.n>>20)
	}
	if n := h.files(); n != 0 {
		t.Errorf("it leaves %d files", n)
	}
	for i := range 3 {
		_, err = h.room.Put(t.Context(), other, objects.PutRequest{Bucket: "small", Key: fmt.Sprint(i), Size: 16 << 20}, io.LimitReader(&counted{}, 16<<20))
		h.must(err)
	}
	h.clock.Advance(time.Minute) // it is measured again
	_, err = h.room.Put(t.Context(), other, objects.PutRequest{Bucket: "small", Key: "more", Size: 20 << 20}, io.LimitReader(&counted{}, 20<<20))
	h.refused("20 MiB above 48 of 64", err, "OBJECT_QUOTA_EXCEEDED")
	put := func(key string) error {
		_, err := h.room.Put(t.Context(), other, objects.PutRequest{Bucket: "small", Key: key, Size: 8 << 20}, io.LimitReader(&counted{}, 8<<20))
		return err
	}
	h.must(put("fits"))
	_, err = h.SetQuota(t.Context(), h.call, other.Actor.Account, vm.Quota{Disk: 60 << 20})
	h.must(err)
	h.refused("8 MiB above 56 of 60, which were 64 a moment ago", put("late"), "OBJECT_QUOTA_EXCEEDED")
}

// counted is bytes without end.
type counted struct{ n int64 }

func (c *counted) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = byte(i)
	}
	c.n += int64(len(p))
	return len(p), nil
}

// TestGrants: an identity does with the keys of its prefix what its grant says, and
// nothing with others; another account does not see the bucket.
//
// 001-17, 001-27
func TestGrants(t *testing.T) {
	h := newHost(t)
	h.put("in/a", []byte("a"))
	h.put("out/a", []byte("a"))
	who := h.identity("agent")
	get := func(key string) error {
		_, err := h.room.Get(t.Context(), who, objects.Which{Bucket: "box", Key: key})
		return err
	}
	put := func(key string) error {
		_, err := h.room.Put(t.Context(), who, objects.PutRequest{Bucket: "box", Key: key, Size: 1}, strings.NewReader("x"))
		return err
	}
	h.refused("get without a grant", get("in/a"), "OBJECT_ACCESS_DENIED")
	grant := vm.ObjectGrant{Identity: who.Actor.Identity, Prefix: "in/", Access: vm.ObjectRead}
	_, err := h.room.Grant(t.Context(), h.call, "box", grant)
	h.must(err)
	h.must(get("in/a"))
	h.refused("get outside the prefix", get("out/a"), "OBJECT_ACCESS_DENIED")
	h.refused("put with a grant to read", put("in/b"), "OBJECT_ACCESS_DENIED")
	grant.Access = vm.ObjectWrite
	_, err = h.room.Grant(t.Context(), h.call, "box", grant)
	h.must(err)
	h.must(put("in/b"))
	h.refused("put outside the prefix", put("out/b"), "OBJECT_ACCESS_DENIED")
	if _, err := h.room.List(t.Context(), who, objects.ListRequest{Bucket: "box"}); err == nil {
		t.Error("it lists the whole bucket")
	}
	if p, err := h.room.List(t.Context(), who, objects.ListRequest{Bucket: "box", Prefix: "in/"}); err != nil || len(p.Objects) != 2 {
		t.Errorf("below its prefix it lists %d objects, %v", len(p.Objects), err)
	}
	_, _, err = h.room.Copy(t.Context(), who, objects.Which{Bucket: "box", Key: "out/a"}, objects.PutRequest{Bucket: "box", Key: "in/c"}, false, false)
	h.refused("a copy from outside", err, "OBJECT_ACCESS_DENIED")
	h.refused("a bucket made by an identity", second(h.room.CreateBucket(t.Context(), who, "mine")), "OBJECT_ACCESS_DENIED")
	h.must(h.room.Revoke(t.Context(), h.call, "box", grant))
	h.refused("get after the grant ended", get("in/a"), "OBJECT_ACCESS_DENIED")
	other := h.account("other")
	h.refused("another account's get", second(h.room.Get(t.Context(), other, objects.Which{Bucket: "box", Key: "in/a"})), "BUCKET_NOT_FOUND")
	h.refused("another account's bucket of that name", second(h.room.CreateBucket(t.Context(), other, "box")), "BUCKET_EXISTS")
	if list, err := h.room.ListBuckets(t.Context(), other); err != nil || len(list) != 0 {
		t.Errorf("another account lists %v, %v", list, err)
	}
}

func second[T any](_ T, err error) error { return err }

// compliance wants that a caller cannot retain a version so that the owner cannot remove it.
func (h *host) compliance(c *vm.Call, key string) {
	h.Helper()
	year := h.clock.Now().AddDate(1, 0, 0)
	now := objects.PutRequest{Bucket: "box", Key: key, Retain: vm.Compliance, RetainTo: year}
	from := objects.Which{Bucket: "box", Key: key}
	ways := map[string]func(objects.PutRequest) error{
		"an upload": func(r objects.PutRequest) error { return second(h.room.Put(h.Context(), c, r, strings.NewReader("x"))) },
		"a multipart upload": func(r objects.PutRequest) error {
			return second(h.room.StartUpload(h.Context(), c, objects.UploadRequest{PutRequest: r}))
		},
		"a copy": func(r objects.PutRequest) error {
			_, _, err := h.room.Copy(h.Context(), c, from, r, false, false)
			return err
		},
		"a retention of one": func(r objects.PutRequest) error {
			return second(h.room.Retain(h.Context(), c, objects.RetainRequest{Which: from, Mode: r.Retain, To: r.RetainTo}))
		},
	}
	for name, do := range ways {
		h.refused(name+" under compliance by an identity", do(now), "OBJECT_ACCESS_DENIED")
		for what, to := range map[string]time.Time{"that has ended": h.clock.Now().Add(-time.Hour), "of 200 years": h.clock.Now().AddDate(200, 0, 0)} {
			r := now
			r.Retain, r.RetainTo = vm.Governance, to
			h.refused(name+" with a retention "+what, do(r), "OBJECT_INVALID_REQUEST")
		}
	}
}

// TestRetention: a retained version is not removed, by nobody before a compliance retention
// ends, and by the owner who asks for it before a governance retention ends.
//
// 001-25
func TestRetention(t *testing.T) {
	h := newHost(t)
	remove := func(c *vm.Call, key, version string, bypass bool) error {
		return second(h.room.Remove(t.Context(), c, objects.RemoveRequest{Bucket: "box", Key: key, Version: version, Bypass: bypass}))
	}
	retain := func(key string, mode vm.RetainMode, d time.Duration, bypass bool) error {
		return second(h.room.Retain(t.Context(), h.call, objects.RetainRequest{Which: objects.Which{Bucket: "box", Key: key}, Mode: mode, To: h.clock.Now().Add(d), Bypass: bypass}))
	}
	g, c := h.put("g", []byte("x")).Version, h.put("c", []byte("x")).Version
	h.must(retain("g", vm.Governance, time.Hour, false))
	h.must(retain("c", vm.Compliance, time.Hour, false))
	h.refused("remove of a version under governance", remove(h.call, "g", g, false), "OBJECT_RETAINED")
	h.refused("remove of a version under compliance", remove(h.call, "c", c, true), "OBJECT_RETAINED")
	who := h.identity("agent")
	_, err := h.room.Grant(t.Context(), h.call, "box", vm.ObjectGrant{Identity: who.Actor.Identity, Access: vm.ObjectWrite})
	h.must(err)
	h.refused("an identity that overrides governance", remove(who, "g", g, true), "OBJECT_RETAINED")
	h.compliance(who, "g")
	h.refused("a shorter governance", retain("g", vm.Governance, time.Minute, false), "OBJECT_RETAINED")
	h.refused("a shorter compliance", retain("c", vm.Compliance, time.Minute, true), "OBJECT_RETAINED")
	h.refused("compliance to governance", retain("c", vm.Governance, 2*time.Hour, true), "OBJECT_RETAINED")
	h.must(retain("c", vm.Compliance, 2*time.Hour, false))
	h.must(remove(h.call, "g", "", false)) // a marker: the version stays
	h.must(remove(h.call, "g", g, true))
	h.refused("a bucket with a retained version", h.room.RemoveBucket(t.Context(), h.call, "box", true), "OBJECT_RETAINED")
	h.clock.Advance(3 * time.Hour)
	h.must(remove(h.call, "c", c, false))
	v := h.put("held", []byte("x")).Version
	h.must(second(h.room.SetHold(t.Context(), h.call, objects.Which{Bucket: "box", Key: "held"}, true)))
	h.refused("remove of a held version", remove(h.call, "held", v, true), "OBJECT_RETAINED")
	h.refused("an identity that lifts a hold", second(h.room.SetHold(t.Context(), who, objects.Which{Bucket: "box", Key: "held"}, false)), "OBJECT_ACCESS_DENIED")
	h.must(second(h.room.SetHold(t.Context(), h.call, objects.Which{Bucket: "box", Key: "held"}, false)))
	h.must(remove(h.call, "held", v, false))
	def := &vm.RetainDefault{Mode: vm.Governance, Days: 1}
	h.must(second(h.room.ChangeBucket(t.Context(), h.call, "box", objects.Change{Retain: &def})))
	if o := h.put("default", []byte("x")); o.Retain != vm.Governance || !o.RetainTo.Equal(o.At.AddDate(0, 0, 1)) {
		t.Errorf("a version in a bucket with a default retention is retained %q until %s", o.Retain, o.RetainTo)
	}
}

// TestTags: objects are found by the tags of their newest version.
//
// 001-16
func TestTags(t *testing.T) {
	h := newHost(t)
	find := func(tags map[string]string) (keys []string) {
		keys, _ = h.list(objects.ListRequest{Tags: tags, Limit: 2})
		return keys
	}
	for i, tags := range []map[string]string{{"state": "draft"}, {"state": "draft", "team": "a"}, {"state": "final"}, {}, {"state": "draft"}} {
		_, err := h.room.Put(t.Context(), h.call, objects.PutRequest{Bucket: "box", Key: fmt.Sprintf("k%d", i), Tags: tags}, strings.NewReader(""))
		h.must(err)
	}
	if got := find(map[string]string{"state": "draft"}); !slices.Equal(got, []string{"k0", "k1", "k4"}) {
		t.Errorf("drafts are %q", got)
	}
	if got := find(map[string]string{"state": "draft", "team": "a"}); !slices.Equal(got, []string{"k1"}) {
		t.Errorf("drafts of team a are %q", got)
	}
	h.must(second(h.room.SetTags(t.Context(), h.call, objects.Which{Bucket: "box", Key: "k0"}, map[string]string{"state": "final"})))
	h.put("k4", []byte("new")) // without tags
	if got := find(map[string]string{"state": "draft"}); !slices.Equal(got, []string{"k1"}) {
		t.Errorf("after a change and a new version drafts are %q", got)
	}
	o, err := h.room.Remove(t.Context(), h.call, objects.RemoveRequest{Bucket: "box", Key: "k1"})
	h.must(err)
	if got := find(map[string]string{"state": "draft"}); len(got) != 0 {
		t.Errorf("a deleted object is found: %q", got)
	}
	h.must(second(h.room.Remove(t.Context(), h.call, objects.RemoveRequest{Bucket: "box", Key: "k1", Version: o.Version})))
	if got := find(map[string]string{"team": "a"}); !slices.Equal(got, []string{"k1"}) {
		t.Errorf("an object that is back is not found: %q", got)
	}
	h.refused("eleven tags", second(h.room.SetTags(t.Context(), h.call, objects.Which{Bucket: "box", Key: "k1"}, map[string]string{"1": "", "2": "", "3": "", "4": "", "5": "", "6": "", "7": "", "8": "", "9": "", "a": "", "b": ""})), "OBJECT_INVALID_TAG")
}

// TestCopy: a copy has the bytes of its source after the source is gone, and takes no
// second file.
func TestCopy(t *testing.T) {
	h := newHost(t)
	body := random(64 << 10)
	src := h.put("src", body)
	out, _, err := h.room.Copy(t.Context(), h.call, objects.Which{Bucket: "box", Key: "src"}, objects.PutRequest{Bucket: "box", Key: "dst"}, false, false)
	h.must(err)
	if n := h.files(); n != 1 {
		t.Errorf("source and copy have %d files, want 1", n)
	}
	h.must(second(h.room.Remove(t.Context(), h.call, objects.RemoveRequest{Bucket: "box", Key: "src", Version: src.Version})))
	if !bytes.Equal(h.bytes("dst", ""), body) {
		t.Error("the copy has other bytes")
	}
	h.must(second(h.room.Remove(t.Context(), h.call, objects.RemoveRequest{Bucket: "box", Key: "dst", Version: out.Version})))
	h.soon("no file is left", func() bool { return h.files() == 0 })
}

// TestGone: grants and access keys of a deleted identity end with it. The secret of a key is
// stored only encrypted.
func TestGone(t *testing.T) {
	h := newHost(t)
	who := h.identity("agent")
	h.must(second(h.room.Grant(t.Context(), h.call, "box", vm.ObjectGrant{Identity: who.Actor.Identity, Access: vm.ObjectWrite})))
	k, secret, err := h.room.CreateKey(t.Context(), h.call, "", "agent")
	h.must(err)
	got, actor, err := h.room.Secret(t.Context(), k.ID)
	if err != nil || got != secret || actor.Identity != who.Actor.Identity {
		t.Errorf("the key is of %+v, %v", actor, err)
	}
	if bytes.Contains(k.Secret, []byte(secret)) {
		t.Error("the secret is stored as it is")
	}
	h.must(second(h.DeleteIdentity(t.Context(), h.call, "agent")))
	if _, _, err := h.room.Secret(t.Context(), k.ID); !errors.Is(err, vm.Unauthenticated) {
		t.Errorf("the key of a deleted identity gives %v", err)
	}
	h.reopen()
	h.soon("its key and grant are gone", func() bool {
		keys, err := h.room.Keys(t.Context(), h.call)
		grants, err2 := h.room.Grants(t.Context(), h.call, "box")
		return err == nil && err2 == nil && len(keys) == 0 && len(grants) == 0
	})
}
