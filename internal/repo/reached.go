// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package repo

import (
	"bufio"
	"context"
	"errors"
	"io"
	"slices"
	"strings"

	"github.com/warren-vm/warren/vm"
)

// errFound ends a walk over a repository's objects early.
var errFound = errors.New("all are found")

// Reached returns which of some ids name objects that a branch or tag of the repository
// reaches: those that stay when what nobody refers to is removed. It reads the history
// from its newest commit on, until all are found. Kinds: those of Get, Invalid, Corrupt.
func (r *Repo) Reached(ctx context.Context, c *vm.Call, ref string, ids []string) (found map[string]bool, err error) {
	defer func() { err = vm.WithOp(vm.OpRepoRead, ref, err) }()
	rec, _, _, err := r.reach(c, ref, Read)
	if err != nil {
		return nil, err
	}
	for _, id := range ids {
		if err := checkID(id); err != nil {
			return nil, err
		}
	}
	found = map[string]bool{}
	wanted, err := r.existing(ctx, rec.ID, ids)
	if err != nil || len(wanted) == 0 {
		return found, err
	}
	err = r.reading(ctx, rec.ID, []string{"rev-list", "--objects", "--no-object-names", "--in-commit-order", "--all"}, nil, func(out io.Reader) error {
		in := bufio.NewScanner(out)
		for in.Scan() {
			if id := in.Text(); wanted[id] {
				delete(wanted, id)
				if found[id] = true; len(wanted) == 0 {
					return errFound
				}
			}
		}
		return in.Err()
	})
	if errors.Is(err, errFound) {
		err = nil
	}
	return found, err
}

// existing returns those of some ids whose objects a repository has, reached or not.
func (r *Repo) existing(ctx context.Context, repo string, ids []string) (map[string]bool, error) {
	have := map[string]bool{}
	if len(ids) == 0 {
		return have, nil
	}
	asked := strings.NewReader(strings.Join(ids, "\n") + "\n")
	err := r.reading(ctx, repo, []string{"cat-file", "--batch-check=%(objectname)", "--buffer"}, asked, func(out io.Reader) error {
		in := bufio.NewScanner(out)
		for in.Scan() {
			if id, _, other := strings.Cut(in.Text(), " "); !other { // else "ID missing"
				have[id] = true
			}
		}
		return in.Err()
	})
	return have, err
}

// BranchWith returns a branch that has a commit, the default branch if it has it; "" =
// none has.
func (r *Repo) BranchWith(ctx context.Context, c *vm.Call, ref, commit string) (name string, err error) {
	defer func() { err = vm.WithOp(vm.OpRepoRead, ref, err) }()
	rec, _, dir, err := r.reach(c, ref, Read)
	if err != nil {
		return "", err
	}
	if err := checkID(commit); err != nil {
		return "", err
	}
	out, err := r.run(ctx, program{dir: dir, args: []string{"for-each-ref", "--format=%(refname:lstrip=2)", "--contains", commit, "refs/heads/"}})
	if err != nil {
		return "", err
	}
	list := strings.Fields(string(out)) // no name of a branch has a space
	if slices.Contains(list, rec.DefaultBranch) {
		return rec.DefaultBranch, nil
	}
	if len(list) == 0 {
		return "", nil
	}
	return list[0], nil
}

// maxFiles bounds the files of a commit that FilesOf lists.
const maxFiles = 400_000

// FilesOf returns the files and links of a commit: the id of the content by the path. Kinds
// NotFound, Invalid, and Limit for a commit with more than 400,000.
func (r *Repo) FilesOf(ctx context.Context, c *vm.Call, ref, commit string) (files map[string]string, err error) {
	defer func() { err = vm.WithOp(vm.OpRepoRead, ref, err) }()
	at, err := r.CommitAt(ctx, c, ref, commit)
	if err != nil {
		return nil, err
	}
	rec, _, _, err := r.reach(c, ref, Read)
	if err != nil {
		return nil, err
	}
	files = map[string]string{}
	err = r.reading(ctx, rec.ID, []string{"ls-tree", "-r", "-z", "--full-tree", at.SHA}, nil, func(out io.Reader) error {
		in := bufio.NewReaderSize(out, 256<<10)
		for {
			line, err := in.ReadString(0)
			if errors.Is(err, io.EOF) {
				return nil
			}
			if err != nil {
				return err
			}
			head, path, ok := strings.Cut(strings.TrimSuffix(line, "\x00"), "\t") // mode, kind, id
			f := strings.Fields(head)
			if !ok || len(f) != 3 {
				return vm.Errorf(vm.Corrupt, at.SHA, "a tree of the repository is damaged").WithCode("GIT_ERROR")
			}
			if f[1] != "blob" {
				continue
			}
			if len(files) == maxFiles {
				return vm.Errorf(vm.Limit, at.SHA, "the commit has more than %d files", maxFiles)
			}
			files[path] = f[2]
		}
	})
	return files, err
}
