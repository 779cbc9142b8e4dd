// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package repo

import (
	"context"
	"io"
	"net/http"
	"time"

	"github.com/warren-vm/warren/vm"
)

var errNotYet = vm.Errorf(vm.Unsupported, "", "this is being built")

// Open reconciles the files with the records and starts the maintenance task. Call Close
// once.
func (r *Repo) Open(ctx context.Context) error { return nil }

// Close ends the room's tasks and git processes and waits for them until ctx ends.
func (r *Repo) Close(ctx context.Context) error { return nil }

// Forget removes the repositories of an account that is deleted.
func (r *Repo) Forget(ctx context.Context, account vm.AccountID) error { return nil }

// CreateRequest describes a new repository.
type CreateRequest struct {
	Name          string // a label; "" = none
	Public        bool
	DefaultBranch string // "" = main
}

// Create makes an empty repository. Kinds Denied for an identity, Invalid, and Exists
// with code REPO_ALREADY_EXISTS.
func (r *Repo) Create(ctx context.Context, c *vm.Call, req CreateRequest) (vm.Repository, error) {
	return vm.Repository{}, errNotYet
}

// Get returns a repository.
func (r *Repo) Get(ctx context.Context, c *vm.Call, ref string) (vm.Repository, error) {
	return vm.Repository{}, errNotYet
}

// Filter selects repositories of the caller's account.
type Filter struct {
	Search string // part of a name or an id; "" = all
	Limit  int    // 0 = all
	Offset int
}

// List returns repositories that the caller may read, newest first, and how many match
// in all.
func (r *Repo) List(ctx context.Context, c *vm.Call, f Filter) (list []vm.Repository, total int, err error) {
	return nil, 0, errNotYet
}

// Change sets what is not nil.
type Change struct {
	Name          *string
	Public        *bool
	DefaultBranch *string
}

// Set changes a repository's record. Only keys of its account may.
func (r *Repo) Set(ctx context.Context, c *vm.Call, ref string, ch Change) (vm.Repository, error) {
	return vm.Repository{}, errNotYet
}

// Protect protects the branches that a pattern matches; see vm.MatchBranch. Only keys of
// the account may.
func (r *Repo) Protect(ctx context.Context, c *vm.Call, ref, pattern string) (vm.Repository, error) {
	return vm.Repository{}, errNotYet
}

// Unprotect removes a pattern that Protect added; kind NotFound when there is none.
func (r *Repo) Unprotect(ctx context.Context, c *vm.Call, ref, pattern string) (vm.Repository, error) {
	return vm.Repository{}, errNotYet
}

// Remove deletes a repository with its files.
func (r *Repo) Remove(ctx context.Context, c *vm.Call, ref string) error { return errNotYet }

// ServeGit answers git's smart HTTP protocol, after authentication: path is "info/refs",
// "git-upload-pack" or "git-receive-pack". A zero actor is anonymous.
func (r *Repo) ServeGit(w http.ResponseWriter, req *http.Request, c *vm.Call, ref, path string) {}

// ServeStream runs "git-upload-pack" or "git-receive-pack" for a client that is
// connected by streams, as over SSH. protocol is the client's GIT_PROTOCOL, "" = none.
// It blocks until the client is served or ctx ends.
func (r *Repo) ServeStream(ctx context.Context, c *vm.Call, ref, service, protocol string, in io.Reader, out, errs io.Writer) error {
	return errNotYet
}

// Branches lists the branches, by name.
func (r *Repo) Branches(ctx context.Context, c *vm.Call, ref string) ([]vm.Branch, error) {
	return nil, errNotYet
}

// Branch returns one branch. Kind NotFound, code BRANCH_NOT_FOUND.
func (r *Repo) Branch(ctx context.Context, c *vm.Call, ref, name string) (vm.Branch, error) {
	return vm.Branch{}, errNotYet
}

// CreateBranch makes a branch at a commit; "" = the tip of the default branch. Kind
// Exists, code BRANCH_ALREADY_EXISTS.
func (r *Repo) CreateBranch(ctx context.Context, c *vm.Call, ref, name, at string) (vm.Branch, error) {
	return vm.Branch{}, errNotYet
}

// DeleteBranch deletes a branch, unless it is protected.
func (r *Repo) DeleteBranch(ctx context.Context, c *vm.Call, ref, name string) error {
	return errNotYet
}

// Tags lists the tags, by name.
func (r *Repo) Tags(ctx context.Context, c *vm.Call, ref string) ([]vm.Tag, error) {
	return nil, errNotYet
}

// Tag returns the tag with a name. Kind NotFound, code TAG_NOT_FOUND.
func (r *Repo) Tag(ctx context.Context, c *vm.Call, ref, name string) (vm.Tag, error) {
	return vm.Tag{}, errNotYet
}

// TagObject returns the annotated tag with an object id.
func (r *Repo) TagObject(ctx context.Context, c *vm.Call, ref, sha string) (vm.Tag, error) {
	return vm.Tag{}, errNotYet
}

// CommitFilter selects commits.
type CommitFilter struct {
	Branch string // or any revision; "" = the default branch
	Since  string // the older end, which is left out
	Until  string // the newer end, which is included
	Path   string // only commits that changed it; "" = any
	Limit  int    // 0 = 50, at most 500
	Offset int    // not with Since and Until
	Oldest bool   // the oldest first
	Count  bool   // with Total
}

// Commits is a page of commits.
type Commits struct {
	Commits []vm.Commit
	Total   int    // if it was asked for
	Next    string // the commit that follows the page; "" = none
}

// Commits lists commits.
func (r *Repo) Commits(ctx context.Context, c *vm.Call, ref string, f CommitFilter) (Commits, error) {
	return Commits{}, errNotYet
}

// CommitAt returns the commit that a revision names: an id, a branch or a tag. Kind
// NotFound, code COMMIT_NOT_FOUND.
func (r *Repo) CommitAt(ctx context.Context, c *vm.Call, ref, rev string) (vm.Commit, error) {
	return vm.Commit{}, errNotYet
}

// Signature names an author or a committer; a zero Date = the time of the commit.
type Signature struct {
	Name, Email string
	Date        time.Time
}

// CommitRequest describes a commit to be made.
type CommitRequest struct {
	Branch  string // "" = the default branch
	Message string
	Author  *Signature // nil = the caller
	// Committer is the author if nil.
	Committer *Signature
	// Expected is the id that the branch's tip must have; "" = any. With another tip the
	// error is of kind Exists, code CONFLICTING_PARENT.
	Expected string
	// Base is the revision on which a branch begins that does not exist; "" = none: the
	// commit has no parent then.
	Base     string
	Trailers []Trailer
	Files    []FileEdit // in the order in which their contents are read
	// Empty allows a commit that changes nothing.
	Empty bool
}

// Trailer is a line "Key: Value" at the end of a commit's message.
type Trailer struct{ Key, Value string }

// Modes of files in a commit.
const (
	ModeFile    = 0o100644
	ModeProgram = 0o100755
	ModeLink    = 0o120000
)

// FileEdit is what a commit does to one path.
type FileEdit struct {
	Path    string // relative, with slashes; any bytes that git allows
	Deleted bool   // remove the file, or the directory with all that is below it
	Mode    uint32 // 0 = as it was, or ModeFile if it is new
	// Size is that of the content in bytes. Open is called once, after those of all
	// earlier files were read and closed; it may block.
	Size int64
	Open func() (io.ReadCloser, error)
}

// Bytes is the Open of a content in memory.
func Bytes(data []byte) func() (io.ReadCloser, error) { return nil }

// Commit makes a commit and moves the branch to it. All of it happens, or nothing; of
// commits on one tip at the same time, one wins.
func (r *Repo) Commit(ctx context.Context, c *vm.Call, ref string, req CommitRequest) (vm.Commit, error) {
	return vm.Commit{}, errNotYet
}

// TreeCommitRequest describes a commit of an existing tree. No ref is moved.
type TreeCommitRequest struct {
	Message           string
	Tree              string
	Parents           []string
	Author, Committer *Signature // nil = the caller, the author
}

// CommitTree makes a commit object of an existing tree.
func (r *Repo) CommitTree(ctx context.Context, c *vm.Call, ref string, req TreeCommitRequest) (vm.Commit, error) {
	return vm.Commit{}, errNotYet
}

// Contents returns a file or directory at a revision; "" = the default branch. path ""
// is the root. Kind NotFound, code PATH_NOT_FOUND.
func (r *Repo) Contents(ctx context.Context, c *vm.Call, ref, rev, path string, recursive bool) (vm.Content, error) {
	return vm.Content{}, errNotYet
}

// Tree returns the entries of a tree by its id, or of a commit's tree.
func (r *Repo) Tree(ctx context.Context, c *vm.Call, ref, sha string, recursive bool) (id string, entries []vm.TreeEntry, err error) {
	return "", nil, errNotYet
}

// Blob opens a blob by its id. Close the reader.
func (r *Repo) Blob(ctx context.Context, c *vm.Call, ref, sha string) (size int64, content io.ReadCloser, err error) {
	return 0, nil, errNotYet
}

// Compare says what head has that base has not.
func (r *Repo) Compare(ctx context.Context, c *vm.Call, ref, base, head string) (vm.Comparison, error) {
	return vm.Comparison{}, errNotYet
}

// Patch writes the changes of a commit, or those from base to head, as a unified diff.
func (r *Repo) Patch(ctx context.Context, c *vm.Call, ref, base, head string, w io.Writer) error {
	return errNotYet
}
