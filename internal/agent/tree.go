// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"encoding/json"
	"io"
	"os"

	"github.com/warren-vm/warren/internal/treesync"
	"github.com/warren-vm/warren/vm"
)

// maxPick is the largest request for files, in bytes.
const maxPick = 4 << 20

// tree runs f in a directory, with the rights of a user.
// may judges the names in it; nil = all are allowed.
func (a *Agent) tree(r *request, wants use, f func(u *linuxUser, root *os.Root, may func(string) error) error) error {
	u, dir, err := a.userPath(r.query, "path")
	if err != nil {
		return err
	}
	return u.do(func() error {
		at, may, err := u.below(dir, wants)
		if err != nil {
			return fileError(dir, err)
		}
		root, err := os.OpenRoot(at)
		if err != nil {
			return fileError(dir, err)
		}
		defer root.Close()
		return fileError(dir, f(&u, root, may))
	})
}

// listTree sends the entries of a tree, with digests.
func (a *Agent) listTree(w *answer, r *request) error {
	from, err := r.number("from")
	if err != nil {
		return err
	}
	o := treesync.ListOptions{HashFrom: from, Exclude: r.query["exclude"], Pair: r.query.Get("pair")}
	if err := treesync.CheckExclude(o.Exclude); err != nil {
		return err
	}
	return a.tree(r, toRead, func(u *linuxUser, root *os.Root, may func(string) error) error {
		if may != nil {
			if err := u.mayTree(root.Name()); err != nil {
				return err
			}
		}
		o.May = may
		ctx, stop := r.untilGone(w)
		defer stop()
		if err := w.head(-1, "Content-Type: application/x-ndjson\r\n"); err != nil {
			return err
		}
		out := &chunkWriter{w: w.conn}
		if err := treesync.List(ctx, root, o, out); err != nil {
			return err
		}
		return out.end()
	})
}

// pickFiles sends the contents of many files.
func (a *Agent) pickFiles(w *answer, r *request) error {
	var in vm.TreePick
	b, err := io.ReadAll(io.LimitReader(r.body, maxPick))
	if err != nil {
		return err
	}
	if err := json.Unmarshal(b, &in); err != nil || len(in.Names) > treesync.MaxPicked {
		return vm.Errorf(vm.Invalid, "", "a malformed list of files").WithCode("FILES_BAD_REQUEST")
	}
	return a.tree(r, toRead, func(_ *linuxUser, root *os.Root, may func(string) error) error {
		for _, name := range in.Names {
			if may == nil {
				break
			}
			if err := may(string(name)); err != nil {
				return err
			}
		}
		ctx, stop := r.untilGone(w)
		defer stop()
		if err := w.head(-1, ""); err != nil {
			return err
		}
		out := &chunkWriter{w: w.conn}
		if err := treesync.Pick(ctx, root, in.Names, out); err != nil {
			return err
		}
		return out.end()
	})
}

// placeFiles makes many changes of a tree.
func (a *Agent) placeFiles(w *answer, r *request) error {
	var out treesync.Placed
	err := a.tree(r, toWrite, func(_ *linuxUser, root *os.Root, may func(string) error) (err error) {
		mark := treesync.Mark{Pair: r.query.Get("pair"), Value: r.query.Get("mark")}
		if out, err = treesync.Place(r.ctx, root, r.body, mark, treesync.Guards{May: may}); err != nil {
			return err
		}
		_, err = io.Copy(io.Discard, r.body) // what follows the last change
		return err
	})
	return w.json(out, err)
}
