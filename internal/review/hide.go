// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package review

import (
	"cmp"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/warren-vm/warren/internal/ext4"
	"github.com/warren-vm/warren/vm"
)

const (
	maxListed = 2000    // changes that are listed unless all are asked for
	maxAll    = 200_000 // if all are
	fewFiles  = 10      // changes of a cache's directory that are listed anyway
)

// alwaysHidden are directories of caches in which programs write all the time, and
// the words for them. Others are hidden only when much changed in them: a single
// changed file of a dependency is what a reviewer wants to see.
var alwaysHidden = map[string]string{
	"__pycache__": "files of __pycache__", ".mypy_cache": "files of .mypy_cache", ".pytest_cache": "files of .pytest_cache", ".ruff_cache": "files of .ruff_cache",
}

// hide is a directory whose changes are only counted, and why.
type hide struct{ dir, reason string }

// hideItems decides which changes are only counted. A change with a concern never is.
func (r *report) hideItems() {
	below := map[hide]int{}
	places := make([]hide, len(r.items))
	for i := range r.items {
		it := &r.items[i]
		if it.hide != (hide{}) || len(it.concerns) > 0 {
			continue
		}
		places[i] = r.placeOf(it)
		below[places[i]]++
	}
	for i, h := range places {
		if h == (hide{}) || r.o.All {
			continue
		}
		_, always := alwaysHidden[path.Base(h.dir)]
		if always || h.dir == "/var/cache" || h.dir == "/var/lib/apt/lists" || r.items[i].group == Logs || r.items[i].gitOwn || strings.HasPrefix(h.reason, "files of packages") || below[h] > fewFiles {
			r.items[i].hide = h
		}
	}
	if !r.o.All {
		r.hideMany()
	}
}

// placeOf names the directory under which a change would be hidden.
func (r *report) placeOf(it *item) hide {
	if it.gitOwn && it.inGit != "" && !shownInGit(it.inGit) {
		return hide{it.repo.dir, "files that git itself writes"}
	}
	parts := strings.Split(it.Path, "/")
	for i, part := range parts {
		if i > 0 && slices.Contains(cacheNames, part) {
			return hide{strings.Join(parts[:i+1], "/"), cmp.Or(alwaysHidden[part], "files below "+part)}
		}
	}
	for _, dir := range cacheDirs {
		if it.Path != dir && below(it.Path, dir) {
			return hide{dir, "files below " + dir}
		}
	}
	for _, dir := range logDirs {
		if it.Path != dir && below(it.Path, dir) {
			return hide{dir, "files that services write by themselves"}
		}
	}
	if it.group == System && r.packaged[it.Path] {
		return hide{"/" + parts[1], "files of packages that differ, as their lists say"}
	}
	if below(it.Path, "/var/lib/dpkg", "/var/lib/apt") {
		return hide{"/" + strings.Join(parts[1:min(4, len(parts))], "/"), "files of packages that differ, as their lists say"}
	}
	return hide{}
}

// shownInGit reports whether a file of a repository's own directory is for people.
func shownInGit(rel string) bool {
	return rel == "config" || rel == "config.worktree" || strings.HasPrefix(rel, "info/") || strings.HasPrefix(rel, "hooks/") && !strings.HasSuffix(rel, ".sample") ||
		strings.HasSuffix(rel, "/config") && strings.HasPrefix(rel, "modules/")
}

// hideMany hides the directories with the most changes until few enough are listed.
func (r *report) hideMany() {
	for depth := 6; depth >= 1; depth-- {
		listed, count := 0, map[string]int{}
		for i := range r.items {
			if it := &r.items[i]; it.hide == (hide{}) {
				listed++
				if len(it.concerns) == 0 {
					count[ancestor(it.Path, depth)]++
				}
			}
		}
		if listed <= maxListed {
			return
		}
		dirs := slices.SortedFunc(maps.Keys(count), func(a, b string) int {
			return cmp.Or(cmp.Compare(count[b], count[a]), cmp.Compare(a, b))
		})
		chosen := map[string]bool{}
		for _, dir := range dirs {
			if listed <= maxListed || depth > 1 && count[dir] < maxListed/10 {
				break
			}
			chosen[dir] = true
			listed -= count[dir]
		}
		for i := range r.items {
			if it := &r.items[i]; it.hide == (hide{}) && len(it.concerns) == 0 {
				if dir := ancestor(it.Path, depth); chosen[dir] {
					it.hide = hide{dir, "files, too many to list"}
				}
			}
		}
	}
}

// ancestor is the directory of a path that has at most depth parts.
func ancestor(p string, depth int) string {
	parts := strings.Split(path.Dir(p), "/")
	return cmp.Or(strings.Join(parts[:min(depth+1, len(parts))], "/"), "/")
}

// hidden counts what is not listed.
func (r *report) hidden() {
	type key struct {
		hide
		group Group
	}
	stats := map[key]*vm.DiffStat{}
	for i := range r.items {
		it := &r.items[i]
		if it.hide == (hide{}) {
			continue
		}
		k := key{it.hide, it.group}
		if stats[k] == nil {
			stats[k] = &vm.DiffStat{}
		}
		it.count(stats[k])
	}
	for k, stat := range stats {
		r.out.Hidden = append(r.out.Hidden, vm.HiddenDir{Path: vm.GuestPath(k.dir), Group: string(k.group), Stat: *stat, Reason: k.reason, Own: k.reason == ownReason})
	}
	slices.SortFunc(r.out.Hidden, func(a, b vm.HiddenDir) int {
		return cmp.Or(cmp.Compare(groupRank(a.Group), groupRank(b.Group)), cmp.Compare(b.Stat.Files(), a.Stat.Files()), cmp.Compare(a.Path, b.Path), cmp.Compare(a.Reason, b.Reason))
	})
}

func groupRank(g string) int { return slices.Index(Groups, Group(g)) }

// count adds a change to a count; lines are added by whoever compares them.
func (it *item) count(s *vm.DiffStat) {
	was, now := regularSize(it.Was), regularSize(it.Now)
	switch it.Verb {
	case Added:
		s.Added++
	case Modified:
		s.Modified++
	case Deleted:
		s.Deleted++
	case Renamed:
		s.Renamed++
	}
	s.BytesAdded += max(0, now-was)
	s.BytesRemoved += max(0, was-now)
}

func regularSize(in *ext4.Inode) int64 {
	if in == nil || in.Type != ext4.Regular {
		return 0
	}
	return in.Size
}
