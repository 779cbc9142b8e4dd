// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package vm

import "time"

// LinuxUser is a user of a guest, from its passwd file.
type LinuxUser struct {
	Name  string
	UID   int
	GID   int
	Home  string
	Shell string
	// Workdir is where commands and relative paths start: the VM's working
	// directory, else Home. The guest does not set it.
	Workdir string
}

// SocketSpec names a stream socket inside a guest, and its user.
type SocketSpec struct {
	User    string // Linux user; "" = root
	Network string // tcp or unix
	// Address is IP:PORT or a path. To listen, port 0 is any free port, and an
	// empty path is a socket in a new directory that only the user can enter.
	Address string
}

// OpenOptions configure how a file of a guest is opened.
type OpenOptions struct {
	Read, Write, Append, Create, Truncate, Exclusive bool

	Mode uint32 // permission bits of a new file; 0 = 0644
}

// FileAttr are the file attributes to change; nil and zero stay.
type FileAttr struct {
	Size         *int64
	Mode         *uint32
	UID, GID     *int // both or none
	Atime, Mtime time.Time
}
