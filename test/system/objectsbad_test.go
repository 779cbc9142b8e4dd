// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

//go:build system

package system

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
)

// signed is a request with a good signature of the admin's key for what it says, made at a
// time. target is a path with its query, as it is sent.
func (h *s3Host) signed(method, target string, body []byte, at time.Time, header ...string) *http.Request {
	h.t.Helper()
	req, err := http.NewRequestWithContext(h.t.Context(), method, h.url+target, bytes.NewReader(body))
	if err != nil {
		h.t.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	sum := sha256.Sum256(body)
	digest := hex.EncodeToString(sum[:])
	req.Header.Set("X-Amz-Content-Sha256", digest)
	signer := v4.NewSigner(func(o *v4.SignerOptions) { o.DisableURIPathEscaping = true })
	if err := signer.SignHTTP(h.t.Context(), aws.Credentials{AccessKeyID: h.access, SecretAccessKey: h.secret}, req, digest, "s3", "us-east-1", at); err != nil {
		h.t.Fatal(err)
	}
	return req
}

// sends returns the status of a request, and what the server says.
func (h *s3Host) sends(req *http.Request) (int, string) {
	h.t.Helper()
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, err.Error()
	}
	defer resp.Body.Close()
	said, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	return resp.StatusCode, string(must(h.t, "the answer", said, err))
}

// again is a request that was signed before, with another body.
func again(req *http.Request, body string) *http.Request {
	out := req.Clone(req.Context())
	out.Body, out.ContentLength, out.GetBody = io.NopCloser(strings.NewReader(body)), int64(len(body)), nil
	return out
}

// leavesNothing wants no file of an upload that did not become a version.
func (h *s3Host) leavesNothing(what string) {
	h.t.Helper()
	waitFor(h.t, "no file is left of "+what, func() bool {
		left, err := os.ReadDir(filepath.Join(h.data, "objects", ".incoming"))
		return err == nil && len(left) == 0
	})
}

// TestObjectsReplayed: who has seen a signed request can repeat it for a while, and use it
// for nothing else: not with other bytes, another verb, another key, more headers, or later.
//
// 001-26
func TestObjectsReplayed(t *testing.T) {
	h := newS3Host(t)
	h.ok("bucket", "create", "box")
	h.runIn("", []byte("a secret"), "artifact", "put", "-", "s3://box/secret")
	now := time.Now()
	first := h.signed("PUT", "/box/a", []byte("one"), now)
	if status, said := h.sends(again(first, "one")); status != 200 {
		t.Fatalf("a signed request: %d %s", status, said)
	}
	other := func(change func(*http.Request)) *http.Request {
		req := again(first, "one")
		change(req)
		return req
	}
	for what, c := range map[string]struct {
		req  *http.Request
		want string
	}{
		"with other bytes":         {again(first, "two"), "XAmzContentSHA256Mismatch"},
		"with fewer bytes":         {again(first, "on"), "SignatureDoesNotMatch"},
		"with another verb":        {other(func(r *http.Request) { r.Method = "DELETE" }), "SignatureDoesNotMatch"},
		"for another key":          {other(func(r *http.Request) { r.URL.Path = "/box/b" }), "SignatureDoesNotMatch"},
		"with a query":             {other(func(r *http.Request) { r.URL.RawQuery = "tagging=" }), "SignatureDoesNotMatch"},
		"with another digest":      {other(func(r *http.Request) { r.Header.Set("X-Amz-Content-Sha256", "UNSIGNED-PAYLOAD") }), "SignatureDoesNotMatch"},
		"as a copy":                {other(func(r *http.Request) { r.Header.Set("X-Amz-Copy-Source", "/box/secret") }), "AccessDenied"},
		"with a retention":         {other(func(r *http.Request) { r.Header.Set("X-Amz-Object-Lock-Legal-Hold", "ON") }), "AccessDenied"},
		"signed twenty min ago":    {h.signed("PUT", "/box/a", []byte("one"), now.Add(-20*time.Minute)), "RequestTimeTooSkewed"},
		"signed for in twenty min": {h.signed("PUT", "/box/a", []byte("one"), now.Add(20*time.Minute)), "RequestTimeTooSkewed"},
	} {
		if status, said := h.sends(c.req); status < 400 || !strings.Contains(said, c.want) {
			t.Errorf("a signed request %s gives %d %.300s, want %s", what, status, said, c.want)
		}
	}
	link := strings.TrimSpace(h.ok("artifact", "sign", "s3://box/in.txt", "--put", "-q"))
	for name, value := range map[string]string{
		"X-Amz-Copy-Source": "/box/secret", "X-Amz-Object-Lock-Legal-Hold": "ON", "X-Amz-Object-Lock-Mode": "COMPLIANCE", "X-Amz-Object-Lock-Retain-Until-Date": "2999-01-01T00:00:00Z", "X-Amz-Bypass-Governance-Retention": "true", "X-Amz-Tagging": "state=final",
	} {
		req, err := http.NewRequestWithContext(t.Context(), "PUT", link, strings.NewReader("x"))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set(name, value)
		if status, said := h.sends(req); status < 400 {
			t.Errorf("a link to write takes the header %s that it was not signed for: %d %.300s", name, status, said)
		}
	}
	if out := h.ok("artifact", "versions", "s3://box", "--json"); strings.Count(out, `"version"`) != 2 {
		t.Errorf("after what was refused the bucket has these versions, want two:\n%s", out)
	}
	h.leavesNothing("what was refused")
}

// TestObjectsBadMultipart: an upload in parts that is cut off, incomplete, out of order or not
// the caller's becomes no version, and what was sent of it is removed with it.
func TestObjectsBadMultipart(t *testing.T) {
	h := newS3Host(t)
	h.foreign("of-another")
	c, ctx, bucket, key := h.aws(h.access, h.secret), t.Context(), aws.String("box"), aws.String("big")
	call(t, "create bucket", c.CreateBucket, &s3.CreateBucketInput{Bucket: bucket})
	id := call(t, "begin", c.CreateMultipartUpload, &s3.CreateMultipartUploadInput{Bucket: bucket, Key: key}).UploadId
	part := random(t, 5<<20)
	var tags []string
	for n := int32(1); n <= 3; n++ {
		tags = append(tags, *call(t, "upload a part", c.UploadPart, &s3.UploadPartInput{Bucket: bucket, Key: key, UploadId: id, PartNumber: &n, Body: bytes.NewReader(part[:len(part)-int(n-1)/2*100])}).ETag)
	}
	if n := h.bodies(); n < 3 {
		t.Errorf("three parts are in %d files", n)
	}
	cut, feed := io.Pipe()
	link := must(t, "sign", first(s3.NewPresignClient(c).PresignUploadPart(ctx, &s3.UploadPartInput{Bucket: bucket, Key: key, UploadId: id, PartNumber: aws.Int32(4)})), nil)
	req, err := http.NewRequestWithContext(ctx, "PUT", link.URL, cut)
	if err != nil {
		t.Fatal(err)
	}
	req.ContentLength = int64(len(part))
	go func() {
		_, _ = feed.Write(part[:3<<20])
		_ = feed.CloseWithError(errors.New("the client breaks off")) // it never fails; cancelling alone would leave Do waiting for the pipe
	}()
	if _, err := http.DefaultClient.Do(req); err == nil {
		t.Error("a part that was cut off has an answer")
	}
	h.leavesNothing("a part that was cut off")
	list := call(t, "list parts", c.ListParts, &s3.ListPartsInput{Bucket: bucket, Key: key, UploadId: id})
	if len(list.Parts) != 3 {
		t.Errorf("after a part was cut off there are %d parts, want 3", len(list.Parts))
	}
	complete := func(what string, id *string, bucket, key string, want []string, parts ...any) {
		t.Helper()
		var done []types.CompletedPart
		for i := 0; i < len(parts); i += 2 {
			done = append(done, types.CompletedPart{PartNumber: aws.Int32(int32(parts[i].(int))), ETag: aws.String(parts[i+1].(string))})
		}
		_, err := c.CompleteMultipartUpload(ctx, &s3.CompleteMultipartUploadInput{Bucket: &bucket, Key: &key, UploadId: id, MultipartUpload: &types.CompletedMultipartUpload{Parts: done}})
		refused(t, "complete "+what, err, want...)
	}
	complete("with a part that was cut off", id, "box", "big", []string{"InvalidPart"}, 1, tags[0], 4, tags[0])
	complete("with another part's digest", id, "box", "big", []string{"InvalidPart"}, 1, tags[2])
	complete("in another order", id, "box", "big", []string{"InvalidPartOrder"}, 2, tags[1], 1, tags[0])
	complete("with a part twice", id, "box", "big", []string{"InvalidPartOrder"}, 1, tags[0], 1, tags[0])
	complete("without parts", id, "box", "big", []string{"MalformedXML", "InvalidRequest"})
	complete("with a small part in the middle", id, "box", "big", []string{"EntityTooSmall"}, 1, tags[0], 3, tags[2], 4, tags[0])
	complete("under another key", id, "box", "other", []string{"NoSuchUpload"}, 1, tags[0])
	complete("in another account's bucket", id, "of-another", "big", []string{"NoSuchBucket", "AccessDenied", "NoSuchUpload"}, 1, tags[0])
	complete("of an id that climbs", aws.String("../../"+*id), "box", "big", []string{"NoSuchUpload"}, 1, tags[0])
	for _, n := range []int32{0, -1, 10001} {
		_, err := c.UploadPart(ctx, &s3.UploadPartInput{Bucket: bucket, Key: key, UploadId: id, PartNumber: &n, Body: strings.NewReader("x")})
		refused(t, fmt.Sprintf("part %d", n), err, "InvalidArgument", "InvalidPartNumber")
	}
	call(t, "abort", c.AbortMultipartUpload, &s3.AbortMultipartUploadInput{Bucket: bucket, Key: key, UploadId: id})
	complete("of what was aborted", id, "box", "big", []string{"NoSuchUpload"}, 1, tags[0])
	if out := call(t, "list", c.ListObjectVersions, &s3.ListObjectVersionsInput{Bucket: bucket}); len(out.Versions) != 0 {
		t.Errorf("there are %d versions, want none", len(out.Versions))
	}
	if out := h.ok("bucket", "usage", "--json"); !strings.Contains(out, `"bytes": 0`) {
		t.Errorf("something of it counts: %s", out)
	}
	waitFor(t, "no file of it is left", func() bool { return h.bodies() == 0 })
}

// bodies counts the files of objects that have bytes beside the index.
func (h *s3Host) bodies() (n int) {
	_ = filepath.WalkDir(filepath.Join(h.data, "objects"), func(path string, d os.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() && !strings.HasSuffix(path, ".db") {
			n++
		}
		return nil
	})
	return n
}

// TestObjectsBadRequests: requests with a good signature and senseless or huge contents get an
// error of S3. The server neither ends nor grows, and a retained version stays.
func TestObjectsBadRequests(t *testing.T) {
	h := newS3Host(t)
	c, bucket := h.aws(h.access, h.secret), aws.String("box")
	call(t, "create bucket", c.CreateBucket, &s3.CreateBucketInput{Bucket: bucket})
	kept := call(t, "put", c.PutObject, &s3.PutObjectInput{Bucket: bucket, Key: aws.String("kept"), Body: strings.NewReader("kept"), ObjectLockMode: types.ObjectLockModeCompliance, ObjectLockRetainUntilDate: aws.Time(time.Now().Add(time.Hour))}).VersionId
	entities := `<?xml version="1.0"?><!DOCTYPE x [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;&a;&a;"><!ENTITY c SYSTEM "file:///etc/passwd">]>`
	for _, req := range []struct {
		method, target, body string
		header               []string
	}{
		{"POST", "/box?delete=", entities + "<Delete><Object><Key>&b;&c;</Key></Object></Delete>", nil},
		{"POST", "/box?delete=", "<Delete>" + strings.Repeat("<a>", 200_000), nil},
		{"POST", "/box?delete=", "<Delete>" + strings.Repeat("<Object><Key>k</Key></Object>", 5000) + "</Delete>", nil},
		{"PUT", "/box/kept?tagging=", "<Tagging><TagSet>" + strings.Repeat("<Tag><Key>k</Key><Value>v</Value></Tag>", 1000) + "</TagSet></Tagging>", nil},
		{"PUT", "/box/kept?tagging=", "not XML", nil},
		{"PUT", "/box/kept?retention=&versionId=" + *kept, "<Retention><Mode>GOVERNANCE</Mode><RetainUntilDate>2001-01-01T00:00:00Z</RetainUntilDate></Retention>", []string{"X-Amz-Bypass-Governance-Retention", "true"}},
		{"DELETE", "/box/kept?versionId=" + *kept, "", []string{"X-Amz-Bypass-Governance-Retention", "true"}},
		{"GET", "/box/kept?versionId=..%2F..%2Fetc%2Fpasswd", "", nil},
		{"GET", "/box/kept?versionId=%00", "", nil},
		{"GET", "/box/kept", "", []string{"Range", "bytes=9223372036854775807-"}},
		{"GET", "/box?list-type=2&max-keys=-1", "", nil},
		{"GET", "/box?list-type=2&max-keys=99999999999999999999", "", nil},
		{"PUT", "/box/metadata", "x", []string{"X-Amz-Meta-Big", strings.Repeat("m", 7000)}},
		{"PUT", "/box/tags", "x", []string{"X-Amz-Tagging", strings.Repeat("a=b&", 500)}},
		{"PUT", "/box/copy", "", []string{"X-Amz-Copy-Source", "/box/../of-another/x"}},
		{"PUT", "/box/a%2F..%2F..%2Fb", "x", nil},
		{"PUT", "/..%2Fbox/b", "x", nil},
	} {
		status, said := h.sends(h.signed(req.method, req.target, []byte(req.body), time.Now(), req.header...))
		if status < 400 || status == 500 {
			t.Errorf("%s %s with %.60q %.80q gives %d %.300s, want an error of S3", req.method, req.target, req.body, req.header, status, said)
		}
	}
	// The door answers before it has read so much, and the client may not get to see the answer.
	if status, said := h.sends(h.signed("POST", "/box?delete=", bytes.Repeat([]byte("x"), 32<<20), time.Now())); status != 0 && !strings.Contains(said, "EntityTooLarge") {
		t.Errorf("a list of 32 MiB gives %d %.300s, want it refused", status, said)
	}
	out := call(t, "list versions", c.ListObjectVersions, &s3.ListObjectVersionsInput{Bucket: bucket})
	if len(out.Versions) != 1 || len(out.DeleteMarkers) != 0 {
		t.Errorf("there are %d versions and %d markers, want the retained version", len(out.Versions), len(out.DeleteMarkers))
	}
	got := call(t, "get", c.GetObject, &s3.GetObjectInput{Bucket: bucket, Key: aws.String("kept")})
	if string(read(t, got.Body)) != "kept" {
		t.Error("the retained version has other bytes")
	}
	h.leavesNothing("what was refused")
}
