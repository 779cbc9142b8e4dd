// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package ship_test

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/warren-vm/warren/internal/asks"
	"github.com/warren-vm/warren/internal/engine"
	"github.com/warren-vm/warren/internal/objects"
	"github.com/warren-vm/warren/vm"
)

func ref(key string) vm.ObjectRef { return vm.ObjectRef{Key: key} }

func yes() *bool { b := true; return &b }

func TestFetchFile(t *testing.T) {
	p := newPlace(t)
	old := p.put("data/in.csv", []byte("old"))
	now := p.put("data/in.csv", []byte(strings.Repeat("row\n", 50_000)))
	out, err := p.fetch(vm.FetchRequest{ObjectRef: ref("data/in.csv"), Path: "/work/"})
	if err != nil || out.Path != "/work/in.csv" || out.SHA256 != now.SHA256 || out.Tree {
		t.Fatalf("a fetch into a directory answers %+v, %v", out, err)
	}
	if got, _ := p.read("/work/in.csv"); got != strings.Repeat("row\n", 50_000) {
		t.Errorf("the file has %d bytes, want those of the object", len(got))
	}
	r := p.record(vm.OpObjectFetch)
	if r.Subject != "/work/in.csv" || r.Outcome != "ok" || r.Detail["from"] != "s3://reports/data/in.csv@"+now.Version || r.Detail["sha256"] != now.SHA256 {
		t.Errorf("the audit record is %+v, want path, version and digest", r)
	}
	older := ref("data/in.csv")
	older.Version = old.Version
	if _, err := p.fetch(vm.FetchRequest{ObjectRef: older, Path: "new/dir/old.csv"}); err != nil {
		t.Fatal(err)
	}
	if got, _ := p.read("/work/new/dir/old.csv"); got != "old" {
		t.Errorf("the older version comes as %q", got)
	}
	_, err = p.fetch(vm.FetchRequest{ObjectRef: ref("data/in.csv"), Path: "/work/x", MaxBytes: 1000})
	refused(t, "a fetch above its limit", err, vm.Limit)
	_, err = p.fetch(vm.FetchRequest{ObjectRef: ref("none"), Path: "/work/x"})
	refused(t, "a fetch of no object", err, vm.NotFound)
	p.write("/work/report", "made here")
	p.published(vm.PublishRequest{Path: "report", Key: "report"})
	if _, err := p.fetch(vm.FetchRequest{ObjectRef: ref("report"), Path: "copy"}); err != nil {
		t.Fatal(err)
	}
	if st, err := p.Stat(t.Context(), p.call(), "app", "", "/work/copy"); err != nil || st.Mode&0o777 != 0o755 {
		t.Errorf("a published program comes back with mode %o (%v), want 755", st.Mode, err)
	}
}

// A file whose bytes have changed under the server does not reach a VM.
func TestFetchOfDamagedBytes(t *testing.T) {
	p := newPlace(t)
	p.put("big", bytes.Repeat([]byte("abcdefgh"), 100_000))
	damaged := 0
	err := filepath.WalkDir(p.site.Dir.Objects(), func(name string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		if st, err := d.Info(); err != nil || st.Size() != 800_000 {
			return err
		}
		damaged++
		f, err := os.OpenFile(name, os.O_WRONLY, 0)
		if err != nil {
			return err
		}
		defer f.Close()
		_, err = f.WriteAt([]byte("X"), 400_000)
		return err
	})
	if err != nil || damaged != 1 {
		t.Fatalf("%d files were damaged (%v), want the object's", damaged, err)
	}
	_, err = p.fetch(vm.FetchRequest{ObjectRef: ref("big"), Path: "/work/big"})
	refused(t, "a fetch of damaged bytes", err, vm.Corrupt)
	if _, there := p.read("/work/big"); there {
		t.Error("a fetch of damaged bytes leaves a file")
	}
}

func compressed(t *testing.T, data []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	w, err := zstd.NewWriter(&b)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write(data); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// pipes is an archive that has few bytes and many entries, each of which is left out.
func pipes(t *testing.T, n int) []byte {
	t.Helper()
	var b bytes.Buffer
	c, err := zstd.NewWriter(&b)
	if err != nil {
		t.Fatal(err)
	}
	w := tar.NewWriter(c)
	for i := range n {
		if err := w.WriteHeader(&tar.Header{Name: strconv.Itoa(i), Typeflag: tar.TypeFifo}); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(w.Close(), c.Close()); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// TestFetchOfHostileArchives: an archive that an uploader made is refused as a whole, and
// leaves nothing in the VM.
func TestFetchOfHostileArchives(t *testing.T) {
	p := newPlace(t)
	many := func(n int) (list []tar.Header) {
		for i := range n {
			list = append(list, tar.Header{Name: strings.Repeat("d/", i) + "d/", Typeflag: tar.TypeDir, Mode: 0o755})
		}
		return list
	}
	whole := entries(tar.Header{Name: "a", Size: 100_000})
	for what, is := range map[string]struct {
		data []byte
		kind vm.Kind
	}{
		"a name with ..":            {entries(tar.Header{Name: "a/../../x"}), vm.Invalid},
		"an absolute name":          {entries(tar.Header{Name: "/etc/passwd"}), vm.Invalid},
		"a name twice":              {entries(tar.Header{Name: "a"}, tar.Header{Name: "a"}), vm.Invalid},
		"a file below a link":       {entries(tar.Header{Name: "a", Typeflag: tar.TypeSymlink, Linkname: "/etc"}, tar.Header{Name: "a/passwd"}), vm.Invalid},
		"a hard link outside":       {entries(tar.Header{Name: "a", Typeflag: tar.TypeLink, Linkname: "../../etc/shadow"}), vm.Invalid},
		"a hard link to a link":     {entries(tar.Header{Name: "a", Typeflag: tar.TypeSymlink, Linkname: "/etc/shadow"}, tar.Header{Name: "b", Typeflag: tar.TypeLink, Linkname: "a"}), vm.Invalid},
		"a name that is too long":   {entries(tar.Header{Name: strings.Repeat("n", 5000)}), vm.Invalid},
		"many directories deep":     {entries(many(300)...), vm.Invalid},
		"an unknown type":           {entries(tar.Header{Name: "a", Typeflag: 'Z'}), vm.Invalid},
		"more than the limit":       {compressed(t, entries(tar.Header{Name: "a", Size: 20 << 20})), vm.Limit},
		"pipes without end":         {pipes(t, 300_001), vm.Invalid},
		"no archive":                {[]byte(strings.Repeat("text ", 1000)), vm.Invalid},
		"half an archive":           {whole[:50_000], vm.Invalid},
		"half a compressed archive": {compressed(t, whole)[:60], vm.Invalid},
		"nothing":                   {nil, vm.Corrupt},
	} {
		p.put("bad", is.data)
		_, err := p.fetch(vm.FetchRequest{ObjectRef: ref("bad"), Path: "/work/bad", Unpack: yes(), MaxBytes: 10 << 20})
		if vm.KindOf(err) != is.kind {
			t.Errorf("%s ends with %v, want kind %s", what, err, is.kind)
		}
		if _, err := p.Stat(t.Context(), p.call(), "app", "", "/work/bad"); vm.KindOf(err) != vm.NotFound {
			t.Errorf("%s leaves a path in the VM (%v)", what, err)
		}
	}
	p.put("good", entries(tar.Header{Name: "./", Typeflag: tar.TypeDir}, tar.Header{Name: "deep/er/file", Size: 4}, tar.Header{Name: "pipe", Typeflag: tar.TypeFifo}, tar.Header{Name: "l", Typeflag: tar.TypeSymlink, Linkname: "deep"}))
	out, err := p.fetch(vm.FetchRequest{ObjectRef: ref("good"), Path: "/work/good", Unpack: yes()})
	if err != nil || out.LeftOutCount != 1 || out.Files != 5 {
		t.Fatalf("an ordinary archive answers %+v, %v; want five entries, and the pipe left out", out, err)
	}
	if got, _ := p.read("/work/good/deep/er/file"); got != "\x00\x00\x00\x00" {
		t.Errorf("a file of an archive comes as %q", got)
	}
}

// strict is a scanner that reads everything and refuses what is called bad.
type strict struct{}

func (strict) Quick(context.Context, objects.ScanInput) (objects.Verdict, error) {
	return objects.Verdict{State: vm.Unscanned}, nil
}

func (strict) Whole(_ context.Context, in objects.ScanInput, _ io.ReaderAt) (objects.Verdict, error) {
	if in.Key == "bad" {
		return objects.Verdict{State: vm.Refused, Reason: "it is bad"}, nil
	}
	return objects.Verdict{State: vm.Clean}, nil
}

// TestScannedOnly: an object that a scan refuses does not reach a VM, and a publish of one
// says that nobody can read it. Others are scanned when the publish answers.
func TestScannedOnly(t *testing.T) {
	p := newPlaceWith(t, strict{})
	p.write("/work/file", "x")
	out := p.published(vm.PublishRequest{Path: "file", Key: "good"})
	if out.Object.Scan != vm.Clean {
		t.Errorf("a published version is %s, want it scanned", out.Object.Scan)
	}
	_, err := p.publish(vm.PublishRequest{Path: "file", Key: "bad"})
	refused(t, "a publish of what a scan refuses", err, vm.Denied)
	if r := p.record(vm.OpPublish); r.Outcome == "ok" || r.Detail["version"] == "" {
		t.Errorf("its audit record is %+v, want a failure with the version that is held", r)
	}
	_, err = p.fetch(vm.FetchRequest{ObjectRef: ref("bad"), Path: "/work/bad"})
	refused(t, "a fetch of what a scan has refused", err, vm.Denied)
	if _, there := p.read("/work/bad"); there {
		t.Error("an object that a scan has refused is in the VM")
	}
}

// TestShipRights: an identity publishes and fetches only with a permission for root and a
// grant for the key.
func TestShipRights(t *testing.T) {
	p := newPlace(t)
	p.write("/work/file", "x")
	p.put("in", []byte("y"))
	i, err := p.CreateIdentity(t.Context(), p.call(), "ci")
	if err != nil {
		t.Fatal(err)
	}
	c := vm.Call{Actor: vm.Actor{Account: p.c.Actor.Account, Identity: i.ID}}
	try := func() (publish, fetch error) {
		one, other := c, c
		_, publish = p.Ship.Publish(t.Context(), &one, "app", vm.PublishRequest{Path: "/work/file", Bucket: "reports", Key: "out/k"})
		_, fetch = p.Ship.Fetch(t.Context(), &other, "app", vm.FetchRequest{ObjectRef: vm.ObjectRef{Bucket: "reports", Key: "in"}, Path: "/work/in"})
		return publish, fetch
	}
	refusedBoth := func(what string) {
		t.Helper()
		if a, b := try(); a == nil || b == nil {
			t.Errorf("with %s publish ends with %v and fetch with %v, want both refused", what, a, b)
		}
	}
	refusedBoth("nothing")
	if _, err := p.GrantVM(t.Context(), p.call(), string(i.ID), "app", []string{"user"}); err != nil {
		t.Fatal(err)
	}
	for _, g := range []vm.ObjectGrant{{Identity: i.ID, Prefix: "in", Access: vm.ObjectRead}, {Identity: i.ID, Prefix: "out/", Access: vm.ObjectWrite}} {
		if _, err := p.objects.Grant(t.Context(), p.call(), "reports", g); err != nil {
			t.Fatal(err)
		}
	}
	refusedBoth("grants and a permission for another Linux user")
	if err := p.RevokeVM(t.Context(), p.call(), string(i.ID), "app"); err != nil {
		t.Fatal(err)
	}
	if _, err := p.GrantVM(t.Context(), p.call(), string(i.ID), "app", nil); err != nil {
		t.Fatal(err)
	}
	if a, b := try(); a != nil || b != nil {
		t.Errorf("with grants and a permission for root publish ends with %v and fetch with %v", a, b)
	}
	if err := p.objects.Revoke(t.Context(), p.call(), "reports", vm.ObjectGrant{Identity: i.ID, Prefix: "out/"}); err != nil {
		t.Fatal(err)
	}
	if a, b := try(); vm.KindOf(a) != vm.Denied || b != nil {
		t.Errorf("without the grant to write publish ends with %v and fetch with %v, want only publish refused", a, b)
	}
}

// Publish and fetch wait for approval where the identity's permission says so.
func TestShipAsks(t *testing.T) {
	p := newPlace(t)
	p.write("/work/file", "x")
	p.put("in", []byte("y"))
	i, err := p.CreateIdentity(t.Context(), p.call(), "ci")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.GrantVM(t.Context(), p.call(), "ci", "app", nil, vm.AskPublish, vm.AskEdit); err != nil {
		t.Fatal(err)
	}
	if _, err := p.objects.Grant(t.Context(), p.call(), "reports", vm.ObjectGrant{Identity: i.ID, Access: vm.ObjectWrite}); err != nil {
		t.Fatal(err)
	}
	c := vm.Call{Actor: vm.Actor{Account: p.c.Actor.Account, Identity: i.ID}}
	for what, f := range map[string]func(vm.Call) error{
		"publish /work/file to reports/out/k": func(c vm.Call) error {
			_, err := p.Ship.Publish(t.Context(), &c, "app", vm.PublishRequest{Path: "/work/file", Bucket: "reports", Key: "out/k"})
			return err
		},
		"to /work/in": func(c vm.Call) error {
			_, err := p.Ship.Fetch(t.Context(), &c, "app", vm.FetchRequest{ObjectRef: vm.ObjectRef{Bucket: "reports", Key: "in"}, Path: "/work/in"})
			return err
		},
	} {
		ask, got, err := p.DenyNext(t.Context(), p.call(), func() error { return f(c) })
		if err != nil || vm.AsError(got).Code != "ASK_DENIED" || !strings.Contains(ask.What, what) {
			t.Errorf("%s asks for %q and ends with %v (%v), want it denied", what, ask.What, got, err)
		}
	}
}

// What is published is the state that the ask names, whatever is written while it waits. An
// identity publishes no state of another VM through one of which its rights are wider.
func TestPublishAsksForState(t *testing.T) {
	p := newPlace(t)
	p.write("/work/file", "asked")
	i, err := p.CreateIdentity(t.Context(), p.call(), "ci")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.GrantVM(t.Context(), p.call(), "ci", "app", nil, vm.AskPublish); err != nil {
		t.Fatal(err)
	}
	if _, err := p.objects.Grant(t.Context(), p.call(), "reports", vm.ObjectGrant{Identity: i.ID, Access: vm.ObjectWrite}); err != nil {
		t.Fatal(err)
	}
	publish := func(ref string, r vm.PublishRequest) (vm.Published, error) {
		r.Path, r.Bucket, r.Key = "/work/file", "reports", "k"
		return p.Ship.Publish(t.Context(), &vm.Call{Actor: vm.Actor{Account: p.c.Actor.Account, Identity: i.ID}}, ref, r)
	}
	type result struct {
		out vm.Published
		err error
	}
	done := make(chan result, 1)
	go func() { out, err := publish("app", vm.PublishRequest{}); done <- result{out, err} }()
	var ask vm.Ask
	for end := time.Now().Add(20 * time.Second); ask.ID == ""; time.Sleep(time.Millisecond) {
		list, err := p.Asks.List(t.Context(), p.call(), asks.Filter{State: vm.AskPending})
		if err != nil || time.Now().After(end) {
			t.Fatalf("no publish waits for an approval (%v)", err)
		}
		if len(list) > 0 {
			ask = list[0]
		}
	}
	p.write("/work/file", "later")
	if _, err := p.Asks.Approve(t.Context(), p.call(), ask.ID, 0, ""); err != nil {
		t.Fatal(err)
	}
	got := <-done
	sum := sha256.Sum256([]byte("asked"))
	if got.err != nil || got.out.Object.SHA256 != hex.EncodeToString(sum[:]) {
		t.Errorf("the publish has the digest %s (%v), want that of the file when it was asked for", got.out.Object.SHA256, got.err)
	}
	if state := ask.Details["state"]; state == "" || state != string(got.out.Generation) {
		t.Errorf("the ask names the state %q, and the publish was of %q", state, got.out.Generation)
	}
	if _, err := p.Create(t.Context(), p.call(), engine.CreateRequest{Name: "wide"}); err != nil {
		t.Fatal(err)
	}
	if _, err := p.GrantVM(t.Context(), p.call(), "ci", "wide", nil); err != nil {
		t.Fatal(err)
	}
	_, err = publish("wide", vm.PublishRequest{Generation: got.out.Generation})
	refused(t, "a publish of another VM's state through a VM that does not ask", err, vm.Denied)
}
