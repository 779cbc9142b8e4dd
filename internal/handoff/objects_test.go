// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package handoff_test

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/warren-vm/warren/internal/bundle"
	"github.com/warren-vm/warren/internal/engine"
	"github.com/warren-vm/warren/internal/handoff"
	"github.com/warren-vm/warren/internal/objects"
	"github.com/warren-vm/warren/internal/vmtest"
	"github.com/warren-vm/warren/vm"
)

// large does not fit the small disks of these tests, but its compressed form does.
var large = strings.Repeat("a large object of zeros and ones\n", 200_000)

// publishes makes three versions of objects as a publish from a VM does, and one that is
// not from the VM.
func (s *server) publishes(t *testing.T, from vm.ID) {
	t.Helper()
	taken, err := s.Snapshot(t.Context(), s.admin, string(from), engine.SnapshotRequest{Name: "published"})
	must(t, err)
	_, err = s.Rooms.Objects.CreateBucket(t.Context(), s.admin, "reports")
	must(t, err)
	for _, o := range [][2]string{{"june", "one"}, {"june", "two"}, {"site", large}, {"else", "not from the VM"}} {
		made, err := s.Rooms.Objects.Put(t.Context(), s.admin, objects.PutRequest{
			Bucket: "reports", Key: o[0], Size: int64(len(o[1])), ContentType: "text/x-report", Tags: map[string]string{"state": o[1][:3]},
			Origin: &vm.ObjectOrigin{VM: from, Path: "/work/" + o[0], Command: "make " + o[0], Mode: 0o755},
		}, strings.NewReader(o[1]))
		must(t, err)
		if o[0] != "else" {
			must(t, s.NotePublish(t.Context(), taken.Generation.ID, vm.PublishedAs{
				ObjectRef: vm.ObjectRef{Bucket: made.Bucket, Key: made.Key, Version: made.Version}, Path: vm.GuestPath("/work/" + o[0]), SHA256: made.SHA256,
			}))
		}
	}
}

// read reads a version of an object.
func (s *server) read(t *testing.T, bucket, key, version string) (vm.Object, string) {
	t.Helper()
	c, err := s.Rooms.Objects.Get(t.Context(), s.admin, objects.Which{Bucket: bucket, Key: key, Version: version})
	if err != nil {
		t.Fatalf("s3://%s/%s cannot be read: %v", bucket, key, err)
	}
	data, err := c.Bytes(t.Context(), 1<<30)
	must(t, err)
	return c.Object, string(data)
}

// keepsNothing wants neither repositories, nor buckets, nor files of a bundle.
func (s *server) keepsNothing(t *testing.T, what string) {
	t.Helper()
	if list := s.Repo.All(); len(list) != 0 {
		t.Errorf("%s made %d repositories", what, len(list))
	}
	if list, err := s.Rooms.Objects.ListBuckets(t.Context(), s.admin); err != nil || len(list) != 0 {
		t.Errorf("%s made the buckets %v, %v", what, list, err)
	}
	for _, dir := range []string{s.Dir.Generations(), s.Dir.RepoIncoming()} {
		if left, err := filepath.Glob(filepath.Join(dir, "*")); err != nil || len(left) != 0 {
			t.Errorf("%s left %v, %v", what, left, err)
		}
		if left, err := filepath.Glob(filepath.Join(dir, ".tmp*")); err != nil || len(left) != 0 {
			t.Errorf("%s left %v, %v", what, left, err)
		}
	}
}

// TestOpenObjects: the versions that were published from a VM come with a bundle, each with
// its bytes, type, tags and origin, in the order in which they were made, in a new bucket;
// with them come the receipts of the other server, which its own chain does not get.
//
// 001-23
func TestOpenObjects(t *testing.T) {
	a, b := newServer(t, "a"), newServer(t, "b")
	data := a.packed(t)
	signer, err := a.Rooms.Handoff.Signer()
	must(t, err)
	for _, bucket := range []string{"bundle-box", "bundle-box-2"} {
		out, err := b.Rooms.Handoff.Open(t.Context(), b.admin, bytes.NewReader(data), handoff.OpenOptions{Trust: []string{signer}})
		must(t, err)
		if out.Bucket != bucket || out.Objects != 3 {
			t.Errorf("it says that %d objects are in the bucket %s, want 3 in %s", out.Objects, out.Bucket, bucket)
		}
		o, text := b.read(t, bucket, "reports/june", "")
		if text != "two" || o.ContentType != "text/x-report" || o.Tags["state"] != "two" {
			t.Errorf("the newest version is %q of type %s with the tags %v", text, o.ContentType, o.Tags)
		}
		if o.Origin == nil || o.Origin.Path != "/work/june" || o.Origin.Mode != 0o755 || o.Origin.Command != "make june" {
			t.Errorf("it says that it was published from %+v", o.Origin)
		}
		p, err := b.Rooms.Objects.Versions(t.Context(), b.admin, objects.ListRequest{Bucket: bucket})
		must(t, err)
		var old []string
		for _, v := range p.Objects {
			if v.Key == "reports/june" && !v.Latest {
				_, text := b.read(t, bucket, v.Key, v.Version)
				old = append(old, text)
			}
		}
		if len(p.Objects) != 4 || len(old) != 1 || old[0] != "one" {
			t.Errorf("the bucket has %d versions, want 4; the older ones of june are %q, want one", len(p.Objects), old)
		}
		if _, text := b.read(t, bucket, "reports/site", ""); text != large {
			t.Errorf("the large object has %d other bytes", len(text))
		}
		var receipts []vm.AuditRecord
		_, text = b.read(t, bucket, "receipts.json", "")
		if err := json.Unmarshal([]byte(text), &receipts); err != nil || len(receipts) != out.Receipts || len(receipts) == 0 {
			t.Errorf("receipts.json has %d receipts (%v), want %d", len(receipts), err, out.Receipts)
		}
	}
	own, err := b.Audit.List(t.Context(), vm.AuditFilter{Limit: 10_000})
	must(t, err)
	for _, r := range own {
		if r.Op == vm.OpCreate {
			t.Errorf("the audit chain has a record of the other server: %+v", r)
		}
	}
}

// TestPackLimits: a bundle takes the newest objects that its limit allows, and says how many
// it leaves out.
func TestPackLimits(t *testing.T) {
	s := newServer(t, "a")
	s.packed(t)
	pack := func(most int64) handoff.Facts {
		m, err := s.Rooms.Handoff.Create(t.Context(), s.admin, "box", handoff.CreateOptions{MaxBytes: most}, new(bytes.Buffer), func() error { return nil })
		must(t, err)
		f, err := handoff.FactsOf(m)
		must(t, err)
		return f
	}
	if f := pack(3); len(f.Objects) != 1 || f.ObjectsLeft != 2 || f.Objects[0].Key != "june" || f.Objects[0].Size != 3 {
		t.Errorf("with 3 bytes it has %v and leaves out %d, want one version of june and 2", f.Objects, f.ObjectsLeft)
	}
	if f := pack(1 << 30); len(f.Objects) != 3 || f.ObjectsLeft != 0 {
		t.Errorf("with a GiB it has %v and leaves out %d, want 3 versions and none", f.Objects, f.ObjectsLeft)
	}
}

// described is an entry of the list of objects for some bytes.
func described(bucket, key, text string) map[string]any {
	sum := sha256.Sum256([]byte(text))
	return map[string]any{"object": map[string]any{"bucket": bucket, "key": key, "size": len(text), "sha256": hex.EncodeToString(sum[:])}}
}

// TestOpenHostile: what a signer that is trusted puts into a bundle is checked like any
// upload: paths with "..", names outside of a bucket, bytes that are not the described
// ones, and too much of anything make nothing and leave nothing.
func TestOpenHostile(t *testing.T) {
	b := newServer(t, "b")
	key := ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize))
	open := func(list any, files ...vmtest.ArchiveFile) (handoff.Opened, error) {
		about, err := json.Marshal(map[string]any{"vm": map[string]any{"name": "box"}, "repos": []any{}, "objects": list})
		must(t, err)
		data, err := vmtest.Archive(key, bundle.OfVM, map[string]any{"receipts": 0}, append([]vmtest.ArchiveFile{{Path: "vm.json", Text: string(about)}}, files...)...)
		must(t, err)
		return b.Rooms.Handoff.Open(t.Context(), b.admin, bytes.NewReader(data), handoff.OpenOptions{Trust: []string{bundle.FingerprintOf(key)}})
	}
	receipts, one := vmtest.ArchiveFile{Path: "receipts.json", Text: "[]"}, vmtest.ArchiveFile{Path: "objects/1", Text: "one"}
	if out, err := open([]any{described("reports", "june", "one")}, receipts, one); err != nil || out.Objects != 1 {
		t.Fatalf("a foreign bundle without a fault: %d objects, %v", out.Objects, err)
	}
	must(t, b.Rooms.Objects.RemoveBucket(t.Context(), b.admin, "bundle-box", true))
	good := described("reports", "june", "one")
	other := described("reports", "june", "two")
	long := described("reports", "june", "one more")
	var many []any
	for range 1001 {
		many = append(many, good)
	}
	for name, c := range map[string]struct {
		list  any
		files []vmtest.ArchiveFile
		kind  vm.Kind
	}{
		"a path that leads out":               {[]any{good}, []vmtest.ArchiveFile{receipts, one, {Path: "../../vms/evil", Text: "x"}}, vm.Invalid},
		"a path that leads out of objects":    {[]any{good}, []vmtest.ArchiveFile{receipts, one, {Path: "objects/../../../evil", Text: "x"}}, vm.Invalid},
		"a key that leads out":                {[]any{described("reports", "../../june", "one")}, []vmtest.ArchiveFile{receipts, one}, vm.Invalid},
		"a key with a control character":      {[]any{described("reports", "ju\nne", "one")}, []vmtest.ArchiveFile{receipts, one}, vm.Invalid},
		"a key that is too long":              {[]any{described("reports", strings.Repeat("k", 1020), "one")}, []vmtest.ArchiveFile{receipts, one}, vm.Invalid},
		"a bucket that leads out":             {[]any{described("..", "june", "one")}, []vmtest.ArchiveFile{receipts, one}, vm.Invalid},
		"bytes that are not those of the key": {[]any{other}, []vmtest.ArchiveFile{receipts, one}, vm.Invalid},
		"another size":                        {[]any{long}, []vmtest.ArchiveFile{receipts, one}, vm.Invalid},
		"an object that is missing":           {[]any{good, good}, []vmtest.ArchiveFile{receipts, one}, vm.Invalid},
		"no receipts":                         {[]any{good}, []vmtest.ArchiveFile{one}, vm.Invalid},
		"too many objects":                    {many, []vmtest.ArchiveFile{receipts, one}, vm.Limit},
		"a list of something else":            {"objects", []vmtest.ArchiveFile{receipts, one}, vm.Invalid},
	} {
		if _, err := open(c.list, c.files...); !errors.Is(err, c.kind) {
			t.Errorf("%s: %v, want kind %s", name, err, c.kind)
		}
		b.keepsNothing(t, "a bundle with "+name)
	}
}

// TestOpenFullDisk: if the disk fills while a bundle is opened, wherever it does, the answer
// has kind no-space, and nothing is left.
func TestOpenFullDisk(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root: it mounts a small disk")
	}
	a := newServer(t, "a")
	data := a.packed(t)
	signer, err := a.Rooms.Handoff.Signer()
	must(t, err)
	for what, disk := range map[string]struct {
		path func(*server) string
		size string
	}{
		"the upload":     {func(b *server) string { return b.Dir.Generations() }, "2m"},
		"the repository": {func(b *server) string { return b.Dir.Repos() }, "4k"},
		"the objects":    {func(b *server) string { return b.Dir.Objects() }, "2m"},
	} {
		b := newServer(t, "b")
		dir := disk.path(b)
		must(t, syscall.Mount("small", dir, "tmpfs", 0, "size="+disk.size))
		t.Cleanup(func() { must(t, syscall.Unmount(dir, syscall.MNT_DETACH)) })
		must(t, os.Mkdir(filepath.Join(dir, ".incoming"), 0o700))
		_, err = b.Rooms.Handoff.Open(t.Context(), b.admin, bytes.NewReader(data), handoff.OpenOptions{Trust: []string{signer}})
		if !errors.Is(err, vm.NoSpace) {
			t.Errorf("the disk of %s is full: %v, want kind %s", what, err, vm.NoSpace)
		}
		must(t, os.Remove(filepath.Join(dir, ".incoming")))
		b.keepsNothing(t, "a full disk of "+what)
	}
}
