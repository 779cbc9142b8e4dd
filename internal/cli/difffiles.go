// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"cmp"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/warren-vm/warren/vm"
)

// linesOfNew are the lines of a new file that are shown unless its path was given.
const linesOfNew = 60

// verbRank orders what happened: what was lost comes first.
var verbRank = map[vm.ChangeVerb]int{vm.FileDeleted: 0, vm.FileModified: 1, vm.FileRenamed: 2, vm.FileAdded: 3}

// files prints the changes by group: deletions first, and before them what concerns.
func (v *diffView) files(d *vm.Diff) {
	gone, full := map[string]int{}, map[string]bool{} // files below deleted directories; directories of which a file is listed
	dirs := map[string]bool{}
	for _, c := range d.Changes {
		if c.Verb == vm.FileDeleted && c.Type == "dir" {
			dirs[string(c.Path)] = true
		}
		if c.Verb == vm.FileAdded {
			full[path.Dir(string(c.Path))] = true
		}
	}
	top := func(p string) (string, bool) {
		found := ""
		for at := path.Dir(p); dirs[at]; at = path.Dir(at) {
			found = at
		}
		return found, found != ""
	}
	for _, c := range d.Changes {
		if at, is := top(string(c.Path)); is && c.Verb == vm.FileDeleted && c.Type != "dir" {
			gone[at]++
		}
	}
	group := ""
	list := slices.Clone(d.Changes)
	slices.SortStableFunc(list, func(a, b vm.FileChange) int {
		if a.Group != b.Group {
			return 0 // they are ordered
		}
		return cmp.Or(cmp.Compare(min(1, len(b.Concerns)), min(1, len(a.Concerns))), cmp.Compare(verbRank[a.Verb], verbRank[b.Verb]))
	})
	for i := range list {
		c := &list[i]
		if _, is := top(string(c.Path)); is && c.Verb == vm.FileDeleted && len(c.Concerns) == 0 && !v.o.req.All {
			continue // the directory's line counts it
		}
		if c.Type == "dir" && c.Verb == vm.FileAdded && full[string(c.Path)] && len(c.Concerns) == 0 {
			continue // its files say it
		}
		if c.Group != group {
			group = c.Group
			v.line("")
			v.line(v.paint(bold, plain(group)))
		}
		v.file(c, gone[string(c.Path)])
	}
}

// file prints one change.
func (v *diffView) file(c *vm.FileChange, below int) {
	text := verbSigns[c.Verb] + " "
	if c.From != "" {
		text += c.From.String() + " → "
	}
	text += c.Path.String()
	if c.Type == "dir" && !strings.HasSuffix(text, "/") {
		text += "/"
	}
	var notes []string
	if below > 0 {
		notes = append(notes, fmt.Sprintf("with %d files below it", below))
	}
	notes = append(notes, changeNotes(c)...)
	if len(notes) > 0 {
		text += "  " + strings.Join(notes, ", ")
	}
	v.folded(verbColours[c.Verb], text)
	for _, concern := range c.Concerns {
		v.folded(red, "    ! it "+plain(concern))
	}
	for i, s := range c.Secrets {
		if i == 5 {
			v.line(v.paint(red, fmt.Sprintf("    and %d more", len(c.Secrets)-5)))
			break
		}
		where := ""
		if s.Line > 0 {
			where = fmt.Sprintf(" in line %d", s.Line)
		}
		v.folded(red, "    possible "+plain(s.Kind)+where)
	}
	if c.Cut != "" {
		v.folded(dim, "    "+plain(c.Cut))
	}
	v.hunks(c)
}

// changeNotes say what differs in a path, in words.
func changeNotes(c *vm.FileChange) (notes []string) {
	add := func(text string) { notes = append(notes, text) }
	if lines := signed(c.LinesAdded, c.LinesRemoved); lines != "" {
		add(lines)
	}
	if c.Binary != "" {
		add(plain(c.Binary))
		if c.Was != nil && c.Now != nil {
			add(human(c.Was.Size) + " → " + human(c.Now.Size))
		} else {
			add(human(cmp.Or(c.Now, c.Was).Size))
		}
	}
	for _, what := range c.Changed {
		switch {
		case c.Was == nil || c.Now == nil:
		case what == "mode":
			add(fmt.Sprintf("mode %04o → %04o", c.Was.Mode, c.Now.Mode))
		case what == "owner":
			add(fmt.Sprintf("owner %d:%d → %d:%d", c.Was.UID, c.Was.GID, c.Now.UID, c.Now.GID))
		case what == "links":
			add(fmt.Sprintf("%d → %d names", c.Was.Links, c.Now.Links))
		case what == "attrs":
			add("attributes " + attrNotes(c.Was.Attrs, c.Now.Attrs))
		case what == "type":
			add("is a " + plain(c.Type) + " now")
		case what == "line-ends", what == "encoding":
			add(strings.ReplaceAll(what, "-", " "))
		}
	}
	if c.Now != nil && c.Now.Target != "" {
		was := ""
		if c.Was != nil && c.Was.Target != "" && c.Was.Target != c.Now.Target {
			was = c.Was.Target.String() + " → "
		}
		add("link to " + was + c.Now.Target.String())
	}
	if c.Verb == vm.FileAdded && c.Now != nil && c.Type == "file" && c.Now.Mode&0o111 != 0 {
		add(fmt.Sprintf("mode %04o", c.Now.Mode))
	}
	switch c.Type {
	case "fifo", "socket", "block", "char":
		add(c.Type)
	}
	if c.Git == "untracked" || c.Git == "ignored" {
		add("git: " + c.Git)
	}
	return notes
}

// attrNotes names the extended attributes that differ.
func attrNotes(was, now map[string][]byte) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(was)) {
		if value, there := now[name]; !there {
			parts = append(parts, "-"+plain(name))
		} else if string(value) != string(was[name]) {
			parts = append(parts, "~"+plain(name))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(now)) {
		if _, there := was[name]; !there {
			parts = append(parts, "+"+plain(name))
		}
	}
	return strings.Join(parts, " ")
}

// hunks prints the changed lines. Those of a deleted file say nothing new.
func (v *diffView) hunks(c *vm.FileChange) {
	if c.Hunks == "" || c.Verb == vm.FileDeleted && len(v.o.req.Paths) == 0 {
		return
	}
	most := -1
	if c.Verb == vm.FileAdded && len(v.o.req.Paths) == 0 {
		most = linesOfNew
	}
	n := 0
	for text := range strings.Lines(c.Hunks) {
		if n++; n == most {
			v.line(v.paint(dim, fmt.Sprintf("  … and %d more lines; give the path to see them", strings.Count(c.Hunks, "\n")-n+1)))
			return
		}
		code := ""
		switch text[0] {
		case '+':
			code = green
		case '-':
			code = red
		case '@':
			code = cyan
		}
		var safe strings.Builder
		w := safeWriter{w: &safe}
		_, _ = w.Write([]byte(strings.TrimSuffix(text, "\n")))
		_ = w.Close()
		v.line("  " + v.paint(code, safe.String()))
	}
}
