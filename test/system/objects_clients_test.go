// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

//go:build system

package system

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"github.com/minio/minio-go/v7"
	minioid "github.com/minio/minio-go/v7/pkg/credentials"
	"github.com/minio/minio-go/v7/pkg/tags"
)

// clientFacts are what each client finds true.
var clientFacts = []string{
	"an old version is read", "versions are listed", "tags are of a version", "a retention is read back", "a retained version is not removed",
	"its owner overrides governance", "a signed link reads", "a signed link writes", "an edited link does not", "a multipart upload has its bytes",
	"a range over two parts has its bytes", "a second first write is refused", "another bucket is not seen",
}

// foreign makes an account with a bucket that the admin's key does not see.
func (h *s3Host) foreign(bucket string) {
	h.t.Helper()
	out := h.ok("account", "create", "stranger", "--json")
	_, rest, _ := strings.Cut(out, `"secret": "`)
	secret, _, ok := strings.Cut(rest, `"`)
	if !ok {
		h.t.Fatalf("account create prints no secret: %s", out)
	}
	cmd := exec.Command(h.binary, "bucket", "create", bucket)
	cmd.Env = append(os.Environ(), "WARREN_API_URL=http://"+h.listen, "WARREN_API_KEY="+secret)
	if out, err := cmd.CombinedOutput(); err != nil {
		h.t.Fatalf("the stranger's bucket: %v: %s", err, out)
	}
}

// script runs a client's script and wants all facts.
func (h *s3Host) script(dir, bucket string, argv ...string) {
	h.t.Helper()
	ctx, stop := context.WithTimeout(h.t.Context(), 2*time.Minute)
	defer stop()
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "AWS_ENDPOINT_URL_S3="+h.url, "AWS_ACCESS_KEY_ID="+h.access, "AWS_SECRET_ACCESS_KEY="+h.secret, "AWS_REGION=us-east-1", "AWS_DEFAULT_REGION=us-east-1", "BUCKET="+bucket)
	out, err := cmd.CombinedOutput()
	if err != nil {
		h.t.Errorf("%v failed: %v\n%s", argv, err, out)
	}
	for _, fact := range clientFacts {
		if !strings.Contains(string(out), fact+": true") {
			h.t.Errorf("with %s it is not true that %s\n%s", argv[len(argv)-1], fact, out)
		}
	}
}

// TestObjectsClients: versions, tags, retention, signed links, multipart uploads, ranges and
// conditions work with boto3 and the AWS SDK for JavaScript, unmodified.
//
// 001-15, 001-27
func TestObjectsClients(t *testing.T) {
	h := newS3Host(t)
	h.foreign("of-another")
	dir, err := filepath.Abs("testdata/objects")
	if err != nil {
		t.Fatal(err)
	}
	t.Run("boto3", func(t *testing.T) {
		venv := filepath.Join(must(t, "cache directory", userCache(), nil), "warren-test-boto3-1.44.5")
		python := filepath.Join(venv, "bin", "python")
		if _, err := os.Stat(filepath.Join(venv, "done")); err != nil {
			for _, argv := range [][]string{{"python3", "-m", "venv", "--clear", venv}, {python, "-m", "pip", "install", "-q", "-r", filepath.Join(dir, "requirements.txt")}, {"touch", filepath.Join(venv, "done")}} {
				if out, err := exec.Command(argv[0], argv[1:]...).CombinedOutput(); err != nil {
					t.Fatalf("%v failed: %v\n%s", argv, err, out)
				}
			}
		}
		h.script(dir, "by-python", python, "client.py")
	})
	t.Run("JavaScript", func(t *testing.T) {
		if _, err := os.Stat(filepath.Join(dir, "node_modules/@aws-sdk")); err != nil {
			install := exec.Command("npm", "ci", "--no-audit", "--no-fund")
			install.Dir = dir
			if out, err := install.CombinedOutput(); err != nil {
				t.Fatalf("npm ci: %v\n%s", err, out)
			}
		}
		h.script(dir, "by-javascript", "node", "client.mjs")
	})
}

// userCache is the user's cache directory.
func userCache() string {
	dir, err := os.UserCacheDir()
	if err != nil {
		return os.TempDir()
	}
	return dir
}

// TestObjectsMinio: the same with minio-go.
//
// 001-15
func TestObjectsMinio(t *testing.T) {
	h := newS3Host(t)
	c, err := minio.New(strings.TrimPrefix(h.url, "http://"), &minio.Options{Creds: minioid.NewStaticV4(h.access, h.secret, ""), Region: "us-east-1", BucketLookup: minio.BucketLookupPath})
	if err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	if err := c.MakeBucket(ctx, "box", minio.MakeBucketOptions{ObjectLocking: true}); err != nil {
		t.Fatal(err)
	}
	put := func(key string, body []byte, o minio.PutObjectOptions) minio.UploadInfo {
		t.Helper()
		info, err := c.PutObject(ctx, "box", key, bytes.NewReader(body), int64(len(body)), o)
		return must(t, "put "+key, info, err)
	}
	get := func(key string, o minio.GetObjectOptions) []byte {
		t.Helper()
		r, err := c.GetObject(ctx, "box", key, o)
		return read(t, must(t, "get "+key, r, err))
	}
	one := put("doc", []byte("one"), minio.PutObjectOptions{UserMetadata: map[string]string{"by": "minio"}, UserTags: map[string]string{"state": "draft"}})
	put("doc", []byte("two"), minio.PutObjectOptions{})
	if got := get("doc", minio.GetObjectOptions{VersionID: one.VersionID}); string(got) != "one" {
		t.Errorf("the old version reads %q", got)
	}
	set := must(t, "tags", first(tags.MapToObjectTags(map[string]string{"state": "final"})), nil)
	if err := c.PutObjectTagging(ctx, "box", "doc", set, minio.PutObjectTaggingOptions{}); err != nil {
		t.Error(err)
	}
	if got, err := c.GetObjectTagging(ctx, "box", "doc", minio.GetObjectTaggingOptions{}); err != nil || got.ToMap()["state"] != "final" {
		t.Errorf("the tags are %v, %v", got, err)
	}
	mode, until := minio.Governance, time.Now().Add(time.Hour)
	if err := c.PutObjectRetention(ctx, "box", "doc", minio.PutObjectRetentionOptions{Mode: &mode, RetainUntilDate: &until, VersionID: one.VersionID}); err != nil {
		t.Error(err)
	}
	if err := c.RemoveObject(ctx, "box", "doc", minio.RemoveObjectOptions{VersionID: one.VersionID}); minio.ToErrorResponse(err).Code != "AccessDenied" {
		t.Errorf("remove of a retained version: %v, want AccessDenied", err)
	}
	if err := c.RemoveObject(ctx, "box", "doc", minio.RemoveObjectOptions{VersionID: one.VersionID, GovernanceBypass: true}); err != nil {
		t.Errorf("its owner does not override governance: %v", err)
	}
	link, err := c.PresignedGetObject(ctx, "box", "doc", time.Minute, nil)
	if err != nil {
		t.Fatal(err)
	}
	if status, body := fetch(t, http.MethodGet, link.String(), ""); status != 200 || body != "two" {
		t.Errorf("the signed link gives %d %q", status, body)
	}
	big := random(t, 17<<20)
	put("big", big, minio.PutObjectOptions{PartSize: 5 << 20})
	if !bytes.Equal(get("big", minio.GetObjectOptions{}), big) {
		t.Error("a multipart upload has other bytes")
	}
	n := 0
	for o := range c.ListObjects(ctx, "box", minio.ListObjectsOptions{WithVersions: true, Recursive: true}) {
		if o.Err != nil {
			t.Error(o.Err)
		}
		n++
	}
	if n != 2 {
		t.Errorf("it lists %d versions, want 2", n)
	}
}

func first[T any](v T, _ error) T { return v }

// fetch makes a request without a signature of its own.
func fetch(t testing.TB, method, url, body string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(read(t, resp.Body))
}

// TestObjectsPrograms: s3cmd and rclone, from Debian, store, list, read and sign.
func TestObjectsPrograms(t *testing.T) {
	h := newS3Host(t)
	dir := t.TempDir()
	host := strings.TrimPrefix(h.url, "http://")
	settings := "[default]\naccess_key = " + h.access + "\nsecret_key = " + h.secret + "\nhost_base = " + host + "\nhost_bucket = " + host + "\nuse_https = False\n"
	config := filepath.Join(dir, "s3cfg")
	body := random(t, 20<<20)
	file := filepath.Join(dir, "data.bin")
	if err := errors.Join(os.WriteFile(config, []byte(settings), 0o600), os.WriteFile(file, body, 0o600)); err != nil {
		t.Fatal(err)
	}
	env := append(os.Environ(), "AWS_CA_BUNDLE=", "RCLONE_CONFIG=/dev/null", "RCLONE_CONFIG_W_TYPE=s3", "RCLONE_CONFIG_W_PROVIDER=Other", "RCLONE_CONFIG_W_ENDPOINT="+h.url,
		"RCLONE_CONFIG_W_ACCESS_KEY_ID="+h.access, "RCLONE_CONFIG_W_SECRET_ACCESS_KEY="+h.secret)
	run := func(argv ...string) string {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), argv[0], argv[1:]...)
		cmd.Env = env
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Errorf("%v failed: %v\n%s", argv, err, out)
		}
		return string(out)
	}
	s3cmd := func(argv ...string) string { return run(append([]string{"s3cmd", "-c", config}, argv...)...) }
	s3cmd("mb", "s3://box")
	s3cmd("put", file, "s3://box/a/data.bin") // in parts of 15 MB
	s3cmd("get", "s3://box/a/data.bin", filepath.Join(dir, "back"))
	if got, err := os.ReadFile(filepath.Join(dir, "back")); err != nil || !bytes.Equal(got, body) {
		t.Errorf("s3cmd reads other bytes, %v", err)
	}
	if out := s3cmd("ls", "--recursive", "s3://box"); !strings.Contains(out, "s3://box/a/data.bin") {
		t.Errorf("s3cmd lists %q", out)
	}
	link := strings.TrimSpace(s3cmd("signurl", "s3://box/a/data.bin", "+60"))
	if status, got := fetch(t, http.MethodGet, link, ""); status != 400 || !strings.Contains(got, "AWS4-HMAC-SHA256") {
		t.Errorf("the link of s3cmd, which is of signature version 2, gives %d %.200s, want 400 that names version 4", status, got)
	}
	run("rclone", "copy", file, "w:box/r", "--s3-upload-cutoff=6M", "--s3-chunk-size=5M", "--s3-no-check-bucket")
	if out := run("rclone", "check", dir, "w:box/r", "--include=data.bin", "--download", "--one-way"); !strings.Contains(out, "0 differences found") {
		t.Errorf("rclone finds differences: %s", out)
	}
	if out := run("rclone", "lsf", "-R", "w:box"); !strings.Contains(out, "a/data.bin\n") || !strings.Contains(out, "r/data.bin\n") {
		t.Errorf("rclone lists %q", out)
	}
	run("rclone", "deletefile", "w:box/r/data.bin")
	s3cmd("del", "s3://box/a/data.bin")
	if out := s3cmd("ls", "--recursive", "s3://box"); strings.TrimSpace(out) != "" {
		t.Errorf("after all is deleted s3cmd lists %q", out)
	}
}

// TestObjectsLinks: a signed link works until it ends, for what it was signed, for as long as
// the key that signed it exists. A replayed link to write makes versions and replaces none.
//
// 001-26
func TestObjectsLinks(t *testing.T) {
	h := newS3Host(t)
	h.ok("bucket", "create", "box")
	h.runIn("", []byte("secret report"), "artifact", "put", "-", "s3://box/report.txt")
	link := strings.TrimSpace(h.ok("artifact", "sign", "s3://box/report.txt", "--for", "60s", "-q"))
	if status, body := fetch(t, "GET", link, ""); status != 200 || body != "secret report" {
		t.Errorf("the link gives %d %q", status, body)
	}
	for what, bad := range map[string]string{
		"another key":         strings.Replace(link, "report.txt", "other.txt", 1),
		"a later end":         strings.Replace(link, "X-Amz-Expires=60", "X-Amz-Expires=6000", 1),
		"another signature":   link[:len(link)-4] + "0000",
		"without a signature": h.url + "/box/report.txt",
		"a path that climbs":  strings.Replace(link, "/box/report.txt", "/box/x/../report.txt", 1),
	} {
		if status, body := fetch(t, "GET", bad, ""); status != 403 && status != 400 || strings.Contains(body, "secret report") {
			t.Errorf("with %s the link gives %d %.100q", what, status, body)
		}
	}
	if status, _ := fetch(t, "PUT", link, "x"); status != 403 {
		t.Errorf("a link to read writes: %d", status)
	}
	short := strings.TrimSpace(h.ok("artifact", "sign", "s3://box/report.txt", "--for", "1s", "-q"))
	deadline := time.Now().Add(20 * time.Second)
	for {
		if status, body := fetch(t, "GET", short, ""); status == 403 {
			if !strings.Contains(body, "expired") {
				t.Errorf("a link that has ended says %s", body)
			}
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("a link for a second works after twenty")
		}
		<-time.After(100 * time.Millisecond)
	}
	put := strings.TrimSpace(h.ok("artifact", "sign", "s3://box/in.txt", "--put", "-q"))
	for _, body := range []string{"one", "two"} {
		if status, said := fetch(t, "PUT", put, body); status != 200 {
			t.Errorf("the link to write gives %d %s", status, said)
		}
	}
	if out := h.ok("artifact", "versions", "s3://box/in.txt", "--json"); strings.Count(out, `"version"`) != 2 {
		t.Errorf("a replayed link has made these versions, want two:\n%s", out)
	}
	var id string
	for _, line := range strings.Split(h.ok("key", "ls", "--s3"), "\n") {
		if strings.Contains(line, "signed links") {
			id = strings.Fields(line)[0]
		}
	}
	h.ok("key", "revoke", id)
	if status, _ := fetch(t, "GET", link, ""); status != 403 {
		t.Errorf("a link whose key is revoked gives %d", status)
	}
}

// TestObjectsBadInput: what is refused gets a code of S3 and leaves nothing.
func TestObjectsBadInput(t *testing.T) {
	h := newS3Host(t)
	h.foreign("of-another")
	c, ctx := h.aws(h.access, h.secret), t.Context()
	bucket := aws.String("box")
	call(t, "create bucket", c.CreateBucket, &s3.CreateBucketInput{Bucket: bucket})
	put := func(key string, body io.Reader, o ...func(*s3.PutObjectInput)) error {
		in := &s3.PutObjectInput{Bucket: bucket, Key: &key, Body: body}
		for _, f := range o {
			f(in)
		}
		_, err := c.PutObject(ctx, in)
		return err
	}
	for _, key := range []string{"a/../../etc/passwd", "..", "a/./b", "line\nbreak", "nul\x00", strings.Repeat("k", 1025)} {
		refused(t, "put of "+key[:min(len(key), 20)], put(key, strings.NewReader("x")), "InvalidArgument", "BadRequest", "KeyTooLongError", "400")
	}
	_, err := c.ListObjectsV2(ctx, &s3.ListObjectsV2Input{Bucket: aws.String("of-another")})
	refused(t, "list of another account's bucket", err, "NoSuchBucket", "AccessDenied")
	_, err = c.CreateBucket(ctx, &s3.CreateBucketInput{Bucket: aws.String("of-another")})
	refused(t, "create of another account's bucket", err, "BucketAlreadyExists")
	_, err = c.CreateBucket(ctx, &s3.CreateBucketInput{Bucket: aws.String("Bad_Name")})
	refused(t, "create of a bad name", err, "InvalidBucketName")
	_, err = h.aws(h.access, "wrong").ListBuckets(ctx, nil)
	refused(t, "a wrong secret", err, "SignatureDoesNotMatch")
	_, err = h.aws("WARREN00000000000000", "wrong").ListBuckets(ctx, nil)
	refused(t, "an unknown key", err, "InvalidAccessKeyId")
	_, err = h.aws("abcdefghij0123456789", "warren").ListBuckets(ctx, nil)
	refused(t, "the id of a VM from outside", err, "SignatureDoesNotMatch")
	refused(t, "a wrong checksum", put("sum", strings.NewReader("x"), func(in *s3.PutObjectInput) {
		in.ChecksumSHA256 = aws.String("AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=")
	}), "BadDigest", "InvalidRequest", "XAmzContentChecksumMismatch")
	refused(t, "a suspended versioning", func() error {
		_, err := c.PutBucketVersioning(ctx, &s3.PutBucketVersioningInput{Bucket: bucket, VersioningConfiguration: &types.VersioningConfiguration{Status: types.BucketVersioningStatusSuspended}})
		return err
	}(), "InvalidBucketState")
	out := call(t, "list", c.ListObjectsV2, &s3.ListObjectsV2Input{Bucket: bucket})
	if len(out.Contents) != 0 {
		t.Errorf("what was refused leaves %d objects", len(out.Contents))
	}
}
