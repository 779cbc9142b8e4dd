// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package vmtest

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/warren-vm/warren/internal/treesync"
	"github.com/warren-vm/warren/vm"
)

// real runs f on a copy of a directory of the simulated disk in a real file
// system, where the marks of pairs are kept beside it.
func (g *guest) real(ctx context.Context, verb, user, p, pair string, f func(root *os.Root, dir string) error) (err error) {
	if err := g.enter(ctx, verb); err != nil {
		return err
	}
	if _, err := g.disk.uid(user); err != nil {
		return err
	}
	g.disk.mu.Lock()
	top := g.disk.follow(user, p)
	known := g.disk.nodes[top] != nil && g.disk.nodes[top].kind == vm.FileDirectory
	g.disk.mu.Unlock()
	if !known {
		return noFile(top)
	}
	dir, err := os.MkdirTemp("", "warren-vmtest")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if err := g.disk.copyOut(top, dir, pair); err != nil {
		return err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	return f(root, dir)
}

func markPath(pair string) string { return "/var/.mark-" + pair }

// copyOut copies the tree at top into an empty directory.
func (d *disk) copyOut(top, dir, pair string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if n := d.nodes[markPath(pair)]; pair != "" && n != nil {
		if err := unix.Setxattr(dir, "user.warren.sync."+pair, n.data, 0); err != nil {
			return err
		}
	}
	return d.copyDir(top, dir)
}

func (d *disk) copyDir(p, to string) error {
	for _, c := range d.children(p) {
		n, at := d.nodes[c.Path], filepath.Join(to, c.Name)
		var err error
		switch n.kind {
		case vm.FileDirectory:
			if err = os.Mkdir(at, 0o755); err == nil {
				err = d.copyDir(c.Path, at)
			}
		case vm.FileSymlink:
			err = os.Symlink(n.target, at)
		default:
			if err = os.WriteFile(at, n.data, fs.FileMode(n.mode)); err == nil {
				err = os.Chtimes(at, n.mtime, n.mtime)
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// copyIn replaces the tree at top by a directory.
func (d *disk) copyIn(dir, top, pair string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	for q := range d.nodes {
		if strings.HasPrefix(q, strings.TrimSuffix(top, "/")+"/") && q != top {
			delete(d.nodes, q)
		}
	}
	buf := make([]byte, 64)
	if n, err := unix.Getxattr(dir, "user.warren.sync."+pair, buf); err == nil {
		d.nodes[markPath(pair)] = &node{kind: vm.FileRegular, data: buf[:n], mtime: time.Now()}
	}
	return filepath.WalkDir(dir, func(name string, e fs.DirEntry, err error) error {
		if err != nil || name == dir {
			return err
		}
		st, err := e.Info()
		if err != nil {
			return err
		}
		n := &node{kind: vm.FileRegular, mode: uint32(st.Mode().Perm()), mtime: st.ModTime()}
		switch st.Mode().Type() {
		case fs.ModeDir:
			n.kind = vm.FileDirectory
		case fs.ModeSymlink:
			n.kind = vm.FileSymlink
			n.target, err = os.Readlink(name)
		default:
			n.data, err = os.ReadFile(name)
		}
		at := path.Join(top, filepath.ToSlash(strings.TrimPrefix(name, dir)))
		d.nodes[at] = n
		d.tell("create", at)
		return err
	})
}

func (g *guest) ListTree(ctx context.Context, user, p string, o vm.TreeOptions) (io.ReadCloser, error) {
	var b bytes.Buffer
	err := g.real(ctx, "listtree", user, p, o.Pair, func(root *os.Root, _ string) error { return treesync.List(ctx, root, o, &b) })
	return &guestReader{g: g, ctx: ctx, r: &b}, err
}

func (g *guest) PickFiles(ctx context.Context, user, p string, names vm.TreePick) (io.ReadCloser, error) {
	var b bytes.Buffer
	err := g.real(ctx, "pick", user, p, "", func(root *os.Root, _ string) error { return treesync.Pick(ctx, root, names.Names, &b) })
	return &guestReader{g: g, ctx: ctx, r: &b}, err
}

func (g *guest) PlaceFiles(ctx context.Context, user, p, pair, mark string, r io.Reader) (out vm.TreePlaced, err error) {
	data, err := readAll(ctx, r)
	if err != nil {
		return out, err
	}
	err = g.real(ctx, "place", user, p, pair, func(root *os.Root, dir string) (err error) {
		m := treesync.Mark{Pair: pair, Value: mark}
		if out, err = treesync.Place(ctx, root, bytes.NewReader(data), m, treesync.Guards{}); err != nil {
			return badFile(p, err.Error())
		}
		g.disk.mu.Lock()
		top := g.disk.follow(user, p)
		g.disk.mu.Unlock()
		return g.disk.copyIn(dir, top, pair)
	})
	return out, err
}
