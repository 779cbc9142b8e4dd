// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package vm

import (
	"strings"
	"time"
)

// VolumeID names a managed volume: "vol-" and 16 characters. It is also the
// serial number of its disk in a guest, which may have 20 characters.
type VolumeID string

// NewVolumeID returns a fresh random volume id.
func NewVolumeID() VolumeID { return VolumeID("vol-" + randomID(16)) }

// IsVolumeID reports whether s has the form of a volume id.
func IsVolumeID(s string) bool {
	return len(s) == 20 && strings.HasPrefix(s, "vol-") && idPattern.MatchString(s[4:]+"0000")
}

// DefaultProject is the default project of volumes.
const DefaultProject = "default"

// Limits and default of a volume's size.
const (
	MinVolumeMiB     = 16
	DefaultVolumeMiB = 8 << 10
	MaxVolumeMiB     = 4 << 20
)

// Volume is the record of a managed volume: an encrypted disk that VMs mount. It
// does not store whether the volume is unlocked, because that ends with the server.
type Volume struct {
	ID      VolumeID  `json:"id"`
	Account AccountID `json:"account"`
	Project string    `json:"project"`
	Name    string    `json:"name"` // unique in its project
	SizeMiB int       `json:"sizeMib"`
	// Formatted says that a guest has created a file system on it.
	Formatted bool `json:"formatted,omitempty"`
	// Grown says that its file system is smaller than the disk.
	Grown     bool             `json:"grown,omitempty"`
	Mounts    []VolumeMount    `json:"mounts,omitempty"`
	Snapshots []VolumeSnapshot `json:"snapshots,omitempty"` // oldest first
	Reverting string           `json:"reverting,omitempty"` // the snapshot of a rollback in progress; "" = none
	CreatedAt time.Time        `json:"createdAt"`
	// Refused counts the secrets that were refused in a row, up to a limit.
	// Before NotBefore no secret is tried.
	Refused   int       `json:"refused,omitempty"`
	NotBefore time.Time `json:"notBefore,omitzero"`
	Host      string    `json:"host,omitempty"` // id of the server that it belongs to; "" = written by an older warren
}

// VolumeMount is a VM's lease on a volume, from before the disk is plugged in until
// it is unplugged or the VM's machine has ended. A suspended VM keeps its leases.
type VolumeMount struct {
	VM    ID        `json:"vm"`
	Path  string    `json:"path"` // in the guest, absolute
	RW    bool      `json:"rw,omitempty"`
	Share bool      `json:"share,omitempty"` // may coexist with a writer
	Since time.Time `json:"since"`
	// Pending says that the mount has begun but is not complete.
	Pending bool `json:"pending,omitempty"`
}

// MaxVolumeSnapshots limits the snapshots of one volume.
const MaxVolumeSnapshots = 32

// VolumeSnapshot is the state of a volume at an instant. It is stored in the
// volume's disk, encrypted like it, and takes the space of later changes.
type VolumeSnapshot struct {
	ID        string    `json:"id"` // "vs-" and 8 characters
	Name      string    `json:"name,omitempty"`
	SizeMiB   int       `json:"sizeMib"` // of the volume at that time
	CreatedAt time.Time `json:"createdAt"`
	// Before says that a rollback made it, from the state before.
	Before    bool `json:"beforeRollback,omitempty"`
	Formatted bool `json:"formatted,omitempty"`
	Grown     bool `json:"grown,omitempty"`
	// Pending says that its creation or its removal has begun but is not complete.
	Pending bool `json:"pending,omitempty"`
}

// NewVolumeSnapshotID returns a fresh random id of a volume's snapshot.
func NewVolumeSnapshotID() string { return "vs-" + randomID(8) }

// MountOf returns the volume's lease to a VM.
func (v Volume) MountOf(id ID) (VolumeMount, bool) {
	for _, m := range v.Mounts {
		if m.VM == id {
			return m, true
		}
	}
	return VolumeMount{}, false
}

// VolumeKey opens a volume's disk. It is never stored unencrypted, and its
// value is never printed.
type VolumeKey []byte

// String hides the key from logs.
func (VolumeKey) String() string { return "vm.VolumeKey" }

// GoString hides the key from logs.
func (VolumeKey) GoString() string { return "vm.VolumeKey" }

// VolumeSecret unlocks a volume; all empty = only with the host's own key.
type VolumeSecret struct {
	Passphrase string `json:"passphrase,omitempty"`
	Identity   string `json:"identity,omitempty"` // an age identity, AGE-SECRET-KEY-1...
}

// String hides the secret from logs.
func (VolumeSecret) String() string { return "vm.VolumeSecret" }

// The kinds of a slot: how its copy of the volume's key is encrypted.
const (
	SlotHost       = "host"       // the host's key
	SlotPassphrase = "passphrase" // argon2id of a passphrase
	SlotRecipient  = "recipient"  // an age public key
)

// VolumeSlotSpec describes a slot to make. At most one of Passphrase and
// Recipient is set; with neither it uses the host's key.
type VolumeSlotSpec struct {
	Name       string `json:"name,omitempty"`
	Passphrase string `json:"passphrase,omitempty"`
	Recipient  string `json:"recipient,omitempty"` // age1...
}

// Kind returns the kind of the slot that s describes.
func (s VolumeSlotSpec) Kind() string {
	switch {
	case s.Passphrase != "":
		return SlotPassphrase
	case s.Recipient != "":
		return SlotRecipient
	}
	return SlotHost
}

// VolumeSlot describes one slot, without its contents.
type VolumeSlot struct {
	ID        string    `json:"id"` // "ks-" and 8 characters
	Kind      string    `json:"kind"`
	Name      string    `json:"name,omitempty"`
	Recipient string    `json:"recipient,omitempty"`
	CreatedAt time.Time `json:"createdAt"`
}

// NewSlotID returns a fresh random slot id.
func NewSlotID() string { return "ks-" + randomID(8) }

// PluggedVolume is a volume's disk in a machine. Its key is not part of it.
type PluggedVolume struct {
	ID       VolumeID `json:"id"`
	File     string   `json:"file"` // absolute path of the disk's file
	Port     int      `json:"port"` // number of the machine's spare port, from 1
	SizeMiB  int      `json:"sizeMib,omitempty"`
	ReadOnly bool     `json:"readOnly,omitempty"`
	Share    bool     `json:"share,omitempty"` // opened while a writer may have it open
	// Cut says that the machine has the disk but not the volume: every read and write fails.
	Cut bool `json:"cut,omitempty"`
}

// VolumeAt is a volume that a guest's memory has mounted at a path.
type VolumeAt struct {
	ID      VolumeID `json:"id"`
	Name    string   `json:"name"` // at that time, like the project
	Project string   `json:"project"`
	Path    string   `json:"path"`
	RW      bool     `json:"rw,omitempty"`
}

// VolumeUse asks a guest to mount a volume's disk.
type VolumeUse struct {
	ID   VolumeID `json:"id"`
	Path string   `json:"path"`
	RW   bool     `json:"rw,omitempty"`
	Over bool     `json:"over,omitempty"` // allow a directory that is not empty
}

// The contents of a volume's disk, as the guest sees them.
const (
	DiskEmpty   = "empty"
	DiskClean   = "ext4"
	DiskDirty   = "ext4-dirty" // its journal must be replayed, which writes
	DiskForeign = "foreign"
)
