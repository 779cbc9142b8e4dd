// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package vm

import (
	"strings"
	"time"
)

// Bucket is the record of a bucket of objects. It is private: only its account, and the
// identities and VMs with a grant, reach it. Every write to a key makes a new version.
type Bucket struct {
	ID        string    `json:"id"`   // never used twice
	Name      string    `json:"name"` // unique on the server
	Account   AccountID `json:"account"`
	CreatedAt time.Time `json:"createdAt"`
	// Rules are what the lifecycle task does with its objects.
	Rules []LifecycleRule `json:"rules,omitempty"`
	// Retain is the retention of objects whose writer names none; nil = none.
	Retain *RetainDefault    `json:"retain,omitempty"`
	Tags   map[string]string `json:"tags,omitempty"`
	Host   string            `json:"host,omitempty"` // id of the server that has its objects
}

// LifecycleRule says what ends without a person's command. Zero numbers do nothing.
type LifecycleRule struct {
	ID     string `json:"id"`
	Prefix string `json:"prefix,omitempty"` // of keys; "" = all
	// ExpireDays is the age in days at which the current version gets a delete marker.
	ExpireDays int `json:"expireDays,omitempty"`
	// KeepVersions is how many versions of a key are kept; older ones are removed.
	KeepVersions int `json:"keepVersions,omitempty"`
	// OldDays is how many days a version is kept after a newer one replaced it.
	OldDays int `json:"oldDays,omitempty"`
	// AbortDays is the age in days at which an unfinished multipart upload is removed.
	AbortDays int `json:"abortDays,omitempty"`
}

// Applies reports whether the rule is for a key.
func (r LifecycleRule) Applies(key string) bool { return strings.HasPrefix(key, r.Prefix) }

// RetainMode is how strongly a version is retained.
type RetainMode string

// The modes of retention, by the names that S3 gives them.
const (
	// Governance: only an API key of the account may remove the version, or shorten the
	// retention, and only if it says so.
	Governance RetainMode = "GOVERNANCE"
	// Compliance: nobody may remove the version, nor shorten the retention.
	Compliance RetainMode = "COMPLIANCE"
)

// RetainDefault is a bucket's retention for new versions.
type RetainDefault struct {
	Mode RetainMode `json:"mode"`
	Days int        `json:"days"`
}

// ScanState is what the scanners of uploads say about a version.
type ScanState string

// The states of a scan.
const (
	Unscanned ScanState = "unscanned" // nobody may read it yet
	Clean     ScanState = "clean"
	Refused   ScanState = "refused" // only the account's owner may read it, by a request that says so
)

// Object is one version of a key, without its bytes. A version's bytes never change.
type Object struct {
	Bucket  string    `json:"bucket"`
	Key     string    `json:"key"`
	Version string    `json:"version"`
	Latest  bool      `json:"latest"`            // no newer version of the key exists
	Deleted bool      `json:"deleted,omitempty"` // a delete marker, which has no bytes
	Size    int64     `json:"size"`
	ETag    string    `json:"etag,omitempty"`   // of S3: hex MD5, or that of the parts and their number
	SHA256  string    `json:"sha256,omitempty"` // hex, of the bytes; "" until a multipart upload is scanned
	At      time.Time `json:"at"`               // when it was written
	By      string    `json:"by,omitempty"`     // who wrote it

	ContentType  string            `json:"contentType,omitempty"`
	Headers      map[string]string `json:"headers,omitempty"` // cache-control, content-encoding and the like, in lower case
	Meta         map[string]string `json:"meta,omitempty"`    // of the user
	Tags         map[string]string `json:"tags,omitempty"`
	Checksums    map[string]string `json:"checksums,omitempty"` // base64, by the algorithm's name
	ChecksumType string            `json:"checksumType,omitempty"`
	Parts        int               `json:"parts,omitempty"` // of a multipart upload; 0 = it was none

	Scan       ScanState  `json:"scan,omitempty"` // "" for a delete marker
	ScanReason string     `json:"scanReason,omitempty"`
	Retain     RetainMode `json:"retain,omitempty"` // "" = not retained
	RetainTo   time.Time  `json:"retainTo,omitzero"`
	Hold       bool       `json:"hold,omitempty"` // a legal hold: not removed until it is lifted

	Origin *ObjectOrigin `json:"origin,omitempty"` // nil = not published from a VM
}

// Retained reports whether the version may not be removed at a time.
func (o *Object) Retained(now time.Time) bool {
	return o.Hold || o.Retain != "" && now.Before(o.RetainTo)
}

// ObjectOrigin says what an object was published from.
type ObjectOrigin struct {
	VM         ID           `json:"vm,omitempty"`
	Name       string       `json:"name,omitempty"` // of the VM, then
	Generation GenerationID `json:"generation,omitempty"`
	Path       string       `json:"path,omitempty"` // in the guest
	Command    string       `json:"command,omitempty"`
	Tree       bool         `json:"tree,omitempty"` // a tar.zst of a directory
	Mode       uint32       `json:"mode,omitempty"` // permission bits of the file
	Receipt    string       `json:"receipt,omitempty"`
}

// ObjectAccess is what a grant allows.
type ObjectAccess string

// The accesses to objects.
const (
	ObjectRead  ObjectAccess = "read"
	ObjectWrite ObjectAccess = "write" // includes read
)

// ObjectGrant lets an identity or a VM use the keys of a bucket that begin with a prefix.
type ObjectGrant struct {
	ID        string       `json:"id"`
	Account   AccountID    `json:"account"`
	Bucket    string       `json:"bucket"`             // its id
	Identity  IdentityID   `json:"identity,omitempty"` // one of the two is set
	VM        ID           `json:"vm,omitempty"`
	Prefix    string       `json:"prefix,omitempty"` // "" = all keys
	Access    ObjectAccess `json:"access"`
	GrantedAt time.Time    `json:"grantedAt"`
	Host      string       `json:"host,omitempty"`
}

// S3Key is an access key for S3 clients. Its secret is stored wrapped under the host's
// key, because the server computes signatures with it.
type S3Key struct {
	ID        string     `json:"id"` // the access key id
	Account   AccountID  `json:"account"`
	Identity  IdentityID `json:"identity,omitempty"` // "" = it acts as the account
	Name      string     `json:"name,omitempty"`
	Links     bool       `json:"links,omitempty"` // the server made it to sign links
	Secret    []byte     `json:"secret"`          // wrapped
	CreatedAt time.Time  `json:"createdAt"`
	LastUsed  time.Time  `json:"lastUsed,omitzero"`
	Host      string     `json:"host,omitempty"`
}

// BucketUse is what a bucket holds.
type BucketUse struct {
	Bucket   string `json:"bucket"`
	Objects  int64  `json:"objects"`  // keys with a current version
	Versions int64  `json:"versions"` // with delete markers
	Bytes    int64  `json:"bytes"`    // of all versions
	Uploads  int64  `json:"uploads"`  // bytes of unfinished multipart uploads
	Pending  int64  `json:"pending"`  // their number
	Small    int64  `json:"small"`    // bytes that are in the index, not in files
}

// NewBucketID returns a fresh random bucket id: "bk-" and 16 characters.
func NewBucketID() string { return "bk-" + randomID(16) }

// NewS3KeyID returns a fresh random access key id: "WARREN" and 14 characters of [A-Z0-9].
func NewS3KeyID() string { return "WARREN" + strings.ToUpper(randomID(14)) }
