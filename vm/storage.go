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
	Kind    string    `json:"kind"` // vm, generation, image, volume, repository, objects (of an account), or other: records, logs and caches of the server
	ID      string    `json:"id"`
	Name    string    `json:"name,omitempty"`
	Account AccountID `json:"account,omitempty"` // "" = the host's
	Bytes

	State       State        `json:"state,omitempty"`       // of a VM
	Why         Why          `json:"why,omitempty"`         // of a generation: why it was captured
	Snapshot    SnapshotID   `json:"snapshot,omitempty"`    // "" = not a snapshot
	Persistence *Persistence `json:"persistence,omitempty"` // of VMs and snapshots

	// Frees is the space that its removal frees, including what only it needs. Kept is why
	// a VM is not removed. Next is its place in the order of removal, from 1; 0 = none.
	LastActive time.Time `json:"lastActive,omitzero"`
	Frees      int64     `json:"freesBytes,omitempty"`
	Kept       string    `json:"kept,omitempty"`
	Next       int       `json:"next,omitempty"`
	Goes       bool      `json:"goes,omitempty"` // it would be removed now
}

// AccountStorage is the disk space of an account's VMs, snapshots and generations.
type AccountStorage struct {
	Account AccountID `json:"account"`
	Name    string    `json:"name"`
	Bytes
	MemoryImages int64 `json:"memoryImageBytes"` // the part for memory
	Limit        int64 `json:"limitBytes"`       // 0 = none
}

// Storage lists what uses the disk, and what would be removed next. For callers other than
// admins Budget, Used and Over are those of their account, and the host's figures are left out.
type Storage struct {
	Path      string           `json:"path,omitempty"`
	Budget    int64            `json:"budgetBytes"`              // of the data directory; for an account its quota, 0 = none
	Used      int64            `json:"usedBytes"`                // by the data directory or the account
	Available int64            `json:"availableBytes"`           // that the caller may still use
	DiskTotal int64            `json:"diskTotalBytes,omitempty"` // of the host
	DiskFree  int64            `json:"diskFreeBytes,omitempty"`  // of the host
	Reserve   int64            `json:"reserveBytes,omitempty"`   // kept free on the disk
	Over      int64            `json:"overBytes"`                // what must be removed; 0 = nothing
	Accounts  []AccountStorage `json:"accounts"`
	Items     []StorageItem    `json:"items"` // largest first
}

// Pruned lists what was removed or, for a dry run, would be.
type Pruned struct {
	DryRun bool          `json:"dryRun"`
	Over   int64         `json:"overBytes"`  // what had to be removed
	Frees  int64         `json:"freesBytes"` // the space that was freed, or would be
	Gone   []StorageItem `json:"gone"`
	Left   int64         `json:"leftBytes"` // what must still be removed but cannot
}

// Quota has the limits of an account. 0 = no limit.
type Quota struct {
	VMs          int   `json:"vms,omitempty"`               // in any state
	Running      int   `json:"running,omitempty"`           // at once
	VCPU         int   `json:"vcpu,omitempty"`              // of its running VMs together
	MemoryMiB    int   `json:"memoryMib,omitempty"`         // of its running VMs together
	Disk         int64 `json:"diskBytes,omitempty"`         // what its VMs, generations and snapshots take
	MemoryImages int64 `json:"memoryImagesBytes,omitempty"` // the part for memory
	Snapshots    int   `json:"snapshots,omitempty"`
}

// QuotaState is an account's limits and its use.
type QuotaState struct {
	Account AccountID `json:"account"`
	Name    string    `json:"name"`
	Quota   Quota     `json:"quota"` // 0 = no limit
	Use     Quota     `json:"use"`
	// DiskDefault is the disk limit that applies while the quota has none; 0 = no limit.
	DiskDefault int64 `json:"diskDefaultBytes,omitempty"`
}
