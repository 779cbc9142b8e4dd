// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"bytes"
	"context"
	"fmt"
	"net/url"
	"path"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"

	"github.com/warren-vm/warren/internal/objects"
	"github.com/warren-vm/warren/vm"
)

// anchorRetention is how long nobody, not even the owner of the keys, can remove a checkpoint
// from object storage.
const anchorRetention = 366 * 24 * time.Hour

// objectAnchor stores each checkpoint as an object of another S3, with the retention mode
// COMPLIANCE.
type objectAnchor struct {
	address, bucket, prefix string
	client                  *s3.Client // set by open
}

// objectAnchorAt parses https://HOST[:PORT]/BUCKET[/PREFIX]. Kind Invalid.
func objectAnchorAt(place string) (*objectAnchor, error) {
	u, err := url.Parse(place)
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" || u.User != nil || u.RawQuery != "" {
		return nil, badObjectAnchor()
	}
	bucket, prefix, _ := strings.Cut(strings.Trim(u.Path, "/"), "/")
	if objects.CheckBucket(bucket) != nil || len(prefix) > 500 {
		return nil, badObjectAnchor()
	}
	return &objectAnchor{address: u.Scheme + "://" + u.Host, bucket: bucket, prefix: prefix}, nil
}

func badObjectAnchor() error {
	return vm.Errorf(vm.Invalid, "auditAnchor", "not an address of objects").
		WithHint("give scheme, host, bucket and prefix, such as object:https://s3.example.com/anchors/host-1")
}

// open reads the keys.
func (a *objectAnchor) open(credentials string) (err error) {
	a.client, err = s3At(a.address, credentials)
	return err
}

// Name names the host, the bucket and the prefix.
func (a *objectAnchor) Name() string {
	return "object:" + a.address + "/" + path.Join(a.bucket, a.prefix)
}

// Put stores the checkpoint under its number, and checks that it is retained.
func (a *objectAnchor) Put(ctx context.Context, c vm.Checkpoint, line []byte) error {
	key := path.Join(a.prefix, fmt.Sprintf("%012d.json", c.Seq))
	_, err := a.client.PutObject(ctx, &s3.PutObjectInput{
		Bucket: &a.bucket, Key: &key, Body: bytes.NewReader(line), ContentType: aws.String("application/json"),
		ChecksumAlgorithm: types.ChecksumAlgorithmCrc32,
		ObjectLockMode:    types.ObjectLockModeCompliance, ObjectLockRetainUntilDate: aws.Time(time.Now().Add(anchorRetention)),
	})
	if err != nil {
		return vm.Errorf(vm.Unavailable, a.Name(), "a checkpoint was not stored: %s", said(err)).WithHint("the bucket needs object lock, and the keys the right to write there")
	}
	head, err := a.client.HeadObject(ctx, &s3.HeadObjectInput{Bucket: &a.bucket, Key: &key})
	switch {
	case err != nil:
		return vm.Errorf(vm.Unavailable, a.Name(), "a stored checkpoint cannot be read: %s", said(err))
	case head.ObjectLockMode != types.ObjectLockModeCompliance:
		return vm.Errorf(vm.Unsupported, a.Name(), "the bucket does not retain objects").WithHint("use a bucket with object lock")
	}
	return nil
}
