// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package gitignore

import "strings"

// wild reports whether a pattern of git matches a path: * and ? match no slash, and **
// between slashes matches any number of directories. Its work is bounded by the product
// of the lengths.
func wild(pattern, path string) bool {
	w := &matcher{p: pattern, t: path}
	if strings.Count(pattern, "*") > 1 {
		w.failed = make([]bool, (len(pattern)+1)*(len(path)+1))
	}
	return w.match(0, 0)
}

type matcher struct {
	p, t   string
	failed []bool // pairs of positions that are known not to match; nil = not kept
}

// match reports whether the pattern from i on matches the path from j on.
func (w *matcher) match(i, j int) bool {
	for ; i < len(w.p); i++ {
		switch c := w.p[i]; {
		case c == '*':
			return w.star(i, j)
		case j == len(w.t):
			return false
		case c == '?':
			if w.t[j] == '/' {
				return false
			}
		case c == '[':
			end, in := class(w.p[i:], w.t[j])
			if end == 0 || !in || w.t[j] == '/' {
				return false
			}
			i += end - 1
		default:
			if c == '\\' {
				if i++; i == len(w.p) {
					return false
				}
				c = w.p[i]
			}
			if c != w.t[j] {
				return false
			}
		}
		j++
	}
	return j == len(w.t)
}

// star matches one or more asterisks at i.
func (w *matcher) star(i, j int) bool {
	key := i*(len(w.t)+1) + j
	if w.failed != nil && w.failed[key] {
		return false
	}
	if w.tryStar(i, j) {
		return true
	}
	if w.failed != nil {
		w.failed[key] = true
	}
	return false
}

func (w *matcher) tryStar(i, j int) bool {
	next := i
	for next < len(w.p) && w.p[next] == '*' {
		next++
	}
	double := next-i > 1 && (i == 0 || w.p[i-1] == '/') && (next == len(w.p) || w.p[next] == '/' || strings.HasPrefix(w.p[next:], `\/`))
	if double && next == len(w.p) {
		return true
	}
	if double && w.p[next] == '/' && w.match(next+1, j) { // no directory at all
		return true
	}
	for ; ; j++ {
		if w.match(next, j) {
			return true
		}
		if j == len(w.t) || w.t[j] == '/' && !double {
			return false
		}
	}
}

// class matches the bracket expression that p begins with. end is its length; 0 = it is
// not closed, and then nothing matches.
func class(p string, c byte) (end int, in bool) {
	i, negated := 1, false
	if i < len(p) && (p[i] == '!' || p[i] == '^') {
		negated = true
		i++
	}
	for first := true; ; first = false {
		if i >= len(p) {
			return 0, false
		}
		if p[i] == ']' && !first {
			return i + 1, in != negated
		}
		if strings.HasPrefix(p[i:], "[:") {
			close := strings.Index(p[i+2:], "]")
			if close < 0 {
				return 0, false
			}
			if name, ok := strings.CutSuffix(p[i+2:i+2+close], ":"); ok {
				f := named[name]
				if f == nil {
					return 0, false
				}
				in = in || f(c)
				i += close + 3
				continue
			}
		}
		low, n := member(p[i:])
		if n == 0 {
			return 0, false
		}
		i += n
		high := low
		if i+1 < len(p) && p[i] == '-' && p[i+1] != ']' {
			if high, n = member(p[i+1:]); n == 0 {
				return 0, false
			}
			i += 1 + n
		}
		in = in || low <= c && c <= high
	}
}

// member reads one character of a bracket expression, perhaps escaped.
func member(p string) (c byte, n int) {
	switch {
	case p == "" || p == `\`:
		return 0, 0
	case p[0] == '\\':
		return p[1], 2
	}
	return p[0], 1
}

// named are the classes of characters.
var named = map[string]func(byte) bool{
	"alnum":  func(c byte) bool { return letter(c) || digit(c) },
	"alpha":  letter,
	"blank":  func(c byte) bool { return c == ' ' || c == '\t' },
	"cntrl":  func(c byte) bool { return c < ' ' || c == 0x7f },
	"digit":  digit,
	"graph":  func(c byte) bool { return c > ' ' && c < 0x7f },
	"lower":  func(c byte) bool { return 'a' <= c && c <= 'z' },
	"print":  func(c byte) bool { return c >= ' ' && c < 0x7f },
	"punct":  func(c byte) bool { return c > ' ' && c < 0x7f && !letter(c) && !digit(c) },
	"space":  func(c byte) bool { return c == ' ' || '\t' <= c && c <= '\r' },
	"upper":  func(c byte) bool { return 'A' <= c && c <= 'Z' },
	"xdigit": func(c byte) bool { return digit(c) || 'a' <= c|0x20 && c|0x20 <= 'f' },
}

func letter(c byte) bool { return 'a' <= c|0x20 && c|0x20 <= 'z' }
func digit(c byte) bool  { return '0' <= c && c <= '9' }
