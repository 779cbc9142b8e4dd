// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package vm

import (
	"crypto/sha1" //nolint:gosec // git names contents by it
	"fmt"
	"hash"
	"strings"
	"time"
)

// Repository is the record of a git repository that Warren hosts.
type Repository struct {
	ID            string    `json:"id"` // a UUID
	Account       AccountID `json:"account"`
	Name          string    `json:"name,omitempty"` // a label, unique in the account; "" = none
	Public        bool      `json:"public,omitempty"`
	DefaultBranch string    `json:"defaultBranch"` // a short name; the branch need not exist
	CreatedAt     time.Time `json:"createdAt"`
	PushedAt      time.Time `json:"pushedAt,omitzero"` // when a ref changed last
	// Protected are patterns of branches that nobody deletes or rewinds, and to which an
	// identity pushes only if its permission names the branch itself; see MatchBranch.
	Protected []string `json:"protected,omitempty"`
	// Bytes is what its files take, measured after the last change or maintenance.
	Bytes        int64     `json:"bytes"`
	MaintainedAt time.Time `json:"maintainedAt,omitzero"` // when its files were last packed
	Host         string    `json:"host,omitempty"`        // id of the server that has its files
}

// NewBlobHash returns the hash by which git names a content of size bytes: write the
// content to it; the sum in hexadecimal is the name.
func NewBlobHash(size int64) hash.Hash {
	h := sha1.New()                            //nolint:gosec // see the import
	_, _ = fmt.Fprintf(h, "blob %d\x00", size) // documented never to fail
	return h
}

// Protects reports whether a pattern of the repository protects a branch.
func (r *Repository) Protects(branch string) bool { return MatchBranch(r.Protected, branch) }

// AgentBranches are the branches that an identity may push to if its permission to
// write names none.
var AgentBranches = []string{"agent/**"}

// MayPush reports whether the permission allows a change of a branch. protected says
// that the repository protects it; then the permission must name the branch without a
// wildcard.
func (p *GitPermission) MayPush(branch string, protected bool) bool {
	patterns := p.Branches
	if len(patterns) == 0 {
		patterns = AgentBranches
	}
	if p.Access != GitWrite || !MatchBranch(patterns, branch) {
		return false
	}
	if !protected {
		return true
	}
	for _, one := range patterns {
		if one == branch {
			return true
		}
	}
	return false
}

// MatchBranch reports whether one of the patterns matches a branch's short name. In a
// pattern, * stands for any characters but a slash, and ** for any characters.
func MatchBranch(patterns []string, branch string) bool {
	for _, p := range patterns {
		if fits(p, branch) {
			return true
		}
	}
	return false
}

func fits(pattern, name string) bool {
	before, rest, wild := strings.Cut(pattern, "*")
	if !strings.HasPrefix(name, before) {
		return false
	}
	if !wild {
		return name == pattern
	}
	name = name[len(before):]
	after, any := strings.CutPrefix(rest, "*")
	if any {
		after = strings.TrimLeft(after, "*")
	}
	for i := 0; i <= len(name); i++ {
		if fits(after, name[i:]) {
			return true
		}
		if i < len(name) && name[i] == '/' && !any {
			return false
		}
	}
	return false
}

// Person is an author or committer.
type Person struct {
	Name  string    `json:"name"`
	Email string    `json:"email"`
	Date  time.Time `json:"date"`
}

// Commit is one commit of a repository.
type Commit struct {
	SHA       string   `json:"sha"`
	Message   string   `json:"message"`
	Author    Person   `json:"author"`
	Committer Person   `json:"committer"`
	Tree      string   `json:"tree"`
	Parents   []string `json:"parents"`
}

// Branch is a branch; Commit "" = the default branch, which has no commit yet.
type Branch struct {
	Name      string `json:"name"` // short
	Commit    string `json:"commit,omitempty"`
	Default   bool   `json:"default,omitempty"`
	Protected bool   `json:"protected,omitempty"`
}

// Tag is a tag.
type Tag struct {
	Name    string  `json:"name"`             // short
	SHA     string  `json:"sha"`              // of the tag object; of the target, if the tag has none
	Target  string  `json:"target"`           // what the tag points to
	Tagger  *Person `json:"tagger,omitempty"` // nil = it has none
	Message string  `json:"message,omitempty"`
}

// TreeEntry is an entry of a tree.
type TreeEntry struct {
	Mode uint32 `json:"mode"` // as git has it: 0100644, 0100755, 0120000, 0040000 or 0160000
	Type string `json:"type"` // blob, tree, or commit for a submodule
	Path string `json:"path"` // relative to the tree that was asked for
	SHA  string `json:"sha"`
	Size int64  `json:"size,omitempty"` // of a blob
}

// Content is a file or a directory of a commit.
type Content struct {
	Type    string    `json:"type"` // file or dir
	Name    string    `json:"name"`
	Path    string    `json:"path"`
	SHA     string    `json:"sha"`
	Mode    uint32    `json:"mode"`
	Size    int64     `json:"size,omitempty"`
	Data    []byte    `json:"data,omitempty"`    // of the file that was asked for
	Entries []Content `json:"entries,omitempty"` // of a directory
}

// Comparison says what a commit has that another has not.
type Comparison struct {
	Base     string         `json:"base"` // commit ids
	Head     string         `json:"head"`
	Ahead    int            `json:"ahead"`  // commits that only head has
	Behind   int            `json:"behind"` // commits that only base has
	Files    []ComparedFile `json:"files"`  // between the common ancestor and head
	Trimmed  bool           `json:"trimmed,omitempty"`
	Ancestor string         `json:"ancestor,omitempty"` // "" = they have none in common
}

// ComparedFile is one file that differs.
type ComparedFile struct {
	Path      string `json:"path"`
	Was       string `json:"was,omitempty"` // the path before, if it was renamed or copied
	SHA       string `json:"sha,omitempty"` // of the blob; before, if it was removed
	Status    string `json:"status"`        // added, removed, modified, renamed, copied or changed
	Additions int    `json:"additions"`     // lines; 0 in binary files
	Deletions int    `json:"deletions"`
}
