// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/smithy-go"

	"github.com/warren-vm/warren/internal/objects"
	"github.com/warren-vm/warren/vm"
)

// otherS3 stores the bytes of objects in a bucket of another S3.
type otherS3 struct {
	client *s3.Client
	bucket string
}

// maxOther is the largest body that another S3 takes in one request.
const maxOther = 5 << 30

// remote opens the other S3 that the configuration names; nil = none.
func (c Config) remote(ctx context.Context) (objects.Remote, error) {
	if c.S3Endpoint == "" {
		return nil, nil
	}
	u, bucket, err := splitEndpoint(c.S3Endpoint)
	if err != nil {
		return nil, err
	}
	client, err := s3At(u, c.S3Credentials)
	if err != nil {
		return nil, err
	}
	o := &otherS3{bucket: bucket, client: client}
	bounded, stop := context.WithTimeout(ctx, 30*time.Second)
	defer stop()
	if _, err := o.client.HeadBucket(bounded, &s3.HeadBucketInput{Bucket: &bucket}); err != nil {
		return nil, vm.Errorf(vm.Unavailable, u, "the bucket %s there cannot be used: %s", bucket, said(err)).WithHint("make the bucket, and check the keys in %s", c.S3Credentials)
	}
	return o, nil
}

// s3At returns a client of the S3 at an address, with the keys of a file.
func s3At(address, file string) (*s3.Client, error) {
	keys, err := readCredentials(file)
	if err != nil {
		return nil, err
	}
	region := keys["AWS_REGION"]
	if region == "" {
		region = objects.Region
	}
	return s3.New(s3.Options{
		BaseEndpoint: aws.String(address), Region: region, UsePathStyle: true, RetryMaxAttempts: 4,
		RequestChecksumCalculation: aws.RequestChecksumCalculationWhenRequired, ResponseChecksumValidation: aws.ResponseChecksumValidationWhenRequired,
		Credentials: credentials.NewStaticCredentialsProvider(keys["AWS_ACCESS_KEY_ID"], keys["AWS_SECRET_ACCESS_KEY"], keys["AWS_SESSION_TOKEN"]),
	}), nil
}

// splitEndpoint reads https://HOST[:PORT]/BUCKET.
func splitEndpoint(text string) (address, bucket string, err error) {
	u, err := url.Parse(text)
	if err == nil {
		bucket = strings.Trim(u.Path, "/")
	}
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil || u.RawQuery != "" || objects.CheckBucket(bucket) != nil {
		return "", "", vm.Errorf(vm.Invalid, "s3Endpoint", "not an address of a bucket").WithHint("give scheme, host and bucket, such as https://s3.example.com/warren; keys go into the file of --s3-credentials")
	}
	return u.Scheme + "://" + u.Host, bucket, nil
}

// readCredentials reads lines NAME=VALUE of a file that others may not read.
func readCredentials(path string) (map[string]string, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, vm.Errorf(vm.Invalid, "s3Credentials", "the file cannot be read: %w", err).WithHint("write AWS_ACCESS_KEY_ID= and AWS_SECRET_ACCESS_KEY= to a file of mode 0600")
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil || !st.Mode().IsRegular() || st.Mode().Perm()&0o077 != 0 {
		return nil, vm.Errorf(vm.Denied, path, "others may read the file, or it is none").WithHint("chmod 600 %s", path)
	}
	out := map[string]string{}
	lines := bufio.NewScanner(io.LimitReader(f, 64<<10))
	for lines.Scan() {
		if name, value, ok := strings.Cut(strings.TrimSpace(lines.Text()), "="); ok && !strings.HasPrefix(name, "#") {
			out[strings.TrimPrefix(name, "export ")] = strings.Trim(value, `"'`)
		}
	}
	if lines.Err() != nil || out["AWS_ACCESS_KEY_ID"] == "" || out["AWS_SECRET_ACCESS_KEY"] == "" {
		return nil, vm.Errorf(vm.Invalid, path, "it lacks an access key").WithHint("write the lines AWS_ACCESS_KEY_ID=… and AWS_SECRET_ACCESS_KEY=…")
	}
	return out, nil
}

// said is an error of the other S3 in few words, without addresses and headers.
func said(err error) string {
	var e smithy.APIError
	if errors.As(err, &e) {
		return vm.GuestPath(vm.Clip(e.ErrorCode()+": "+e.ErrorMessage(), 200)).String()
	}
	return "it does not answer"
}

func (o *otherS3) fail(what string, err error) error {
	if err == nil {
		return nil
	}
	return vm.Errorf(vm.Unavailable, "", "the other S3 does not %s an object: %s", what, said(err)).WithHint("try again; the server's operator finds its address in s3Endpoint")
}

// Put is objects.Remote's.
func (o *otherS3) Put(ctx context.Context, name string, body io.ReadSeeker, size int64) error {
	if size > maxOther {
		return vm.Errorf(vm.Invalid, "", "the other S3 takes at most 5 GiB at once").WithCode("OBJECT_TOO_LARGE").WithHint("upload it in parts")
	}
	_, err := o.client.PutObject(ctx, &s3.PutObjectInput{Bucket: &o.bucket, Key: &name, Body: body, ContentLength: &size})
	return o.fail("store", err)
}

// Get is objects.Remote's.
func (o *otherS3) Get(ctx context.Context, name string, from, n int64) (io.ReadCloser, error) {
	if n == 0 {
		return io.NopCloser(strings.NewReader("")), nil
	}
	part := fmt.Sprintf("bytes=%d-%d", from, from+n-1)
	out, err := o.client.GetObject(ctx, &s3.GetObjectInput{Bucket: &o.bucket, Key: &name, Range: &part})
	if err != nil {
		return nil, o.fail("give", err)
	}
	if out.ContentLength == nil || *out.ContentLength != n {
		return nil, errors.Join(vm.Errorf(vm.Corrupt, "", "the other S3 gives other bytes than the object has"), out.Body.Close())
	}
	return out.Body, nil
}

// Remove is objects.Remote's.
func (o *otherS3) Remove(ctx context.Context, name string) error {
	_, err := o.client.DeleteObject(ctx, &s3.DeleteObjectInput{Bucket: &o.bucket, Key: &name})
	return o.fail("remove", err)
}
