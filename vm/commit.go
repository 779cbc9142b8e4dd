// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package vm

import (
	"fmt"
	"time"
)

// CommitRequest asks that a directory of a VM becomes a commit of a repository that
// Warren hosts.
type CommitRequest struct {
	Path   GuestPath `json:"path,omitempty"`   // directory in the guest; "" = the working directory, or the only git repository in it
	Prefix string    `json:"prefix,omitempty"` // directory of the repository that it becomes; "" = its root
	Repo   string    `json:"repo"`             // id or name
	Branch string    `json:"branch,omitempty"` // "" = agent/<vm>/<base branch>
	// Base is the commit that a new branch starts on; "" = the tip of BaseBranch, which
	// must then be the commit that the machine's own git repository came from.
	Base       string `json:"base,omitempty"`
	BaseBranch string `json:"baseBranch,omitempty"` // "" = the repository's default branch
	Message    string `json:"message,omitempty"`
	Author     string `json:"author,omitempty"` // "Name <address>"; "" = the account or identity
	// From is the state with which a diff's Manifest was made; "" = as in DiffRequest.
	From string `json:"from,omitempty"`
	// Generation is the state whose bytes are committed; "" = now.
	Generation GenerationID `json:"generation,omitempty"`
	// Manifest is the digest that was shown: of a plan (DryRun) or of a diff that ended at
	// Generation. The commit is refused if it would be another. "" = nothing was shown.
	Manifest     string      `json:"manifest,omitempty"`
	AllowSecrets []GuestPath `json:"allowSecrets,omitempty"` // files that may be committed although a secret was found
	DryRun       bool        `json:"dryRun,omitempty"`       // only say what would be committed
}

// CommitPlan is what a commit of a VM's directory holds: before it is made (Commit ""),
// or made. Names in it are the guest's.
type CommitPlan struct {
	VM         ID           `json:"vm"`
	VMName     string       `json:"vmName,omitempty"`
	Generation GenerationID `json:"generation"` // the state whose bytes it takes
	Path       GuestPath    `json:"path"`       // the directory in the guest
	Prefix     string       `json:"prefix,omitempty"`
	Repo       string       `json:"repo"` // id
	RepoName   string       `json:"repoName,omitempty"`
	Branch     string       `json:"branch"`
	NewBranch  bool         `json:"newBranch,omitempty"`
	Base       string       `json:"base,omitempty"` // its parent; "" = it is the first of the repository
	BaseBranch string       `json:"baseBranch,omitempty"`
	Tree       string       `json:"tree"`
	// Manifest is a digest over generation, path, repository, branch, base and tree.
	Manifest string        `json:"manifest"`
	Stat     DiffStat      `json:"stat"`  // against Base
	Files    []PlannedFile `json:"files"` // that differ from Base, the first ones
	More     int           `json:"more,omitempty"`
	Total    int           `json:"total"` // files in the directory that are committed, changed or not
	LeftOut  []LeftOut     `json:"leftOut,omitempty"`
	Flags    []string      `json:"flags,omitempty"` // what a reviewer should know, e.g. links that leave the tree
	Secrets  []FoundSecret `json:"secrets,omitempty"`
	Commit   string        `json:"commit,omitempty"` // id of the commit; "" = not made
	Message  string        `json:"message,omitempty"`
	MadeAt   time.Time     `json:"madeAt,omitzero"`
}

// PlannedFile is one file of a commit that differs from its base.
type PlannedFile struct {
	Path      GuestPath  `json:"path"` // in the repository
	Verb      ChangeVerb `json:"verb"`
	Additions int        `json:"additions"` // lines; 0 in binary files
	Deletions int        `json:"deletions"`
	Binary    bool       `json:"binary,omitempty"`
}

// LeftOut counts files that are not committed.
type LeftOut struct {
	Reason   string      `json:"reason"` // e.g. "ignored by .gitignore"
	Files    int         `json:"files"`
	Bytes    int64       `json:"bytes,omitempty"`
	Examples []GuestPath `json:"examples,omitempty"` // the first ones
}

// String says what was left out in one line, safe to show.
func (l LeftOut) String() string {
	text := fmt.Sprintf("%d %s", l.Files, l.Reason)
	for i, p := range l.Examples {
		if i == 0 {
			text += ": " + p.String()
		} else {
			text += ", " + p.String()
		}
	}
	if l.Files > len(l.Examples) && len(l.Examples) > 0 {
		text += ", ..."
	}
	return text
}

// ProjectSummary is what a confined program found in a directory of a frozen disk beside
// its files. All of it is the guest's word.
type ProjectSummary struct {
	Root     GuestPath   `json:"root"`              // the directory
	Repo     bool        `json:"repo,omitempty"`    // it has a .git
	Branch   string      `json:"branch,omitempty"`  // of its HEAD
	Head     string      `json:"head,omitempty"`    // commit
	Origins  []string    `json:"origins,omitempty"` // commits that it fetched from its origin
	Files    int         `json:"files"`
	LeftOut  []LeftOut   `json:"leftOut,omitempty"`
	TooLarge []GuestPath `json:"tooLarge,omitempty"` // files beyond the limit, the first ones
	Special  []GuestPath `json:"special,omitempty"`  // devices, pipes and sockets
}
