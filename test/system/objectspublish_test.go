// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

//go:build system

package system

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/klauspost/compress/zstd"

	"github.com/warren-vm/warren/vm"
)

// withS3 is a server with VMs, and an access key of the admin's account.
func withS3(t *testing.T, args ...string) *s3Host {
	t.Helper()
	h := newHost(t, args...)
	s := &s3Host{host: h, url: "http://" + h.gates[slices.Index(h.gates, "--s3")+1]}
	s.access, s.secret = s.s3Key()
	return s
}

// object reads an object as an S3 client does.
func (h *s3Host) object(bucket, key, version string) ([]byte, *s3.GetObjectOutput) {
	h.t.Helper()
	in := &s3.GetObjectInput{Bucket: &bucket, Key: &key}
	if version != "" {
		in.VersionId = &version
	}
	out := call(h.t, "get s3://"+bucket+"/"+key, h.aws(h.access, h.secret).GetObject, in)
	return read(h.t, out.Body), out
}

// keys lists a bucket as an S3 client does.
func (h *s3Host) keys(bucket string) (keys []string) {
	h.t.Helper()
	list := call(h.t, "list "+bucket, h.aws(h.access, h.secret).ListObjectsV2, &s3.ListObjectsV2Input{Bucket: &bucket})
	for _, o := range list.Contents {
		keys = append(keys, *o.Key)
	}
	return keys
}

// file writes a file of this computer and returns its path.
func (h *s3Host) file(name string, data []byte) string {
	h.t.Helper()
	path := filepath.Join(h.t.TempDir(), name)
	if err := os.WriteFile(path, data, 0o600); err != nil {
		h.t.Fatal(err)
	}
	return path
}

// decoded is the JSON of an answer.
func decoded[T any](t testing.TB, text string) (v T) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatalf("the answer is no JSON of its kind: %v:\n%s", err, text)
	}
	return v
}

// untarred reads a tar.zst.
func untarred(t testing.TB, data []byte) map[string]*tar.Header {
	t.Helper()
	d, err := zstd.NewReader(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	out := map[string]*tar.Header{}
	for in := tar.NewReader(d); ; {
		h, err := in.Next()
		if errors.Is(err, io.EOF) {
			return out
		}
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(in)
		if err != nil {
			t.Fatal(err)
		}
		h.Uname = string(text) // no name of a user is in these archives
		out[h.Name] = h
	}
}

// TestObjectsPublish: PDFs, images, videos, archives and directories that a VM made are
// objects with the exact bytes; what was published once never changes; and a VM from a
// snapshot with what was published from it is the earlier state again, within seconds.
//
// 001-19, 001-20, 001-47
func TestObjectsPublish(t *testing.T) {
	h := withS3(t)
	h.ok("bucket", "create", "made")
	h.ok("up", "--name", "box")
	heads := map[string]string{
		"report.pdf": "%PDF-1.7\n", "chart.png": "\x89PNG\r\n\x1a\n", "talk.mp4": "\x00\x00\x00\x18ftypmp42", "photo.jpg": "\xff\xd8\xff\xe0",
	}
	kinds := map[string]string{"report.pdf": "application/pdf", "chart.png": "image/png", "talk.mp4": "video/mp4", "photo.jpg": "image/jpeg"}
	for name, head := range heads {
		body := append([]byte(head), random(t, 300_000)...)
		h.ok("cp", h.file(name, body), "box:/root/"+name)
		h.ok("publish", "box:/root/"+name, "s3://made/")
		got, about := h.object("made", name, "")
		if !bytes.Equal(got, body) || aws.ToString(about.ContentType) != kinds[name] {
			t.Errorf("%s has %d bytes of type %s, want the VM's %d of type %s", name, len(got), aws.ToString(about.ContentType), len(body), kinds[name])
		}
	}
	h.sh("box", "mkdir -p /srv/site/css && echo '<h1>hi</h1>' >/srv/site/index.html && head -c 200000 /dev/urandom >/srv/site/css/x && tar -C /srv -czf /root/site.tar.gz site && sync")
	h.ok("publish", "box:/root/site.tar.gz", "s3://made/")
	if got, _ := h.object("made", "site.tar.gz", ""); shaOf(got) != h.sh("box", "sha256sum </root/site.tar.gz | cut -c-64") {
		t.Error("the archive that the VM made has other bytes as an object")
	}

	first := decoded[vm.Published](t, h.ok("publish", "box:/srv/site", "s3://made/site.tar.zst", "--json", "--note", "first"))
	before, _ := h.object("made", "site.tar.zst", "")
	h.ok("snapshot", "create", "box", "--name", "baseline")
	h.sh("box", "rm -rf /srv/site/css; echo changed >/srv/site/index.html; sync")
	second := decoded[vm.Published](t, h.ok("publish", "box:/srv/site", "s3://made/site.tar.zst", "--json"))
	if first.Object.Version == second.Object.Version || first.Generation == second.Generation {
		t.Errorf("two publishes are versions %s and %s of states %s and %s, want two", first.Object.Version, second.Object.Version, first.Generation, second.Generation)
	}
	if got, _ := h.object("made", "site.tar.zst", first.Object.Version); !bytes.Equal(got, before) {
		t.Error("the first version has other bytes after the second publish")
	}
	h.ok("rm", "box")
	began := time.Now()
	h.ok("up", "baseline", "--name", "again")
	h.ok("fetch", "s3://made/site.tar.zst@"+first.Object.Version, "again:/srv/site", "--replace")
	took := time.Since(began)
	if got := h.sh("again", "cat /srv/site/index.html; test -s /srv/site/css/x && ls /root/report.pdf"); got != "<h1>hi</h1>\n/root/report.pdf" {
		t.Errorf("snapshot and artifact bring back %q, want the first state of both", got)
	}
	if took > 30*time.Second {
		t.Errorf("the baseline took %v, want seconds", took)
	}
}

// TestObjectsHostileTree: a tree with hostile names, links, devices and sparse files is
// published, and comes back; hostile archives and full quotas leave nothing.
func TestObjectsHostileTree(t *testing.T) {
	h := withS3(t)
	h.ok("bucket", "create", "made")
	h.ok("up", "--name", "box")
	h.sh("box", `mkdir -p /w/t/deep/er && cd /w/t && printf a >"$(printf 'new\nline')" && printf b >"$(printf 'raw\377byte')" && printf c >./-rf && printf d >'$(reboot)'
		ln -s /etc/shadow absolute && ln -s ../../../etc/shadow leaves && ln -s deep inside && ln ./-rf hard
		mknod disk b 8 0 && mkfifo pipe && truncate -s 40M deep/sparse && printf end >>deep/sparse
		printf e >suid && chmod 4755 suid && chown 1234:5678 deep/er && sync`)
	out := decoded[vm.Published](t, h.ok("publish", "box:/w/t", "s3://made/t.tar.zst", "--json"))
	want := []vm.GuestPath{"/w/t/absolute", "/w/t/disk", "/w/t/leaves", "/w/t/pipe"}
	slices.Sort(out.LeftOut)
	if !slices.Equal(out.LeftOut, want) {
		t.Errorf("the publish leaves out %q, want %q", out.LeftOut, want)
	}
	data, _ := h.object("made", "t.tar.zst", "")
	in := untarred(t, data)
	for _, name := range []string{"t/new\nline", "t/raw\xffbyte", "t/-rf", "t/$(reboot)", "t/inside", "t/hard", "t/deep/sparse", "t/deep/er/", "t/suid"} {
		if in[name] == nil {
			t.Errorf("the archive lacks %q", name)
		}
	}
	h.ok("fetch", "s3://made/t.tar.zst", "box:/w/back")
	if got := h.sh("box", `cd /w/back && cat "$(printf 'new\nline')" "$(printf 'raw\377byte')" ./-rf '$(reboot)' suid && readlink inside && stat -c '%a %u:%g' suid deep/er && tail -c 3 deep/sparse && ls -A | wc -l`); got !=
		"abcdedeep\n755 0:0\n755 1234:5678\nend9" {
		t.Errorf("the tree comes back as %q", got)
	}
	if got := h.sh("box", "du -m /w/back/deep/sparse | cut -f1"); got != "0" && got != "1" {
		t.Errorf("the sparse file takes %s MiB, want its holes back", got)
	}
	h.run("publish", "box:/w/t", "s3://made/t.tar.zst", "--max-bytes", "10M").wants(t, 8, "more than the limit of 10 MiB")

	var bad bytes.Buffer
	w := tar.NewWriter(&bad)
	for _, e := range []tar.Header{{Name: "etc", Typeflag: tar.TypeSymlink, Linkname: "deep"}, {Name: "etc/passwd", Typeflag: tar.TypeReg, Size: 4}} {
		if err := w.WriteHeader(&e); err != nil {
			t.Fatal(err)
		}
		if e.Size > 0 {
			_, _ = io.WriteString(w, "root")
		}
	}
	_ = w.Close()
	h.ok("artifact", "put", h.file("bad.tar", bad.Bytes()), "s3://made/bad.tar")
	r := h.run("fetch", "s3://made/bad.tar", "box:/w/bad", "--unpack")
	if r.code == 0 || !strings.Contains(r.stderr, "is a file or a link") {
		t.Errorf("a file below a link: %v", r)
	}
	h.ok("artifact", "put", h.file("out.tar", bytes.ReplaceAll(bad.Bytes(), []byte("etc/passwd"), []byte("../passwd\x00"))), "s3://made/out.tar")
	if r := h.run("fetch", "s3://made/out.tar", "box:/w/bad", "--unpack"); r.code == 0 || !strings.Contains(r.stderr, "hint") {
		t.Errorf("an archive that leads outside: %v", r)
	}
	if got := h.sh("box", "ls -A /w; cat /etc/passwd | head -c 4"); got != "back\nt\nroot" {
		t.Errorf("after hostile archives the VM has %q, want nothing of them", got)
	}

	h.sh("box", "mkdir /w/big && head -c 300000000 /dev/urandom >/w/big/a && sync")
	used := decoded[vm.QuotaState](t, h.ok("account", "quota", "--json"))
	before := h.keys("made")
	h.ok("account", "quota", "admin", "--disk", fmt.Sprint(used.Use.Disk>>20+150)+"M")
	if r := h.run("publish", "box:/w/big", "s3://made/big.tar.zst"); r.code == 0 || !strings.Contains(r.stderr, "may store") {
		t.Errorf("a publish into a full quota: %v; the use was %+v and is %s", r, used.Use, h.ok("account", "quota", "--json"))
	}
	if got := h.keys("made"); !slices.Equal(got, before) {
		t.Errorf("after a publish into a full quota the bucket has %q, want %q", got, before)
	}
	if left, err := os.ReadDir(filepath.Join(h.data, "objects", ".incoming")); err != nil || len(left) > 0 {
		t.Errorf("a publish into a full quota leaves %v, %v", left, err)
	}
}
