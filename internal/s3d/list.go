// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package s3d

import (
	"context"
	"net/url"

	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"github.com/versity/versitygw/s3response"

	"github.com/warren-vm/warren/internal/objects"
	"github.com/warren-vm/warren/vm"
)

// encoded returns a function that encodes keys in the way that a list was asked for.
func encoded(how types.EncodingType) func(string) *string {
	if how != types.EncodingTypeUrl {
		return func(s string) *string { return &s }
	}
	return func(s string) *string {
		s = url.QueryEscape(s)
		return &s
	}
}

func limit(n *int32) int {
	if n == nil {
		return 0
	}
	return int(*n)
}

func entries(list []vm.Object, encode func(string) *string, owner *types.Owner) []s3response.Object {
	out := make([]s3response.Object, len(list))
	for i, o := range list {
		out[i] = s3response.Object{ETag: quoted(o.ETag), Key: encode(o.Key), LastModified: &o.At, Size: &o.Size, StorageClass: types.ObjectStorageClassStandard, Owner: owner}
	}
	return out
}

func prefixes(list []string, encode func(string) *string) (out []types.CommonPrefix) {
	for _, p := range list {
		out = append(out, types.CommonPrefix{Prefix: encode(p)})
	}
	return out
}

// page asks for one page of a list; none if the client wants no entries.
func (s *store) page(ctx context.Context, req objects.ListRequest, most *int32) (*vm.Call, objects.Page, error) {
	c, err := s.call(ctx)
	if err != nil {
		return nil, objects.Page{}, err
	}
	if most != nil && *most == 0 {
		req.Limit = 1
		p, err := s.room.List(s.life, c, req)
		p.Objects, p.Prefixes, p.More = nil, nil, false
		return c, p, s.fail(err)
	}
	req.Limit = limit(most)
	p, err := s.room.List(s.life, c, req)
	return c, p, s.fail(err)
}

func (s *store) ListObjects(ctx context.Context, in *s3.ListObjectsInput) (out s3response.ListObjectsResult, err error) {
	c, p, err := s.page(ctx, objects.ListRequest{Bucket: text(in.Bucket), Prefix: text(in.Prefix), Delimiter: text(in.Delimiter), After: text(in.Marker)}, in.MaxKeys)
	if err != nil {
		return out, err
	}
	encode := encoded(in.EncodingType)
	out = s3response.ListObjectsResult{
		Name: in.Bucket, Prefix: in.Prefix, Marker: in.Marker, MaxKeys: in.MaxKeys, Delimiter: in.Delimiter, IsTruncated: &p.More, EncodingType: in.EncodingType,
		Contents: entries(p.Objects, encode, &types.Owner{ID: ref(string(c.Actor.Account))}), CommonPrefixes: prefixes(p.Prefixes, encode),
	}
	if p.More {
		out.NextMarker = encode(p.Next)
	}
	return out, nil
}

func (s *store) ListObjectsV2(ctx context.Context, in *s3.ListObjectsV2Input) (out s3response.ListObjectsV2Result, err error) {
	after := text(in.StartAfter)
	if text(in.ContinuationToken) != "" {
		after = text(in.ContinuationToken)
	}
	c, p, err := s.page(ctx, objects.ListRequest{Bucket: text(in.Bucket), Prefix: text(in.Prefix), Delimiter: text(in.Delimiter), After: after}, in.MaxKeys)
	if err != nil {
		return out, err
	}
	encode := encoded(in.EncodingType)
	var owner *types.Owner
	if in.FetchOwner != nil && *in.FetchOwner {
		owner = &types.Owner{ID: ref(string(c.Actor.Account))}
	}
	n := int32(len(p.Objects) + len(p.Prefixes)) //nolint:gosec // at most a thousand
	out = s3response.ListObjectsV2Result{
		Name: in.Bucket, Prefix: in.Prefix, StartAfter: in.StartAfter, ContinuationToken: in.ContinuationToken, MaxKeys: in.MaxKeys, Delimiter: in.Delimiter,
		IsTruncated: &p.More, KeyCount: &n, EncodingType: in.EncodingType, Contents: entries(p.Objects, encode, owner), CommonPrefixes: prefixes(p.Prefixes, encode),
	}
	if p.More {
		out.NextContinuationToken = &p.Next
	}
	return out, nil
}

func (s *store) ListObjectVersions(ctx context.Context, in *s3.ListObjectVersionsInput) (out s3response.ListVersionsResult, err error) {
	c, err := s.call(ctx)
	if err != nil {
		return out, err
	}
	p, err := s.room.Versions(s.life, c, objects.ListRequest{
		Bucket: text(in.Bucket), Prefix: text(in.Prefix), Delimiter: text(in.Delimiter), After: text(in.KeyMarker), AfterVersion: text(in.VersionIdMarker), Limit: limit(in.MaxKeys),
	})
	if err != nil {
		return out, s.fail(err)
	}
	encode := encoded(in.EncodingType)
	owner := &types.Owner{ID: ref(string(c.Actor.Account))}
	out = s3response.ListVersionsResult{
		Name: in.Bucket, Prefix: in.Prefix, Delimiter: in.Delimiter, MaxKeys: in.MaxKeys, KeyMarker: in.KeyMarker, VersionIdMarker: in.VersionIdMarker,
		EncodingType: in.EncodingType, IsTruncated: &p.More, CommonPrefixes: prefixes(p.Prefixes, encode),
	}
	for _, o := range p.Objects {
		if o.Deleted {
			out.DeleteMarkers = append(out.DeleteMarkers, types.DeleteMarkerEntry{IsLatest: &o.Latest, Key: encode(o.Key), LastModified: &o.At, Owner: owner, VersionId: &o.Version})
			continue
		}
		out.Versions = append(out.Versions, s3response.ObjectVersion{
			ETag: quoted(o.ETag), IsLatest: &o.Latest, Key: encode(o.Key), LastModified: &o.At, Owner: owner, Size: &o.Size,
			StorageClass: types.ObjectVersionStorageClassStandard, VersionId: &o.Version,
		})
	}
	if p.More {
		out.NextKeyMarker, out.NextVersionIdMarker = encode(p.Next), ref(p.NextVersion)
	}
	return out, nil
}
