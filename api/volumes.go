// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"time"

	"github.com/warren-vm/warren/vm"
)

// The states of a volume.
const (
	VolumeLocked   = "locked"
	VolumeUnlocked = "unlocked"
)

// Volume is a managed volume: an encrypted disk that VMs mount.
type Volume struct {
	ID        vm.VolumeID `json:"id"`
	Name      string      `json:"name"`
	Project   string      `json:"project"`
	State     string      `json:"state"`     // locked, unlocked
	Sensitive bool        `json:"sensitive"` // its files can be read, because it is unlocked or mounted
	SizeMib   int         `json:"sizeMib"`
	UsedBytes int64       `json:"usedBytes"` // of the host's disk
	Formatted bool        `json:"formatted"` // a guest has created a file system
	CreatedAt time.Time   `json:"createdAt"`

	UnlockedAt time.Time       `json:"unlockedAt,omitzero"`
	LocksAt    time.Time       `json:"locksAt,omitzero"`
	Mounts     []Mount         `json:"mounts"`
	Keys       []vm.VolumeSlot `json:"keys,omitempty"` // the ways to unlock it; only in answers about one volume

	Snapshots []vm.VolumeSnapshot `json:"snapshots,omitempty"` // oldest first
}

// VolumeList answers GET /v1/volumes.
type VolumeList struct {
	Volumes []Volume `json:"volumes"`
}

// NewVolume is the body of POST /v1/volumes. Without passphrase and
// recipient, the host's key unlocks the volume.
type NewVolume struct {
	Name       string `json:"name"`
	Project    string `json:"project,omitempty"` // "default"
	SizeMib    int    `json:"sizeMib,omitempty"` // 8 GiB
	Passphrase string `json:"passphrase,omitempty"`
	Recipient  string `json:"recipient,omitempty"` // an age public key
}

// UnlockVolume is the body of an unlock; it may be absent.
type UnlockVolume struct {
	Passphrase   string     `json:"passphrase,omitempty"`
	Identity     string     `json:"identity,omitempty"`     // an age identity
	TTL          vm.Seconds `json:"ttlSeconds,omitempty"`   // it is locked again after this time
	KeepUnlocked bool       `json:"keepUnlocked,omitempty"` // stay unlocked after the last VM that has it mounted ends
}

// UnlockedVolume answers an unlock.
type UnlockedVolume struct {
	Volume

	Recovered bool `json:"recovered,omitempty"` // its header was damaged and was restored from its copy
}

// LockVolume is the body of a lock; it may be absent.
type LockVolume struct {
	Force bool `json:"force,omitempty"` // unmount it first, and kill the programs that use it
}

// NewVolumeSnapshot is the body of POST /v1/volumes/{volume}/snapshots; it may be
// absent.
type NewVolumeSnapshot struct {
	Name string `json:"name,omitempty"`
}

// RollbackVolume is the body of a volume's rollback; it may be absent.
type RollbackVolume struct {
	To string `json:"to,omitempty"` // a snapshot's id or name; "" = the newest that a user made
}

// RolledBackVolume answers a volume's rollback.
type RolledBackVolume struct {
	Volume

	Before vm.VolumeSnapshot `json:"before"` // the state before; roll back to it to undo the rollback
}

// ResizeVolume is the body of a volume's resize.
type ResizeVolume struct {
	SizeMib int `json:"sizeMib"`
}

// Mount is a volume, or a directory of the host, in a VM.
type Mount struct {
	Volume  vm.VolumeID `json:"volumeId"`
	Name    string      `json:"volume"`
	Project string      `json:"project"`
	VM      vm.ID       `json:"vmId"`
	VMName  string      `json:"vm,omitempty"`
	Path    string      `json:"path"` // in the guest
	RW      bool        `json:"rw"`
	Share   bool        `json:"share,omitempty"`
	Cut     bool        `json:"cut,omitempty"`  // the volume is missing: every read and write fails
	Host    string      `json:"host,omitempty"` // for a directory of the host: its path there
	Since   time.Time   `json:"since,omitzero"`
}

// MountList answers GET /v1/vms/{vm}/mounts.
type MountList struct {
	Mounts []Mount `json:"mounts"`
}

// NewMount is the body of POST /v1/vms/{vm}/mounts.
type NewMount struct {
	Volume  string `json:"volume"`            // name or id; with Host any name, which may be empty
	Project string `json:"project,omitempty"` // "default"
	Path    string `json:"path"`              // in the guest, absolute
	RW      bool   `json:"rw,omitempty"`      // otherwise the host prevents writes
	Over    bool   `json:"over,omitempty"`    // allow a directory that is not empty
	Share   bool   `json:"share,omitempty"`   // read while another VM writes, or write while such readers read
	Host    string `json:"host,omitempty"`    // in place of a volume: the server's directory to mount, absolute, encrypted at rest, only for administrators; or s3://BUCKET/PREFIX
	Fixture bool   `json:"fixture,omitempty"` // of Host: data that needs no encryption
}
