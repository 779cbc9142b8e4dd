// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package treesync

import (
	"cmp"
	"path"
	"slices"
	"strings"

	"github.com/warren-vm/warren/vm"
)

// Directions of a run, and the side that wins a conflict.
const (
	Both  = "both"
	VM    = "vm"
	Local = "local"
)

// fate is what a run does with a path.
type fate int

const (
	stays    fate = iota // both sides are alike, or neither is touched
	toVM                 // as it is here
	toLocal              // as it is in the VM
	conflict             // neither is touched
	held                 // the direction does not allow it
	leftOut              // it cannot be on this computer
)

// pathPlan is the plan for one path.
type pathPlan struct {
	path              string
	base, here, there *Entry // at the last run; now
	fate              fate
	why               string
	keep              bool // what is replaced here is not what was synced
}

func (d *pathPlan) afterHere() *Entry {
	if d.fate == toLocal {
		return d.there
	}
	return d.here
}

func (d *pathPlan) afterThere() *Entry {
	if d.fate == toVM {
		return d.here
	}
	return d.there
}

// planner compares three trees.
type planner struct {
	to, prefer string
	folds      bool // this computer's file system takes names that differ in case for one
	list       []*pathPlan
	by         map[string]*pathPlan
}

// plan decides for each path, in the order of paths.
func (x *planner) plan(base, here, there map[string]*Entry) []*pathPlan {
	x.by = make(map[string]*pathPlan, len(here))
	for _, m := range []map[string]*Entry{base, here, there} {
		for p := range m {
			if x.by[p] == nil {
				x.by[p] = &pathPlan{path: p, base: base[p], here: here[p], there: there[p]}
			}
		}
	}
	for _, d := range x.by {
		x.decide(d)
		x.list = append(x.list, d)
	}
	slices.SortFunc(x.list, func(a, b *pathPlan) int { return strings.Compare(a.path, b.path) })
	for x.fit() {
	}
	if x.folds {
		x.foldNames()
		for x.fit() {
		}
	}
	return x.list
}

// decide looks at one path alone.
func (x *planner) decide(d *pathPlan) {
	here, there := !same(d.here, d.base), !same(d.there, d.base)
	odd := d.here != nil && d.here.Type == TypeOther || d.there != nil && d.there.Type == TypeOther
	switch {
	case odd && (d.here == nil || d.there == nil) && d.base == nil:
		d.fate, d.why = leftOut, "neither a file, a directory nor a link"
	case odd:
		d.fate, d.why = conflict, "one side is neither a file, a directory nor a link"
	case same(d.here, d.there):
	case here && there:
		d.fate, d.why = conflict, "here "+verb(d.base, d.here)+", in the VM "+verb(d.base, d.there)
		switch x.prefer {
		case VM:
			d.fate, d.keep = toLocal, true
		case Local:
			d.fate = toVM
		}
	case here:
		d.fate = toVM
	case there:
		d.fate = toLocal
	}
	if d.fate == toLocal && d.there != nil && d.there.Type == TypeLink && leadsOut(d.path, string(d.there.Target)) {
		d.fate, d.why = leftOut, "a link that leads outside, to "+d.there.Target.String()
		if d.here != nil {
			d.fate, d.why = conflict, "in the VM it is "+d.why
		}
	}
	if d.fate == toLocal && x.to == VM || d.fate == toVM && x.to == Local {
		d.fate = held
	}
}

// leadsOut reports whether a link's target is outside the tree.
func leadsOut(p, target string) bool {
	if strings.HasPrefix(target, "/") {
		return true
	}
	to := path.Join(path.Dir(p), target)
	return to == ".." || strings.HasPrefix(to, "../")
}

// verb says what happened to a path.
func verb(was, now *Entry) string {
	switch {
	case was == nil && now == nil:
		return "missing"
	case was == nil:
		return "added"
	case now == nil:
		return "deleted"
	case was.Type != now.Type:
		return "now a " + now.Type
	}
	return "changed"
}

// fit adapts the plan of directories and of what is in them to each other. It
// returns true if it changed something, and is then to be called again.
func (x *planner) fit() (changed bool) {
	fullHere, fullThere := map[string]bool{}, map[string]bool{}
	for _, d := range x.list {
		for _, side := range []struct {
			there bool
			full  map[string]bool
		}{{d.afterHere() != nil, fullHere}, {d.afterThere() != nil, fullThere}} {
			if !side.there {
				continue
			}
			for p := path.Dir(d.path); p != "." && !side.full[p]; p = path.Dir(p) {
				side.full[p] = true
			}
		}
	}
	for _, d := range x.list {
		switch d.fate {
		case toLocal:
			changed = x.fitOne(d, d.here, d.there, fullHere[d.path], fullThere[d.path], (*pathPlan).afterHere, toVM) || changed
		case toVM:
			changed = x.fitOne(d, d.there, d.here, fullThere[d.path], fullHere[d.path], (*pathPlan).afterThere, toLocal) || changed
		}
	}
	return changed
}

// fitOne adapts one change: was becomes now on its side. full says whether
// something remains below the path on that side, fullOther on the other one. back
// is the fate of the other direction.
func (x *planner) fitOne(d *pathPlan, was, now *Entry, full, fullOther bool, after func(*pathPlan) *Entry, back fate) bool {
	switch {
	case now == nil && was.Type == TypeDir && full && fullOther:
		d.fate = back // new files in a directory that the other side has deleted
		return true
	case now == nil && was.Type == TypeDir && full:
		d.fate = stays
		return true
	case now != nil && now.Type != TypeDir && full:
		d.fate, d.why = conflict, "a directory here and a "+now.Type+" there, and the directory is not empty"
		return true
	case now == nil:
		return false
	}
	up := x.by[path.Dir(d.path)]
	if up == nil {
		return false // the tree itself
	}
	switch a := after(up); {
	case a != nil && a.Type == TypeDir:
		return false
	case a == nil && (up.fate == held || up.fate == stays):
		up.fate = d.fate // the file needs its directory
		return true
	}
	d.fate, d.why = conflict, "its directory is a conflict"
	return true
}

// foldNames makes conflicts of what would have one name on this computer.
func (x *planner) foldNames() {
	first := map[string]*pathPlan{}
	for _, d := range x.list {
		if d.afterHere() == nil {
			continue
		}
		key := strings.ToLower(d.path)
		other := first[key]
		if other == nil {
			first[key] = d
			continue
		}
		for _, c := range []*pathPlan{d, other} {
			if c.fate == toLocal && c.here == nil {
				c.fate, c.why = conflict, "on this computer it would have the name of another one"
			}
		}
	}
}

// ops returns the changes of one side: what is deleted first, the deepest first,
// then what is made.
func ops(list []*pathPlan, f fate) []*Op {
	var gone, made []*Op
	for _, d := range list {
		if d.fate != f {
			continue
		}
		op := &Op{Path: vm.GuestPath(d.path), Was: d.there, New: d.here, Keep: d.keep}
		if f == toLocal {
			op.Was, op.New = d.here, d.there
		}
		if op.New == nil {
			op.Keep = true
			gone = append(gone, op)
			continue
		}
		op.Content = op.New.Type == TypeFile && (op.Was == nil || op.Was.Type != TypeFile || op.Was.Digest != op.New.Digest)
		made = append(made, op)
	}
	slices.SortStableFunc(gone, func(a, b *Op) int {
		return cmp.Compare(strings.Count(string(b.Path), "/"), strings.Count(string(a.Path), "/"))
	})
	return append(gone, made...)
}
