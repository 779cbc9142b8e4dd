// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package pathrule

import (
	"slices"
	"strings"

	"github.com/warren-vm/warren/vm"
)

// Set is a compiled list of rules. A nil Set has no rules and allows everything. A Set does
// not change.
type Set struct{ rules []rule }

type rule struct {
	vm.PathRule
	segs []string // folded, unless the rule allows
}

// Compile makes a set of rules; nil for an empty list. Kinds: as Check.
func Compile(list []vm.PathRule) (*Set, error) {
	if err := Check(list); err != nil || len(list) == 0 {
		return nil, err
	}
	s := &Set{}
	for _, r := range list {
		segs, err := segments(r.Path)
		if err != nil {
			return nil, err
		}
		out := rule{PathRule: r}
		for _, seg := range segs {
			if seg == deep && len(out.segs) > 0 && out.segs[len(out.segs)-1] == deep {
				continue
			}
			if r.Action != vm.PathAllow {
				seg = fold(seg)
			}
			out.segs = append(out.segs, seg)
		}
		if last := len(out.segs) - 1; out.segs[last] == deep {
			out.segs[last] = "*" // a match covers what is below it
		}
		s.rules = append(s.rules, out)
	}
	return s, nil
}

// Verdict is what the rules say of a path.
type Verdict struct {
	Action vm.PathAction
	Rule   string // the pattern that decided; "" = none
	// Below says that a directory above the path is denied or hidden: not even the path's
	// attributes may be read.
	Below bool
}

// Reads reports whether the content may be read without asking.
func (v Verdict) Reads() bool {
	return !v.Below && (v.Action == vm.PathAllow || v.Action == vm.PathReadOnly)
}

// Writes reports whether the path may be changed without asking.
func (v Verdict) Writes() bool { return !v.Below && v.Action == vm.PathAllow }

// Hidden reports whether the path must look as if it did not exist.
func (v Verdict) Hidden() bool { return v.Action == vm.PathHide }

// Shown reports whether the name and the attributes may be seen.
func (v Verdict) Shown() bool { return !v.Below && v.Action != vm.PathHide }

// place is how far each rule has matched: a bit for each position in its pattern. The last
// bit is a full match. After the first full match later rules do not count and are zero.
type place []uint64

func (s *Set) start() place {
	p := make(place, len(s.rules))
	for i, r := range s.rules {
		p[i] = r.close(1)
	}
	return p
}

func (r rule) full() uint64 { return 1 << len(r.segs) }

// close adds the positions that are reached without another name.
func (r rule) close(bits uint64) uint64 {
	for i, seg := range r.segs {
		if seg == deep && bits&(1<<i) != 0 {
			bits |= 1 << (i + 1)
		}
	}
	return bits
}

// step enters a name.
func (s *Set) step(p place, name string) place {
	out := make(place, len(p))
	folded := fold(name)
	for i, r := range s.rules {
		if p[i]&r.full() != 0 {
			out[i] = r.full()
			break
		}
		if p[i] == 0 {
			continue
		}
		n := folded
		if r.Action == vm.PathAllow {
			n = name
		}
		var bits uint64
		for at, seg := range r.segs {
			if p[i]&(1<<at) == 0 {
				continue
			}
			if seg == deep {
				bits |= 1 << at
			} else if matches(seg, n) {
				bits |= 1 << (at + 1)
			}
		}
		if out[i] = r.close(bits); out[i]&r.full() != 0 {
			out[i] = r.full()
			break
		}
	}
	return out
}

func (s *Set) verdict(p place, above Verdict) Verdict {
	if above.Below || above.Action == vm.PathHide || above.Action == vm.PathDeny {
		above.Below = true
		return above
	}
	for i, r := range s.rules {
		if p[i]&r.full() != 0 {
			return Verdict{Action: r.Action, Rule: r.Path}
		}
	}
	return Verdict{Action: vm.PathAllow}
}

// names are the names of an absolute path.
func names(path string) []string {
	return slices.DeleteFunc(strings.Split(path, "/"), func(s string) bool { return s == "" || s == "." })
}

func (s *Set) walk(path string) (place, Verdict) {
	p, v := s.start(), Verdict{Action: vm.PathAllow}
	for _, name := range names(path) {
		p = s.step(p, name)
		v = s.verdict(p, v)
	}
	return p, v
}

// Judge says what the rules say of a real, absolute path without "..".
func (s *Set) Judge(path string) Verdict {
	if s == nil {
		return Verdict{Action: vm.PathAllow}
	}
	_, v := s.walk(path)
	return v
}

// Alike reports whether the rules say the same of everything below two directories, and of
// the directories themselves. Only then may one become the other by renaming.
func (s *Set) Alike(a, b string) bool {
	if s == nil {
		return true
	}
	pa, va := s.walk(a)
	pb, vb := s.walk(b)
	return va.Action == vb.Action && va.Below == vb.Below && slices.Equal(pa, pb)
}

// Reaches reports whether a rule of the set matches anything at or below a directory.
func (s *Set) Reaches(dir string) bool {
	if s == nil {
		return false
	}
	p, _ := s.walk(dir)
	return slices.ContainsFunc(p, func(bits uint64) bool { return bits != 0 })
}

// Restricts reports whether a rule that is no "allow" matches anything at or below a directory.
func (s *Set) Restricts(dir string) bool {
	if s == nil {
		return false
	}
	p, _ := s.walk(dir)
	for i, r := range s.rules {
		if p[i] != 0 && r.Action != vm.PathAllow {
			return true
		}
	}
	return false
}

// Within reports whether all that a pattern matches is at or below a directory.
func Within(pattern, dir string) bool {
	segs, err := segments(pattern)
	if err != nil {
		return false
	}
	want := names(dir)
	for i, name := range want {
		if i >= len(segs) || segs[i] != name || strings.ContainsAny(segs[i], "*?") {
			return false
		}
	}
	return true
}
