// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package s3d

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"maps"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"github.com/versity/versitygw/auth"
	"github.com/versity/versitygw/backend"
	"github.com/versity/versitygw/s3err"
	"github.com/versity/versitygw/s3response"

	"github.com/warren-vm/warren/internal/objects"
	"github.com/warren-vm/warren/vm"
)

// store answers the front from the room. What it does not answer is not implemented.
type store struct {
	backend.BackendUnsupported
	room *objects.Objects
	log  *slog.Logger
	life context.Context // ends with the door
}

func (*store) String() string { return "Warren" }

// NormalizeObjectKey leaves a key as it is: keys are not paths.
func (*store) NormalizeObjectKey(_, key string) string { return key }

// s3Cause finds an error of S3 in the chain of err.
func s3Cause(err error) error {
	for ; err != nil; err = errors.Unwrap(err) {
		if known, ok := err.(s3err.S3Error); ok { //nolint:errorlint // each link is looked at
			return known
		}
	}
	return nil
}

// call is the caller of a request, which the front has authenticated. An access key that is
// the id of a VM counts only for a request from that VM.
func (s *store) call(ctx context.Context) (*vm.Call, error) {
	account, _ := ctx.Value("account").(auth.Account)
	if account.Access == "" {
		return nil, s3err.GetAPIError(s3err.ErrAccessDenied)
	}
	inside, _ := ctx.Value(keepInside).(string)
	if inside != "" || vm.IsID(account.Access) {
		if inside != account.Access {
			return nil, s3err.GetAPIError(s3err.ErrAccessDenied)
		}
		actor, err := s.room.ActorOf(vm.ID(inside))
		return &vm.Call{Actor: actor, Request: vm.NewRequestID()}, s.fail(err)
	}
	_, actor, err := s.room.Secret(s.life, account.Access)
	return &vm.Call{Actor: actor, Request: vm.NewRequestID()}, s.fail(err)
}

// bypass reports whether the request is to override a governance retention.
func bypass(ctx context.Context) bool {
	yes, _ := ctx.Value(keepBypass).(bool)
	return yes
}

// text is a string that may be missing.
func text(p *string) string {
	if p == nil {
		return ""
	}
	return *p
}

// ref returns nil for "".
func ref(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

func (s *store) ListBuckets(ctx context.Context, in s3response.ListBucketsInput) (s3response.ListAllMyBucketsResult, error) {
	var out s3response.ListAllMyBucketsResult
	c, err := s.call(ctx)
	if err != nil {
		return out, err
	}
	list, err := s.room.ListBuckets(s.life, c)
	if err != nil {
		return out, s.fail(err)
	}
	out.Owner, out.Prefix = s3response.CanonicalUser{ID: string(c.Actor.Account)}, in.Prefix
	for _, b := range list {
		if !strings.HasPrefix(b.Name, in.Prefix) || b.Name <= in.ContinuationToken && in.ContinuationToken != "" {
			continue
		}
		if in.MaxBuckets > 0 && len(out.Buckets.Bucket) == int(in.MaxBuckets) {
			out.ContinuationToken = out.Buckets.Bucket[len(out.Buckets.Bucket)-1].Name
			break
		}
		out.Buckets.Bucket = append(out.Buckets.Bucket, s3response.ListAllMyBucketsEntry{Name: b.Name, CreationDate: b.CreatedAt})
	}
	return out, nil
}

// bucket finds a bucket that the caller may use.
func (s *store) bucket(ctx context.Context, name string) (*vm.Call, vm.Bucket, error) {
	c, err := s.call(ctx)
	if err != nil {
		return nil, vm.Bucket{}, err
	}
	b, err := s.room.Bucket(s.life, c, name)
	return c, b, s.fail(err)
}

func (s *store) HeadBucket(ctx context.Context, in *s3.HeadBucketInput) (*s3.HeadBucketOutput, error) {
	_, _, err := s.bucket(ctx, text(in.Bucket))
	return &s3.HeadBucketOutput{}, err
}

// GetBucketAcl is asked by the front before every request to a bucket: it refuses those who
// may not use it. An ACL with an owner only is private.
func (s *store) GetBucketAcl(ctx context.Context, in *s3.GetBucketAclInput) ([]byte, error) {
	_, b, err := s.bucket(ctx, text(in.Bucket))
	if err != nil {
		return nil, err
	}
	return json.Marshal(auth.ACL{Owner: string(b.Account)})
}

func (s *store) CreateBucket(ctx context.Context, in *s3.CreateBucketInput, _ []byte) error {
	c, err := s.call(ctx)
	if err != nil {
		return err
	}
	name := text(in.Bucket)
	if _, err := s.room.CreateBucket(s.life, c, name); err != nil {
		return s.fail(err)
	}
	if in.CreateBucketConfiguration == nil || len(in.CreateBucketConfiguration.Tags) == 0 {
		return nil
	}
	tags := map[string]string{}
	for _, t := range in.CreateBucketConfiguration.Tags {
		tags[text(t.Key)] = text(t.Value)
	}
	if _, err = s.room.ChangeBucket(s.life, c, name, objects.Change{Tags: &tags}); err != nil {
		return s.fail(errors.Join(err, s.room.RemoveBucket(s.life, c, name, false)))
	}
	return nil
}

func (s *store) DeleteBucket(ctx context.Context, bucket string) error {
	c, err := s.call(ctx)
	if err != nil {
		return err
	}
	return s.fail(s.room.RemoveBucket(s.life, c, bucket, false))
}

// PutBucketVersioning accepts what is always so. Versioning cannot be suspended: a version
// that was written stays.
func (s *store) PutBucketVersioning(ctx context.Context, bucket string, status types.BucketVersioningStatus) error {
	if _, _, err := s.bucket(ctx, bucket); err != nil {
		return err
	}
	if status != types.BucketVersioningStatusEnabled {
		return s3err.GetAPIError(s3err.ErrSuspendedVersioningNotAllowed)
	}
	return nil
}

func (s *store) GetBucketVersioning(ctx context.Context, bucket string) (s3response.GetBucketVersioningOutput, error) {
	_, _, err := s.bucket(ctx, bucket)
	enabled := types.BucketVersioningStatusEnabled
	return s3response.GetBucketVersioningOutput{Status: &enabled}, err
}

// GetBucketPolicy: there are no policies; grants take their place.
func (*store) GetBucketPolicy(context.Context, string) ([]byte, error) {
	return nil, s3err.GetAPIError(s3err.ErrNoSuchBucketPolicy)
}

func (s *store) GetBucketOwnershipControls(ctx context.Context, bucket string) (types.ObjectOwnership, error) {
	_, _, err := s.bucket(ctx, bucket)
	return types.ObjectOwnershipBucketOwnerEnforced, err
}

// GetBucketCors is asked by the front for requests with an origin.
func (*store) GetBucketCors(context.Context, string) ([]byte, error) {
	return nil, s3err.GetAPIError(s3err.ErrNoSuchCORSConfiguration)
}

func (s *store) GetBucketTagging(ctx context.Context, bucket string) (map[string]string, error) {
	_, b, err := s.bucket(ctx, bucket)
	if err == nil && len(b.Tags) == 0 {
		err = s3err.GetBucketErr(s3err.ErrBucketTaggingNotFound, bucket)
	}
	return maps.Clone(b.Tags), err
}

func (s *store) PutBucketTagging(ctx context.Context, bucket string, tags map[string]string) error {
	c, err := s.call(ctx)
	if err != nil {
		return err
	}
	_, err = s.room.ChangeBucket(s.life, c, bucket, objects.Change{Tags: &tags})
	return s.fail(err)
}

func (s *store) DeleteBucketTagging(ctx context.Context, bucket string) error {
	return s.PutBucketTagging(ctx, bucket, nil)
}

// GetObjectLockConfiguration: every bucket can retain versions.
func (s *store) GetObjectLockConfiguration(ctx context.Context, bucket string) ([]byte, error) {
	_, b, err := s.bucket(ctx, bucket)
	if err != nil {
		return nil, err
	}
	out := auth.BucketLockConfig{Enabled: true}
	if b.Retain != nil {
		days := int32(b.Retain.Days) //nolint:gosec // checked: at most 36500
		out.DefaultRetention = &types.DefaultRetention{Mode: types.ObjectLockRetentionMode(b.Retain.Mode), Days: &days}
	}
	return json.Marshal(out)
}

func (s *store) PutObjectLockConfiguration(ctx context.Context, bucket string, config []byte) error {
	c, err := s.call(ctx)
	if err != nil {
		return err
	}
	var in auth.BucketLockConfig
	if err := json.Unmarshal(config, &in); err != nil {
		return s3err.GetAPIError(s3err.ErrMalformedXML)
	}
	var retain *vm.RetainDefault
	if d := in.DefaultRetention; d != nil {
		retain = &vm.RetainDefault{Mode: vm.RetainMode(d.Mode)}
		switch {
		case d.Days != nil:
			retain.Days = int(*d.Days)
		case d.Years != nil:
			retain.Days = int(*d.Years) * 365
		}
	}
	_, err = s.room.ChangeBucket(s.life, c, bucket, objects.Change{Retain: &retain})
	return s.fail(err)
}
