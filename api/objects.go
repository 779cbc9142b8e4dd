// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"time"

	"github.com/warren-vm/warren/vm"
)

// NewS3Key is the body of POST /v1/objects/keys.
type NewS3Key struct {
	Name     string `json:"name,omitempty"`
	Identity string `json:"identity,omitempty"` // id or name; absent = the key acts as the account
}

// S3Key is an access key for S3 clients, without its secret.
type S3Key struct {
	AccessKeyID string        `json:"accessKeyId"`
	Name        string        `json:"name,omitempty"`
	Identity    vm.IdentityID `json:"identityId,omitempty"`
	Links       bool          `json:"links,omitempty"` // the server made it to sign links
	CreatedAt   time.Time     `json:"createdAt"`
	LastUsed    *time.Time    `json:"lastUsed,omitempty"`
}

// CreatedS3Key is a new access key with its secret, which is shown only here, and what else
// a client needs.
type CreatedS3Key struct {
	S3Key
	SecretAccessKey string `json:"secretAccessKey"`
	Endpoint        string `json:"endpoint,omitempty"` // "" = no S3 client reaches the objects
	Region          string `json:"region"`
}

// S3KeyList answers GET /v1/objects/keys.
type S3KeyList struct {
	Keys []S3Key `json:"keys"`
}

// NewBucket is the body of POST /v1/objects/buckets.
type NewBucket struct {
	Name string `json:"name"`
}

// Bucket is a bucket of objects.
type Bucket struct {
	Name      string             `json:"name"`
	CreatedAt time.Time          `json:"createdAt"`
	Rules     []vm.LifecycleRule `json:"rules"`
	Retain    *vm.RetainDefault  `json:"retain,omitempty"`
	Tags      map[string]string  `json:"tags,omitempty"`
}

// BucketList answers GET /v1/objects/buckets.
type BucketList struct {
	Buckets []Bucket `json:"buckets"`
}

// ChangeBucket is the body of PATCH /v1/objects/buckets/{bucket}: it sets what is there.
type ChangeBucket struct {
	Rules    *[]vm.LifecycleRule `json:"rules,omitempty"`
	Retain   *vm.RetainDefault   `json:"retain,omitempty"`
	NoRetain bool                `json:"noRetain,omitempty"` // end the default retention
	Tags     *map[string]string  `json:"tags,omitempty"`
}

// BucketUseList answers GET /v1/objects/usage.
type BucketUseList struct {
	Buckets []vm.BucketUse `json:"buckets"`
}

// BucketGrant lets an identity or a VM use the keys of a bucket that begin with a prefix.
type BucketGrant struct {
	Identity  string          `json:"identity,omitempty"` // id; in requests also the name
	VM        string          `json:"vm,omitempty"`       // id; in requests also the name
	Prefix    string          `json:"prefix,omitempty"`
	Access    vm.ObjectAccess `json:"access,omitempty"`
	GrantedAt *time.Time      `json:"grantedAt,omitempty"`
}

// BucketGrantList answers GET /v1/objects/buckets/{bucket}/grants.
type BucketGrantList struct {
	Grants []BucketGrant `json:"grants"`
}

// ObjectList is a page of objects or versions. Prefixes are common prefixes of keys, if a
// delimiter was given.
type ObjectList struct {
	Objects  []vm.Object `json:"objects"`
	Prefixes []string    `json:"prefixes,omitempty"`
	// Next and NextVersion are after and afterVersion of the next page; absent = this is
	// the last one.
	Next        string `json:"next,omitempty"`
	NextVersion string `json:"nextVersion,omitempty"`
}

// ObjectTags is the body of PUT /v1/objects/buckets/{bucket}/tags/{key}.
type ObjectTags struct {
	Tags map[string]string `json:"tags"`
}

// RetainObject is the body of PUT /v1/objects/buckets/{bucket}/retain/{key}.
type RetainObject struct {
	Mode   vm.RetainMode `json:"mode,omitempty"`
	Until  time.Time     `json:"until,omitzero"`
	Hold   *bool         `json:"hold,omitempty"`   // set or lift the legal hold
	Bypass bool          `json:"bypass,omitempty"` // shorten a governance retention
}

// SignObject is the body of POST /v1/objects/buckets/{bucket}/sign/{key}.
type SignObject struct {
	Method   string `json:"method,omitempty"`  // GET (default), HEAD or PUT
	Seconds  int    `json:"seconds,omitempty"` // default 3600
	Version  string `json:"version,omitempty"`
	Filename string `json:"filename,omitempty"`
}

// SignedObject is a signed link.
type SignedObject struct {
	URL       string    `json:"url"`
	Method    string    `json:"method"`
	ExpiresAt time.Time `json:"expiresAt"`
}

// SweptObjects says what the lifecycle rules have ended.
type SweptObjects struct {
	Expired int `json:"expired"` // keys that got a delete marker
	Removed int `json:"removed"` // versions
	Aborted int `json:"aborted"` // multipart uploads
}

// HeaderObject carries the vm.Object of an answer with bytes, as JSON. HeaderMeta begins
// the headers of user metadata in requests.
const (
	HeaderObject = "Warren-Object"
	HeaderMeta   = "Warren-Meta-"
)
