// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package s3d_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"github.com/warren-vm/warren/internal/engine"
	"github.com/warren-vm/warren/internal/objects"
	"github.com/warren-vm/warren/internal/s3d"
	"github.com/warren-vm/warren/internal/vmtest"
	"github.com/warren-vm/warren/vm"
)

// bench is a door with the room behind it, and two VMs, box and other, of one account.
// The bucket data is box's, theirs is other's.
type bench struct {
	t          *testing.T
	house      *vmtest.House
	room       *objects.Objects
	call       *vm.Call
	box, other vm.VM
	inside     *s3d.Inside
	door       *s3d.Server
	socket     string
}

func newBench(t *testing.T) *bench {
	t.Helper()
	site, err := vmtest.NewSite(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	h, err := site.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	b := &bench{t: t, house: h, room: h.Rooms.Objects}
	if b.call, _, err = vmtest.Admin(t.Context(), h); err != nil {
		t.Fatal(err)
	}
	if b.door, err = s3d.New(t.Context(), b.room, slog.New(slog.DiscardHandler)); err != nil {
		t.Fatal(err)
	}
	socket := filepath.Join(t.TempDir(), "s")
	if err := b.door.Listen(socket); err != nil {
		t.Fatal(err)
	}
	b.inside, b.socket = b.door.Inside(socket), socket
	t.Cleanup(func() {
		if err := errors.Join(b.door.Close(), h.Close(context.Background())); err != nil {
			t.Error(err)
		}
	})
	b.box, b.other = b.vm("box"), b.vm("other")
	for name, v := range map[string]vm.VM{"data": b.box, "theirs": b.other} {
		if _, err := b.room.CreateBucket(t.Context(), b.call, name); err != nil {
			t.Fatal(err)
		}
		b.grant(name, "", v, vm.ObjectWrite)
	}
	b.put("data", "in/hello", "hello")
	b.put("theirs", "secret", "secret")
	return b
}

func (b *bench) vm(name string) vm.VM {
	b.t.Helper()
	v, err := b.house.Create(b.t.Context(), b.call, engine.CreateRequest{Name: name})
	if err != nil {
		b.t.Fatal(err)
	}
	return v
}

func (b *bench) grant(bucket, prefix string, to vm.VM, access vm.ObjectAccess) {
	b.t.Helper()
	if _, err := b.room.Grant(b.t.Context(), b.call, bucket, vm.ObjectGrant{VM: to.ID, Prefix: prefix, Access: access}); err != nil {
		b.t.Fatal(err)
	}
}

func (b *bench) put(bucket, key, text string) {
	b.t.Helper()
	if _, err := b.room.Put(b.t.Context(), b.call, objects.PutRequest{Bucket: bucket, Key: key, Size: int64(len(text))}, strings.NewReader(text)); err != nil {
		b.t.Fatal(err)
	}
}

// as is the server that programs of a VM reach.
func (b *bench) as(v vm.VM) *httptest.Server {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { b.inside.ServeVM(w, r, v.ID) }))
	b.t.Cleanup(s.Close)
	return s
}

// client is AWS's SDK in a VM, with credentials that nobody has made.
func (b *bench) client(s *httptest.Server) *s3.Client {
	return s3.New(s3.Options{BaseEndpoint: &s.URL, Region: "eu-north-1", UsePathStyle: true, Credentials: credentials.NewStaticCredentialsProvider("anything", "goes", "")})
}

// ask sends a request as it is written, with headers as name and value.
func (b *bench) ask(s *httptest.Server, method, path, body string, headers ...string) (int, string) {
	b.t.Helper()
	r, err := http.NewRequestWithContext(b.t.Context(), method, s.URL+path, strings.NewReader(body))
	if err != nil {
		b.t.Fatal(err)
	}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		b.t.Fatal(err)
	}
	defer resp.Body.Close()
	got, err := io.ReadAll(resp.Body)
	if err != nil {
		b.t.Fatal(err)
	}
	return resp.StatusCode, string(got)
}

// want checks an answer's status and a part of its text.
func (b *bench) want(what string, status int, text string, wantStatus int, wantText string) {
	b.t.Helper()
	if status != wantStatus || !strings.Contains(text, wantText) {
		b.t.Errorf("%s: %d %.300s, want %d with %q", what, status, text, wantStatus, wantText)
	}
}

// TestInsideClient: AWS's SDK with made-up credentials does everything that the VM's grants
// allow: it writes with a trailing checksum, in parts, reads, lists and removes.
func TestInsideClient(t *testing.T) {
	b := newBench(t)
	c, ctx, bucket := b.client(b.as(b.box)), t.Context(), aws.String("data")
	for _, key := range []string{"a", "with space+plus%25/ü/~!*'()", "deep/er//double"} {
		body := []byte("bytes of " + key)
		if _, err := c.PutObject(ctx, &s3.PutObjectInput{Bucket: bucket, Key: &key, Body: bytes.NewReader(body), ChecksumAlgorithm: types.ChecksumAlgorithmSha256, Metadata: map[string]string{"by": "a  b"}}); err != nil {
			t.Errorf("put of %q: %v", key, err)
			continue
		}
		got, err := c.GetObject(ctx, &s3.GetObjectInput{Bucket: bucket, Key: &key})
		if err != nil {
			t.Errorf("get of %q: %v", key, err)
			continue
		}
		have, err := io.ReadAll(got.Body)
		if err != nil || !bytes.Equal(have, body) {
			t.Errorf("%q has the bytes %q, %v, want %q", key, have, err, body)
		}
	}
	made, err := c.CreateMultipartUpload(ctx, &s3.CreateMultipartUploadInput{Bucket: bucket, Key: aws.String("big")})
	if err != nil {
		t.Fatalf("begin a multipart upload: %v", err)
	}
	part, err := c.UploadPart(ctx, &s3.UploadPartInput{Bucket: bucket, Key: aws.String("big"), UploadId: made.UploadId, PartNumber: aws.Int32(1), Body: bytes.NewReader(make([]byte, 6<<20))})
	if err != nil {
		t.Fatalf("upload a part: %v", err)
	}
	if _, err := c.CompleteMultipartUpload(ctx, &s3.CompleteMultipartUploadInput{Bucket: bucket, Key: aws.String("big"), UploadId: made.UploadId, MultipartUpload: &types.CompletedMultipartUpload{Parts: []types.CompletedPart{{ETag: part.ETag, PartNumber: aws.Int32(1)}}}}); err != nil {
		t.Errorf("complete a multipart upload: %v", err)
	}
	if _, err := c.DeleteObjects(ctx, &s3.DeleteObjectsInput{Bucket: bucket, Delete: &types.Delete{Objects: []types.ObjectIdentifier{{Key: aws.String("a")}}}}); err != nil {
		t.Errorf("delete: %v", err)
	}
	list, err := c.ListObjectsV2(ctx, &s3.ListObjectsV2Input{Bucket: bucket})
	if err != nil || len(list.Contents) != 4 {
		t.Errorf("the bucket has %d keys, %v, want 4", len(list.Contents), err)
	}
	o, err := b.room.Head(ctx, b.call, objects.Which{Bucket: "data", Key: "big"})
	if err != nil || o.By != "vm "+string(b.box.ID) {
		t.Errorf("the object was written by %q, %v, want the VM", o.By, err)
	}
	for key, want := range map[string]string{"theirs": "AccessDenied", "nobodys": "NoSuchBucket"} {
		_, err := c.GetObject(ctx, &s3.GetObjectInput{Bucket: &key, Key: aws.String("secret")})
		var e smithy.APIError
		if !errors.As(err, &e) || e.ErrorCode() != want {
			t.Errorf("get from the bucket %s: %v, want %s", key, err, want)
		}
	}
}

// TestInsideEarlyAnswer: an answer whose beginning the program has before the end of its request was read arrives
// whole.
func TestInsideEarlyAnswer(t *testing.T) {
	b := newBench(t)
	vmtest.EarlyAnswer(t, "/data/key", func(behind http.Handler) http.Handler {
		socket := filepath.Join(t.TempDir(), "s")
		l, err := net.Listen("unix", socket)
		if err != nil {
			t.Fatal(err)
		}
		server := &http.Server{Handler: behind}
		go func() { _ = server.Serve(l) }() // ends with Close
		t.Cleanup(func() { _ = server.Close() })
		inside := b.door.Inside(socket)
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { inside.ServeVM(w, r, b.box.ID) })
	})
}

// TestInsideSignedChunks: a body of signed chunks is stored as the bytes in it, whoever
// signed them, and its trailing checksum is checked.
func TestInsideSignedChunks(t *testing.T) {
	b := newBench(t)
	s := b.as(b.box)
	const signature = ";chunk-signature=0000000000000000000000000000000000000000000000000000000000000000\r\n"
	plain := "b" + signature + "hello world\r\n0" + signature + "\r\n"
	summed := func(sum string) string {
		return "b" + signature + "hello world\r\n0" + signature + "x-amz-checksum-crc32:" + sum + "\r\nx-amz-trailer-signature:00\r\n\r\n"
	}
	const kind, length, trailer = "X-Amz-Content-Sha256", "X-Amz-Decoded-Content-Length", "X-Amz-Trailer"
	status, text := b.ask(s, "PUT", "/data/plain", plain, kind, "STREAMING-AWS4-HMAC-SHA256-PAYLOAD", length, "11", "Content-Encoding", "aws-chunked", "Authorization", "AWS4-HMAC-SHA256 Credential=x/20260101/us-east-1/s3/aws4_request, SignedHeaders=host, Signature=00")
	b.want("a body of signed chunks", status, text, 200, "")
	status, text = b.ask(s, "PUT", "/data/summed", summed("DUoRhQ=="), kind, "STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER", length, "11", trailer, "x-amz-checksum-crc32")
	b.want("with its checksum", status, text, 200, "")
	for _, key := range []string{"plain", "summed"} {
		status, text = b.ask(s, "GET", "/data/"+key, "")
		b.want("the object "+key, status, text, 200, "hello world")
		if len(text) != 11 {
			t.Errorf("the object %s has %d bytes, want 11", key, len(text))
		}
	}
	status, text = b.ask(s, "PUT", "/data/wrong", summed("AAAAAA=="), kind, "STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER", length, "11", trailer, "x-amz-checksum-crc32")
	b.want("with another checksum", status, text, 400, "BadDigest")
	status, text = b.ask(s, "PUT", "/data/cut", plain[:50], kind, "STREAMING-AWS4-HMAC-SHA256-PAYLOAD", length, "11")
	if status < 400 {
		t.Errorf("a body that is cut: %d %s, want an error", status, text)
	}
	for _, key := range []string{"wrong", "cut"} {
		status, text = b.ask(s, "GET", "/data/"+key, "")
		b.want("the object "+key, status, text, 404, "NoSuchKey")
	}
}

// TestInsideForged: whatever a program says about itself, it acts as its VM.
//
// 000-16, 001-52
func TestInsideForged(t *testing.T) {
	b := newBench(t)
	s := b.as(b.box)
	k, secret, err := b.room.CreateKey(t.Context(), b.call, "", "")
	if err != nil {
		t.Fatal(err)
	}
	credential := func(access string) string {
		return "AWS4-HMAC-SHA256 Credential=" + access + "/20260101/us-east-1/s3/aws4_request, SignedHeaders=host, Signature=00"
	}
	for what, headers := range map[string][]string{
		"the other VM's id as access key":   {"Authorization", credential(string(b.other.ID))},
		"the owner's access key":            {"Authorization", credential(k.ID)},
		"the header between the two":        {s3d.InsideHeader, string(b.other.ID)},
		"the header, written otherwise":     {"warren-inside-vm", string(b.other.ID)},
		"the header as one of a connection": {"Connection", "Warren-Inside-VM"},
		"another host":                      {"X-Forwarded-Host", "127.0.0.1"},
		"a security token":                  {"X-Amz-Security-Token", "x"},
		"an override of a date":             {"X-Amz-Date", "19700101T000000Z", "Date", "x"},
		"a basic password":                  {"Authorization", "Basic " + k.ID + ":" + secret},
	} {
		status, text := b.ask(s, "GET", "/theirs/secret", "", headers...)
		b.want(what+", for the other VM's object", status, text, 403, "AccessDenied")
		status, text = b.ask(s, "GET", "/data/in/hello", "", headers...)
		b.want(what+", for its own object", status, text, 200, "hello")
	}
	signer := s3.NewPresignClient(s3.New(s3.Options{BaseEndpoint: &s.URL, Region: "us-east-1", UsePathStyle: true, Credentials: credentials.NewStaticCredentialsProvider(k.ID, secret, "")}))
	for key, want := range map[string]int{"theirs/secret": 403, "data/in/hello": 200} {
		bucket, key, _ := strings.Cut(key, "/")
		link, err := signer.PresignGetObject(t.Context(), &s3.GetObjectInput{Bucket: &bucket, Key: &key})
		if err != nil {
			t.Fatal(err)
		}
		status, text := b.ask(s, "GET", strings.TrimPrefix(link.URL, s.URL), "")
		b.want("a link that the owner's key has signed for "+bucket, status, text, want, "")
	}
	status, text := b.ask(s, "PUT", "/data/copy", "", "X-Amz-Copy-Source", "/theirs/secret")
	b.want("a copy from the other VM's bucket", status, text, 403, "AccessDenied")
}

// TestInsideSmuggled: what follows a body on its connection is never a request, even if it
// is one that the door would answer.
func TestInsideSmuggled(t *testing.T) {
	b := newBench(t)
	s := b.as(b.box)
	hidden, err := http.NewRequestWithContext(t.Context(), "PUT", "http://"+vm.S3Host+"/theirs/smuggled", strings.NewReader("x"))
	if err != nil {
		t.Fatal(err)
	}
	const unsigned = "UNSIGNED-PAYLOAD"
	hidden.Header.Set("X-Amz-Content-Sha256", unsigned)
	hidden.Header.Set(s3d.InsideHeader, string(b.other.ID))
	who := aws.Credentials{AccessKeyID: string(b.other.ID), SecretAccessKey: b.door.InsideSecret()}
	if err := v4.NewSigner().SignHTTP(t.Context(), who, hidden, unsigned, "s3", "us-east-1", time.Now()); err != nil {
		t.Fatal(err)
	}
	var request bytes.Buffer
	if err := hidden.Write(&request); err != nil {
		t.Fatal(err)
	}
	for what, body := range map[string]string{
		"after the last chunk": "0\r\n\r\n" + request.String(),
		"in place of a chunk":  request.String(),
	} {
		for _, kind := range []string{"STREAMING-UNSIGNED-PAYLOAD-TRAILER", "STREAMING-AWS4-HMAC-SHA256-PAYLOAD", unsigned} {
			for _, length := range []int64{-1, int64(len(body))} {
				for _, path := range []string{"/data/x", "/theirs/x", "/data"} {
					r, err := http.NewRequestWithContext(t.Context(), "PUT", s.URL+path, strings.NewReader(body))
					if err != nil {
						t.Fatal(err)
					}
					r.ContentLength = length
					r.Header.Set("X-Amz-Content-Sha256", kind)
					r.Header.Set("X-Amz-Decoded-Content-Length", "0")
					resp, err := http.DefaultClient.Do(r)
					if err != nil {
						t.Errorf("a request %s, %s: %v, want an answer", what, kind, err)
						continue
					}
					resp.Body.Close()
				}
			}
		}
	}
	if _, err := b.room.Head(t.Context(), b.call, objects.Which{Bucket: "theirs", Key: "smuggled"}); vm.KindOf(err) != vm.NotFound {
		t.Errorf("the object that the hidden request writes: %v, want that there is none", err)
	}
}

// TestInsidePaths: no path leaves the bucket that it names.
func TestInsidePaths(t *testing.T) {
	b := newBench(t)
	s := b.as(b.box)
	for path, want := range map[string]int{
		"/data/../theirs/secret":                              400,
		"/data/%2e%2e/theirs/secret":                          400,
		"/data/..%2ftheirs/secret":                            400,
		"/data%2f..%2ftheirs/secret":                          400,
		"//theirs/secret":                                     400,
		"/%2ftheirs/secret":                                   400,
		"/data/a%00b":                                         400,
		"/data/in/hello?x=%zz":                                400,
		"/data/in/hello?a;b":                                  400,
		"/data/" + strings.Repeat("k", 1025):                  400,
		"/data/in%2Fhello":                                    200,
		"/data/in/hell%6f?response-content-type=text%2Fplain": 200,
	} {
		status, text := b.ask(s, "GET", path, "")
		if status != want && (want == 200 || status != 403 && status != 404) || strings.Contains(text, "secret\n") || text == "secret" {
			t.Errorf("GET %.60s: %d %.200s, want %d", path, status, text, want)
		}
	}
	status, text := b.ask(s, "GET", "/data/in/hello", "", "X-Amz-Meta-Big", strings.Repeat("x", 20<<10))
	if status != 400 && status != 431 {
		t.Errorf("a header of 20 KiB: %d %.200s, want 400 or 431", status, text)
	}
	status, text = b.ask(s, "POST", "/data", "--x\r\n\r\n--x--", "Content-Type", "multipart/form-data; boundary=x")
	b.want("a form", status, text, 501, "NotImplemented")
	status, text = b.ask(s, "PATCH", "/data/in/hello", "")
	b.want("a method that S3 lacks", status, text, 405, "MethodNotAllowed")
}

// TestInsideOutside: the id of a VM is no access key on an address that others reach.
func TestInsideOutside(t *testing.T) {
	b := newBench(t)
	d, err := s3d.New(t.Context(), b.room, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	address := vmtest.FreePort(t)
	if err := d.Listen(address); err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	c := s3.New(s3.Options{BaseEndpoint: aws.String("http://" + address), Region: "us-east-1", UsePathStyle: true, Credentials: credentials.NewStaticCredentialsProvider(string(b.box.ID), d.InsideSecret(), "")},
		func(o *s3.Options) { o.RetryMaxAttempts = 1 })
	for _, header := range []string{"", string(b.box.ID)} {
		_, err = c.GetObject(t.Context(), &s3.GetObjectInput{Bucket: aws.String("data"), Key: aws.String("in/hello")}, s3.WithAPIOptions(smithyhttp.SetHeaderValue(s3d.InsideHeader, header)))
		var e smithy.APIError
		if !errors.As(err, &e) || e.ErrorCode() != "AccessDenied" {
			t.Errorf("with the header %q: %v, want AccessDenied", header, err)
		}
	}
}
