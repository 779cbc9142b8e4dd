// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package vm

import "time"

// Bytes is the disk space of a thing, as the file system counts it: holes
// take nothing, and shared blocks count once.
type Bytes struct {
	Unique int64 `json:"uniqueBytes"` // freed when it is removed
	Shared int64 `json:"sharedBytes"` // other things use them, too
}

// StorageItem is one thing that takes disk.
type StorageItem struct {
	Kind    string    `json:"kind"` // vm, generation, image, or other: records, logs and caches of the server itself
	ID      string    `json:"id"`
	Name    string    `json:"name,omitempty"`
	Account AccountID `json:"account,omitempty"` // "" = the host's
	Bytes

	State       State        `json:"state,omitempty"`       // of a VM
	Why         Why          `json:"why,omitempty"`         // of a generation: for what it was captured
	Snapshot    SnapshotID   `json:"snapshot,omitempty"`    // "" = not a snapshot
	Persistence *Persistence `json:"persistence,omitempty"` // of VMs and snapshots

	// Frees is the space that removing it frees, including what only it needs.
	// Kept is why a VM is not removed. Next is its place in the order of removal,
	// from 1; 0 = none.
	LastActive time.Time `json:"lastActive,omitzero"`
	Frees      int64     `json:"freesBytes,omitempty"`
	Kept       string    `json:"kept,omitempty"`
	Next       int       `json:"next,omitempty"`
	Goes       bool      `json:"goes,omitempty"` // it would be removed now
}

// AccountStorage is what the VMs, snapshots and generations of an account take.
type AccountStorage struct {
	Account AccountID `json:"account"`
	Name    string    `json:"name"`
	Bytes
	MemoryImages int64 `json:"memoryImageBytes"` // the part of it that is memory
	Limit        int64 `json:"limitBytes"`       // 0 = none
}

// Storage is who uses what of the disk, and what would go next. To others than
// admins Budget, Used and Over are those of their account, and the host's own
// figures are left out.
type Storage struct {
	Path      string           `json:"path,omitempty"`
	Budget    int64            `json:"budgetBytes"`              // for the data directory; of an account its quota, 0 = none
	Used      int64            `json:"usedBytes"`                // by it
	Available int64            `json:"availableBytes"`           // that the caller may still take
	DiskTotal int64            `json:"diskTotalBytes,omitempty"` // of the host
	DiskFree  int64            `json:"diskFreeBytes,omitempty"`  // of the host
	Reserve   int64            `json:"reserveBytes,omitempty"`   // kept free of the disk, whoever fills it
	Over      int64            `json:"overBytes"`                // what must go; 0 = nothing
	Accounts  []AccountStorage `json:"accounts"`
	Items     []StorageItem    `json:"items"` // largest first
}

// Pruned is what was let go, or, of a dry run, what would be.
type Pruned struct {
	DryRun bool          `json:"dryRun"`
	Over   int64         `json:"overBytes"`  // what had to go
	Frees  int64         `json:"freesBytes"` // what it has brought, or would
	Gone   []StorageItem `json:"gone"`
	Left   int64         `json:"leftBytes"` // what must still go and cannot
}

// Quota has the limits of an account. 0 = no limit.
type Quota struct {
	VMs          int   `json:"vms,omitempty"`               // in any state
	Running      int   `json:"running,omitempty"`           // at once
	VCPU         int   `json:"vcpu,omitempty"`              // of its running VMs together
	MemoryMiB    int   `json:"memoryMib,omitempty"`         // of its running VMs together
	Disk         int64 `json:"diskBytes,omitempty"`         // what its VMs, generations and snapshots take
	MemoryImages int64 `json:"memoryImagesBytes,omitempty"` // the part of it that is memory
	Snapshots    int   `json:"snapshots,omitempty"`
}

// QuotaState is an account's quota beside what it has.
type QuotaState struct {
	Account AccountID `json:"account"`
	Name    string    `json:"name"`
	Quota   Quota     `json:"quota"` // 0 = no limit
	Use     Quota     `json:"use"`
	// DiskDefault is what the account's disk may be while its quota names none;
	// 0 = any.
	DiskDefault int64 `json:"diskDefaultBytes,omitempty"`
}
