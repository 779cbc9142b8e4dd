// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

//go:build system

package system

import (
	"archive/zip"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"image"
	"image/png"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"github.com/aws/smithy-go"

	"github.com/warren-vm/warren/internal/vmtest"
)

// s3Host is a server without VMs, with an access key of the admin's account.
type s3Host struct {
	*host
	url    string
	access string
	secret string
}

// newS3Host starts a server with its defaults on free addresses. It needs no image.
func newS3Host(t *testing.T, args ...string) *s3Host {
	t.Helper()
	binary, err := filepath.Abs(env("WARREN_TEST_BINARY", "../../bin/warren"))
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.MkdirTemp("", "warren-objects-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(data) })
	address := vmtest.FreePort(t)
	h := &s3Host{url: "http://" + address, host: &host{
		t: t, binary: binary, data: data, listen: vmtest.FreePort(t), gates: []string{"--ssh", vmtest.FreePort(t), "--preview", vmtest.FreePort(t), "--s3", address},
	}}
	h.serve(args...)
	t.Cleanup(h.close)
	h.access, h.secret = h.s3Key()
	return h
}

// s3Key makes an access key.
func (h *s3Host) s3Key(args ...string) (id, secret string) {
	h.t.Helper()
	var made struct {
		AccessKeyID     string `json:"accessKeyId"`
		SecretAccessKey string `json:"secretAccessKey"`
		Endpoint        string `json:"endpoint"`
	}
	out := h.ok(append([]string{"key", "create", "--s3", "--json"}, args...)...)
	if err := json.Unmarshal([]byte(out), &made); err != nil {
		h.t.Fatalf("key create --s3: %v\n%s", err, out)
	}
	if made.Endpoint != h.url {
		h.t.Errorf("the key names the endpoint %q, want %q", made.Endpoint, h.url)
	}
	return made.AccessKeyID, made.SecretAccessKey
}

// aws is a client of AWS's SDK for Go.
func (h *s3Host) aws(id, secret string) *s3.Client {
	return s3.New(s3.Options{
		BaseEndpoint: aws.String(h.url), Region: "us-east-1", UsePathStyle: true, Credentials: credentials.NewStaticCredentialsProvider(id, secret, ""),
	})
}

// must ends the test with an error.
func must[T any](t testing.TB, what string, v T, err error) T {
	t.Helper()
	if err != nil {
		t.Fatalf("%s failed: %v", what, err)
	}
	return v
}

// refused wants an error of S3 with one of the codes.
func refused(t testing.TB, what string, err error, codes ...string) {
	t.Helper()
	var e smithy.APIError
	if !errors.As(err, &e) || !slices.Contains(codes, e.ErrorCode()) {
		t.Errorf("%s: %v, want one of %v", what, err, codes)
	}
}

func random(t testing.TB, n int) []byte {
	t.Helper()
	b := make([]byte, n)
	_, _ = rand.Read(b)
	return b
}

func read(t testing.TB, r io.ReadCloser) []byte {
	t.Helper()
	defer r.Close()
	b, err := io.ReadAll(r)
	return must(t, "read", b, err)
}

// TestObjectsGo: AWS's SDK for Go makes a bucket, and puts, reads, lists and removes
// objects with their exact bytes, metadata and versions.
//
// 001-11, 001-12, 001-13, 001-14, 001-15
func TestObjectsGo(t *testing.T) {
	h := newS3Host(t)
	c, ctx := h.aws(h.access, h.secret), t.Context()
	bucket := aws.String("reports")
	call(t, "create bucket", c.CreateBucket, &s3.CreateBucketInput{Bucket: bucket})
	buckets := call(t, "list buckets", c.ListBuckets, &s3.ListBucketsInput{})
	if len(buckets.Buckets) != 1 || *buckets.Buckets[0].Name != "reports" {
		t.Errorf("the list of buckets is %v, want reports", buckets.Buckets)
	}
	key := aws.String("2026/june report.bin")
	var versions []string
	var bodies [][]byte
	for _, size := range []int{0, 1, 4096, 16 << 10, 16<<10 + 1, 3 << 20} {
		body := random(t, size)
		out := call(t, "put", c.PutObject, &s3.PutObjectInput{Bucket: bucket, Key: key, Body: bytes.NewReader(body), Metadata: map[string]string{"made-by": "nightly"}, ContentType: aws.String("application/x-report")})
		versions, bodies = append(versions, *out.VersionId), append(bodies, body)
		got := call(t, "get", c.GetObject, &s3.GetObjectInput{Bucket: bucket, Key: key})
		if !bytes.Equal(read(t, got.Body), body) {
			t.Errorf("%d bytes come back as others", size)
		}
		if got.Metadata["made-by"] != "nightly" || aws.ToString(got.ContentType) != "application/x-report" {
			t.Errorf("metadata is %v, type %v", got.Metadata, aws.ToString(got.ContentType))
		}
	}
	for i, v := range versions {
		got := call(t, "get an old version", c.GetObject, &s3.GetObjectInput{Bucket: bucket, Key: key, VersionId: &v})
		if !bytes.Equal(read(t, got.Body), bodies[i]) {
			t.Errorf("version %d has changed", i)
		}
	}
	part := call(t, "get a range", c.GetObject, &s3.GetObjectInput{Bucket: bucket, Key: key, Range: aws.String("bytes=100-199")})
	if !bytes.Equal(read(t, part.Body), bodies[5][100:200]) {
		t.Error("the range has other bytes")
	}
	call(t, "delete", c.DeleteObject, &s3.DeleteObjectInput{Bucket: bucket, Key: key})
	_, err := c.GetObject(ctx, &s3.GetObjectInput{Bucket: bucket, Key: key})
	refused(t, "get after delete", err, "NoSuchKey")
	_, err = c.DeleteBucket(ctx, &s3.DeleteBucketInput{Bucket: bucket})
	refused(t, "delete of a bucket with versions", err, "BucketNotEmpty")
	all := call(t, "list versions", c.ListObjectVersions, &s3.ListObjectVersionsInput{Bucket: bucket})
	if len(all.Versions) != 6 || len(all.DeleteMarkers) != 1 {
		t.Errorf("there are %d versions and %d markers, want 6 and 1", len(all.Versions), len(all.DeleteMarkers))
	}
	var gone []types.ObjectIdentifier
	for _, v := range all.Versions {
		gone = append(gone, types.ObjectIdentifier{Key: v.Key, VersionId: v.VersionId})
	}
	for _, m := range all.DeleteMarkers {
		gone = append(gone, types.ObjectIdentifier{Key: m.Key, VersionId: m.VersionId})
	}
	out := call(t, "delete versions", c.DeleteObjects, &s3.DeleteObjectsInput{Bucket: bucket, Delete: &types.Delete{Objects: gone}})
	if len(out.Errors) > 0 {
		t.Errorf("delete of versions: %v", out.Errors)
	}
	call(t, "delete the empty bucket", c.DeleteBucket, &s3.DeleteBucketInput{Bucket: bucket})
}

// call makes a call of the SDK that must succeed.
func call[In, Out any](t testing.TB, what string, f func(context.Context, In, ...func(*s3.Options)) (Out, error), in In) Out {
	t.Helper()
	out, err := f(t.Context(), in)
	return must(t, what, out, err)
}

// TestObjectsScan: an upload that a scan refuses is read by nobody but the account's owner
// who asks for it; an archive is judged before its first reader gets it.
//
// 001-24
func TestObjectsScan(t *testing.T) {
	h := newS3Host(t)
	c, ctx := h.aws(h.access, h.secret), t.Context()
	bucket := aws.String("inbox")
	call(t, "create bucket", c.CreateBucket, &s3.CreateBucketInput{Bucket: bucket})
	var bomb, fine bytes.Buffer
	for to, n := range map[*bytes.Buffer]int{&bomb: 300 << 20, &fine: 10 << 10} {
		w := gzip.NewWriter(to)
		if _, err := w.Write(make([]byte, n)); err != nil || w.Close() != nil {
			t.Fatalf("gzip: %v", err)
		}
	}
	get := func(key string) error {
		out, err := c.GetObject(ctx, &s3.GetObjectInput{Bucket: bucket, Key: &key})
		if err == nil {
			read(t, out.Body)
		}
		return err
	}
	for key, body := range map[string][]byte{"report.pdf": []byte("\x7fELF" + strings.Repeat("x", 100)), "log.gz": bomb.Bytes(), "fine.gz": fine.Bytes(), "plain.txt": []byte("text")} {
		call(t, "put", c.PutObject, &s3.PutObjectInput{Bucket: bucket, Key: &key, Body: bytes.NewReader(body)})
		if err := get(key); strings.HasPrefix(key, "fine") || key == "plain.txt" {
			if err != nil {
				t.Errorf("get of %s: %v", key, err)
			}
		} else {
			refused(t, "get of "+key, err, "AccessDenied")
		}
	}
	_, err := c.CopyObject(ctx, &s3.CopyObjectInput{Bucket: bucket, Key: aws.String("copy.bin"), CopySource: aws.String("inbox/report.pdf")})
	refused(t, "a copy of a refused object", err, "AccessDenied")
	if r := h.run("artifact", "get", "s3://inbox/report.pdf", "-"); r.code == 0 || !strings.Contains(r.stderr, "it is an ELF program") {
		t.Errorf("artifact get of a refused object: %d %s", r.code, r.stderr)
	}
	if r := h.run("artifact", "get", "--refused", "s3://inbox/report.pdf", "-"); r.code != 0 || !strings.HasPrefix(r.stdout, "\x7fELF") {
		t.Errorf("artifact get --refused by the owner: %d %s", r.code, r.stderr)
	}
	h.ok("identity", "create", "agent")
	h.ok("bucket", "grant", "inbox", "--identity", "agent", "--write")
	id, secret := h.s3Key("--identity", "agent")
	_, err = h.aws(id, secret).GetObject(ctx, &s3.GetObjectInput{Bucket: bucket, Key: aws.String("report.pdf")})
	refused(t, "an identity's get of a refused object", err, "AccessDenied")
	if out := h.ok("artifact", "ls", "-r", "s3://inbox"); strings.Count(out, "refused") != 2 || strings.Count(out, "clean") != 2 {
		t.Errorf("the list does not say what was refused:\n%s", out)
	}
}

// TestObjectsKinds: PDFs, images, videos and archives are stored and come back with their
// bytes and types.
//
// 001-19
func TestObjectsKinds(t *testing.T) {
	h := newS3Host(t)
	h.ok("bucket", "create", "made")
	var archive, packed bytes.Buffer
	z, g := zip.NewWriter(&archive), gzip.NewWriter(&packed)
	w, err := z.Create("report/data.csv")
	if err == nil {
		_, err = w.Write([]byte("a,b\n"))
	}
	if _, gzErr := g.Write([]byte("log")); err != nil || gzErr != nil || z.Close() != nil || g.Close() != nil {
		t.Fatalf("the archives were not made: %v, %v", err, gzErr)
	}
	var picture bytes.Buffer
	if err := png.Encode(&picture, image.NewGray(image.Rect(0, 0, 4, 4))); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		kind string
		data []byte
	}{
		"report.pdf": {"application/pdf", []byte("%PDF-1.7\n1 0 obj<<>>endobj\ntrailer<<>>\n%%EOF\n")}, "chart.png": {"image/png", picture.Bytes()},
		"clip.mp4": {"video/mp4", append([]byte("\x00\x00\x00\x18ftypmp42\x00\x00\x00\x00mp42isom"), random(t, 1000)...)},
		"all.zip":  {"application/zip", archive.Bytes()}, "log.gz": {"application/gzip", packed.Bytes()},
	} {
		file := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(file, c.data, 0o600); err != nil {
			t.Fatal(err)
		}
		h.ok("artifact", "put", file, "s3://made/")
		got := call(t, "get "+name, h.aws(h.access, h.secret).GetObject, &s3.GetObjectInput{Bucket: aws.String("made"), Key: &name})
		if !bytes.Equal(read(t, got.Body), c.data) || aws.ToString(got.ContentType) != c.kind {
			t.Errorf("%s comes back as %s with other bytes, or of another type", name, aws.ToString(got.ContentType))
		}
		back := file + ".back"
		h.ok("artifact", "get", "s3://made/"+name, back)
		if data, err := os.ReadFile(back); err != nil || !bytes.Equal(data, c.data) {
			t.Errorf("artifact get of %s gives other bytes, %v", name, err)
		}
	}
}

// TestObjectsKilled: what a client was told is stored is there after the server is killed,
// with each write in the audit log, and an upload that was cut off leaves nothing.
//
// 001-13
func TestObjectsKilled(t *testing.T) {
	h := newS3Host(t)
	c, ctx := h.aws(h.access, h.secret), t.Context()
	bucket := aws.String("box")
	call(t, "create bucket", c.CreateBucket, &s3.CreateBucketInput{Bucket: bucket})
	small, large := random(t, 1000), random(t, 9<<20)
	for key, body := range map[string][]byte{"small": small, "large": large} {
		call(t, "put", c.PutObject, &s3.PutObjectInput{Bucket: bucket, Key: &key, Body: bytes.NewReader(body)})
	}
	link := strings.TrimSpace(h.ok("artifact", "sign", "s3://box/half", "--put", "-q"))
	body, feed := io.Pipe()
	req, err := http.NewRequestWithContext(ctx, http.MethodPut, link, body)
	if err != nil {
		t.Fatal(err)
	}
	req.ContentLength = 9 << 20
	over := make(chan error, 1)
	go func() { // ends with the server
		_, err := http.DefaultClient.Do(req)
		over <- err
	}()
	if _, err := feed.Write(large[:5<<20]); err != nil {
		t.Fatal(err)
	}
	incoming := filepath.Join(h.data, "objects", ".incoming")
	waitFor(t, "the half of an upload is on the disk", func() bool { left, err := os.ReadDir(incoming); return err == nil && len(left) == 1 })
	h.killServer()
	h.serve()
	feed.CloseWithError(io.ErrUnexpectedEOF)
	if err := <-over; err == nil {
		t.Error("the upload that was cut off has an answer")
	}
	for key, body := range map[string][]byte{"small": small, "large": large} {
		got := call(t, "get "+key, c.GetObject, &s3.GetObjectInput{Bucket: bucket, Key: &key})
		if !bytes.Equal(read(t, got.Body), body) {
			t.Errorf("%s has other bytes after the kill", key)
		}
	}
	if out := h.ok("artifact", "ls", "-r", "s3://box"); strings.Contains(out, "half") {
		t.Errorf("half an object is listed:\n%s", out)
	}
	if left, err := os.ReadDir(incoming); err != nil || len(left) != 0 {
		t.Errorf("%d files of cut uploads are left, %v", len(left), err)
	}
	if out := h.ok("audit", "ls", "--json"); strings.Count(out, `"object-put"`) < 2 || !strings.Contains(out, "s3://box/large") {
		t.Errorf("the audit log does not have the writes:\n%s", out)
	}
}

// waitFor waits until a fact is true.
func waitFor(t testing.TB, what string, fact func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); !fact(); {
		if time.Now().After(end) {
			t.Fatalf("it is not true in twenty seconds that %s", what)
		}
		<-time.After(10 * time.Millisecond)
	}
}

// TestObjectsElsewhere: a server stores the bytes of its objects in a bucket of another S3,
// here of a second server, and removes them there.
func TestObjectsElsewhere(t *testing.T) {
	there := newS3Host(t)
	there.ok("bucket", "create", "bytes")
	keys := filepath.Join(t.TempDir(), "keys")
	if err := os.WriteFile(keys, []byte("AWS_ACCESS_KEY_ID="+there.access+"\nAWS_SECRET_ACCESS_KEY="+there.secret+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	h := newS3Host(t, "--s3-endpoint", there.url+"/bytes", "--s3-credentials", keys)
	c, bucket, key := h.aws(h.access, h.secret), aws.String("box"), aws.String("data.bin")
	call(t, "create bucket", c.CreateBucket, &s3.CreateBucketInput{Bucket: bucket})
	body := random(t, 3<<20)
	put := call(t, "put", c.PutObject, &s3.PutObjectInput{Bucket: bucket, Key: key, Body: bytes.NewReader(body)})
	got := call(t, "get", c.GetObject, &s3.GetObjectInput{Bucket: bucket, Key: key})
	if !bytes.Equal(read(t, got.Body), body) {
		t.Error("the object has other bytes")
	}
	part := call(t, "get a range", c.GetObject, &s3.GetObjectInput{Bucket: bucket, Key: key, Range: aws.String("bytes=1000000-1000099")})
	if !bytes.Equal(read(t, part.Body), body[1000000:1000100]) {
		t.Error("a range has other bytes")
	}
	if out := there.ok("artifact", "ls", "-r", "s3://bytes", "--json"); strings.Count(out, `"key"`) != 1 || strings.Contains(out, "data.bin") {
		t.Errorf("the other S3 has %q, want one body without the key's name", out)
	}
	call(t, "remove the version", c.DeleteObject, &s3.DeleteObjectInput{Bucket: bucket, Key: key, VersionId: put.VersionId})
	waitFor(t, "the other S3 lists no body", func() bool {
		return strings.Count(there.ok("artifact", "ls", "-r", "s3://bytes", "--json"), `"key"`) == 0
	})
}

// TestObjectsFullDisk: on a disk that fills while an object is written, the write is refused
// with a code of S3 and nothing of it is left; what was stored before is read.
func TestObjectsFullDisk(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root mounts a small disk")
	}
	h := newS3Host(t)
	h.stopServer()
	dir := filepath.Join(h.data, "objects")
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=32m,mode=0700"); err != nil {
		t.Skipf("no small disk can be mounted here: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil { // the server still uses it
			t.Error(err)
		}
	})
	h.serve()
	c, ctx, bucket := h.aws(h.access, h.secret), t.Context(), aws.String("box")
	call(t, "create bucket", c.CreateBucket, &s3.CreateBucketInput{Bucket: bucket})
	body := random(t, 16<<20)
	put := func(key string, body []byte) error {
		_, err := c.PutObject(ctx, &s3.PutObjectInput{Bucket: bucket, Key: &key, Body: bytes.NewReader(body)})
		return err
	}
	if err := put("first", body); err != nil {
		t.Fatal(err)
	}
	refused(t, "a second object of 16 MiB on a disk of 32", put("second", body), "InsufficientStorage")
	if left, err := os.ReadDir(filepath.Join(dir, ".incoming")); err != nil || len(left) != 0 {
		t.Errorf("%d files of it are left, %v", len(left), err)
	}
	stored := 0
	for i := range 4000 { // small objects fill the index
		if err := put(fmt.Sprintf("small/%d", i), body[:16<<10]); err != nil {
			refused(t, "a small object on a full disk", err, "InsufficientStorage")
			break
		}
		stored++
	}
	if out := call(t, "list", c.ListObjectsV2, &s3.ListObjectsV2Input{Bucket: bucket, Prefix: aws.String("small/"), MaxKeys: aws.Int32(1000)}); len(out.Contents) != min(stored, 1000) {
		t.Errorf("it lists %d small objects, and %d were stored", len(out.Contents), stored)
	}
	got := call(t, "get on a full disk", c.GetObject, &s3.GetObjectInput{Bucket: bucket, Key: aws.String("first")})
	if !bytes.Equal(read(t, got.Body), body) {
		t.Error("the object that was stored before has other bytes")
	}
}

// TestObjectsQuota: 5 GiB into a full quota are refused with a code of S3 after a fraction of
// them was sent, and leave nothing.
func TestObjectsQuota(t *testing.T) {
	h := newS3Host(t)
	var made struct {
		Secret string `json:"secret"`
	}
	if err := json.Unmarshal([]byte(h.ok("account", "create", "small", "--json")), &made); err != nil || made.Secret == "" {
		t.Fatalf("account create prints no secret: %v", err)
	}
	h.ok("account", "quota", "small", "--disk", "50M")
	as := func(args ...string) string {
		t.Helper()
		cmd := exec.Command(h.binary, args...)
		cmd.Env = append(os.Environ(), "WARREN_API_URL=http://"+h.listen, "WARREN_API_KEY="+made.Secret)
		out, err := cmd.Output()
		return strings.TrimSpace(string(must(t, strings.Join(args, " "), out, err)))
	}
	as("bucket", "create", "full")
	link := as("artifact", "sign", "s3://full/large", "--put", "-q")
	sent := &countedBody{}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPut, link, io.LimitReader(sent, 5<<30))
	if err != nil {
		t.Fatal(err)
	}
	req.ContentLength = 5 << 30
	resp, err := http.DefaultClient.Do(req)
	switch {
	case err != nil: // the connection was closed under the client
	case resp.StatusCode != http.StatusForbidden:
		t.Errorf("5 GiB into 50 MiB give status %d", resp.StatusCode)
	default:
		if said := string(read(t, resp.Body)); !strings.Contains(said, "QuotaExceeded") {
			t.Errorf("5 GiB into 50 MiB give %s", said)
		}
	}
	if n := sent.n.Load(); n > 64<<20 {
		t.Errorf("%d MiB of it were sent", n>>20)
	}
	if out := as("bucket", "usage", "--json"); !strings.Contains(out, `"bytes": 0`) {
		t.Errorf("something of it is left: %s", out)
	}
	if left, err := os.ReadDir(filepath.Join(h.data, "objects", ".incoming")); err != nil || len(left) != 0 {
		t.Errorf("%d files of it are left, %v", len(left), err)
	}
}

// countedBody counts the zeros that were read.
type countedBody struct{ n atomic.Int64 }

// Read gives zeros.
func (c *countedBody) Read(p []byte) (int, error) {
	clear(p)
	c.n.Add(int64(len(p)))
	return len(p), nil
}
