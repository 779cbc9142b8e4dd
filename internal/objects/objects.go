// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

// Package objects is object storage: what was produced or given. It keeps buckets, the
// versions of objects with their bytes, access keys for S3 clients, and grants. Every way
// in, by S3 or by the API, asks the same functions for right, quota, retention, scan state
// and audit record.
//
// A version is committed by one transaction of the index, after its bytes are on disk. A
// version that is not in the index does not exist.
package objects

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/warren-vm/warren/internal/access"
	"github.com/warren-vm/warren/internal/journal"
	"github.com/warren-vm/warren/internal/layout"
	"github.com/warren-vm/warren/internal/ledger"
	"github.com/warren-vm/warren/vm"
)

// Config is what the room works with. Fields are required unless they say otherwise.
type Config struct {
	Dir     layout.Dir
	Access  *access.Access
	Journal *journal.Journal
	Now     func() time.Time
	Log     *slog.Logger
	// DiskLeft returns how many more bytes an account may store; negative = no limit. nil
	// = no limit.
	DiskLeft func(ctx context.Context, account vm.AccountID) (int64, error)
	// Scanner inspects uploads; nil = every upload is clean.
	Scanner Scanner
	// Endpoint is the URL at which S3 clients reach the objects, for signed links; "" = they
	// are not reached.
	Endpoint string
	// VMAccount returns the account of a VM. nil = no VM has objects.
	VMAccount func(vm.ID) (vm.AccountID, bool)
	// Remote stores the bodies on another S3; nil = in files of the data directory.
	Remote Remote
}

// Region is the only region, for S3 clients, which must name one.
const Region = "us-east-1"

// Objects is the room. All methods may be called at once from many goroutines. Kinds of
// errors in every method: NotFound for what the caller may not see, Denied for a right that
// it lacks, Unavailable when the room is not open.
type Objects struct {
	cfg     Config
	buckets *ledger.Table[string, vm.Bucket]
	keys    *ledger.Table[string, vm.S3Key]
	grants  *ledger.Table[string, vm.ObjectGrant]
	secrets secrets
	quota   quota
	index   *index // nil before Open
	bodies  bodies
	scans   scans
	pins    pins

	granting sync.Mutex    // held from the search of a grant until it is stored
	noting   sync.Mutex    // held by the one who records the use of a key
	sweeping sync.RWMutex  // held to write while files are deleted, to read by those who need them to stay
	dirty    chan struct{} // wakes the task that deletes files

	life  context.Context // ends with Close
	end   context.CancelFunc
	tasks sync.WaitGroup
}

const (
	byAccount = "account" // indexes of the tables
	byName    = "name"
	byBucket  = "bucket"
	byHolder  = "holder"
)

// BucketKind is the table of buckets. Their names are their keys in the store, so that two
// servers of one store never have buckets of one name.
var BucketKind = ledger.Kind[string, vm.Bucket]{
	Name: "buckets",
	Key:  func(b *vm.Bucket) string { return b.Name },
	Host: func(b *vm.Bucket) *string { return &b.Host },
	Index: map[string]func(*vm.Bucket) []string{
		byAccount: func(b *vm.Bucket) []string { return []string{string(b.Account)} },
	},
	Limit: ledger.Limit[vm.Bucket]{
		Most: 1000, Owner: func(b *vm.Bucket) string { return string(b.Account) },
		What: "buckets", Then: "remove one (`warren bucket rm NAME`)", Code: "BUCKET_LIMIT_EXCEEDED",
	},
}

// KeyKind is the table of access keys.
var KeyKind = ledger.Kind[string, vm.S3Key]{
	Name: "s3-keys",
	Key:  func(k *vm.S3Key) string { return k.ID },
	Host: func(k *vm.S3Key) *string { return &k.Host },
	Index: map[string]func(*vm.S3Key) []string{
		byAccount: func(k *vm.S3Key) []string { return []string{string(k.Account)} },
	},
	Limit: ledger.Limit[vm.S3Key]{
		Most: 1000, Owner: func(k *vm.S3Key) string { return string(k.Account) },
		What: "access keys for S3", Then: "revoke one (`warren key revoke KEY`)", Code: "KEY_LIMIT_EXCEEDED",
	},
}

// GrantKind is the table of grants.
var GrantKind = ledger.Kind[string, vm.ObjectGrant]{
	Name: "object-grants",
	Key:  func(g *vm.ObjectGrant) string { return g.ID },
	Host: func(g *vm.ObjectGrant) *string { return &g.Host },
	Index: map[string]func(*vm.ObjectGrant) []string{
		byAccount: func(g *vm.ObjectGrant) []string { return []string{string(g.Account)} },
		byBucket:  func(g *vm.ObjectGrant) []string { return []string{g.Bucket} },
		byHolder:  func(g *vm.ObjectGrant) []string { return []string{holder(g.Identity, g.VM)} },
	},
	Limit: ledger.Limit[vm.ObjectGrant]{
		Most: 10_000, Owner: func(g *vm.ObjectGrant) string { return string(g.Account) },
		What: "grants of buckets", Then: "revoke one (`warren bucket revoke`)", Code: "BUCKET_LIMIT_EXCEEDED",
	},
}

// holder is the value of the index byHolder.
func holder(identity vm.IdentityID, machine vm.ID) string {
	if identity != "" {
		return "identity " + string(identity)
	}
	return "vm " + string(machine)
}

// New returns the room with its tables in the ledger. Load the ledger next, then call
// Open.
func New(l *ledger.Ledger, cfg Config) *Objects {
	o := &Objects{cfg: cfg, dirty: make(chan struct{}, 1), buckets: ledger.Add(l, BucketKind), keys: ledger.Add(l, KeyKind), grants: ledger.Add(l, GrantKind)}
	o.secrets.init(cfg.Dir)
	if cfg.DiskLeft != nil {
		o.quota.left = o.left
		o.quota.limit = func(id vm.AccountID) int64 { a, _ := cfg.Access.Lookup(id); return a.Quota.Disk }
	}
	o.quota.init(cfg.Now)
	return o
}
