// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"time"

	"github.com/warren-vm/warren/vm"
)

// NewRepo creates a repository. Source and Import exclude each other.
type NewRepo struct {
	Name          string      `json:"name,omitempty"`
	Public        bool        `json:"public,omitempty"`
	DefaultBranch string      `json:"defaultBranch,omitempty"` // default main, or the source's
	Source        *RepoSource `json:"source,omitempty"`
	Import        *RepoImport `json:"import,omitempty"`
}

// RepoSource is a repository elsewhere whose history is taken over.
type RepoSource struct {
	URL         string `json:"url"`
	Rev         string `json:"rev,omitempty"`    // a branch, tag or commit; becomes the default branch
	Branch      string `json:"branch,omitempty"` // deprecated form of Rev
	Depth       int    `json:"depth,omitempty"`  // 0 = the whole history
	AllBranches bool   `json:"allBranches,omitempty"`
}

// RepoImport is content that becomes the first commit.
type RepoImport struct {
	Type          string            `json:"type"`            // files, tar, zip or git
	Files         map[string]string `json:"files,omitempty"` // of type files: path to text
	URL           string            `json:"url,omitempty"`
	Dir           string            `json:"dir,omitempty"` // take only what is below it
	Rev           string            `json:"rev,omitempty"` // of type git
	CommitMessage string            `json:"commitMessage"`
	AuthorName    string            `json:"authorName,omitempty"`
	AuthorEmail   string            `json:"authorEmail,omitempty"`
}

// CreatedRepo names a new repository.
type CreatedRepo struct {
	RepoID string `json:"repoId"`
}

// GitRepo is one repository. Bytes and ProtectedBranches (patterns) are Warren's own.
type GitRepo struct {
	ID                string       `json:"id"`
	Name              string       `json:"name,omitempty"`
	AccountID         vm.AccountID `json:"accountId"`
	Visibility        string       `json:"visibility"` // public or private
	DefaultBranch     string       `json:"defaultBranch"`
	CreatedAt         time.Time    `json:"createdAt"`
	PushedAt          *time.Time   `json:"pushedAt,omitempty"`
	Bytes             int64        `json:"bytes"`
	ProtectedBranches []string     `json:"protectedBranches"`
}

// ListedRepo is a repository with its branches and tags.
type ListedRepo struct {
	GitRepo
	Branches map[string]ListedBranch `json:"branches"`
	Tags     map[string]ListedTag    `json:"tags"`
}

// ListedBranch is a branch in a list of repositories.
type ListedBranch struct {
	Default bool    `json:"default"`
	Name    string  `json:"name"`
	Target  *string `json:"target"`
}

// ListedTag is a tag in a list of repositories.
type ListedTag struct {
	Name    string  `json:"name"`
	Target  string  `json:"target"`
	Message *string `json:"message"`
}

// RepoList is one page of repositories.
type RepoList struct {
	Repositories []ListedRepo `json:"repositories"`
	Total        int          `json:"total"`
	Offset       int          `json:"offset"`
}

// RepoVisibility says who may read a repository: public or private.
type RepoVisibility struct {
	Visibility string `json:"visibility"`
}

// DefaultBranch names the branch that a clone checks out.
type DefaultBranch struct {
	DefaultBranch string `json:"defaultBranch"`
}

// ProtectedBranches are patterns of branches that nobody deletes or rewinds. * matches
// all but a slash, ** everything.
type ProtectedBranches struct {
	Branches []string `json:"branches"`
}

// NewBranch makes a branch; "" = at the tip of the default branch.
type NewBranch struct {
	SHA string `json:"sha,omitempty"`
}

// Ref is a branch with the commit it points to. Name is the full name of the ref.
type Ref struct {
	Name string `json:"name"`
	SHA  string `json:"sha"`
}

// Branch is a branch by its short name. Commit is null when it has none.
type Branch struct {
	Name      string  `json:"name"`
	Commit    *string `json:"commit"`
	Protected bool    `json:"protected"`
}

// BranchList is every branch of a repository.
type BranchList struct {
	Branches []Branch `json:"branches"`
}

// GitObject names an object.
type GitObject struct {
	SHA string `json:"sha"`
}

// Tag is a tag. Tagger and message are null for a tag that is only a name.
type Tag struct {
	Name    string     `json:"name"`
	Tagger  *vm.Person `json:"tagger"`
	Message *string    `json:"message"`
	Target  GitObject  `json:"target"`
	SHA     string     `json:"sha"`
}

// TagList is every tag of a repository.
type TagList struct {
	Tags []Tag `json:"tags"`
}

// NewCommit makes a commit of files on a branch.
type NewCommit struct {
	Message     string       `json:"message"`
	Files       []FileChange `json:"files"`
	Branch      string       `json:"branch,omitempty"` // default: the default branch
	Author      *GitAuthor   `json:"author,omitempty"`
	ExpectedSHA string       `json:"expectedSha,omitempty"` // the tip that the caller saw
}

// FileChange is a file to write or to delete.
type FileChange struct {
	Path     string  `json:"path"`
	Content  *string `json:"content,omitempty"`
	Encoding string  `json:"encoding,omitempty"` // utf8 (default) or base64
	Deleted  bool    `json:"deleted,omitempty"`
	Mode     string  `json:"mode,omitempty"` // of git: 100644, 100755 or 120000; "" = as it was, or 100644
}

// GitAuthor is an author or committer in a request. Date is RFC 3339; null = now.
type GitAuthor struct {
	Name  string     `json:"name"`
	Email string     `json:"email"`
	Date  *time.Time `json:"date,omitempty"`
}

// NewPlainCommit makes a commit of a tree that exists. No branch points to it.
type NewPlainCommit struct {
	Message   string     `json:"message"`
	Tree      string     `json:"tree"`
	Parents   []string   `json:"parents"`
	Author    *GitAuthor `json:"author,omitempty"`
	Committer *GitAuthor `json:"committer,omitempty"`
}

// GitCommit is one commit.
type GitCommit struct {
	SHA       string      `json:"sha"`
	Message   string      `json:"message"`
	Author    vm.Person   `json:"author"`
	Committer vm.Person   `json:"committer"`
	Tree      GitObject   `json:"tree"`
	Parents   []GitObject `json:"parents"`
}

// CreatedCommit is a commit that was made.
type CreatedCommit struct {
	Commit GitCommit `json:"commit"`
}

// CommitList is one page of a history.
type CommitList struct {
	Commits    []GitCommit `json:"commits"`
	Count      int         `json:"count"`
	Offset     *int        `json:"offset,omitempty"`
	Limit      int         `json:"limit"`
	Total      *int        `json:"total,omitempty"`
	Order      string      `json:"order"`              // desc or asc
	Selector   any         `json:"selector,omitempty"` // as the contract spells it: Range, Since or Until
	NextCommit *string     `json:"next_commit,omitempty"`
}

// RepoContent is a file (content in base64) or a directory (entries) of a commit.
type RepoContent struct {
	Type    string         `json:"type"` // file or dir
	Name    string         `json:"name"`
	Path    string         `json:"path"`
	SHA     string         `json:"sha"`
	Size    *int64         `json:"size,omitempty"`
	Content *string        `json:"content,omitempty"`
	Entries *[]RepoContent `json:"entries,omitempty"`
}

// GitTree is one tree.
type GitTree struct {
	SHA  string         `json:"sha"`
	Tree []GitTreeEntry `json:"tree"`
}

// GitTreeEntry is an entry of a tree: a blob with its size, a tree, or a commit (a
// submodule).
type GitTreeEntry struct {
	Type string `json:"type"`
	Path string `json:"path"`
	SHA  string `json:"sha"`
	Size *int64 `json:"size,omitempty"`
	Mode string `json:"mode"` // git's, in octal
}

// GitBlob is the content of a file.
type GitBlob struct {
	SHA      string `json:"sha"`
	Size     int64  `json:"size"`
	Encoding string `json:"encoding"` // base64
	Content  string `json:"content"`
}

// GitComparison says what head has that base has not.
type GitComparison struct {
	Status       string         `json:"status"` // identical, ahead, behind or diverged
	AheadBy      int            `json:"ahead_by"`
	BehindBy     int            `json:"behind_by"`
	TotalCommits int            `json:"total_commits"`
	Files        []ComparedFile `json:"files"`
}

// ComparedFile is one file that differs.
type ComparedFile struct {
	SHA              *string `json:"sha,omitempty"`
	Filename         string  `json:"filename"`
	Status           string  `json:"status"`
	Additions        int     `json:"additions"`
	Deletions        int     `json:"deletions"`
	Changes          int     `json:"changes"`
	PreviousFilename *string `json:"previous_filename,omitempty"`
}

// NewTrigger asks for a webhook at each push. Secret signs the deliveries; "" = the
// server makes one.
type NewTrigger struct {
	Trigger vm.TriggerOn   `json:"trigger"`
	Action  vm.TriggerDoes `json:"action"`
	Secret  string         `json:"secret,omitempty"`
}

// CreatedTrigger names a trigger. Secret is shown once.
type CreatedTrigger struct {
	TriggerID string `json:"triggerId"`
	Secret    string `json:"secret"`
}

// Trigger is a webhook, without its secret.
type Trigger struct {
	RepositoryID string         `json:"repositoryId"`
	Trigger      vm.TriggerOn   `json:"trigger"`
	Action       vm.TriggerDoes `json:"action"`
	Managed      bool           `json:"managed"`
	ID           string         `json:"id"`
	CreatedAt    time.Time      `json:"createdAt"`
}

// TriggerList is every trigger of a repository.
type TriggerList struct {
	Triggers []Trigger `json:"triggers"`
}

// DeliveryList is the log of a trigger, the newest first.
type DeliveryList struct {
	Deliveries []vm.Delivery `json:"deliveries"`
}
