// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package vm

import (
	"regexp"
	"sync"
)

// Pattern is a regular expression that is compiled when it is first used: a
// program has hundreds of them, and most commands need none.
type Pattern struct{ get func() *regexp.Regexp }

// NewPattern returns a pattern, whose expression must be valid.
func NewPattern(expr string) *Pattern {
	return &Pattern{sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expr) })}
}

// Regexp is the pattern, compiled.
func (p *Pattern) Regexp() *regexp.Regexp { return p.get() }

// MatchString reports whether the pattern is found in s.
func (p *Pattern) MatchString(s string) bool { return p.get().MatchString(s) }

// FindStringSubmatch returns the first match in s and those of its groups; nil =
// there is none.
func (p *Pattern) FindStringSubmatch(s string) []string { return p.get().FindStringSubmatch(s) }
