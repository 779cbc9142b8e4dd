// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package reader

import (
	"encoding/hex"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/warren-vm/warren/internal/review"
	"github.com/warren-vm/warren/vm"
)

// Bounds of an answer that is taken over.
const (
	maxPath    = 64 << 10
	maxChanges = 1 << 20
	maxText    = 64 << 10
	maxCount   = 1 << 40
)

// distrust is the error for an answer that no honest program gives.
func distrust(format string, args ...any) error {
	e := vm.Errorf(vm.Corrupt, "warren-reader", "the reader's answer is refused: "+format, args...)
	return e.WithHint("a damaged disk may have broken the reader; report it with the output of `warren doctor`")
}

var (
	groups = []string{vm.GroupProject, vm.GroupHome, vm.GroupSystem, vm.GroupCaches, vm.GroupLogs}
	verbs  = []vm.ChangeVerb{vm.FileAdded, vm.FileModified, vm.FileDeleted, vm.FileRenamed}
	types  = []string{"file", "dir", "link", "fifo", "socket", "block", "char"}
)

// check refuses an answer that contradicts itself, or that could lead whoever uses it
// out of the guest's files. Contents may be anything: they are the guest's.
func check(d *vm.Diff, o review.Options) error {
	if len(d.Changes) > maxChanges || len(d.Hidden) > maxChanges || len(d.System) > maxChanges || len(d.Alerts) > maxChanges || len(d.Repos) > maxChanges {
		return distrust("it has too many parts")
	}
	if !digest(d.Manifest) {
		return distrust("its manifest is no digest")
	}
	for _, g := range d.Groups {
		if !slices.Contains(groups, g.Group) || !counts(g.Stat) {
			return distrust("a group is %q", g.Group)
		}
	}
	sum := vm.DiffStat{}
	for i := range d.Changes {
		if err := checkChange(&d.Changes[i], o); err != nil {
			return err
		}
		count(&sum, d.Changes[i].Verb)
	}
	for _, h := range d.Hidden {
		if !path(h.Path) || !slices.Contains(groups, h.Group) || !counts(h.Stat) || !text(h.Reason) {
			return distrust("a directory whose changes are counted is %s", h.Path)
		}
		if h.Own {
			continue
		}
		sum.Added, sum.Modified = sum.Added+h.Stat.Added, sum.Modified+h.Stat.Modified
		sum.Deleted, sum.Renamed = sum.Deleted+h.Stat.Deleted, sum.Renamed+h.Stat.Renamed
	}
	if s := d.Stat; !counts(s) || sum.Added != s.Added || sum.Modified != s.Modified || sum.Deleted != s.Deleted || sum.Renamed != s.Renamed {
		return distrust("it counts %d changes and has %d", d.Stat.Files(), sum.Files())
	}
	return checkRest(d)
}

func count(s *vm.DiffStat, v vm.ChangeVerb) {
	switch v {
	case vm.FileAdded:
		s.Added++
	case vm.FileModified:
		s.Modified++
	case vm.FileDeleted:
		s.Deleted++
	case vm.FileRenamed:
		s.Renamed++
	}
}

// checkChange checks one path.
func checkChange(c *vm.FileChange, o review.Options) error {
	switch {
	case !path(c.Path) || c.From != "" && !path(c.From):
		return distrust("a path is %s", c.Path)
	case !slices.Contains(verbs, c.Verb) || (c.Verb == vm.FileRenamed) != (c.From != ""):
		return distrust("a change is %q", c.Verb)
	case c.Verb == vm.FileAdded && (c.Was != nil || c.Now == nil), c.Verb == vm.FileDeleted && (c.Was == nil || c.Now != nil),
		(c.Verb == vm.FileModified || c.Verb == vm.FileRenamed) && (c.Was == nil || c.Now == nil):
		return distrust("%s lacks a side", c.Path)
	case !slices.Contains(groups, c.Group) || !slices.Contains(types, c.Type):
		return distrust("%s is of group %q and type %q", c.Path, c.Group, c.Type)
	case !wanted(c, o.Paths):
		return distrust("%s was not asked for", c.Path)
	case c.LinesAdded < 0 || c.LinesRemoved < 0 || c.LinesAdded > maxCount || c.LinesRemoved > maxCount:
		return distrust("%s has %d and %d lines", c.Path, c.LinesAdded, c.LinesRemoved)
	case !o.Hunks && c.Hunks != "", !o.Patch && len(c.Patch) > 0:
		return distrust("%s has lines that were not asked for", c.Path)
	case !text(c.Binary) || !text(c.Cut) || !text(c.Git) || !texts(c.Changed) || !texts(c.Concerns):
		return distrust("a text about %s cannot be shown", c.Path)
	}
	for _, s := range []*vm.FileState{c.Was, c.Now} {
		if s != nil && (s.Size < 0 || s.Digest != "" && !digest(s.Digest) || s.Mode > 0o7777 || len(s.Target) > maxPath || strings.ContainsRune(string(s.Target), 0)) {
			return distrust("a side of %s", c.Path)
		}
	}
	for _, s := range c.Secrets {
		if !path(s.Path) || !text(s.Kind) || s.Line < 0 {
			return distrust("a secret in %s", c.Path)
		}
	}
	return nil
}

// checkRest checks what stands beside the paths.
func checkRest(d *vm.Diff) error {
	for _, s := range d.System {
		if !text(s.Kind) || !slices.Contains(verbs, s.Verb) || !text(s.Name) || !text(s.Was) || !text(s.Now) {
			return distrust("a change of the system")
		}
	}
	for _, r := range d.Repos {
		if !path(r.Path) || !text(r.HeadWas) || !text(r.HeadNow) || !texts(r.Notes) || r.Untracked < 0 || r.Ignored < 0 {
			return distrust("a repository at %s", r.Path)
		}
	}
	for _, a := range d.Alerts {
		if !text(a.Kind) || !text(a.Text) || slices.ContainsFunc(a.Paths, func(p vm.GuestPath) bool { return !path(p) }) {
			return distrust("an alert")
		}
	}
	if !texts(d.NotCompared) || d.PatchBase != "" && !path(d.PatchBase) {
		return distrust("what was not compared")
	}
	return nil
}

// wanted reports whether a change is below the paths that were asked for.
func wanted(c *vm.FileChange, paths []vm.GuestPath) bool {
	return len(paths) == 0 || slices.ContainsFunc(paths, func(p vm.GuestPath) bool { return below(c.Path, p) || c.From != "" && below(c.From, p) })
}

func below(p, dir vm.GuestPath) bool {
	d := strings.TrimRight(string(dir), "/")
	return string(p) == d || strings.HasPrefix(string(p), d+"/")
}

// path reports whether a path is absolute and leads nowhere else.
func path(p vm.GuestPath) bool {
	if p == "/" {
		return true
	}
	if len(p) > maxPath || !strings.HasPrefix(string(p), "/") || strings.ContainsRune(string(p), 0) {
		return false
	}
	for part := range strings.SplitSeq(string(p[1:]), "/") {
		if part == "" || part == "." || part == ".." {
			return false
		}
	}
	return true
}

// text reports whether a text of the reader's may be shown.
func text(s string) bool {
	if len(s) > maxText || !utf8.ValidString(s) {
		return false
	}
	for _, r := range s {
		if !strconv.IsPrint(r) {
			return false
		}
	}
	return true
}

func texts(list []string) bool {
	return len(list) <= maxChanges && !slices.ContainsFunc(list, func(s string) bool { return !text(s) })
}

func counts(s vm.DiffStat) bool {
	for _, n := range []int64{int64(s.Added), int64(s.Modified), int64(s.Deleted), int64(s.Renamed), int64(s.LinesAdded), int64(s.LinesRemoved)} {
		if n < 0 || n > maxCount {
			return false
		}
	}
	return s.BytesAdded >= 0 && s.BytesRemoved >= 0
}

func digest(s string) bool {
	raw, err := hex.DecodeString(s)
	return err == nil && len(raw) == 32
}
