// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"strconv"

	"github.com/warren-vm/warren/api"
	"github.com/warren-vm/warren/vm"
)

// bucketPath is the path of something that belongs to a bucket.
func bucketPath(bucket string, rest ...string) string {
	return pathOf(append([]string{"v1", "objects", "buckets", bucket}, rest...)...)
}

// CreateS3Key makes an access key for S3 clients. Only this answer has its secret.
func (c *Client) CreateS3Key(ctx context.Context, in api.NewS3Key) (api.CreatedS3Key, error) {
	return do[api.CreatedS3Key](ctx, c, call{method: "POST", path: pathOf("v1", "objects", "keys")}, in)
}

// S3Keys returns the account's access keys for S3 clients, oldest first.
func (c *Client) S3Keys(ctx context.Context) ([]api.S3Key, error) {
	l, err := do[api.S3KeyList](ctx, c, call{method: "GET", path: pathOf("v1", "objects", "keys")}, nil)
	return l.Keys, err
}

// RevokeS3Key ends an access key and the links that were signed with it.
func (c *Client) RevokeS3Key(ctx context.Context, id string) error {
	_, err := do[none](ctx, c, call{method: "DELETE", path: pathOf("v1", "objects", "keys", id)}, nil)
	return err
}

// CreateBucket makes a private bucket.
func (c *Client) CreateBucket(ctx context.Context, name string) (api.Bucket, error) {
	return do[api.Bucket](ctx, c, call{method: "POST", path: pathOf("v1", "objects", "buckets")}, api.NewBucket{Name: name})
}

// Buckets returns the buckets that the caller may use, by name.
func (c *Client) Buckets(ctx context.Context) ([]api.Bucket, error) {
	l, err := do[api.BucketList](ctx, c, call{method: "GET", path: pathOf("v1", "objects", "buckets")}, nil)
	return l.Buckets, err
}

// Bucket returns one bucket.
func (c *Client) Bucket(ctx context.Context, name string) (api.Bucket, error) {
	return do[api.Bucket](ctx, c, call{method: "GET", path: bucketPath(name)}, nil)
}

// ChangeBucket sets what in names.
func (c *Client) ChangeBucket(ctx context.Context, name string, in api.ChangeBucket) (api.Bucket, error) {
	return do[api.Bucket](ctx, c, call{method: "PATCH", path: bucketPath(name)}, in)
}

// RemoveBucket removes an empty bucket; with force also what is in it.
func (c *Client) RemoveBucket(ctx context.Context, name string, force bool) error {
	_, err := do[none](ctx, c, call{method: "DELETE", path: bucketPath(name), query: url.Values{"force": {strconv.FormatBool(force)}}}, nil)
	return err
}

// BucketUsage returns what each bucket holds, by name.
func (c *Client) BucketUsage(ctx context.Context) ([]vm.BucketUse, error) {
	l, err := do[api.BucketUseList](ctx, c, call{method: "GET", path: pathOf("v1", "objects", "usage")}, nil)
	return l.Buckets, err
}

// SweepObjects carries out the lifecycle rules of all buckets now. For admins.
func (c *Client) SweepObjects(ctx context.Context) (api.SweptObjects, error) {
	return do[api.SweptObjects](ctx, c, call{method: "POST", path: pathOf("v1", "objects", "sweep")}, nil)
}

// BucketGrants returns who else may use a bucket, oldest first.
func (c *Client) BucketGrants(ctx context.Context, bucket string) ([]api.BucketGrant, error) {
	l, err := do[api.BucketGrantList](ctx, c, call{method: "GET", path: bucketPath(bucket, "grants")}, nil)
	return l.Grants, err
}

// GrantBucket lets an identity or a VM use the keys of a bucket with a prefix.
func (c *Client) GrantBucket(ctx context.Context, bucket string, g api.BucketGrant) (api.BucketGrant, error) {
	return do[api.BucketGrant](ctx, c, call{method: "PUT", path: bucketPath(bucket, "grants")}, g)
}

// RevokeBucket ends a grant.
func (c *Client) RevokeBucket(ctx context.Context, bucket string, g api.BucketGrant) error {
	q := url.Values{"prefix": {g.Prefix}}
	if g.Identity != "" {
		q.Set("identity", g.Identity)
	}
	if g.VM != "" {
		q.Set("vm", g.VM)
	}
	_, err := do[none](ctx, c, call{method: "DELETE", path: bucketPath(bucket, "grants"), query: q}, nil)
	return err
}

// ObjectQuery selects objects of a bucket. The zero value selects all.
type ObjectQuery struct {
	Prefix, Delimiter   string
	After, AfterVersion string
	Limit               int // 0 = 1000, which is the most
	Tags                map[string]string
}

func (o ObjectQuery) values() url.Values {
	q := url.Values{}
	for name, v := range map[string]string{"prefix": o.Prefix, "delimiter": o.Delimiter, "after": o.After, "afterVersion": o.AfterVersion} {
		if v != "" {
			q.Set(name, v)
		}
	}
	if o.Limit > 0 {
		q.Set("limit", strconv.Itoa(o.Limit))
	}
	for name, v := range o.Tags {
		q.Add("tag", name+"="+v)
	}
	return q
}

// Objects returns one page of the newest versions of a bucket's keys.
func (c *Client) Objects(ctx context.Context, bucket string, o ObjectQuery) (api.ObjectList, error) {
	return do[api.ObjectList](ctx, c, call{method: "GET", path: bucketPath(bucket, "objects"), query: o.values()}, nil)
}

// ObjectVersions returns one page of versions and delete markers.
func (c *Client) ObjectVersions(ctx context.Context, bucket string, o ObjectQuery) (api.ObjectList, error) {
	return do[api.ObjectList](ctx, c, call{method: "GET", path: bucketPath(bucket, "versions"), query: o.values()}, nil)
}

func versionQuery(version string) url.Values {
	q := url.Values{}
	if version != "" {
		q.Set("version", version)
	}
	return q
}

// HeadObject returns a version without its bytes; version "" = the newest.
func (c *Client) HeadObject(ctx context.Context, bucket, key, version string) (vm.Object, error) {
	return do[vm.Object](ctx, c, call{method: "GET", path: bucketPath(bucket, "head", key), query: versionQuery(version)}, nil)
}

// GetObject returns the bytes of a version, which the caller closes. With refused the
// account's owner reads one that a scan has refused. The reader fails if fewer bytes
// arrive than the version has.
func (c *Client) GetObject(ctx context.Context, bucket, key, version string, refused bool) (o vm.Object, r io.ReadCloser, err error) {
	q := versionQuery(version)
	if refused {
		q.Set("refused", "true")
	}
	resp, err := c.send(ctx, call{method: "GET", path: bucketPath(bucket, "raw", key), query: q})
	if err != nil {
		return o, nil, err
	}
	about, err := strconv.Unquote(resp.Header.Get(api.HeaderObject))
	if err == nil {
		err = json.Unmarshal([]byte(about), &o)
	}
	if err != nil {
		defer resp.Body.Close()
		return o, nil, c.foreign(resp)
	}
	return o, &stream{c: c, ctx: ctx, body: resp.Body}, nil
}

// PutObject is what a new version gets in addition to its bytes.
type PutObject struct {
	ContentType          string
	Meta, Tags           map[string]string
	IfMatch, IfNoneMatch string
	SHA256               string // hex, that the bytes must have; "" = any
}

// PutObject writes a new version of a key; size -1 = unknown.
func (c *Client) PutObject(ctx context.Context, bucket, key string, p PutObject, size int64, r io.Reader) (vm.Object, error) {
	h := http.Header{}
	for name, v := range map[string]string{"Content-Type": p.ContentType, "If-Match": p.IfMatch, "If-None-Match": p.IfNoneMatch, api.HeaderDigest: p.SHA256} {
		if v != "" {
			h.Set(name, v)
		}
	}
	for name, v := range p.Meta {
		h.Set(api.HeaderMeta+name, v)
	}
	q := url.Values{}
	for name, v := range p.Tags {
		q.Add("tag", name+"="+v)
	}
	o, digest, err := put[vm.Object](ctx, c, call{path: bucketPath(bucket, "raw", key), query: q, header: h}, size, r)
	if err == nil && o.SHA256 != digest {
		err = vm.Errorf(vm.Corrupt, key, "the server received other data than was sent").WithHint("send it again")
	}
	return o, err
}

// RemoveObject writes a delete marker, or removes a version. With bypass the account's
// owner removes one under a governance retention.
func (c *Client) RemoveObject(ctx context.Context, bucket, key, version string, bypass bool) (vm.Object, error) {
	q := versionQuery(version)
	if bypass {
		q.Set("bypass", "true")
	}
	return do[vm.Object](ctx, c, call{method: "DELETE", path: bucketPath(bucket, "raw", key), query: q}, nil)
}

// TagObject replaces the tags of a version.
func (c *Client) TagObject(ctx context.Context, bucket, key, version string, tags map[string]string) (vm.Object, error) {
	return do[vm.Object](ctx, c, call{method: "PUT", path: bucketPath(bucket, "tags", key), query: versionQuery(version)}, api.ObjectTags{Tags: tags})
}

// RetainObject sets retention or legal hold of a version.
func (c *Client) RetainObject(ctx context.Context, bucket, key, version string, in api.RetainObject) (vm.Object, error) {
	return do[vm.Object](ctx, c, call{method: "PUT", path: bucketPath(bucket, "retain", key), query: versionQuery(version)}, in)
}

// SignObject makes a link for one object.
func (c *Client) SignObject(ctx context.Context, bucket, key string, in api.SignObject) (api.SignedObject, error) {
	return do[api.SignedObject](ctx, c, call{method: "POST", path: bucketPath(bucket, "sign", key)}, in)
}
