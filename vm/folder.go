// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package vm

import (
	"path"
	"strings"
	"time"
)

// Folder is a directory of the host that is mounted in a VM.
type Folder struct {
	Name string `json:"name,omitempty"` // its owner's name for it
	Host string `json:"host"`           // absolute path on the host, without symbolic links, or s3://BUCKET/PREFIX
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

// objectScheme begins the name of objects in place of a directory's path.
const objectScheme = "s3://"

// IsObjects reports whether a folder's host names objects, as s3://BUCKET/PREFIX.
func IsObjects(host string) bool { return strings.HasPrefix(host, objectScheme) }

// maxObjectPrefix is the length of the longest prefix that can be mounted, in bytes.
const maxObjectPrefix = 900

// ParseObjects returns the bucket and the prefix of s3://BUCKET/PREFIX. The prefix is "" or
// ends with a slash. Kind Invalid.
func ParseObjects(host string) (bucket, prefix string, err error) {
	bucket, prefix, _ = strings.Cut(strings.TrimPrefix(host, objectScheme), "/")
	if prefix != "" && !strings.HasSuffix(prefix, "/") {
		prefix += "/"
	}
	clean := path.Clean("/" + prefix)
	if clean != "/" {
		clean += "/"
	}
	control := strings.ContainsFunc(host, func(r rune) bool { return r < 0x20 || r == 0x7f })
	if !IsObjects(host) || bucket == "" || clean != "/"+prefix || control || len(prefix) > maxObjectPrefix {
		return "", "", Errorf(Invalid, GuestPath(Clip(host, 100)).String(), "is not a bucket with a prefix").WithCode("MOUNT_PATH_INVALID", "path", host).
			WithHint("write s3://BUCKET or s3://BUCKET/PREFIX")
	}
	return bucket, prefix, nil
}
