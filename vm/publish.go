// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package vm

// ObjectRef names an object, or one of its versions.
type ObjectRef struct {
	Bucket  string `json:"bucket"`
	Key     string `json:"key"`
	Version string `json:"version,omitempty"` // "" = the newest
}

// String returns the name as it may be shown: s3://BUCKET/KEY@VERSION.
func (r ObjectRef) String() string {
	s := "s3://" + r.Bucket + "/" + r.Key
	if r.Version != "" {
		s += "@" + r.Version
	}
	return GuestPath(s).String()
}

// DefaultMoved is how many bytes a publish or fetch moves unless the request sets another
// limit; MostMoved is the largest limit.
const (
	DefaultMoved = 1 << 30
	MostMoved    = 5 << 40
)

// PublishRequest asks for a file or directory of a VM to be stored as a new version of an
// object, from a frozen state of the disk.
type PublishRequest struct {
	// Path is the file or directory; a relative one begins in the working directory.
	Path   GuestPath `json:"path"`
	Bucket string    `json:"bucket"`
	// Key is the key. If it is empty or ends with a slash, the name of the file is added,
	// and ".tar.zst" for a directory.
	Key        string       `json:"key"`
	Generation GenerationID `json:"generation,omitempty"` // the state; "" = now
	// MaxBytes limits the content of the files, with their holes; 0 = DefaultMoved.
	MaxBytes int64             `json:"maxBytes,omitempty"`
	Command  string            `json:"command,omitempty"` // what made it, or another note
	Tags     map[string]string `json:"tags,omitempty"`
	New      bool              `json:"new,omitempty"` // refuse if the key has an object
	// AllowSecrets are files in which secrets may be, absolute or below Path.
	AllowSecrets []GuestPath `json:"allowSecrets,omitempty"`
}

// Published is a version that was made from files of a VM.
type Published struct {
	Object     Object       `json:"object"`
	VM         ID           `json:"vmId"`
	Generation GenerationID `json:"generation"`
	Path       GuestPath    `json:"path"`
	Tree       bool         `json:"tree"`  // it is a tar.zst of a directory
	Files      int          `json:"files"` // files, directories and links
	Bytes      int64        `json:"bytes"` // of the files, with their holes
	// LeftOut are links that lead out of the directory, devices, pipes, and what is mounted
	// below it. There are LeftOutCount; it names the first.
	LeftOut      []GuestPath `json:"leftOut,omitempty"`
	LeftOutCount int         `json:"leftOutCount,omitempty"`
}

// FetchRequest asks for the bytes of an object in a VM.
type FetchRequest struct {
	ObjectRef
	// Path is where the file or directory appears; a relative one begins in the working
	// directory. With a slash at its end it is the directory that gets the file or the
	// tree under its own name. A file goes into an existing directory, too.
	Path GuestPath `json:"path"`
	// MaxBytes limits the bytes of the object, and of what is unpacked; 0 = DefaultMoved.
	MaxBytes int64 `json:"maxBytes,omitempty"`
	// Unpack says whether to unpack an archive; nil = if it was published from a directory.
	Unpack  *bool `json:"unpack,omitempty"`
	Replace bool  `json:"replace,omitempty"` // replace what is at Path by a tree
}

// Fetched is what a fetch has brought into a VM.
type Fetched struct {
	Object       Object      `json:"object"`
	VM           ID          `json:"vmId"`
	Path         GuestPath   `json:"path"`
	Tree         bool        `json:"tree"`  // an archive was unpacked
	Files        int         `json:"files"` // files, directories and links
	Bytes        int64       `json:"bytes"` // of the files
	SHA256       string      `json:"sha256"`
	LeftOut      []GuestPath `json:"leftOut,omitempty"` // devices and pipes of the archive, the first
	LeftOutCount int         `json:"leftOutCount,omitempty"`
}

// PublishedAs is an object that was published from a generation.
type PublishedAs struct {
	ObjectRef
	Path   GuestPath `json:"path"`
	SHA256 string    `json:"sha256"`
}
