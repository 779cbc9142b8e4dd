// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package ship_test

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/warren-vm/warren/internal/engine"
	"github.com/warren-vm/warren/internal/objects"
	"github.com/warren-vm/warren/internal/reader"
	"github.com/warren-vm/warren/internal/ship"
	"github.com/warren-vm/warren/internal/vmtest"
	"github.com/warren-vm/warren/vm"
)

// place is a simulated host with a VM and a bucket.
type place struct {
	testing.TB
	*vmtest.House
	site    *vmtest.Site
	c       *vm.Call
	objects *objects.Objects
}

func newPlace(t testing.TB) *place {
	t.Helper()
	return newPlaceWith(t, nil)
}

// newPlaceWith is newPlace with a scanner of uploads; nil = every upload is clean.
func newPlaceWith(t testing.TB, scanner objects.Scanner) *place {
	t.Helper()
	s, err := vmtest.NewSite(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	s.Scanner = scanner
	if testing.Verbose() {
		s.Log = slog.New(slog.NewTextHandler(t.Output(), nil))
	}
	h, err := s.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, stop := context.WithTimeout(context.Background(), 10*time.Second)
		defer stop()
		if err := h.Close(ctx); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	c, _, err := vmtest.Admin(t.Context(), h)
	if err != nil {
		t.Fatal(err)
	}
	p := &place{TB: t, House: h, site: s, c: c, objects: h.Rooms.Objects}
	if _, err := h.Create(t.Context(), p.call(), engine.CreateRequest{Name: "app", Workdir: "/work"}); err != nil {
		t.Fatal(err)
	}
	if _, err := p.objects.CreateBucket(t.Context(), p.call(), "reports"); err != nil {
		t.Fatal(err)
	}
	return p
}

// call is a new request of the account.
func (p *place) call() *vm.Call { return &vm.Call{Actor: p.c.Actor, Request: vm.NewRequestID()} }

// write writes a file of the VM.
func (p *place) write(path, text string) {
	p.Helper()
	o := vm.WriteOptions{Parents: true, Size: int64(len(text)), Mode: 0o755}
	if _, err := p.WriteFile(p.Context(), p.call(), "app", "", path, o, strings.NewReader(text)); err != nil {
		p.Fatal(err)
	}
}

// read reads a file of the VM; ok is false if it is not there.
func (p *place) read(path string) (text string, ok bool) {
	p.Helper()
	_, r, err := p.OpenFile(p.Context(), p.call(), "app", "", path)
	if vm.KindOf(err) == vm.NotFound {
		return "", false
	}
	if err != nil {
		p.Fatal(err)
	}
	defer r.Close()
	data, err := io.ReadAll(r)
	if err != nil {
		p.Fatal(err)
	}
	return string(data), true
}

// publish publishes; the bucket is reports.
func (p *place) publish(r vm.PublishRequest) (vm.Published, error) {
	p.Helper()
	if r.Bucket == "" {
		r.Bucket = "reports"
	}
	return p.Ship.Publish(p.Context(), p.call(), "app", r)
}

func (p *place) published(r vm.PublishRequest) vm.Published {
	p.Helper()
	out, err := p.publish(r)
	if err != nil {
		p.Fatalf("publish of %s: %v", r.Path, err)
	}
	return out
}

// fetch fetches from the bucket reports.
func (p *place) fetch(r vm.FetchRequest) (vm.Fetched, error) {
	p.Helper()
	r.Bucket = "reports"
	return p.Ship.Fetch(p.Context(), p.call(), "app", r)
}

// put uploads an object as a client does.
func (p *place) put(key string, body []byte) vm.Object {
	p.Helper()
	o, err := p.objects.Put(p.Context(), p.call(), objects.PutRequest{Bucket: "reports", Key: key, Size: -1}, bytes.NewReader(body))
	if err != nil {
		p.Fatal(err)
	}
	return o
}

// bytes reads an object.
func (p *place) bytes(key, version string) []byte {
	p.Helper()
	content, err := p.objects.Get(p.Context(), p.call(), objects.Which{Bucket: "reports", Key: key, Version: version})
	if err != nil {
		p.Fatal(err)
	}
	r, err := content.Range(p.Context(), 0, -1)
	if err != nil {
		p.Fatal(err)
	}
	defer r.Close()
	data, err := io.ReadAll(r)
	if err != nil {
		p.Fatal(err)
	}
	return data
}

// keys lists the objects.
func (p *place) keys() (keys []string) {
	p.Helper()
	page, err := p.objects.List(p.Context(), p.call(), objects.ListRequest{Bucket: "reports", Limit: 100})
	if err != nil {
		p.Fatal(err)
	}
	for _, o := range page.Objects {
		keys = append(keys, o.Key)
	}
	return keys
}

func digest(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// record finds the newest audit record of a verb.
func (p *place) record(op vm.Op) vm.AuditRecord {
	p.Helper()
	list, err := p.Records(p.Context(), vm.AuditFilter{Account: p.c.Actor.Account, Limit: 100})
	if err != nil {
		p.Fatal(err)
	}
	for _, r := range list {
		if r.Op == op {
			return r
		}
	}
	p.Fatalf("there is no audit record of %s", op)
	return vm.AuditRecord{}
}

// 001-20
func TestPublishFile(t *testing.T) {
	p := newPlace(t)
	p.write("/work/report.pdf", "first")
	one := p.published(vm.PublishRequest{Path: "report.pdf", Key: "june.pdf", Command: "make report", Tags: map[string]string{"state": "draft"}})
	p.write("/work/report.pdf", strings.Repeat("second ", 10_000))
	two := p.published(vm.PublishRequest{Path: "/work/report.pdf", Key: "june.pdf"})
	if got := string(p.bytes("june.pdf", one.Object.Version)); got != "first" {
		t.Errorf("after another publish the first version is %q, want it unchanged", got)
	}
	if got := string(p.bytes("june.pdf", "")); got != strings.Repeat("second ", 10_000) {
		t.Errorf("the newest version has %d bytes, want those of the second publish", len(got))
	}
	if one.Object.SHA256 != digest([]byte("first")) || one.Object.ContentType != "application/pdf" || one.Tree || one.Bytes != 5 {
		t.Errorf("the publish answers %+v, want digest, type and size of the file", one)
	}
	want := map[string]string{
		"warren-vm": string(one.VM), "warren-vm-name": "app", "warren-generation": string(one.Generation), "warren-path": "/work/report.pdf",
		"warren-command": "make report", "warren-sha256": one.Object.SHA256,
	}
	for name, v := range want {
		if one.Object.Meta[name] != v {
			t.Errorf("the metadata %s is %q, want %q", name, one.Object.Meta[name], v)
		}
	}
	gens, err := vmtest.Stored[vm.Generation](p.site.Backend, "generations")
	i := slices.IndexFunc(gens, func(g vm.Generation) bool { return g.ID == one.Generation })
	if err != nil || i < 0 || len(gens[i].Published) != 1 || gens[i].Published[0].SHA256 != one.Object.SHA256 || gens[i].Published[0].Version != one.Object.Version {
		t.Errorf("the generations' records are %+v (%v), want the version with its digest in one", gens, err)
	}
	r := p.record(vm.OpPublish)
	if r.VM != two.VM || r.Subject != "/work/report.pdf" || r.Outcome != "ok" || r.Detail["to"] != "s3://reports/june.pdf" ||
		r.Detail["version"] != two.Object.Version || r.Detail["sha256"] != two.Object.SHA256 || r.Detail["generation"] != string(two.Generation) {
		t.Errorf("the audit record is %+v, want VM, path, generation, version and digest", r)
	}
}

func TestPublishTreeAndBack(t *testing.T) {
	p := newPlace(t)
	p.write("/work/site/index.html", "hello")
	p.write("/work/site/a/b/c.txt", strings.Repeat("c", 100_000))
	if err := p.Symlink(p.Context(), p.call(), "app", "", "../../../etc/shadow", "/work/site/a/out"); err != nil {
		t.Fatal(err)
	}
	out := p.published(vm.PublishRequest{Path: "site", Key: "2026/"})
	if out.Object.Key != "2026/site.tar.zst" || !out.Tree || out.Bytes != 100_005 || !slices.Equal(out.LeftOut, []vm.GuestPath{"/work/site/a/out"}) || out.Object.ContentType != "application/zstd" {
		t.Errorf("the publish of a directory answers %+v", out)
	}
	names := archived(t, p.bytes("2026/site.tar.zst", ""))
	want := []string{"site/", "site/a/", "site/a/b/", "site/a/b/c.txt", "site/index.html"}
	if !slices.Equal(names, want) {
		t.Errorf("the archive has %q, want %q", names, want)
	}
	back, err := p.fetch(vm.FetchRequest{ObjectRef: vm.ObjectRef{Key: "2026/site.tar.zst"}, Path: "again"})
	if err != nil {
		t.Fatalf("fetch of a tree: %v", err)
	}
	if back.Path != "/work/again" || !back.Tree || back.SHA256 != out.Object.SHA256 || back.Bytes != out.Bytes {
		t.Errorf("the fetch answers %+v, want the tree with the digest of the object", back)
	}
	for name, text := range map[string]string{"index.html": "hello", "a/b/c.txt": strings.Repeat("c", 100_000)} {
		if got, _ := p.read("/work/again/" + name); got != text {
			t.Errorf("%s comes back with %d bytes, want %d", name, len(got), len(text))
		}
	}
	_, err = p.fetch(vm.FetchRequest{ObjectRef: vm.ObjectRef{Key: "2026/site.tar.zst"}, Path: "again"})
	refused(t, "a tree onto an existing path", err, vm.Exists)
	if _, err = p.fetch(vm.FetchRequest{ObjectRef: vm.ObjectRef{Key: "2026/site.tar.zst"}, Path: "again", Replace: true}); err != nil {
		t.Errorf("a tree replaces a path: %v", err)
	}
}

func archived(t *testing.T, data []byte) (names []string) {
	t.Helper()
	d, err := zstd.NewReader(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	for in := tar.NewReader(d); ; {
		h, err := in.Next()
		if err == io.EOF {
			return names
		}
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, h.Name)
	}
}

func refused(t *testing.T, what string, err error, kind vm.Kind) {
	t.Helper()
	if vm.KindOf(err) != kind || vm.AsError(err).Hint == "" {
		t.Errorf("%s ends with %v (hint %q), want kind %s with a hint", what, err, vm.AsError(err).Hint, kind)
	}
}

func TestPublishRefuses(t *testing.T) {
	p := newPlace(t)
	p.write("/work/big", strings.Repeat("x", 1000))
	p.write("/work/keys/.env", "AWS_SECRET_ACCESS_KEY=wJalrXUtnFEMI7MDENGbPxRfiCYzzAbCdEfGhIjK\n")
	p.write("/work/keys/z", "plain")
	if err := p.Symlink(p.Context(), p.call(), "app", "", "/etc/shadow", "/work/link"); err != nil {
		t.Fatal(err)
	}
	for what, is := range map[string]struct {
		r    vm.PublishRequest
		kind vm.Kind
	}{
		"a path that is not there":    {vm.PublishRequest{Path: "/work/none", Key: "k"}, vm.NotFound},
		"a link":                      {vm.PublishRequest{Path: "/work/link", Key: "k"}, vm.Invalid},
		"the whole disk":              {vm.PublishRequest{Path: "/", Key: "k"}, vm.Invalid},
		"no path":                     {vm.PublishRequest{Key: "k"}, vm.Invalid},
		"a key with ..":               {vm.PublishRequest{Path: "/work/big", Key: "../k"}, vm.Invalid},
		"a bucket that is not there":  {vm.PublishRequest{Path: "/work/big", Bucket: "other", Key: "k"}, vm.NotFound},
		"a file with a secret":        {vm.PublishRequest{Path: "/work/keys/.env", Key: "k"}, vm.Denied},
		"a tree with a secret":        {vm.PublishRequest{Path: "/work/keys", Key: "k"}, vm.Denied},
		"a limit that is no limit":    {vm.PublishRequest{Path: "/work/big", Key: "k", MaxBytes: -1}, vm.Invalid},
		"a file above the limit":      {vm.PublishRequest{Path: "/work/big", Key: "k", MaxBytes: 999}, vm.Limit},
		"a generation that never was": {vm.PublishRequest{Path: "/work/big", Key: "k", Generation: "sl-0000000000000000"}, vm.NotFound},
	} {
		_, err := p.publish(is.r)
		refused(t, "a publish of "+what, err, is.kind)
	}
	if keys := p.keys(); len(keys) > 0 {
		t.Errorf("after refusals the bucket has %q, want nothing", keys)
	}
	for _, allow := range []vm.GuestPath{".env", "/work/keys/.env"} {
		p.published(vm.PublishRequest{Path: "/work/keys", Key: "k", AllowSecrets: []vm.GuestPath{allow}})
	}
	_, err := p.publish(vm.PublishRequest{Path: "/work/big", Key: "k", New: true})
	refused(t, "a publish of a new object over an old one", err, vm.Exists)
}

// disks is a reader of disks that sends what a test says.
type disks func(w io.Writer) error

func (d disks) Tar(_ context.Context, _ []string, _ []vm.GuestPath, _ reader.TarOptions, w io.Writer) error {
	return d(w)
}

// with publishes /work/tree with a reader of disks.
func (p *place) with(d disks, path vm.GuestPath) (vm.Published, error) {
	s := ship.New(ship.Config{Engine: p.Engine, Access: p.Access, Journal: p.Journal, Objects: p.objects, Reader: d, Log: slog.New(slog.DiscardHandler)})
	s.Open(p.Inside)
	return s.Publish(p.Context(), p.call(), "app", vm.PublishRequest{Path: path, Bucket: "reports", Key: "k"})
}

// entries is a tar of headers; files have as many bytes as they say.
func entries(list ...tar.Header) []byte {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, h := range list {
		if h.Typeflag == 0 {
			h.Typeflag = tar.TypeReg
		}
		if h.Format == 0 {
			h.Format = tar.FormatPAX
		}
		if err := w.WriteHeader(&h); err != nil {
			panic(err)
		}
		if h.Typeflag == tar.TypeReg {
			_, _ = w.Write(make([]byte, h.Size))
		}
	}
	_ = w.Close()
	return b.Bytes()
}

// A reader that a hostile disk has taken over puts nothing into an archive that an honest
// one would not.
func TestPublishOfAHostileReader(t *testing.T) {
	p := newPlace(t)
	dir := tar.Header{Name: "work/tree/", Typeflag: tar.TypeDir, Mode: 0o755}
	broken := vm.Errorf(vm.Corrupt, "disk", "it is damaged").WithHint("none")
	for what, d := range map[string]disks{
		"a name outside":              send(entries(dir, tar.Header{Name: "work/other"})),
		"a name with ..":              send(entries(dir, tar.Header{Name: "work/tree/../../etc/x"})),
		"a name twice":                send(entries(dir, tar.Header{Name: "work/tree/a"}, tar.Header{Name: "work/tree/a"})),
		"a file below a link":         send(entries(dir, tar.Header{Name: "work/tree/a", Typeflag: tar.TypeSymlink, Linkname: "/etc"}, tar.Header{Name: "work/tree/a/x"})),
		"a hard link to what is not":  send(entries(dir, tar.Header{Name: "work/tree/a", Typeflag: tar.TypeLink, Linkname: "work/tree/b"})),
		"a hard link outside":         send(entries(dir, tar.Header{Name: "work/tree/a", Typeflag: tar.TypeLink, Linkname: "etc/shadow"})),
		"an unknown type":             send(entries(dir, tar.Header{Name: "work/tree/a", Typeflag: 'Z'})),
		"nothing":                     send(nil),
		"half a header":               send(entries(dir)[:100]),
		"half a file":                 send(entries(dir, tar.Header{Name: "work/tree/a", Size: 5000})[:3000]),
		"an error after a whole tree": func(w io.Writer) error { _ = send(entries(dir, tar.Header{Name: "work/tree/a"}))(w); return broken },
	} {
		out, err := p.with(d, "/work/tree")
		if vm.KindOf(err) != vm.Corrupt {
			t.Errorf("%s from the reader ends with %v, want kind %s", what, err, vm.Corrupt)
		}
		if out.Object.Version != "" || len(p.keys()) > 0 {
			t.Fatalf("%s from the reader leaves %v", what, p.keys())
		}
	}
	for what, d := range map[string]disks{
		"two files for one": send(entries(tar.Header{Name: "work/file", Size: 100_000}, tar.Header{Name: "work/file2"})),
		"half of a file":    send(entries(tar.Header{Name: "work/file", Size: 3 << 20})[:2<<20]),
		"an error after a file": func(w io.Writer) error {
			_ = send(entries(tar.Header{Name: "work/file", Size: 3 << 20}))(w)
			return broken
		},
	} {
		if _, err := p.with(d, "/work/file"); vm.KindOf(err) != vm.Corrupt {
			t.Errorf("%s from the reader ends with %v, want kind %s", what, err, vm.Corrupt)
		}
		if len(p.keys()) > 0 {
			t.Fatalf("%s from the reader leaves %v", what, p.keys())
		}
	}
}

func send(data []byte) disks {
	return func(w io.Writer) error {
		_, err := w.Write(data)
		return err
	}
}

// Odd but honest files of a disk are in the archive as they are; devices and pipes are not.
func TestPublishOddTree(t *testing.T) {
	p := newPlace(t)
	odd := "work/tree/\xff\nnew \x1b[31mline"
	out, err := p.with(send(entries(
		tar.Header{Name: "work/tree/", Typeflag: tar.TypeDir, Mode: 0o755},
		tar.Header{Name: "work/tree/dev", Typeflag: tar.TypeBlock, Devmajor: 8},
		tar.Header{Name: "work/tree/pipe", Typeflag: tar.TypeFifo},
		tar.Header{Name: "work/tree/suid", Mode: 0o4755, Size: 10},
		tar.Header{Name: odd, Size: 3},
		tar.Header{Name: "work/tree/same", Typeflag: tar.TypeLink, Linkname: odd},
	)), "/work/tree")
	if err != nil {
		t.Fatal(err)
	}
	if out.LeftOutCount != 2 || len(out.LeftOut) != 2 || out.LeftOut[0] != "/work/tree/dev" || out.Files != 4 {
		t.Errorf("the publish leaves out %v and has %d files, want the device and the pipe left out", out.LeftOut, out.Files)
	}
	want := []string{"tree/", "tree/suid", strings.TrimPrefix(odd, "work/"), "tree/same"}
	if names := archived(t, p.bytes("k", "")); !slices.Equal(names, want) {
		t.Errorf("the archive has %q, want %q", names, want)
	}
}
