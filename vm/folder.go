// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package vm

import "time"

// Folder is a directory of the host that a VM has.
type Folder struct {
	Name string `json:"name,omitempty"` // what its owner calls it
	Host string `json:"host"`           // absolute path on the host, without symbolic links
	Path string `json:"path"`           // in the guest, absolute
	RW   bool   `json:"rw,omitempty"`   // else the host lets nobody write
	Over bool   `json:"over,omitempty"` // over a directory with something in it
	// Is is the directory that was checked: another one in its place is refused.
	Is FolderID `json:"is"`
	// Sealed says that it was given because it is encrypted at rest, which is
	// looked at again before each start.
	Sealed bool      `json:"sealed,omitempty"`
	Since  time.Time `json:"since"`
}

// FolderID tells a directory of the host from all others.
type FolderID struct {
	Dev uint64 `json:"dev"`
	Ino uint64 `json:"ino"`
}

// FolderSeen stands among the volumes that a memory may hold parts of for
// encrypted directories of the host.
const FolderSeen VolumeID = "host-folder"

// MaxFolders bounds the folders of one VM.
const MaxFolders = 16
