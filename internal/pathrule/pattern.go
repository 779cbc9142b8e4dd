// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package pathrule

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"

	"github.com/warren-vm/warren/vm"
)

// Bounds of the rules of one VM.
const (
	MaxRules    = 200
	maxPattern  = 1024     // bytes
	maxAll      = 16 << 10 // bytes of all patterns
	maxSegments = 60       // a position in a pattern is a bit
	maxDeep     = 3        // "**" in one pattern
)

const deep = "**"

// Canonical makes a rule from what a user wrote. A pattern without a leading slash matches at
// any depth. With a mount point, the pattern is about what is below it. Kind Invalid.
func Canonical(action vm.PathAction, pattern, mount string) (vm.PathRule, error) {
	p := strings.TrimSuffix(pattern, "/")
	if p == "" && strings.HasPrefix(pattern, "/") && mount == "" {
		return vm.PathRule{}, bad(pattern, "it is every path of the VM").WithHint("name a directory, for example /work/**")
	}
	if p != "" && !strings.HasPrefix(p, "/") {
		p = "/**/" + p
	}
	if mount != "" {
		if !strings.HasPrefix(mount, "/") {
			return vm.PathRule{}, bad(mount, "it is not an absolute path in the guest").WithHint("give the mount point, for example --mount /src")
		}
		p = strings.TrimSuffix(mount, "/") + p
	}
	r := vm.PathRule{Action: action, Path: p}
	return r, CheckRule(r)
}

// Check checks a list of rules. Kinds: Invalid, Limit.
func Check(list []vm.PathRule) error {
	if len(list) > MaxRules {
		return vm.Errorf(vm.Limit, "paths", "%d path rules are more than the %d of one VM", len(list), MaxRules).
			WithCode("PATH_RULE_INVALID").WithHint("write one pattern for several paths")
	}
	size := 0
	for i, r := range list {
		if err := CheckRule(r); err != nil {
			return err
		}
		if size += len(r.Path); size > maxAll {
			return vm.Errorf(vm.Limit, "paths", "the patterns have more than %d bytes in all", maxAll).
				WithCode("PATH_RULE_INVALID").WithHint("write one pattern for several paths")
		}
		for _, before := range list[:i] {
			if before.Path == r.Path {
				return bad(r.Path, "two rules have this pattern, and only the first one would decide").WithHint("remove one: `warren path rm VM %s`", before.Path)
			}
		}
	}
	return nil
}

// CheckRule checks one rule. Kind Invalid.
func CheckRule(r vm.PathRule) error {
	if !slices.Contains(vm.PathActions, r.Action) {
		return bad(string(r.Action), "it is not an action of path rules").WithHint("use allow, read-only, ask, deny or hide")
	}
	_, err := segments(r.Path)
	return err
}

func bad(what, why string) *vm.Error {
	return vm.Errorf(vm.Invalid, vm.GuestPath(vm.Clip(what, 200)).String(), "%s", why).WithCode("PATH_RULE_INVALID")
}

// segments splits a pattern.
func segments(p string) ([]string, error) {
	switch {
	case len(p) > maxPattern:
		return nil, bad(p, "the pattern is too long")
	case !strings.HasPrefix(p, "/"):
		return nil, bad(p, "the pattern is not absolute").WithHint("begin it with a slash, or with /**/ for any depth")
	case !utf8.ValidString(p) || strings.ContainsFunc(p, unicode.IsControl):
		return nil, bad(p, "the pattern holds characters that cannot be shown").WithHint("write ? for each of them")
	}
	list := strings.Split(p[1:], "/")
	if len(list) > maxSegments {
		return nil, bad(p, "the pattern has too many names")
	}
	many, literal := 0, 0
	for _, s := range list {
		switch {
		case s == "" || s == "." || s == "..":
			return nil, bad(p, "the pattern holds an empty name, . or ..").WithHint("write the path in its shortest form")
		case s == deep:
			many++
		case strings.Contains(s, deep):
			return nil, bad(p, "** stands for whole names only").WithHint("write /** or /**/, or * for a part of a name")
		default:
			literal++
		}
	}
	if many > maxDeep {
		return nil, bad(p, "the pattern holds ** too often")
	}
	if literal == 0 {
		return nil, bad(p, "it is every path of the VM").WithHint("name a directory, for example /work/**")
	}
	return list, nil
}

// fold maps names to one spelling if a file system may take them for the same name: case,
// composed characters and characters that are not shown do not count. It maps more names
// together than any file system does, so that a rule that restricts has no way around it.
func fold(name string) string {
	ascii := true
	for i := range len(name) {
		ascii = ascii && name[i] < utf8.RuneSelf
	}
	if ascii {
		return strings.ToLower(name)
	}
	if !utf8.ValidString(name) {
		return name
	}
	var b strings.Builder
	for _, r := range norm.NFKD.String(name) {
		switch {
		case unicode.In(r, unicode.Cf, unicode.Variation_Selector, unicode.Other_Default_Ignorable_Code_Point):
		case r == 'ß' || r == 'ẞ':
			b.WriteString("ss")
		default:
			b.WriteRune(least(r))
		}
	}
	return b.String()
}

// least is one rune for all that differ only in case.
func least(r rune) rune {
	out := r
	for next := unicode.SimpleFold(r); next != r; next = unicode.SimpleFold(next) {
		out = min(out, next)
	}
	if out >= 'A' && out <= 'Z' {
		out += 'a' - 'A'
	}
	return out
}

// matches reports whether a name matches a segment with "*" and "?".
func matches(pattern, name string) bool {
	star, at := -1, 0 // where the last star is, and where its match ends
	p, n := 0, 0
	for n < len(name) {
		_, size := utf8.DecodeRuneInString(name[n:])
		switch {
		case p < len(pattern) && pattern[p] == '*':
			star, at = p, n
			p++
		case p < len(pattern) && pattern[p] == '?':
			p, n = p+1, n+size
		case p < len(pattern) && pattern[p] == name[n]:
			p, n = p+1, n+1
		case star >= 0:
			at++
			p, n = star+1, at
		default:
			return false
		}
	}
	return strings.Trim(pattern[p:], "*") == ""
}
