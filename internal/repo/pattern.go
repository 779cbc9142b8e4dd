// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package repo

import (
	"bytes"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/warren-vm/warren/vm"
)

// maxQuery bounds the text of a search, a regular expression or a path pattern.
const maxQuery = 1000

// finder finds the first match in a line. Its expressions are RE2's, which take time in
// proportion to the text whatever they are.
type finder struct {
	re   *regexp.Regexp // for one line
	all  *regexp.Regexp // for a whole text, in which ^ and $ stand at lines; nil = only line by line
	word bool
}

// newFinder compiles a query. empty and bad are the codes of its errors.
func newFinder(q SearchQuery, empty, bad string) (*finder, error) {
	if q.Query == "" {
		return nil, vm.Errorf(vm.Invalid, "query", "the query is empty").WithCode(empty)
	}
	refuse := func(why string) error {
		return vm.Errorf(vm.Invalid, "query", "not a query: %s", why).WithCode(bad, "reason", why).WithHint("expressions are those of RE2: no back-references")
	}
	if len(q.Query) > maxQuery {
		return nil, refuse("it is too long")
	}
	text := q.Query
	if !q.Regex {
		text = regexp.QuoteMeta(text)
	}
	flags := ""
	if !q.CaseSensitive {
		flags = "i"
	}
	re, err := regexp.Compile(withFlags(flags, text))
	if err != nil {
		return nil, refuse(strings.TrimPrefix(err.Error(), "error parsing regexp: "))
	}
	f := &finder{re: re, word: q.WholeWord}
	if !anchored(text) {
		f.all, err = regexp.Compile(withFlags(flags+"m", text))
	}
	return f, err
}

func withFlags(flags, text string) string {
	if flags == "" {
		return text
	}
	return "(?" + flags + ":" + text + ")"
}

// anchored reports whether an expression may name the beginning or end of the text
// itself, which in a search is a line, or switch the meaning of ^ and $.
func anchored(text string) bool {
	return strings.Contains(text, `\A`) || strings.Contains(text, `\z`) || strings.Contains(text, "(?")
}

// in returns the first match in a line.
func (f *finder) in(line []byte) (start, end int, ok bool) {
	if !f.word {
		at := f.re.FindIndex(line)
		if at == nil {
			return 0, 0, false
		}
		return at[0], at[1], true
	}
	for from := 0; from <= len(line); {
		at := f.re.FindIndex(line[from:])
		if at == nil {
			return 0, 0, false
		}
		start, end := from+at[0], from+at[1]
		if end > start && !wordAt(line, start, -1) && !wordAt(line, end, 1) {
			return start, end, true
		}
		_, size := utf8.DecodeRune(line[start:])
		from = start + max(size, 1)
	}
	return 0, 0, false
}

// wordAt reports whether the character before (-1) or after (1) a position belongs to a
// word.
func wordAt(line []byte, at, side int) bool {
	var r rune
	if side < 0 {
		r, _ = utf8.DecodeLastRune(line[:at])
	} else {
		r, _ = utf8.DecodeRune(line[at:])
	}
	return r == '_' || r != utf8.RuneError && (unicode.IsLetter(r) || unicode.IsDigit(r))
}

// lines calls found for each line of a text that matches, with its number from 1, until
// found returns false.
func (f *finder) lines(text []byte, found func(number, lineStart, lineEnd, start, end int) bool) {
	whole := f.all != nil && !f.word && !bytes.Contains(text, []byte{'\r'}) // $ stands before a CR, too, but only in a line
	number, pos := 1, 0
	for pos < len(text) {
		if whole { // skip to the next line that may match
			at := f.all.FindIndex(text[pos:])
			if at == nil {
				return
			}
			to := pos + at[0]
			if begin := bytes.LastIndexByte(text[pos:to], '\n') + 1; begin > 0 {
				number += bytes.Count(text[pos:pos+begin], []byte{'\n'})
				pos += begin
			}
		}
		end := bytes.IndexByte(text[pos:], '\n')
		next := pos + end + 1
		if end < 0 {
			end, next = len(text)-pos, len(text)
		}
		line := bytes.TrimSuffix(text[pos:pos+end], []byte{'\r'})
		if s, e, ok := f.in(line); ok && !found(number, pos, pos+len(line), s, e) {
			return
		}
		number++
		pos = next
	}
}

// pathPatterns says which paths a search looks at.
type pathPatterns struct{ include, exclude *regexp.Regexp }

func newPathPatterns(q SearchQuery, code string) (p pathPatterns, err error) {
	for _, one := range []struct {
		glob string
		to   **regexp.Regexp
	}{{q.Include, &p.include}, {q.Exclude, &p.exclude}} {
		if one.glob == "" {
			continue
		}
		if *one.to, err = globExpression(one.glob, true); err != nil {
			return p, vm.Errorf(vm.Invalid, one.glob, "not a path pattern: %w", err).WithCode(code, "reason", err.Error()).WithHint("a pattern looks like src/**/*.ts")
		}
	}
	return p, nil
}

func (p pathPatterns) takes(path string) bool {
	return (p.include == nil || p.include.MatchString(path)) && (p.exclude == nil || !p.exclude.MatchString(path))
}

// errGlob is what is wrong with a pattern.
type errGlob string

func (e errGlob) Error() string { return string(e) }

// globExpression turns a glob into an expression for whole paths: * and ? do not match a
// slash, ** does, {a,b} is a choice. A glob without a slash matches the last part of a
// path.
func globExpression(glob string, caseSensitive bool) (*regexp.Regexp, error) {
	if len(glob) > maxQuery {
		return nil, errGlob("it is too long")
	}
	var b strings.Builder
	b.WriteString("(?s")
	if !caseSensitive {
		b.WriteString("i")
	}
	b.WriteString(")^")
	if !strings.Contains(glob, "/") {
		b.WriteString("(?:.*/)?")
	}
	glob = strings.TrimPrefix(glob, "/")
	if err := globParts(&b, glob); err != nil {
		return nil, err
	}
	b.WriteString("$")
	re, err := regexp.Compile(b.String())
	if err != nil {
		return nil, errGlob("a range is wrong")
	}
	return re, nil
}

func globParts(b *strings.Builder, glob string) error {
	choices := 0
	for i := 0; i < len(glob); i++ {
		switch c := glob[i]; c {
		case '*':
			switch rest := glob[i:]; {
			case strings.HasPrefix(rest, "**/"):
				b.WriteString("(?:.*/)?")
				i += 2
			case strings.HasPrefix(rest, "**"):
				b.WriteString(".*")
				i++
			default:
				b.WriteString("[^/]*")
			}
		case '?':
			b.WriteString("[^/]")
		case '{':
			choices++
			b.WriteString("(?:")
		case '}':
			if choices--; choices < 0 {
				return errGlob("a } has no {")
			}
			b.WriteString(")")
		case ',':
			if choices > 0 {
				b.WriteString("|")
			} else {
				b.WriteString(",")
			}
		case '[':
			end := strings.IndexByte(glob[i+1:], ']')
			if end < 1 {
				return errGlob("a [ is not closed")
			}
			set := strings.ReplaceAll(strings.ReplaceAll(glob[i+1:i+1+end], `\`, `\\`), "[", `\[`)
			if strings.HasPrefix(set, "!") {
				set = "^" + set[1:]
			}
			b.WriteString("[" + set + "]")
			i += end + 1
		case '\\':
			if i++; i == len(glob) {
				return errGlob("it ends with a backslash")
			}
			b.WriteString(regexp.QuoteMeta(glob[i : i+1]))
		default:
			b.WriteString(regexp.QuoteMeta(glob[i : i+1]))
		}
	}
	if choices != 0 {
		return errGlob("a { is not closed")
	}
	return nil
}
