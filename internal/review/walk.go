// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package review

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/warren-vm/warren/internal/ext4"
	"github.com/warren-vm/warren/vm"
)

// maxPath bounds the length of a path that is shown; deeper ones are an oddity.
const maxPath = 64 << 10

// parent is where a directory is.
type parent struct {
	dir  uint32
	name string
}

// walk reads the directories of both sides and keeps the names that may have changed.
func (c *comparison) walk() error {
	if err := c.walkSide(c.a, "before"); err != nil {
		return err
	}
	return c.walkSide(c.b, "now")
}

// walkSide visits every directory from the root on, each once. It keeps the names of
// directories that differ, and the names of inodes that differ.
func (c *comparison) walkSide(s *side, when string) error {
	s.fs.Renew()
	s.dirs, s.names = map[uint32]parent{ext4.RootInode: {}}, map[string]uint32{}
	type found struct {
		dir  uint32
		name string
		n    uint32
	}
	var interesting []found
	for queue := []uint32{ext4.RootInode}; len(queue) > 0; queue = queue[1:] {
		dir := queue[0]
		in, err := s.fs.Inode(dir)
		if err != nil {
			return err
		}
		if in.Type != ext4.Directory || !in.Used() {
			c.odd("%s: inode %d is named as a directory and is none", when, dir)
			continue
		}
		seen := map[string]bool{}
		git := gitParts(0)
		dirDiffers := c.delta[dir] != nil
		err = s.fs.ReadDir(in, func(e ext4.Entry) error {
			if seen[e.Name] || strings.ContainsAny(e.Name, "/\x00") {
				c.odd("%s: directory %d has an impossible name, %q", when, dir, e.Name)
				return nil
			}
			seen[e.Name] = true
			git.see(e.Name)
			child, err := s.fs.TypeOf(e.Inode)
			if err != nil {
				return err
			}
			if child == ext4.Directory {
				if _, twice := s.dirs[e.Inode]; twice {
					c.odd("%s: directory %d has two parents", when, e.Inode)
					return nil
				}
				s.dirs[e.Inode] = parent{dir, e.Name}
				queue = append(queue, e.Inode)
			}
			if e.Name == ".git" && child != ext4.Directory && len(s.repos) < maxRepos {
				s.repos = append(s.repos, repoName{dir: dir, file: e.Inode})
			}
			if dirDiffers || c.delta[e.Inode] != nil {
				if len(interesting) == 4*maxChanges {
					return vm.Errorf(vm.Limit, "", "more than %d names differ", 4*maxChanges)
				}
				interesting = append(interesting, found{dir, e.Name, e.Inode})
			}
			return nil
		})
		if err != nil {
			return err
		}
		if git.all() && len(s.repos) < maxRepos {
			s.repos = append(s.repos, repoName{dir: dir})
		}
		if c.ctx.Err() != nil {
			return context.Cause(c.ctx)
		}
	}
	for _, x := range interesting {
		path, ok := s.path(x.dir, x.name)
		if !ok {
			c.odd("%s: a path of more than %d bytes ends in %q", when, maxPath, x.name)
			continue
		}
		s.names[path] = x.n
	}
	if c.delta[ext4.RootInode] != nil {
		s.names["/"] = ext4.RootInode
	}
	return nil
}

// path is the absolute path of a name in a directory.
func (s *side) path(dir uint32, name string) (string, bool) {
	parts, length := []string{name}, len(name)
	for dir != ext4.RootInode {
		p := s.dirs[dir]
		if length += 1 + len(p.name); length > maxPath {
			return "", false
		}
		parts, dir = append(parts, p.name), p.dir
	}
	slices.Reverse(parts)
	return "/" + strings.Join(parts, "/"), true
}

func (c *comparison) odd(format string, args ...any) {
	if len(c.out.Oddities) < maxOddities {
		c.out.Oddities = append(c.out.Oddities, fmt.Sprintf(format, args...))
	}
}

// pair makes changes of the names of both sides.
func (c *comparison) pair() error {
	var gone, came []Change
	for path, n := range c.a.names {
		now, there := c.b.names[path]
		if there {
			if err := c.both(path, n, now); err != nil {
				return err
			}
			continue
		}
		was, err := c.a.inode(n, c.delta[n], func(d *delta) *ext4.Inode { return d.was })
		if err != nil {
			return err
		}
		gone = append(gone, Change{Verb: Deleted, Path: path, Was: was})
	}
	for path, n := range c.b.names {
		if _, there := c.a.names[path]; there {
			continue
		}
		now, err := c.b.inode(n, c.delta[n], func(d *delta) *ext4.Inode { return d.now })
		if err != nil {
			return err
		}
		came = append(came, Change{Verb: Added, Path: path, Now: now})
	}
	c.renames(gone, came)
	if len(c.out.Changes) > maxChanges {
		return vm.Errorf(vm.Limit, "", "more than %d paths differ", maxChanges)
	}
	slices.SortFunc(c.out.Changes, func(a, b Change) int {
		return cmp.Or(cmp.Compare(a.Path, b.Path), cmp.Compare(a.Verb, b.Verb))
	})
	return nil
}

// inode is an inode of one side: the one that is known to differ, or else read again.
func (s *side) inode(n uint32, d *delta, known func(*delta) *ext4.Inode) (*ext4.Inode, error) {
	if d != nil {
		if in := known(d); in != nil {
			return in, nil
		}
	}
	return s.fs.Inode(n)
}

// both compares what a path names on the two sides.
func (c *comparison) both(path string, was, now uint32) error {
	d := c.delta[now]
	if was == now && d == nil {
		return nil // the name is in a directory that differs, and is the same
	}
	if was == now && d.was != nil && d.now != nil && sameFile(d.was, d.now) {
		if d.Content || d.Mode || d.Owner || d.Attrs || d.Links {
			ch := d.Change
			ch.Verb, ch.Path, ch.Was, ch.Now = Modified, path, d.was, d.now
			c.out.Changes = append(c.out.Changes, ch)
		}
		return nil
	}
	return c.replaced(path, was, now)
}

// replaced compares two files of which the later took the name of the earlier.
func (c *comparison) replaced(path string, was, now uint32) error {
	a, err := c.a.fs.Inode(was)
	if err != nil {
		return err
	}
	b, err := c.b.fs.Inode(now)
	if err != nil {
		return err
	}
	ch := Change{
		Verb: Modified, Path: path, Was: a, Now: b,
		Mode: a.Mode != b.Mode, Owner: a.UID != b.UID || a.GID != b.GID, Links: a.Links != b.Links && b.Type != ext4.Directory,
	}
	switch {
	case a.Type != b.Type:
		ch.Content = true
	case a.Type == ext4.Regular:
		c.a.fs.Renew()
		c.b.fs.Renew()
		same, err := c.sameContent(a, b)
		if err != nil {
			return err
		}
		ch.Content = !same
	case a.Type == ext4.Symlink:
		x, err := c.a.fs.Target(a)
		if err != nil {
			return err
		}
		y, err := c.b.fs.Target(b)
		if err != nil {
			return err
		}
		ch.Content = x != y
	default:
		ch.Content = a.Device != b.Device
	}
	if ch.Attrs, err = c.attrsDiffer(a, b); err != nil {
		return err
	}
	if ch.Content || ch.Mode || ch.Owner || ch.Links || ch.Attrs {
		c.out.Changes = append(c.out.Changes, ch)
	}
	return nil
}

// renames joins a name that went and one that came when both are of one file.
func (c *comparison) renames(gone, came []Change) {
	byPath := func(a, b Change) int { return cmp.Compare(a.Path, b.Path) }
	slices.SortFunc(gone, byPath)
	slices.SortFunc(came, byPath)
	left := map[uint32][]int{} // indexes of gone, by inode
	for i, g := range gone {
		left[g.Was.Number] = append(left[g.Was.Number], i)
	}
	paired := make([]bool, len(gone))
	for _, now := range came {
		if list := left[now.Now.Number]; len(list) > 0 && sameFile(gone[list[0]].Was, now.Now) {
			g := gone[list[0]]
			left[now.Now.Number], paired[list[0]] = list[1:], true
			if d := c.delta[now.Now.Number]; d != nil {
				verb, path, in := now.Verb, now.Path, now.Now
				now = d.Change
				now.Verb, now.Path, now.Now = verb, path, in
			}
			now.Verb, now.From, now.Was = Renamed, g.Path, g.Was
		}
		c.out.Changes = append(c.out.Changes, now)
	}
	for i, g := range gone {
		if !paired[i] {
			c.out.Changes = append(c.out.Changes, g)
		}
	}
}
