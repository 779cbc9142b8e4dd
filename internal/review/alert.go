// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package review

import (
	"cmp"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/warren-vm/warren/internal/ext4"
	"github.com/warren-vm/warren/vm"
)

const (
	manyDeleted = 20 // deleted files that are an alert, wherever they were
	treeDeleted = 3  // deleted files that are an alert if their directory is gone, too
	alertPaths  = 20 // that an alert names
	textPaths   = 3  // that its text names
)

// concernAlerts are the alerts that concerns make, in the order in which they are
// shown. The text follows the number of files.
var concernAlerts = []struct {
	concern Concern
	kind    string
	one     string
	many    string
}{
	{RunsInGit, "git-config", "file that git obeys or runs changed", "files that git obeys or runs changed"},
	{RunsAtBoot, "starts-by-itself", "file that starts programs by itself changed", "files that start programs by themselves changed"},
	{RunsInAll, "runs-in-all", "file that is loaded into every program changed", "files that are loaded into every program changed"},
	{RunsInShell, "shell-profile", "file that every shell runs changed", "files that every shell runs changed"},
	{OpensAccess, "access", "file that decides who may log in changed", "files that decide who may log in changed"},
	{GivesRights, "rights", "file that gives rights changed", "files that give rights changed"},
	{RaisesRights, "set-id", "program that runs with its owner's rights or with capabilities changed", "programs that run with their owner's rights or with capabilities changed"},
	{CalledByName, "path-program", "program that others call by its name changed", "programs that others call by their name changed"},
	{MovesNames, "names", "file that decides where names lead or which servers are trusted changed", "files that decide where names lead or which servers are trusted changed"},
	{MovesPackages, "package-source", "file that decides where packages come from changed", "files that decide where packages come from changed"},
	{RunsOnOpen, "runs-on-open", "file that an editor, an agent or a build runs changed", "files that an editor, an agent or a build runs changed"},
	{ForEverybody, "for-everybody", "path may be written by everybody now", "paths may be written by everybody now"},
	{LeavesWorkdir, "link-outside", "link leaves the working directory", "links leave the working directory"},
	{OddName, "odd-name", "name can mislead: it has characters that are not shown", "names can mislead: they have characters that are not shown"},
	{InvisibleText, "invisible-text", "text has characters that are not seen as they are", "texts have characters that are not seen as they are"},
}

// alerts collects what a reviewer sees first, the worst first.
func (r *report) alerts(c *Result) {
	r.belowAlerts(c)
	r.repoAlerts()
	r.deletedAlerts()
	r.overwrittenAlerts()
	r.lostAlerts()
	r.secretAlerts()
	by := map[Concern][]*item{}
	for i := range r.items {
		it := &r.items[i]
		for _, concern := range it.concerns {
			if r.alarming(it, concern) {
				by[concern] = append(by[concern], it)
			}
		}
	}
	for _, a := range concernAlerts {
		if list := by[a.concern]; len(list) > 0 {
			r.alert(a.kind, list, a.one, a.many)
		}
	}
	r.endsAlerts()
}

// alarming reports whether a concern of a change is an alert, and not only shown
// beside it.
func (r *report) alarming(it *item, c Concern) bool {
	switch c {
	case RunsInGit:
		if it.gitOwn && (it.inGit == "config" || it.inGit == "config.worktree") {
			return it.repo.config || it.repo.was && it.repo.now
		}
		// What a new repository brings with it runs only by its configuration.
		return it.repo == nil || it.repo.was || it.gitOwn
	case RunsOnOpen:
		return it.Verb != Deleted
	case CalledByName, RaisesRights, LeavesWorkdir, ForEverybody, OddName, InvisibleText:
		return true
	}
	return true
}

// alert adds an alert about some changes.
func (r *report) alert(kind string, list []*item, one, many string) {
	noun := one
	if len(list) > 1 {
		noun = many
	}
	a := vm.Alert{Kind: kind, Text: thousands(len(list)) + " " + noun + ": " + r.nameThem(list)}
	for _, it := range list[:min(len(list), alertPaths)] {
		a.Paths = append(a.Paths, vm.GuestPath(it.Path))
	}
	r.out.Alerts = append(r.out.Alerts, a)
}

// nameThem names the first of some changes.
func (r *report) nameThem(list []*item) string {
	var names []string
	for _, it := range list[:min(len(list), textPaths)] {
		verb := ""
		if it.Verb != Modified {
			verb = " (" + string(it.Verb) + ")"
		}
		names = append(names, words(it.Path)+verb)
	}
	text := strings.Join(names, ", ")
	if n := len(list) - textPaths; n > 0 {
		text += fmt.Sprintf(" and %s more", thousands(n))
	}
	return text
}

// resizeInode owns the blocks that a file system reserves to grow. The kernel writes it
// when it mounts a file system for the first time.
const resizeInode = 7

// belowAlerts are about what no kernel of a guest does.
func (r *report) belowAlerts(c *Result) {
	var silent []*item
	for i := range r.items {
		if r.items[i].Silent {
			silent = append(silent, &r.items[i])
		}
	}
	if len(silent) > 0 {
		r.alert("hidden-write", silent, "file changed and none of its times did, as when somebody writes to the disk below the file system",
			"files changed and none of their times did, as when somebody writes to the disk below the file system")
	}
	reserved := slices.DeleteFunc(slices.Clone(c.Reserved), func(n uint32) bool { return n == resizeInode })
	if n := len(reserved); n > 0 {
		r.out.Alerts = append(r.out.Alerts, vm.Alert{Kind: "reserved-inodes", Text: fmt.Sprintf("%s that no file has differ: somebody may have hidden data in them: %v", count(n, "reserved inode"), reserved[:min(n, 9)])})
	}
	if n := len(c.Oddities); n > 0 {
		text := fmt.Sprintf("the file system has what no kernel writes: %s", words(c.Oddities[0]))
		if n > 1 {
			text += fmt.Sprintf(" and %d more", n-1)
		}
		r.out.Alerts = append(r.out.Alerts, vm.Alert{Kind: "oddity", Text: text})
	}
}

// repoAlerts are about repositories that are gone.
func (r *report) repoAlerts() {
	for _, repo := range r.repos {
		if repo.was && !repo.now && !repo.sub {
			r.out.Alerts = append(r.out.Alerts, vm.Alert{
				Kind: "repository-gone", Paths: []vm.GuestPath{vm.GuestPath(repo.dir)},
				Text: fmt.Sprintf("the repository %s is gone from its place, with its history", words(repo.path())),
			})
		}
		if repo.link && !repo.was {
			r.out.Alerts = append(r.out.Alerts, vm.Alert{
				Kind: "git-config", Paths: []vm.GuestPath{vm.GuestPath(repo.root)},
				Text: fmt.Sprintf("the .git of %s is a symbolic link to %s", words(repo.root), words(repo.dir)),
			})
		}
	}
}

// deletedAlerts are about trees that were deleted.
func (r *report) deletedAlerts() {
	gone := map[string]bool{} // directories
	for i := range r.items {
		if it := &r.items[i]; it.Verb == Deleted && isDir(it.Was) {
			gone[it.Path] = true
		}
	}
	type tree struct {
		files int
		bytes int64
		whole bool
	}
	trees, total := map[string]*tree{}, 0
	for i := range r.items {
		it := &r.items[i]
		if it.Verb != Deleted || isDir(it.Was) || it.group == Caches || it.group == Logs || it.gitOwn || r.packaged[it.Path] {
			continue
		}
		top, whole := path.Dir(it.Path), false
		for at := top; gone[at]; at = path.Dir(at) {
			top, whole = at, true
		}
		if !whole && len(trees) > 10000 {
			top = "/"
		}
		if trees[top] == nil {
			trees[top] = &tree{whole: whole}
		}
		trees[top].files++
		trees[top].bytes += regularSize(it.Was)
		total++
	}
	if total < manyDeleted {
		total = 0
		for top, t := range trees {
			if t.whole && t.files >= treeDeleted {
				total += t.files
			} else {
				delete(trees, top)
			}
		}
	}
	if total == 0 {
		return
	}
	a := vm.Alert{Kind: "deleted-tree"}
	tops := slices.SortedFunc(maps.Keys(trees), func(a, b string) int { return cmp.Or(cmp.Compare(trees[b].files, trees[a].files), cmp.Compare(a, b)) })
	var parts []string
	for i, top := range tops {
		if i < alertPaths {
			a.Paths = append(a.Paths, vm.GuestPath(top))
		}
		if t := trees[top]; i < textPaths {
			where := "in "
			if t.whole {
				where = "with the directory "
			}
			parts = append(parts, fmt.Sprintf("%s (%s) %s%s", thousands(t.files), size(t.bytes), where, words(top)))
		}
	}
	a.Text = fmt.Sprintf("%s deleted: %s", count(total, "file"), strings.Join(parts, ", "))
	if n := len(tops) - textPaths; n > 0 {
		a.Text += " and in " + thousands(n) + " more"
	}
	r.out.Alerts = append(r.out.Alerts, a)
}

// overwrittenAlerts are about files that were moved onto one another: all but the last
// are lost.
func (r *report) overwrittenAlerts() {
	deleted := map[string]int{} // files, by directory
	for i := range r.items {
		if it := &r.items[i]; it.Verb == Deleted && it.Was.Type == ext4.Regular {
			deleted[path.Dir(it.Path)]++
		}
	}
	for i := range r.items {
		it := &r.items[i]
		if it.Verb != Renamed || it.Now.Type != ext4.Regular || it.group == Caches || it.group == Logs || it.gitOwn || path.Dir(it.From) == path.Dir(it.Path) {
			continue
		}
		if n := deleted[path.Dir(it.From)]; n >= 2 && len(r.out.Alerts) < 100 {
			r.out.Alerts = append(r.out.Alerts, vm.Alert{
				Kind: "overwritten", Paths: []vm.GuestPath{vm.GuestPath(it.Path)},
				Text: fmt.Sprintf("%s became the file %s, and %s beside it are gone: perhaps they were moved onto one another", words(it.From), words(it.Path), count(n, "file")),
			})
			return
		}
	}
}

// lostAlerts are about files that are empty now, or nearly.
func (r *report) lostAlerts() {
	var list []*item
	for i := range r.items {
		if slices.Contains(r.items[i].concerns, LostContent) {
			list = append(list, &r.items[i])
		}
	}
	if len(list) == 0 {
		return
	}
	slices.SortStableFunc(list, func(a, b *item) int { return cmp.Compare(b.Was.Size-b.Now.Size, a.Was.Size-a.Now.Size) })
	it := list[0]
	was := fmt.Sprintf("from %s to %s", size(it.Was.Size), size(it.Now.Size))
	r.alert("content-lost", list, "file lost most of its content ("+was+")", "files lost most of their content (the first "+was+")")
}

// secretAlerts are about secrets. They name the places and never the values.
func (r *report) secretAlerts() {
	all := slices.Clone(r.objects)
	for i := range r.out.Changes {
		all = append(all, r.out.Changes[i].Secrets...)
	}
	if len(all) == 0 {
		return
	}
	a := vm.Alert{Kind: "secret"}
	var names []string
	for i, s := range all {
		if i < textPaths {
			where := s.Kind + " in " + words(string(s.Path))
			if s.Line > 0 {
				where += fmt.Sprintf(" line %d", s.Line)
			}
			names = append(names, where)
		}
		if len(a.Paths) < alertPaths && !slices.Contains(a.Paths, s.Path) {
			a.Paths = append(a.Paths, s.Path)
		}
	}
	n := max(len(all), r.secrets+len(r.objects))
	a.Text = fmt.Sprintf("%s: %s", count(n, "possible secret"), strings.Join(names, ", "))
	if n > textPaths {
		a.Text += fmt.Sprintf(" and %s more", thousands(n-textPaths))
	}
	r.out.Alerts = append(r.out.Alerts, a)
}

// endsAlerts are about texts of which only the coding changed.
func (r *report) endsAlerts() {
	ends, coding := 0, 0
	var endPaths, codingPaths []vm.GuestPath
	for i := range r.out.Changes {
		fc := &r.out.Changes[i]
		if slices.Contains(fc.Changed, "line-ends") {
			if ends++; ends <= alertPaths {
				endPaths = append(endPaths, fc.Path)
			}
		}
		if slices.Contains(fc.Changed, "encoding") {
			if coding++; coding <= alertPaths {
				codingPaths = append(codingPaths, fc.Path)
			}
		}
	}
	if coding > 0 {
		r.out.Alerts = append(r.out.Alerts, vm.Alert{Kind: "encoding", Paths: codingPaths, Text: fmt.Sprintf("%s UTF-8 before and not now: %s", were(coding, "text"), words(string(codingPaths[0])))})
	}
	if ends > 0 {
		r.out.Alerts = append(r.out.Alerts, vm.Alert{Kind: "line-ends", Paths: endPaths, Text: fmt.Sprintf("in %s only the ends of lines changed: %s", count(ends, "text"), words(string(endPaths[0])))})
	}
}

func were(n int, noun string) string {
	if n == 1 {
		return "1 " + noun + " was"
	}
	return thousands(n) + " " + noun + "s were"
}
