// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package vm

import "time"

// Folder is a directory of the host that is mounted in a VM.
type Folder struct {
	Name string `json:"name,omitempty"` // its owner's name for it
	Host string `json:"host"`           // absolute path on the host, without symbolic links
	Path string `json:"path"`           // in the guest, absolute
	RW   bool   `json:"rw,omitempty"`   // otherwise the host prevents writes
	Over bool   `json:"over,omitempty"` // allow a directory that is not empty
	// Is identifies the directory that was checked: a replacement is refused.
	Is FolderID `json:"is"`
	// Sealed says that it must be encrypted at rest. That is checked again before each start.
	Sealed bool      `json:"sealed,omitempty"`
	Since  time.Time `json:"since"`
}

// FolderID identifies a directory of the host.
type FolderID struct {
	Dev uint64 `json:"dev"`
	Ino uint64 `json:"ino"`
}

// FolderSeen is the entry in VolumesSeen that stands for encrypted directories of the host.
const FolderSeen VolumeID = "host-folder"

// MaxFolders limits the folders of one VM.
const MaxFolders = 16
