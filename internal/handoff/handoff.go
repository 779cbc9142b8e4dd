// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package handoff

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/warren-vm/warren/internal/engine"
	"github.com/warren-vm/warren/internal/journal"
	"github.com/warren-vm/warren/internal/layout"
	"github.com/warren-vm/warren/internal/objects"
	"github.com/warren-vm/warren/internal/qcow"
	"github.com/warren-vm/warren/internal/repo"
	"github.com/warren-vm/warren/vm"
)

// Config is what the room works with. All fields are required.
type Config struct {
	Dir     layout.Dir
	Host    string // id of the server
	Version string // of Warren
	Engine  *engine.Engine
	Repo    *repo.Repo
	Objects *objects.Objects
	// Published lists the versions of objects that were published from a VM and that the
	// caller may read, the newest first.
	Published func(ctx context.Context, c *vm.Call, of vm.ID) ([]vm.ObjectRef, error)
	Journal   *journal.Journal
	Now       func() time.Time
	Log       *slog.Logger
}

// Handoff is the room. Its methods may be called at once.
type Handoff struct {
	cfg    Config
	places chan struct{} // of bundles that are unpacked at once

	mu      sync.Mutex
	opening map[vm.AccountID]bool // accounts that upload or open a bundle; guarded by mu
}

// atOnce is how many bundles are unpacked at once: each takes disk space twice.
const atOnce = 2

// New returns the room.
func New(cfg Config) *Handoff {
	return &Handoff{cfg: cfg, places: make(chan struct{}, atOnce), opening: map[vm.AccountID]bool{}}
}

// begin lets an account upload one bundle at a time: one that never ends keeps nobody else
// waiting.
func (h *Handoff) begin(account vm.AccountID) (end func(), err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.opening[account] {
		return nil, vm.Errorf(vm.Busy, "bundle", "another bundle of the account is being opened").WithHint("try again when it is done")
	}
	h.opening[account] = true
	return func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		delete(h.opening, account)
	}, nil
}

// Paths and kinds of entries.
const (
	vmPath       = "vm.json"
	receiptsPath = "receipts.json"
	diskPath     = "machine/disk.data"
	ramPath      = "machine/ram"
	devicePath   = "machine/device"
	reposDir     = "repos/"
	objectsDir   = "objects/"
	imageDir     = "image/"
)

// contents is the entry vm.json: what a bundle is of.
type contents struct {
	VM       vm.VM         `json:"vm"`
	Image    vm.Image      `json:"image"`
	HasImage bool          `json:"hasImage"` // the image's files are in the bundle
	Machine  *machine      `json:"machine"`  // null = only repositories, objects and records
	Repos    []repoEntry   `json:"repos"`
	Objects  []objectEntry `json:"objects,omitempty"` // the oldest first
}

// machine describes the files of a machine.
type machine struct {
	Manifest vm.Manifest   `json:"manifest"`
	Memory   bool          `json:"memory"`
	DiskSize int64         `json:"diskSize"` // bytes
	Disk     []qcow.Extent `json:"disk"`     // what it has above the image; the data follows in machine/disk.data
}

// repoEntry is one repository.
type repoEntry struct {
	ID            string        `json:"id"`
	Name          string        `json:"name"`
	DefaultBranch string        `json:"defaultBranch"`
	Protected     []string      `json:"protected,omitempty"`
	Empty         bool          `json:"empty,omitempty"` // it has no git bundle
	Grant         *vm.RepoGrant `json:"grant,omitempty"` // of the VM; null = it only committed into it
}

// Facts are the part of a manifest that only bundles have.
type Facts struct {
	VM      vm.ID      `json:"vm"`
	Name    string     `json:"name"`
	State   vm.State   `json:"state"` // when it was packed
	Machine bool       `json:"machine"`
	Memory  bool       `json:"memory"`
	Image   vm.ImageID `json:"image"`
	// HasImage says that the image's files are in the bundle.
	HasImage     bool     `json:"hasImage"`
	Repositories []string `json:"repositories"` // names
	Receipts     int      `json:"receipts"`
	// Objects are the versions that were published from the VM.
	Objects     []PackedObject `json:"objects"`
	ObjectsLeft int            `json:"objectsLeft"` // published versions that are beyond the limits of a bundle
}

// PackedObject is one version of an object in a bundle.
type PackedObject struct {
	Entry   string `json:"entry"` // path of its bytes
	Bucket  string `json:"bucket"`
	Key     string `json:"key"`
	Version string `json:"version"`
	Size    int64  `json:"size"`
}

// maxContents bounds vm.json, in bytes: hundreds of thousands of runs of data on the disk.
const maxContents = 32 << 20

// maxReceipts is how many audit records of a VM a bundle has, the newest.
const maxReceipts = 10_000

// receipts returns the audit records of a VM.
func (h *Handoff) receipts(ctx context.Context, c *vm.Call, id vm.ID) ([]vm.AuditRecord, error) {
	return h.cfg.Journal.AuditList(ctx, c, vm.AuditFilter{VM: id, Limit: maxReceipts})
}
