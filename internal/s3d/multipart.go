// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package s3d

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"github.com/versity/versitygw/backend"
	"github.com/versity/versitygw/s3api/utils"
	"github.com/versity/versitygw/s3err"
	"github.com/versity/versitygw/s3response"

	"github.com/warren-vm/warren/internal/objects"
	"github.com/warren-vm/warren/vm"
)

func (s *store) CreateMultipartUpload(ctx context.Context, in s3response.CreateMultipartUploadInput) (out s3response.InitiateMultipartUploadResult, err error) {
	c, err := s.call(ctx)
	if err != nil {
		return out, err
	}
	tags, err := backend.ParseObjectTags(text(in.Tagging))
	if err != nil {
		return out, err
	}
	req := objects.UploadRequest{PutRequest: objects.PutRequest{
		Bucket: text(in.Bucket), Key: text(in.Key), ContentType: text(in.ContentType), Meta: in.Metadata, Tags: tags,
		Headers: headers(in.ContentEncoding, in.ContentDisposition, in.ContentLanguage, in.CacheControl, in.Expires, in.WebsiteRedirectLocation),
	}, ChecksumAlgorithm: strings.ToLower(string(in.ChecksumAlgorithm)), ChecksumType: string(in.ChecksumType)}
	lock(&req.PutRequest, in.ObjectLockMode, in.ObjectLockRetainUntilDate, in.ObjectLockLegalHoldStatus)
	u, err := s.room.StartUpload(s.life, c, req)
	return s3response.InitiateMultipartUploadResult{Bucket: text(in.Bucket), Key: text(in.Key), UploadId: u.ID}, s.fail(err)
}

func (s *store) UploadPart(ctx context.Context, in *s3.UploadPartInput) (*s3.UploadPartOutput, error) {
	c, err := s.call(ctx)
	if err != nil {
		return nil, err
	}
	body, err := check(in.Body, in.ChecksumAlgorithm, sums{
		in.ChecksumCRC32, in.ChecksumCRC32C, in.ChecksumSHA1, in.ChecksumSHA256, in.ChecksumCRC64NVME,
		in.ChecksumSHA512, in.ChecksumMD5, in.ChecksumXXHASH64, in.ChecksumXXHASH3, in.ChecksumXXHASH128,
	})
	if err != nil {
		return nil, err
	}
	req := objects.PartRequest{Bucket: text(in.Bucket), Key: text(in.Key), Upload: text(in.UploadId), Number: int(*in.PartNumber), Size: -1, Done: func(p *objects.Part) error {
		p.Checksums = map[string]string{body.algorithm: body.sum()}
		return nil
	}}
	if in.ContentLength != nil {
		req.Size = *in.ContentLength
	}
	made, err := s.room.PutPart(s.life, c, req, body)
	if err != nil {
		return nil, s.fail(err)
	}
	have := stored(made.Checksums)
	return &s3.UploadPartOutput{
		ETag: quoted(made.ETag), ChecksumCRC32: have.CRC32, ChecksumCRC32C: have.CRC32C, ChecksumSHA1: have.SHA1, ChecksumSHA256: have.SHA256, ChecksumCRC64NVME: have.CRC64NVME,
		ChecksumSHA512: have.SHA512, ChecksumMD5: have.MD5, ChecksumXXHASH64: have.XXHASH64, ChecksumXXHASH3: have.XXHASH3, ChecksumXXHASH128: have.XXHASH128,
	}, nil
}

func (s *store) UploadPartCopy(ctx context.Context, in *s3.UploadPartCopyInput) (out s3response.CopyPartResult, err error) {
	c, err := s.call(ctx)
	if err != nil {
		return out, err
	}
	from, err := source(in.CopySource)
	if err != nil {
		return out, err
	}
	if from.Version, err = s.matching(c, from, in.CopySourceIfMatch, in.CopySourceIfNoneMatch, in.CopySourceIfModifiedSince, in.CopySourceIfUnmodifiedSince); err != nil {
		return out, err
	}
	o, err := s.room.Head(s.life, c, from)
	if err != nil {
		return out, s.fail(err)
	}
	at, n, err := backend.ParseCopySourceRange(o.Size, text(in.CopySourceRange))
	if err != nil {
		return out, err
	}
	n = min(n, o.Size-at)
	made, src, err := s.room.CopyPart(s.life, c, from, at, n, objects.PartRequest{Bucket: text(in.Bucket), Key: text(in.Key), Upload: text(in.UploadId), Number: int(*in.PartNumber)})
	return s3response.CopyPartResult{ETag: quoted(made.ETag), LastModified: made.At, CopySourceVersionId: src.Version}, s.fail(err)
}

func (s *store) AbortMultipartUpload(ctx context.Context, in *s3.AbortMultipartUploadInput) error {
	c, err := s.call(ctx)
	if err != nil {
		return err
	}
	return s.fail(s.room.AbortUpload(s.life, c, text(in.Bucket), text(in.Key), text(in.UploadId)))
}

func (s *store) CompleteMultipartUpload(ctx context.Context, in *s3.CompleteMultipartUploadInput) (out s3response.CompleteMultipartUploadResult, version string, err error) {
	c, err := s.call(ctx)
	if err != nil {
		return out, "", err
	}
	req := objects.CompleteRequest{Bucket: text(in.Bucket), Key: text(in.Key), Upload: text(in.UploadId), Condition: objects.Condition{IfMatch: text(in.IfMatch), IfNoneMatch: text(in.IfNoneMatch)}}
	if in.MultipartUpload == nil {
		return out, "", s3err.GetAPIError(s3err.ErrMalformedXML)
	}
	for _, p := range in.MultipartUpload.Parts {
		if p.PartNumber == nil || p.ETag == nil {
			return out, "", s3err.GetAPIError(s3err.ErrMalformedXML)
		}
		req.Parts = append(req.Parts, objects.Part{Number: int(*p.PartNumber), ETag: *p.ETag})
	}
	if in.MpuObjectSize != nil {
		req.Size = in.MpuObjectSize
	}
	req.Done = func(o *vm.Object, u objects.Upload, parts []objects.Part) error {
		return total(o, u, parts, in.MultipartUpload.Parts)
	}
	made, err := s.room.CompleteUpload(s.life, c, req)
	if err != nil {
		return out, "", s.fail(err)
	}
	have := stored(made.Checksums)
	kind := types.ChecksumType(made.ChecksumType)
	return s3response.CompleteMultipartUploadResult{
		Bucket: in.Bucket, Key: in.Key, ETag: quoted(made.ETag), ChecksumType: &kind,
		ChecksumCRC32: have.CRC32, ChecksumCRC32C: have.CRC32C, ChecksumSHA1: have.SHA1, ChecksumSHA256: have.SHA256, ChecksumCRC64NVME: have.CRC64NVME,
	}, made.Version, nil
}

// total computes the checksum of a multipart upload from those of its parts. If the parts
// have none of one algorithm, the version has none.
func total(o *vm.Object, u objects.Upload, parts []objects.Part, sent []types.CompletedPart) error {
	algorithm := u.ChecksumAlgorithm
	if algorithm == "" {
		algorithm = "crc64nvme"
	}
	values := make([]string, len(parts))
	for i, p := range parts {
		if values[i] = p.Checksums[algorithm]; values[i] == "" {
			return nil
		}
		said := sums{CRC32: sent[i].ChecksumCRC32, CRC32C: sent[i].ChecksumCRC32C, SHA1: sent[i].ChecksumSHA1, SHA256: sent[i].ChecksumSHA256, CRC64NVME: sent[i].ChecksumCRC64NVME}
		if at := said.of(algorithm); at != nil && *at != nil && **at != values[i] {
			return s3err.GetInvalidPartErr(u.ID, *sent[i].PartNumber, p.ETag)
		}
	}
	kind := types.ChecksumType(u.ChecksumType)
	crc := slices.Contains([]string{"crc32", "crc32c", "crc64nvme"}, algorithm)
	if kind == "" {
		kind = types.ChecksumTypeComposite
		if algorithm == "crc64nvme" {
			kind = types.ChecksumTypeFullObject
		}
	}
	value := ""
	switch {
	case kind == types.ChecksumTypeFullObject && crc:
		value = values[0]
		for i := 1; i < len(parts); i++ {
			next, err := utils.AddCRCChecksum(types.ChecksumAlgorithm(strings.ToUpper(algorithm)), value, values[i], parts[i].Size)
			if err != nil {
				return s3err.GetAPIError(s3err.ErrInvalidRequest)
			}
			value = next
		}
	case kind == types.ChecksumTypeComposite:
		r, err := utils.NewCompositeChecksumReader(utils.HashType(algorithm))
		if err != nil {
			return nil //nolint:nilerr // the version has no checksum then
		}
		for _, v := range values {
			if err := r.Process(v); err != nil {
				return s3err.GetAPIError(s3err.ErrInvalidRequest)
			}
		}
		value = fmt.Sprintf("%s-%d", r.Sum(), len(parts))
	default:
		return nil
	}
	o.Checksums, o.ChecksumType = map[string]string{algorithm: value}, string(kind)
	return nil
}

func (s *store) ListMultipartUploads(ctx context.Context, in *s3.ListMultipartUploadsInput) (out s3response.ListMultipartUploadsResult, err error) {
	c, err := s.call(ctx)
	if err != nil {
		return out, err
	}
	list, err := s.room.Uploads(s.life, c, text(in.Bucket), text(in.Prefix))
	if err != nil {
		return out, s.fail(err)
	}
	most := limit(in.MaxUploads)
	out = s3response.ListMultipartUploadsResult{
		Bucket: text(in.Bucket), KeyMarker: text(in.KeyMarker), UploadIDMarker: text(in.UploadIdMarker), Delimiter: text(in.Delimiter), Prefix: text(in.Prefix), MaxUploads: most,
	}
	seen := map[string]bool{}
	for _, u := range list {
		if u.Key < text(in.KeyMarker) || u.Key == text(in.KeyMarker) && (text(in.UploadIdMarker) == "" && text(in.KeyMarker) != "" || u.ID <= text(in.UploadIdMarker)) {
			continue
		}
		if len(out.Uploads)+len(out.CommonPrefixes) == most {
			out.IsTruncated = true
			break
		}
		out.NextKeyMarker, out.NextUploadIDMarker = u.Key, u.ID
		if i := strings.Index(u.Key[len(out.Prefix):], out.Delimiter); out.Delimiter != "" && i >= 0 {
			if common := u.Key[:len(out.Prefix)+i+len(out.Delimiter)]; !seen[common] {
				seen[common] = true
				out.CommonPrefixes = append(out.CommonPrefixes, s3response.CommonPrefix{Prefix: common})
			}
			continue
		}
		out.Uploads = append(out.Uploads, s3response.Upload{
			Key: u.Key, UploadID: u.ID, Initiated: u.At, StorageClass: types.StorageClassStandard, Owner: s3response.Owner{ID: string(c.Actor.Account)},
			Initiator: s3response.Initiator{ID: u.By}, ChecksumAlgorithm: types.ChecksumAlgorithm(strings.ToUpper(u.ChecksumAlgorithm)), ChecksumType: types.ChecksumType(u.ChecksumType),
		})
	}
	if !out.IsTruncated {
		out.NextKeyMarker, out.NextUploadIDMarker = "", ""
	}
	return out, nil
}

func (s *store) ListParts(ctx context.Context, in *s3.ListPartsInput) (out s3response.ListPartsResult, err error) {
	c, err := s.call(ctx)
	if err != nil {
		return out, err
	}
	after, _ := strconv.Atoi(text(in.PartNumberMarker)) // the front has checked it
	most := limit(in.MaxParts)
	u, list, more, err := s.room.Parts(s.life, c, text(in.Bucket), text(in.Key), text(in.UploadId), after, most)
	if err != nil {
		return out, s.fail(err)
	}
	out = s3response.ListPartsResult{
		Bucket: text(in.Bucket), Key: text(in.Key), UploadID: u.ID, StorageClass: types.StorageClassStandard, PartNumberMarker: after, MaxParts: most, IsTruncated: more,
		Owner: s3response.Owner{ID: string(c.Actor.Account)}, Initiator: s3response.Initiator{ID: u.By},
		ChecksumAlgorithm: types.ChecksumAlgorithm(strings.ToUpper(u.ChecksumAlgorithm)), ChecksumType: types.ChecksumType(u.ChecksumType),
	}
	for _, p := range list {
		have := stored(p.Checksums)
		out.NextPartNumberMarker = p.Number
		out.Parts = append(out.Parts, s3response.Part{
			PartNumber: p.Number, LastModified: p.At, ETag: *quoted(p.ETag), Size: p.Size,
			ChecksumCRC32: have.CRC32, ChecksumCRC32C: have.CRC32C, ChecksumSHA1: have.SHA1, ChecksumSHA256: have.SHA256, ChecksumCRC64NVME: have.CRC64NVME,
		})
	}
	return out, nil
}

var _ backend.Backend = &store{}
