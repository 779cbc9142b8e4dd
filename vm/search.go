// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package vm

import "time"

// RepoSearch is one page of files with lines that match. Totals count all pages.
type RepoSearch struct {
	TotalFiles   int         `json:"totalFiles"`
	TotalMatches int         `json:"totalMatches"`
	HasMore      bool        `json:"hasMore"`
	Files        []FoundText `json:"files"`
}

// FoundText is a file with lines that match.
type FoundText struct {
	FoundFile
	Matches []LineMatch `json:"matches"`
}

// LineMatch is one line. Columns are 0-based bytes of the line's first match.
type LineMatch struct {
	LineNumber    int      `json:"lineNumber"`
	Line          string   `json:"line"`
	StartColumn   int      `json:"startColumn"`
	EndColumn     int      `json:"endColumn"`
	ContextBefore []string `json:"contextBefore"`
	ContextAfter  []string `json:"contextAfter"`
}

// RepoFiles is one page of files whose path matches.
type RepoFiles struct {
	TotalFiles int         `json:"totalFiles"`
	HasMore    bool        `json:"hasMore"`
	Files      []FoundFile `json:"files"`
}

// FoundFile is a file of a commit. Extension is null if it has none.
type FoundFile struct {
	Path      string  `json:"path"`
	Extension *string `json:"extension"`
	Size      int64   `json:"size"`
}

// FoundCommits is one page of commits whose message matches.
type FoundCommits struct {
	TotalCommits int           `json:"totalCommits"`
	HasMore      bool          `json:"hasMore"`
	Commits      []FoundCommit `json:"commits"`
}

// FoundCommit is a commit. Message is its first line.
type FoundCommit struct {
	SHA         string    `json:"sha"`
	Message     string    `json:"message"`
	FullMessage string    `json:"fullMessage"`
	AuthorName  string    `json:"authorName"`
	AuthorEmail string    `json:"authorEmail"`
	Timestamp   time.Time `json:"timestamp"`
}

// FoundDiffs is one page of commits that added or removed lines that match.
type FoundDiffs struct {
	TotalCommits int         `json:"totalCommits"`
	HasMore      bool        `json:"hasMore"`
	Commits      []FoundDiff `json:"commits"`
}

// FoundDiff is a commit with the changed lines that match.
type FoundDiff struct {
	SHA         string          `json:"sha"`
	Message     string          `json:"message"`
	AuthorName  string          `json:"authorName"`
	AuthorEmail string          `json:"authorEmail"`
	Timestamp   time.Time       `json:"timestamp"`
	Files       []FoundDiffFile `json:"files"`
}

// FoundDiffFile is a file of a commit with the changed lines that match.
type FoundDiffFile struct {
	Path    string     `json:"path"`
	Matches []DiffLine `json:"matches"`
}

// DiffLine is a line that was added or removed; LineNumber counts in the file after or
// before.
type DiffLine struct {
	Line        string `json:"line"`
	LineNumber  int    `json:"lineNumber"`
	StartColumn int    `json:"startColumn"`
	EndColumn   int    `json:"endColumn"`
	IsAddition  bool   `json:"isAddition"`
}
