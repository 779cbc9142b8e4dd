// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package repo

import (
	"cmp"
	"context"
	"errors"
	"io"
	"os"
	"path"
	"strings"

	"github.com/warren-vm/warren/vm"
)

const maxListed = 100_000 // entries of one answer

// Contents returns a file, with its content, or a directory at a revision; "" = the
// default branch. at "" is the root. A link is a file whose content is its target. Kind
// NotFound, code PATH_NOT_FOUND.
func (r *Repo) Contents(ctx context.Context, c *vm.Call, ref, rev, at string, recursive bool) (out vm.Content, err error) {
	defer func() { err = vm.WithOp(vm.OpRepoRead, ref, err) }()
	rec, o, err := r.readable(ctx, c, ref)
	if err != nil {
		return out, err
	}
	defer o.close()
	root, err := o.resolve(&rec, cmp.Or(rev, rec.DefaultBranch), "tree")
	if err != nil {
		return out, err
	}
	at = strings.Trim(at, "/")
	found, err := o.walk(root.id, at)
	if err != nil {
		return out, err
	}
	out = vm.Content{Type: "file", Name: path.Base("/" + at), Path: at, SHA: found.id, Mode: found.mode}
	if at == "" {
		out.Name = ""
	}
	switch found.mode {
	case modeTree:
		out.Type = "dir"
		left := maxListed
		out.Entries, err = o.listing(found.id, at, recursive, &left)
	case modeModule:
	default:
		_, out.Data, err = o.read(found.id, maxContent)
		out.Size = int64(len(out.Data))
	}
	return out, err
}

// walk finds a path below a tree.
func (o *objects) walk(tree, at string) (entry, error) {
	found := entry{mode: modeTree, id: tree}
	if at == "" {
		return found, nil
	}
	shown := vm.GuestPath(vm.Clip(at, 1000)).String()
	none := vm.Errorf(vm.NotFound, shown, "no such path in this revision").WithCode("PATH_NOT_FOUND", "path", shown)
	for part := range strings.SplitSeq(at, "/") {
		if found.mode != modeTree {
			return found, none
		}
		list, err := o.tree(found.id)
		if err != nil {
			return found, err
		}
		i := indexOf(list, part)
		if i < 0 {
			return found, none
		}
		found = list[i]
	}
	return found, nil
}

func indexOf(list []entry, name string) int {
	for i := range list {
		if list[i].name == name {
			return i
		}
	}
	return -1
}

// tree reads a tree by its id.
func (o *objects) tree(id string) ([]entry, error) {
	got, data, err := o.read(id, maxParsed)
	if err != nil {
		return nil, err
	}
	if got.kind != "tree" {
		return nil, vm.Errorf(vm.Corrupt, id, "a tree of the repository is missing").WithCode("GIT_ERROR")
	}
	return parseTree(data)
}

// nested reads the tree that is at a path, unless that is very deep.
func (o *objects) nested(id, at string) ([]entry, error) {
	if len(at) > 2*maxPath {
		return nil, vm.Errorf(vm.Limit, vm.GuestPath(at[:100]).String()+"...", "the directory is too deep").WithCode("GIT_INVALID_REQUEST").WithHint("clone the repository instead")
	}
	return o.tree(id)
}

// listing returns the entries of a tree that is at a path, without contents.
func (o *objects) listing(tree, at string, recursive bool, left *int) ([]vm.Content, error) {
	list, err := o.nested(tree, at)
	if err != nil {
		return nil, err
	}
	if *left -= len(list); *left < 0 {
		return nil, vm.Errorf(vm.Limit, at, "the directory has more than %d entries", maxListed).WithCode("GIT_INVALID_REQUEST").WithHint("ask for a part of it, or clone the repository")
	}
	sizes, err := o.sizes(list)
	if err != nil {
		return nil, err
	}
	out := make([]vm.Content, len(list))
	for i, e := range list {
		out[i] = vm.Content{Type: "file", Name: e.name, Path: path.Join(at, e.name), SHA: e.id, Mode: e.mode, Size: sizes[i]}
		if e.mode != modeTree {
			continue
		}
		out[i].Type, out[i].Entries = "dir", []vm.Content{}
		if recursive {
			if out[i].Entries, err = o.listing(e.id, out[i].Path, true, left); err != nil {
				return nil, err
			}
		}
	}
	return out, nil
}

// sizes returns the size of each entry that is a blob; 0 for others.
func (o *objects) sizes(list []entry) ([]int64, error) {
	var ids []string
	for _, e := range list {
		if e.kind() == "blob" {
			ids = append(ids, e.id)
		}
	}
	found, err := o.infos(ids)
	if err != nil {
		return nil, err
	}
	out := make([]int64, len(list))
	for i, e := range list {
		if e.kind() == "blob" {
			out[i], found = found[0].size, found[1:]
		}
	}
	return out, nil
}

// Tree returns the entries of a tree by its id, or of a commit's tree. Kind NotFound,
// code TREE_NOT_FOUND.
func (r *Repo) Tree(ctx context.Context, c *vm.Call, ref, sha string, recursive bool) (id string, entries []vm.TreeEntry, err error) {
	defer func() { err = vm.WithOp(vm.OpRepoRead, ref, err) }()
	rec, _, _, err := r.reach(c, ref, Read)
	if err != nil {
		return "", nil, err
	}
	if err := checkID(sha); err != nil {
		return "", nil, err
	}
	o, err := r.objectsOf(ctx, rec.ID)
	if err != nil {
		return "", nil, err
	}
	defer o.close()
	got, err := o.info(sha + "^{tree}")
	if err == nil && got.kind == "" {
		err = vm.Errorf(vm.NotFound, sha, "no such tree").WithCode("TREE_NOT_FOUND", "hash", sha)
	}
	if err != nil {
		return "", nil, err
	}
	entries, err = o.entries(got.id, "", recursive, []vm.TreeEntry{})
	return got.id, entries, err
}

// entries appends the entries of a tree that is at a path.
func (o *objects) entries(tree, at string, recursive bool, to []vm.TreeEntry) ([]vm.TreeEntry, error) {
	list, err := o.nested(tree, at)
	if err != nil {
		return nil, err
	}
	sizes, err := o.sizes(list)
	if err != nil {
		return nil, err
	}
	for i, e := range list {
		if len(to) >= maxListed {
			return nil, vm.Errorf(vm.Limit, at, "the tree has more than %d entries", maxListed).WithCode("GIT_INVALID_REQUEST").WithHint("ask for a part of it, or clone the repository")
		}
		one := vm.TreeEntry{Mode: e.mode, Type: e.kind(), Path: path.Join(at, e.name), SHA: e.id, Size: sizes[i]}
		to = append(to, one)
		if recursive && e.mode == modeTree {
			if to, err = o.entries(e.id, one.Path, true, to); err != nil {
				return nil, err
			}
		}
	}
	return to, nil
}

// Blob opens a blob by its id. Close the reader. Kind NotFound, code BLOB_NOT_FOUND.
func (r *Repo) Blob(ctx context.Context, c *vm.Call, ref, sha string) (size int64, content io.ReadCloser, err error) {
	defer func() { err = vm.WithOp(vm.OpRepoRead, ref, err) }()
	rec, _, _, err := r.reach(c, ref, Read)
	if err != nil {
		return 0, nil, err
	}
	if err := checkID(sha); err != nil {
		return 0, nil, err
	}
	o, err := r.objectsOf(ctx, rec.ID)
	if err != nil {
		return 0, nil, err
	}
	got, err := o.info(sha)
	if err == nil && got.kind != "blob" {
		err = vm.Errorf(vm.NotFound, sha, "no such blob").WithCode("BLOB_NOT_FOUND", "hash", sha)
	}
	if err == nil {
		err = o.ask("contents", sha)
	}
	if err == nil {
		_, err = o.head()
	}
	if err != nil {
		o.close()
		return 0, nil, err
	}
	return got.size, &blob{o: o, rest: got.size}, nil
}

// blob reads the content of a blob. Until it is closed it occupies a reader.
type blob struct {
	o      *objects
	rest   int64
	closed bool
}

func (b *blob) Read(p []byte) (int, error) {
	if b.closed {
		return 0, os.ErrClosed
	}
	if b.rest == 0 {
		return 0, io.EOF
	}
	n, err := b.o.k.out.Read(p[:min(int64(len(p)), b.rest)])
	b.rest -= int64(n)
	if err != nil {
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		err = b.o.fail(err)
	}
	return n, err
}

func (b *blob) Close() error {
	if b.closed {
		return nil
	}
	b.closed = true
	if b.rest > maxSkip {
		b.o.k.bad = true
	} else if _, err := io.CopyN(io.Discard, b.o.k.out, b.rest+1); err != nil {
		b.o.k.bad = true
	}
	b.o.close()
	return nil
}
