// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package s3d

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"github.com/versity/versitygw/auth"
	"github.com/versity/versitygw/backend"
	"github.com/versity/versitygw/s3err"
	"github.com/versity/versitygw/s3response"

	"github.com/warren-vm/warren/internal/objects"
	"github.com/warren-vm/warren/vm"
)

// quoted is an ETag as it is on the wire.
func quoted(etag string) *string { return ref(`"` + etag + `"`) }

// headers collects the headers that a version keeps.
func headers(encoding, disposition, language, cache, expires, redirect *string) map[string]string {
	out := map[string]string{}
	for name, v := range map[string]*string{
		"content-encoding": encoding, "content-disposition": disposition, "content-language": language,
		"cache-control": cache, "expires": expires, "website-redirect-location": redirect,
	} {
		if text(v) != "" {
			out[name] = *v
		}
	}
	if e := strings.TrimSuffix(strings.TrimSuffix(out["content-encoding"], "aws-chunked"), ","); e != out["content-encoding"] {
		if out["content-encoding"] = strings.TrimSpace(e); e == "" {
			delete(out, "content-encoding")
		}
	}
	return out
}

// lock sets retention and legal hold of a request.
func lock(req *objects.PutRequest, mode types.ObjectLockMode, until *time.Time, hold types.ObjectLockLegalHoldStatus) {
	if mode != "" && until != nil {
		req.Retain, req.RetainTo = vm.RetainMode(mode), *until
	}
	req.Hold = hold == types.ObjectLockLegalHoldStatusOn
}

func (s *store) PutObject(ctx context.Context, in s3response.PutObjectInput) (out s3response.PutObjectOutput, err error) {
	c, err := s.call(ctx)
	if err != nil {
		return out, err
	}
	tags, err := backend.ParseObjectTags(text(in.Tagging))
	if err != nil {
		return out, err
	}
	body, err := check(in.Body, in.ChecksumAlgorithm, sums{
		in.ChecksumCRC32, in.ChecksumCRC32C, in.ChecksumSHA1, in.ChecksumSHA256, in.ChecksumCRC64NVME,
		in.ChecksumSHA512, in.ChecksumMD5, in.ChecksumXXHASH64, in.ChecksumXXHASH3, in.ChecksumXXHASH128,
	})
	if err != nil {
		return out, err
	}
	req := objects.PutRequest{
		Bucket: text(in.Bucket), Key: text(in.Key), Size: -1, ContentType: text(in.ContentType), Meta: in.Metadata, Tags: tags,
		Headers:   headers(in.ContentEncoding, in.ContentDisposition, in.ContentLanguage, in.CacheControl, in.Expires, in.WebsiteRedirectLocation),
		Condition: objects.Condition{IfMatch: text(in.IfMatch), IfNoneMatch: text(in.IfNoneMatch)},
		Done: func(o *vm.Object) error {
			o.Checksums, o.ChecksumType = map[string]string{body.algorithm: body.sum()}, string(types.ChecksumTypeFullObject)
			return nil
		},
	}
	if in.ContentLength != nil {
		req.Size = *in.ContentLength
	}
	req.Checked, _ = ctx.Value(keepSHA256).(string)
	lock(&req, in.ObjectLockMode, in.ObjectLockRetainUntilDate, in.ObjectLockLegalHoldStatus)
	made, err := s.room.Put(s.life, c, req, body)
	if err != nil {
		return out, s.fail(err)
	}
	have := stored(made.Checksums)
	return s3response.PutObjectOutput{
		ETag: *quoted(made.ETag), VersionID: made.Version, Size: &made.Size, ChecksumType: types.ChecksumType(made.ChecksumType),
		ChecksumCRC32: have.CRC32, ChecksumCRC32C: have.CRC32C, ChecksumSHA1: have.SHA1, ChecksumSHA256: have.SHA256, ChecksumCRC64NVME: have.CRC64NVME,
		ChecksumSHA512: have.SHA512, ChecksumMD5: have.MD5, ChecksumXXHASH64: have.XXHASH64, ChecksumXXHASH3: have.XXHASH3, ChecksumXXHASH128: have.XXHASH128,
	}, nil
}

// marker is the error for a read that meets a delete marker.
func marker(err error, version string) error {
	if version != "" && vm.AsError(err).Code == "OBJECT_DELETED" {
		return s3err.GetAPIError(s3err.ErrMethodNotAllowed)
	}
	return err
}

// span is the part of a version that a request asks for.
type span struct {
	from, n int64
	said    *string // Content-Range; nil = all
	parts   *int32
}

// cut finds the span of a request for a range or a part.
func cut(size int64, rng *string, part *int32, partRange func(int) (int64, int64, bool), parts int) (out span, err error) {
	if part == nil {
		var partial bool
		if out.from, out.n, partial, err = backend.ParseObjectRange(size, text(rng)); partial {
			out.said = ref(fmt.Sprintf("bytes %d-%d/%d", out.from, out.from+out.n-1, size))
		}
		return out, err
	}
	count := int32(max(parts, 1)) //nolint:gosec // at most 10000
	var ok bool
	if out.from, out.n, ok = partRange(int(*part)); !ok {
		return out, s3err.GetInvalidPartNumberRangeErr(count, *part)
	}
	if out.n > 0 {
		out.said = ref(fmt.Sprintf("bytes %d-%d/%d", out.from, out.from+out.n-1, size))
	}
	if parts > 0 {
		out.parts = &count
	}
	return out, nil
}

func (s *store) GetObject(ctx context.Context, in *s3.GetObjectInput) (*s3.GetObjectOutput, error) {
	c, err := s.call(ctx)
	if err != nil {
		return nil, err
	}
	content, err := s.room.Get(s.life, c, objects.Which{Bucket: text(in.Bucket), Key: text(in.Key), Version: text(in.VersionId)})
	if err != nil {
		if vm.AsError(err).Code == "OBJECT_DELETED" {
			return &s3.GetObjectOutput{LastModified: &content.At}, s.fail(marker(err, text(in.VersionId)))
		}
		return nil, s.fail(err)
	}
	err = backend.EvaluatePreconditions(content.ETag, content.At, backend.PreConditions{IfMatch: in.IfMatch, IfNoneMatch: in.IfNoneMatch, IfModSince: in.IfModifiedSince, IfUnmodeSince: in.IfUnmodifiedSince})
	if err != nil {
		return nil, err
	}
	part, err := cut(content.Size, in.Range, in.PartNumber, content.PartRange, content.Parts)
	if err != nil {
		return nil, err
	}
	body, err := content.Range(s.life, part.from, part.n)
	if err != nil {
		return nil, s.fail(err)
	}
	o := content.Object
	out := &s3.GetObjectOutput{
		AcceptRanges: ref("bytes"), Body: body, ContentLength: &part.n, ContentRange: part.said, PartsCount: part.parts,
		ContentType: ref(o.ContentType), ContentEncoding: ref(o.Headers["content-encoding"]), ContentDisposition: ref(o.Headers["content-disposition"]),
		ContentLanguage: ref(o.Headers["content-language"]), CacheControl: ref(o.Headers["cache-control"]), ExpiresString: ref(o.Headers["expires"]),
		WebsiteRedirectLocation: ref(o.Headers["website-redirect-location"]), ETag: quoted(o.ETag), LastModified: &o.At, Metadata: o.Meta,
		TagCount: count(o.Tags), StorageClass: types.StorageClassStandard, VersionId: &o.Version,
	}
	out.ObjectLockMode, out.ObjectLockRetainUntilDate, out.ObjectLockLegalHoldStatus = locked(o)
	if in.ChecksumMode == types.ChecksumModeEnabled && part.n == o.Size {
		have := stored(o.Checksums)
		out.ChecksumType = types.ChecksumType(o.ChecksumType)
		out.ChecksumCRC32, out.ChecksumCRC32C, out.ChecksumSHA1, out.ChecksumSHA256, out.ChecksumCRC64NVME = have.CRC32, have.CRC32C, have.SHA1, have.SHA256, have.CRC64NVME
		out.ChecksumSHA512, out.ChecksumMD5, out.ChecksumXXHASH64, out.ChecksumXXHASH3, out.ChecksumXXHASH128 = have.SHA512, have.MD5, have.XXHASH64, have.XXHASH3, have.XXHASH128
	}
	return out, nil
}

func count(tags map[string]string) *int32 {
	if len(tags) == 0 {
		return nil
	}
	n := int32(len(tags)) //nolint:gosec // at most ten
	return &n
}

// locked is what S3 says of a version's retention and hold.
func locked(o vm.Object) (mode types.ObjectLockMode, until *time.Time, hold types.ObjectLockLegalHoldStatus) {
	if o.Retain != "" {
		mode, until = types.ObjectLockMode(o.Retain), &o.RetainTo
	}
	if o.Hold {
		hold = types.ObjectLockLegalHoldStatusOn
	}
	return mode, until, hold
}

func (s *store) HeadObject(ctx context.Context, in *s3.HeadObjectInput) (*s3.HeadObjectOutput, error) {
	c, err := s.call(ctx)
	if err != nil {
		return nil, err
	}
	o, err := s.room.Head(s.life, c, objects.Which{Bucket: text(in.Bucket), Key: text(in.Key), Version: text(in.VersionId)})
	if err != nil {
		if vm.AsError(err).Code == "OBJECT_DELETED" {
			yes := true
			return &s3.HeadObjectOutput{DeleteMarker: &yes, LastModified: &o.At}, s.fail(marker(err, text(in.VersionId)))
		}
		return nil, s.fail(err)
	}
	err = backend.EvaluatePreconditions(o.ETag, o.At, backend.PreConditions{IfMatch: in.IfMatch, IfNoneMatch: in.IfNoneMatch, IfModSince: in.IfModifiedSince, IfUnmodeSince: in.IfUnmodifiedSince})
	if err != nil {
		return nil, err
	}
	part, err := cut(o.Size, in.Range, in.PartNumber, func(n int) (int64, int64, bool) { return s.partRange(c, o, n) }, o.Parts)
	if err != nil {
		return nil, err
	}
	out := &s3.HeadObjectOutput{
		AcceptRanges: ref("bytes"), ContentLength: &part.n, ContentRange: part.said, PartsCount: part.parts,
		ContentType: ref(o.ContentType), ContentEncoding: ref(o.Headers["content-encoding"]), ContentDisposition: ref(o.Headers["content-disposition"]),
		ContentLanguage: ref(o.Headers["content-language"]), CacheControl: ref(o.Headers["cache-control"]), ExpiresString: ref(o.Headers["expires"]),
		WebsiteRedirectLocation: ref(o.Headers["website-redirect-location"]), ETag: quoted(o.ETag), LastModified: &o.At, Metadata: o.Meta,
		StorageClass: types.StorageClassStandard, VersionId: &o.Version, TagCount: count(o.Tags),
	}
	out.ObjectLockMode, out.ObjectLockRetainUntilDate, out.ObjectLockLegalHoldStatus = locked(o)
	if in.ChecksumMode == types.ChecksumModeEnabled && part.n == o.Size {
		have := stored(o.Checksums)
		out.ChecksumType = types.ChecksumType(o.ChecksumType)
		out.ChecksumCRC32, out.ChecksumCRC32C, out.ChecksumSHA1, out.ChecksumSHA256, out.ChecksumCRC64NVME = have.CRC32, have.CRC32C, have.SHA1, have.SHA256, have.CRC64NVME
		out.ChecksumSHA512, out.ChecksumMD5, out.ChecksumXXHASH64, out.ChecksumXXHASH3, out.ChecksumXXHASH128 = have.SHA512, have.MD5, have.XXHASH64, have.XXHASH3, have.XXHASH128
	}
	return out, nil
}

// partRange finds a part of a version whose bytes are not read.
func (s *store) partRange(c *vm.Call, o vm.Object, n int) (int64, int64, bool) {
	if o.Parts == 0 {
		return 0, o.Size, n == 1
	}
	content, err := s.room.Get(s.life, c, objects.Which{Bucket: o.Bucket, Key: o.Key, Version: o.Version})
	if err != nil {
		return 0, 0, false
	}
	return content.PartRange(n)
}

func (s *store) GetObjectAttributes(ctx context.Context, in *s3.GetObjectAttributesInput) (out s3response.GetObjectAttributesResponse, err error) {
	c, err := s.call(ctx)
	if err != nil {
		return out, err
	}
	o, err := s.room.Head(s.life, c, objects.Which{Bucket: text(in.Bucket), Key: text(in.Key), Version: text(in.VersionId)})
	if err != nil {
		if vm.AsError(err).Code == "OBJECT_DELETED" {
			yes := true
			out.DeleteMarker, out.VersionId = &yes, &o.Version
		}
		return out, s.fail(marker(err, text(in.VersionId)))
	}
	have := stored(o.Checksums)
	return s3response.GetObjectAttributesResponse{
		ETag: ref(o.ETag), ObjectSize: &o.Size, StorageClass: types.StorageClassStandard, VersionId: &o.Version, LastModified: &o.At,
		Checksum: &types.Checksum{ChecksumCRC32: have.CRC32, ChecksumCRC32C: have.CRC32C, ChecksumSHA1: have.SHA1, ChecksumSHA256: have.SHA256, ChecksumCRC64NVME: have.CRC64NVME, ChecksumType: types.ChecksumType(o.ChecksumType)},
	}, nil
}

func (s *store) CopyObject(ctx context.Context, in s3response.CopyObjectInput) (out s3response.CopyObjectOutput, err error) {
	c, err := s.call(ctx)
	if err != nil {
		return out, err
	}
	from, err := source(in.CopySource)
	if err != nil {
		return out, err
	}
	tags, err := backend.ParseObjectTags(text(in.Tagging))
	if err != nil {
		return out, err
	}
	if from.Version, err = s.matching(c, from, in.CopySourceIfMatch, in.CopySourceIfNoneMatch, in.CopySourceIfModifiedSince, in.CopySourceIfUnmodifiedSince); err != nil {
		return out, err
	}
	req := objects.PutRequest{
		Bucket: text(in.Bucket), Key: text(in.Key), ContentType: text(in.ContentType), Meta: in.Metadata, Tags: tags,
		Headers: headers(in.ContentEncoding, in.ContentDisposition, in.ContentLanguage, in.CacheControl, in.Expires, in.WebsiteRedirectLocation),
	}
	lock(&req, in.ObjectLockMode, in.ObjectLockRetainUntilDate, in.ObjectLockLegalHoldStatus)
	made, src, err := s.room.Copy(s.life, c, from, req, in.MetadataDirective == types.MetadataDirectiveReplace, in.TaggingDirective == types.TaggingDirectiveReplace)
	if err != nil {
		return out, s.fail(err)
	}
	have := stored(made.Checksums)
	return s3response.CopyObjectOutput{VersionId: &made.Version, CopySourceVersionId: &src.Version, CopyObjectResult: &s3response.CopyObjectResult{
		ETag: quoted(made.ETag), LastModified: &made.At, ChecksumType: types.ChecksumType(made.ChecksumType),
		ChecksumCRC32: have.CRC32, ChecksumCRC32C: have.CRC32C, ChecksumSHA1: have.SHA1, ChecksumSHA256: have.SHA256, ChecksumCRC64NVME: have.CRC64NVME,
	}}, nil
}

// source is the version that a request copies from.
func source(p *string) (objects.Which, error) {
	bucket, key, version, err := backend.ParseCopySource(text(p))
	if err != nil {
		return objects.Which{}, err
	}
	return objects.Which{Bucket: bucket, Key: key, Version: version}, nil
}

// matching checks the conditions of a copy, and returns the version that has met them.
func (s *store) matching(c *vm.Call, w objects.Which, match, none *string, since, unless *time.Time) (string, error) {
	o, err := s.room.Head(s.life, c, w)
	if err != nil {
		return "", s.fail(marker(err, w.Version))
	}
	err = backend.EvaluatePreconditions(o.ETag, o.At, backend.PreConditions{IfMatch: match, IfNoneMatch: none, IfModSince: since, IfUnmodeSince: unless})
	return o.Version, err
}

func (s *store) DeleteObject(ctx context.Context, in *s3.DeleteObjectInput) (*s3.DeleteObjectOutput, error) {
	c, err := s.call(ctx)
	if err != nil {
		return nil, err
	}
	gone, err := s.room.Remove(s.life, c, objects.RemoveRequest{Bucket: text(in.Bucket), Key: text(in.Key), Version: text(in.VersionId), Bypass: bypass(ctx), IfMatch: text(in.IfMatch)})
	if err != nil {
		return nil, s.fail(err)
	}
	return &s3.DeleteObjectOutput{VersionId: &gone.Version, DeleteMarker: &gone.Deleted}, nil
}

func (s *store) DeleteObjects(ctx context.Context, in *s3.DeleteObjectsInput) (out s3response.DeleteResult, err error) {
	c, err := s.call(ctx)
	if err != nil || in.Delete == nil {
		return out, err
	}
	for _, one := range in.Delete.Objects {
		gone, err := s.room.Remove(s.life, c, objects.RemoveRequest{Bucket: text(in.Bucket), Key: text(one.Key), Version: text(one.VersionId), Bypass: bypass(ctx), IfMatch: text(one.ETag)})
		if err != nil {
			e := types.Error{Key: one.Key, VersionId: one.VersionId, Code: ref("InternalError"), Message: ref(err.Error())}
			if known, ok := s.fail(err).(s3err.S3Error); ok { //nolint:errorlint // fail returns these
				e.Code, e.Message = ref(known.BaseError().Code), ref(known.BaseError().Description)
			}
			out.Error = append(out.Error, e)
			continue
		}
		done := types.DeletedObject{Key: one.Key, VersionId: one.VersionId}
		if gone.Deleted {
			done.DeleteMarker, done.DeleteMarkerVersionId = &gone.Deleted, &gone.Version
		}
		out.Deleted = append(out.Deleted, done)
	}
	return out, nil
}

func (s *store) GetObjectTagging(ctx context.Context, bucket, key, version string) (map[string]string, error) {
	c, err := s.call(ctx)
	if err != nil {
		return nil, err
	}
	o, err := s.room.Head(s.life, c, objects.Which{Bucket: bucket, Key: key, Version: version})
	return o.Tags, s.fail(err)
}

func (s *store) PutObjectTagging(ctx context.Context, bucket, key, version string, tags map[string]string) error {
	c, err := s.call(ctx)
	if err != nil {
		return err
	}
	_, err = s.room.SetTags(s.life, c, objects.Which{Bucket: bucket, Key: key, Version: version}, tags)
	return s.fail(err)
}

func (s *store) DeleteObjectTagging(ctx context.Context, bucket, key, version string) error {
	return s.PutObjectTagging(ctx, bucket, key, version, nil)
}

func (s *store) PutObjectRetention(ctx context.Context, bucket, key, version string, retention []byte) error {
	c, err := s.call(ctx)
	if err != nil {
		return err
	}
	in, err := auth.ParseObjectLockRetentionOutput(retention)
	if err != nil || in.RetainUntilDate == nil {
		return s3err.GetAPIError(s3err.ErrMalformedXML)
	}
	_, err = s.room.Retain(s.life, c, objects.RetainRequest{
		Which: objects.Which{Bucket: bucket, Key: key, Version: version}, Mode: vm.RetainMode(in.Mode), To: *in.RetainUntilDate, Bypass: bypass(ctx),
	})
	return s.fail(err)
}

func (s *store) GetObjectRetention(ctx context.Context, bucket, key, version string) ([]byte, error) {
	c, err := s.call(ctx)
	if err != nil {
		return nil, err
	}
	o, err := s.room.Head(s.life, c, objects.Which{Bucket: bucket, Key: key, Version: version})
	if err != nil {
		return nil, s.fail(marker(err, version))
	}
	if o.Retain == "" {
		return nil, s3err.GetAPIError(s3err.ErrNoSuchObjectLockConfiguration)
	}
	return json.Marshal(types.ObjectLockRetention{Mode: types.ObjectLockRetentionMode(o.Retain), RetainUntilDate: &o.RetainTo})
}

func (s *store) PutObjectLegalHold(ctx context.Context, bucket, key, version string, on bool) error {
	c, err := s.call(ctx)
	if err != nil {
		return err
	}
	_, err = s.room.SetHold(s.life, c, objects.Which{Bucket: bucket, Key: key, Version: version}, on)
	return s.fail(err)
}

func (s *store) GetObjectLegalHold(ctx context.Context, bucket, key, version string) (*bool, error) {
	c, err := s.call(ctx)
	if err != nil {
		return nil, err
	}
	o, err := s.room.Head(s.life, c, objects.Which{Bucket: bucket, Key: key, Version: version})
	if err != nil {
		return nil, s.fail(marker(err, version))
	}
	return &o.Hold, nil
}
