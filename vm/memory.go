// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package vm

import "time"

// MemoryPath is the directory of an agent's memory in a guest.
const MemoryPath = "/memory"

// Limits of an agent's memory. What is beyond them is not committed, and reported.
const (
	MaxMemoryFiles = 1000
	MaxMemoryFile  = 256 << 10 // bytes of one file
	MaxMemoryBytes = 16 << 20  // of all files
)

// MemoryCommit is a commit of a memory with the exact time at which it was known.
type MemoryCommit struct {
	Commit string    `json:"commit"`
	At     time.Time `json:"at"`
}

// Memory is the record of a VM's memory: the repository and branch to which the files
// below MemoryPath are committed.
type Memory struct {
	VM      ID        `json:"vm"`
	VMName  string    `json:"vmName,omitempty"`
	Account AccountID `json:"account"`
	Enabled bool      `json:"enabled"`
	Repo    string    `json:"repo"` // id of the repository
	Branch  string    `json:"branch"`
	// From is the VM whose memory it continues, on another branch; "" = none.
	From    ID            `json:"from,omitempty"`
	Commit  string        `json:"commit,omitempty"` // the newest commit; "" = none
	At      time.Time     `json:"at,omitzero"`      // when the files were last compared with it
	Files   int           `json:"files"`
	Bytes   int64         `json:"bytes"`
	LeftOut []LeftOut     `json:"leftOut,omitempty"`
	Secrets []FoundSecret `json:"secrets,omitempty"` // files with these were not committed
	Error   string        `json:"error,omitempty"`   // why the last attempt failed; "" = it did not
	// Recent are the latest commits, newest first: a fork's branch begins at the one that
	// was the newest then.
	Recent   []MemoryCommit `json:"recent,omitempty"`
	Host     string         `json:"host,omitempty"` // id of the server that it belongs to
	RepoName string         `json:"repoName,omitempty"`
}
