// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package vm

import (
	"cmp"
	"fmt"
	"time"
)

// Place is a kind of place where a copy of data is. The three that hold work are the
// working directory of a machine, object storage, and repositories.
type Place string

// The places.
const (
	PlaceMachine    Place = "machine"    // the disk of a VM, at a generation
	PlaceRepository Place = "repository" // a repository of this server, at a commit
	PlaceObject     Place = "object"     // object storage: an object, at a version
	PlaceVolume     Place = "volume"     // a managed volume
	PlaceHost       Place = "host"       // a directory of the host
	PlaceProcess    Place = "process"    // a running program of a VM
)

// DataCopy names a copy of data by the ids of its place.
type DataCopy struct {
	Place Place `json:"place"`

	VM         ID           `json:"vm,omitempty"` // of a machine or a process
	VMName     string       `json:"vmName,omitempty"`
	Generation GenerationID `json:"generation,omitempty"`
	Snapshot   SnapshotID   `json:"snapshot,omitempty"` // that keeps the generation
	Note       string       `json:"note,omitempty"`     // why a generation stays, or which program listens

	Repo     string `json:"repo,omitempty"` // id of the repository
	RepoName string `json:"repoName,omitempty"`
	Branch   string `json:"branch,omitempty"` // that has the commit
	Commit   string `json:"commit,omitempty"`

	Bucket  string `json:"bucket,omitempty"`
	Key     string `json:"key,omitempty"` // without a version the prefix of all keys that are meant, "" or with a slash at the end
	Version string `json:"version,omitempty"`

	Volume VolumeID `json:"volume,omitempty"`
	Name   string   `json:"name,omitempty"` // of the volume, with its project
	Host   string   `json:"host,omitempty"` // absolute path on the host
}

// String names the copy for people, on one line.
func (c DataCopy) String() string {
	switch c.Place {
	case PlaceMachine:
		text := "machine " + cmp.Or(c.VMName, string(c.VM))
		if c.Generation != "" {
			text += " at generation " + string(c.Generation)
		}
		return text
	case PlaceRepository:
		text := "repository " + cmp.Or(c.RepoName, c.Repo)
		if c.Commit != "" {
			text += " at commit " + c.Commit[:min(12, len(c.Commit))]
		}
		if c.Branch != "" {
			text += " (" + GuestPath(c.Branch).String() + ")"
		}
		return text
	case PlaceObject:
		at := "s3://" + c.Bucket + "/" + GuestPath(c.Key).String()
		if c.Version == "" {
			return "objects below " + at
		}
		return "object " + at + " version " + c.Version
	case PlaceVolume:
		return "volume " + cmp.Or(c.Name, string(c.Volume))
	case PlaceHost:
		return "directory " + GuestPath(c.Host).String() + " of the host"
	case PlaceProcess:
		return "a program that runs in " + cmp.Or(c.VMName, string(c.VM))
	}
	return string(c.Place)
}

// The kinds of trees of a VM.
const (
	TreeWorkdir    = "workdir"    // the working directory
	TreeRepository = "repository" // a git repository elsewhere on the disk
	TreeMemory     = "memory"     // the agent's memory, at MemoryPath
	TreeHome       = "home"
	TreeSystem     = "system" // everything else on the disk
	TreeVolume     = "volume"
	TreeFolder     = "folder"  // a directory of the host
	TreeObjects    = "objects" // a prefix of a bucket, mounted as files
	TreePreview    = "preview" // no files: what a preview shows
)

// Truth says where the authoritative copy of each tree of a VM is, what differs between
// the copies, and what exists nowhere else. Paths and the texts of commits are the guest's
// and must be treated as hostile.
type Truth struct {
	VM      ID     `json:"vm"`
	VMName  string `json:"vmName,omitempty"`
	State   State  `json:"state"`
	Workdir string `json:"workdir,omitempty"`
	// Generation is the frozen state that was read, and At is when it was captured.
	Generation GenerationID `json:"generation"`
	At         time.Time    `json:"at"`
	Trees      []TruthTree  `json:"trees"`
	// Kept are states of this machine that stay when the VM is removed. Files that are
	// alike in one of them do not count as only here.
	Kept []DataCopy `json:"kept,omitempty"`
	Only OnlyHere   `json:"only"` // the sum of the trees'
	// NotChecked says what this answer does not know, and why.
	NotChecked []string `json:"notChecked,omitempty"`
}

// TruthTree is one tree of a VM.
type TruthTree struct {
	Kind string    `json:"kind"` // one of the Tree constants
	Path GuestPath `json:"path"` // in the VM; of a preview ":PORT"
	// Authority is the copy that counts: a commit or volume that has everything, else
	// the machine.
	Authority DataCopy   `json:"authority"`
	Copies    []DataCopy `json:"copies,omitempty"` // others, which may lack something
	// Differs counts the files of the machine that differ from the first copy: of a
	// repository, from the commit.
	Differs DiffStat `json:"differs"`
	Clone   *Clone   `json:"clone,omitempty"` // nil = it is no git repository
	Only    OnlyHere `json:"only"`
	Stays   bool     `json:"stays"` // the authoritative copy stays when the VM is removed
	Notes   []string `json:"notes,omitempty"`
}

// Clone is what a git repository on the disk says of itself.
type Clone struct {
	Branch  string       `json:"branch,omitempty"` // "" = none is checked out
	Head    string       `json:"head,omitempty"`   // the commit; "" = none
	Hosted  bool         `json:"hosted"`           // a repository of this server has that commit
	Bare    bool         `json:"bare,omitempty"`
	Remotes []CloneClaim `json:"remotes,omitempty"`
}

// CloneClaim is a remote that a clone names. Nobody asked it what it has.
type CloneClaim struct {
	Name string `json:"name"`
	URL  string `json:"url"` // without user and password
}

// OnlyHere counts what exists nowhere else and is lost when the VM is removed.
type OnlyHere struct {
	Files    int         `json:"files"`
	Bytes    int64       `json:"bytes"`
	Examples []GuestPath `json:"examples,omitempty"` // some of the files
	// Commits are those that no repository of this server has, and no remote is said to
	// have.
	Commits     int           `json:"commits"`
	MoreCommits bool          `json:"moreCommits,omitempty"` // there may be more, which could not be counted
	Newest      *ClonedCommit `json:"newest,omitempty"`      // of the commits
	// Claimed are files of clones of which a remote is said to have the commit. Nobody asked
	// that remote. They are not in Files.
	Claimed      int   `json:"claimed,omitempty"`
	ClaimedBytes int64 `json:"claimedBytes,omitempty"`
	// Ignored are files that git ignores, caches, logs and files of packages. They are
	// not in Files.
	Ignored      int   `json:"ignored"`
	IgnoredBytes int64 `json:"ignoredBytes"`
}

// Some reports whether something would be lost, ignored files aside.
func (o OnlyHere) Some() bool { return o.Files > 0 || o.Commits > 0 || o.MoreCommits }

// Add adds another count. It takes examples until there are MaxOnlyExamples.
func (o *OnlyHere) Add(p OnlyHere) {
	o.Files, o.Bytes = o.Files+p.Files, o.Bytes+p.Bytes
	for _, e := range p.Examples {
		if len(o.Examples) < MaxOnlyExamples {
			o.Examples = append(o.Examples, e)
		}
	}
	o.Commits, o.MoreCommits = o.Commits+p.Commits, o.MoreCommits || p.MoreCommits
	if p.Newest != nil && (o.Newest == nil || p.Newest.Time.After(o.Newest.Time)) {
		o.Newest = p.Newest
	}
	o.Claimed, o.ClaimedBytes = o.Claimed+p.Claimed, o.ClaimedBytes+p.ClaimedBytes
	o.Ignored, o.IgnoredBytes = o.Ignored+p.Ignored, o.IgnoredBytes+p.IgnoredBytes
}

// MaxOnlyExamples is how many files an OnlyHere names.
const MaxOnlyExamples = 5

// ClonedCommit is a commit of a clone.
type ClonedCommit struct {
	ID      string    `json:"id"`
	Subject string    `json:"subject"`
	Time    time.Time `json:"time"` // as its committer's clock said
}

// String is the commit as it may be shown.
func (c ClonedCommit) String() string {
	return fmt.Sprintf("%.12s %q", c.ID, Clip(c.Subject, 60))
}
