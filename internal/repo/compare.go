// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package repo

import (
	"bytes"
	"cmp"
	"context"
	"io"
	"strconv"
	"strings"

	"github.com/warren-vm/warren/vm"
)

const maxCompared = 10_000 // files of one comparison

// quiet are the arguments of every diff: no program and no attribute of the repository
// takes part.
var quiet = []string{"--no-ext-diff", "--no-textconv", "--no-color", "-M"}

// Compare says what head has that base has not. "" = the default branch.
func (r *Repo) Compare(ctx context.Context, c *vm.Call, ref, base, head string) (out vm.Comparison, err error) {
	defer func() { err = vm.WithOp(vm.OpRepoRead, ref, err) }()
	rec, _, dir, err := r.reach(c, ref, Read)
	if err != nil {
		return out, err
	}
	if out.Base, err = r.idOf(ctx, &rec, cmp.Or(base, rec.DefaultBranch), "commit"); err != nil {
		return out, err
	}
	if out.Head, err = r.idOf(ctx, &rec, cmp.Or(head, rec.DefaultBranch), "commit"); err != nil {
		return out, err
	}
	counts, err := r.run(ctx, program{dir: dir, args: []string{"rev-list", "--left-right", "--count", out.Base + "..." + out.Head}})
	if err != nil {
		return out, err
	}
	if f := strings.Fields(string(counts)); len(f) == 2 {
		out.Behind, _ = strconv.Atoi(f[0])
		out.Ahead, _ = strconv.Atoi(f[1])
	}
	common, err := r.run(ctx, program{dir: dir, args: []string{"merge-base", out.Base, out.Head}})
	if err != nil && exitOf(err) != 1 {
		return out, err
	}
	out.Ancestor = strings.TrimSpace(string(common))
	out.Files, out.Trimmed, err = r.compareFiles(ctx, dir, cmp.Or(out.Ancestor, emptyTree), out.Head)
	return out, err
}

// statuses are git's letters for what happened to a file.
var statuses = map[byte]string{'A': "added", 'D': "removed", 'M': "modified", 'R': "renamed", 'C': "copied", 'T': "changed"}

// compareFiles lists the files that differ between two commits or trees.
func (r *Repo) compareFiles(ctx context.Context, dir, from, to string) (files []vm.ComparedFile, trimmed bool, err error) {
	files = []vm.ComparedFile{}
	args := append([]string{"diff-tree", "-r", "-z", "--raw", "--numstat", "--no-abbrev"}, quiet...)
	data, err := r.run(ctx, program{dir: dir, args: append(args, from, to, "--")})
	if err != nil {
		return nil, false, err
	}
	at := map[string]int{}
	next := func() string {
		field, rest, _ := bytes.Cut(data, []byte{0})
		data = rest
		return string(field)
	}
	for len(data) > 0 {
		head := next()
		if strings.HasPrefix(head, ":") { // of --raw: modes, ids, status
			f := strings.Fields(head)
			if len(f) != 5 || f[4] == "" {
				break
			}
			one := vm.ComparedFile{Path: next(), Status: cmp.Or(statuses[f[4][0]], "changed"), SHA: f[3]}
			if f[4][0] == 'R' || f[4][0] == 'C' {
				one.Was, one.Path = one.Path, next()
			}
			if f[4][0] == 'D' {
				one.SHA = f[2]
			}
			at[one.Path] = len(files)
			files = append(files, one)
			continue
		}
		f := strings.SplitN(head, "\t", 3) // of --numstat: added, removed, path
		if len(f) != 3 {
			break
		}
		name := f[2]
		if name == "" { // two names follow
			next()
			name = next()
		}
		if i, ok := at[name]; ok {
			files[i].Additions, _ = strconv.Atoi(f[0])
			files[i].Deletions, _ = strconv.Atoi(f[1])
		}
	}
	if len(files) > maxCompared {
		files, trimmed = files[:maxCompared], true
	}
	return files, trimmed, nil
}

// Patch writes the changes from base to head as a unified diff that `git apply` takes.
// With base "" they are those that the commit head made.
func (r *Repo) Patch(ctx context.Context, c *vm.Call, ref, base, head string, w io.Writer) (err error) {
	defer func() { err = vm.WithOp(vm.OpRepoRead, ref, err) }()
	rec, _, dir, err := r.reach(c, ref, Read)
	if err != nil {
		return err
	}
	o, err := r.objectsOf(ctx, rec.ID)
	if err != nil {
		return err
	}
	defer o.close()
	to, err := o.commit(&rec, cmp.Or(head, rec.DefaultBranch))
	if err != nil {
		return err
	}
	from := emptyTree
	if base != "" {
		got, err := o.resolve(&rec, base, "commit")
		if err != nil {
			return err
		}
		from = got.id
	} else if len(to.Parents) > 0 {
		from = to.Parents[0]
	}
	args := append([]string{"diff-tree", "-r", "-p", "--binary", "--full-index"}, quiet...)
	_, err = r.run(ctx, program{dir: dir, args: append(args, from, to.SHA, "--"), out: w})
	return err
}
