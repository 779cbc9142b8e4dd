// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

// Package gitignore says which paths of a tree git ignores, by the .gitignore files in
// it. It reads no files itself: the caller walks the tree, which may be that of a guest.
// Patterns are taken as hostile: their number and the work for each are bounded.
package gitignore

import (
	"bytes"
	"strings"
)

// Limits of one .gitignore file; the rest of a larger file is not read.
const (
	MaxFile    = 256 << 10 // bytes
	maxRules   = 4096
	maxPattern = 1024 // bytes; longer patterns match nothing
)

// Dir is a directory of a tree with the patterns that apply in it. The zero value and
// nil are the root of a tree without patterns.
type Dir struct {
	parent *Dir
	name   string // in the parent
	rules  []rule
}

// Root returns the top of a tree with the content of its .gitignore; nil = it has none.
func Root(file []byte) *Dir { return &Dir{rules: parse(file)} }

// Below returns a directory in d with the content of its .gitignore; nil = it has none.
func (d *Dir) Below(name string, file []byte) *Dir {
	return &Dir{parent: d, name: name, rules: parse(file)}
}

// Ignored reports whether git ignores an entry of d. d itself must not be ignored: git
// never takes an entry of an ignored directory back.
func (d *Dir) Ignored(name string, dir bool) bool {
	path := name
	for at := d; at != nil; at = at.parent {
		for i := len(at.rules) - 1; i >= 0; i-- {
			if r := &at.rules[i]; r.matches(path, name, dir) {
				return !r.negated
			}
		}
		path = at.name + "/" + path
	}
	return false
}

// rule is one line of a .gitignore.
type rule struct {
	pattern  string
	negated  bool
	dirsOnly bool
	anchored bool // it is matched with the path, not only with the last name
	plain    bool // it has no wildcards or escapes
}

func (r *rule) matches(path, name string, dir bool) bool {
	if r.dirsOnly && !dir {
		return false
	}
	subject := name
	if r.anchored {
		subject = path
	}
	if r.plain {
		return subject == r.pattern
	}
	return wild(r.pattern, subject)
}

func parse(file []byte) (rules []rule) {
	file = file[:min(len(file), MaxFile)]
	file = bytes.TrimPrefix(file, []byte("\xef\xbb\xbf")) // a byte order mark
	for line := range bytes.Lines(file) {
		if r, ok := parseLine(string(bytes.TrimSuffix(line, []byte("\n")))); ok && len(rules) < maxRules {
			rules = append(rules, r)
		}
	}
	return rules
}

func parseLine(line string) (r rule, ok bool) {
	line = trimSpace(strings.TrimSuffix(line, "\r"))
	if line == "" || line[0] == '#' {
		return r, false
	}
	if line[0] == '!' {
		r.negated, line = true, line[1:]
	}
	if rest, cut := strings.CutSuffix(line, "/"); cut {
		r.dirsOnly, line = true, rest
	}
	r.anchored = strings.Contains(line, "/")
	line = strings.TrimPrefix(line, "/")
	if line == "" || len(line) > maxPattern {
		return r, false
	}
	r.pattern, r.plain = line, !strings.ContainsAny(line, `*?[\`)
	return r, true
}

// trimSpace removes trailing spaces, except those that are escaped.
func trimSpace(line string) string {
	end := len(line)
	for end > 0 && line[end-1] == ' ' {
		slashes := 0
		for i := end - 2; i >= 0 && line[i] == '\\'; i-- {
			slashes++
		}
		if slashes%2 == 1 {
			break
		}
		end--
	}
	return line[:end]
}
