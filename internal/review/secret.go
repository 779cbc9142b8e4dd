// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package review

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"slices"
)

const (
	// A secret and the name before it lie within these bytes around a text that is
	// near it.
	lookBack, lookAhead = 160, 1200
	lookAt              = 300 // bytes after a text that rules with back look at

	maxWindows = 50_000  // that one search looks at, so that a hostile file ends soon
	maxLooked  = 8 << 20 // bytes of them
	maxFinds   = 1000    // in one file
	maxBase64  = 256 << 10
)

// find is a secret in a text.
type find struct {
	kind     string
	line     int // from 1
	from, to int // bytes of the text
}

// findSecrets searches a text. full = false says that it was too large or too
// suspicious to be searched whole.
func findSecrets(p string, text []byte) (found []find, full bool) {
	s := search{text: text, lower: bytes.ToLower(text), plain: holdsSecrets(p), full: true}
	if len(s.lower) != len(text) { // letters that have another length in lower case
		s.lower = asciiLower(text)
	}
	for i := range secretRules {
		s.rule(&secretRules[i])
	}
	s.keyBodies()
	s.rule(&named)
	s.encoded()
	slices.SortFunc(s.found, func(a, b find) int { return cmp.Or(cmp.Compare(a.from, b.from), cmp.Compare(b.to, a.to)) })
	s.number()
	return s.found, s.full
}

func asciiLower(text []byte) []byte {
	out := bytes.Clone(text)
	for i, c := range out {
		if c >= 'A' && c <= 'Z' {
			out[i] = c + 'a' - 'A'
		}
	}
	return out
}

type search struct {
	text, lower []byte
	plain       bool
	found       []find
	full        bool
	windows     int
	looked      int // bytes of them
}

// rule looks for one rule's secrets around the texts that are near them.
func (s *search) rule(r *secretRule) {
	for _, near := range r.near {
		done := 0 // what windows so far cover
		for at := 0; at < len(s.lower); {
			i := bytes.Index(s.lower[at:], []byte(near))
			if i < 0 {
				break
			}
			at += i
			from, to := max(done, at-lookBack), min(len(s.text), at+len(near)+lookAhead)
			if n := bytes.IndexByte(s.text[at:to], '\n'); n >= 0 {
				to = at + n
			}
			if r.back != nil {
				last := s.at(r, from, at, to)
				at, done = max(at+len(near), last), max(done, last)
				continue
			}
			if s.windows++; s.windows > maxWindows || s.looked > maxLooked || len(s.found) >= maxFinds {
				s.full = false
				return
			}
			s.looked += to - from
			if n := bytes.LastIndexByte(s.text[from:at], '\n'); n >= 0 {
				from += n + 1
			}
			last := s.window(r, from, to)
			// What begins late in the window may end behind it.
			at = max(at+len(near), min(to, max(last, to-lookBack)))
			if to < len(s.text) && s.text[to] == '\n' {
				at = max(at, to)
			}
			done = last
		}
	}
}

// at tries a rule at one place, and returns where a match ends.
func (s *search) at(r *secretRule, from, at, to int) (last int) {
	if len(s.found) >= maxFinds {
		s.full = false
		return len(s.text)
	}
	to = min(to, at+lookAt)
	if s.looked += to - at; s.looked > maxLooked {
		s.full = false
		return len(s.text)
	}
	m := r.re.Regexp().FindSubmatchIndex(s.text[at:to])
	if m == nil {
		return 0
	}
	start := at
	for start > from && r.back(s.text[start-1]) {
		start--
	}
	group := func(i int) []byte { return s.text[at+m[2*i] : at+m[2*i+1]] }
	f := find{kind: r.kind, from: at + m[2*r.group], to: at + m[2*r.group+1]}
	if r == &named {
		name := s.text[start : at+m[3]]
		if !namedSecret(name, group(3), len(group(2)) > 0, s.plain) {
			return at + m[3]
		}
	} else if !r.accept([][]byte{group(0), group(1)}) {
		return 0
	}
	s.add(f)
	return at + m[1]
}

// window notes a rule's secrets in a part of the text, and returns the last one's end.
func (s *search) window(r *secretRule, from, to int) (last int) {
	part := s.text[from:to]
	for _, m := range r.re.Regexp().FindAllSubmatchIndex(part, 100) {
		groups := make([][]byte, 0, 4)
		for g := 0; g+1 < len(m); g += 2 {
			if m[g] < 0 {
				groups = append(groups, nil)
				continue
			}
			groups = append(groups, part[m[g]:m[g+1]])
		}
		last = max(last, from+m[1])
		if r.accept != nil && !r.accept(groups) {
			continue
		}
		s.add(find{kind: r.kind, from: from + m[2*r.group], to: from + m[2*r.group+1]})
	}
	return last
}

// add notes a secret, unless another form of it is known.
func (s *search) add(f find) {
	if len(s.found) >= maxFinds {
		s.full = false
		return
	}
	for _, x := range s.found {
		if f.from < x.to && x.from < f.to {
			return
		}
	}
	s.found = append(s.found, f)
}

// keyBodies extends private keys to their last line.
func (s *search) keyBodies() {
	for i, f := range s.found {
		if f.kind != "private key" {
			continue
		}
		rest := s.text[f.to:min(len(s.text), f.to+64<<10)]
		end := bytes.Index(rest, []byte("-----END"))
		if end < 0 { // cut off: the lines that look like a key's
			end = 0
			for line := range bytes.Lines(rest) {
				if end > 0 && !isBase64(bytes.TrimSpace(line)) {
					break
				}
				end += len(line)
			}
		}
		s.found[i].to = f.to + end
	}
}

// encoded looks for secrets of known forms in texts in base64.
func (s *search) encoded() {
	text := s.text
	for at := 0; at < len(text); {
		for at < len(text) && !base64Byte[text[at]] {
			at++
		}
		from, line, runs := at, at, make([]byte, 0, 128)
		for at < len(text) && len(runs) < maxBase64 {
			if base64Byte[text[at]] {
				runs = append(runs, text[at])
				at++
				continue
			}
			// A long line of base64 continues in the next.
			if n := at - line; text[at] == '\n' && n >= 60 && n%4 == 0 && at+1 < len(text) && base64Byte[text[at+1]] {
				at++
				line = at
				continue
			}
			break
		}
		if len(runs) < 24 {
			continue
		}
		out := make([]byte, base64.RawStdEncoding.DecodedLen(len(runs)))
		n, _ := base64.RawStdEncoding.Decode(out, bytes.TrimRight(runs[:len(runs)&^3], "="))
		if s.looked += n; s.looked > maxLooked {
			s.full = false
			return
		}
		inner := search{text: out[:n], lower: asciiLower(out[:n]), full: true}
		for i := range secretRules {
			inner.rule(&secretRules[i])
		}
		for _, f := range inner.found {
			if f.kind != hashKind {
				s.add(find{kind: f.kind + " in base64", from: from, to: at})
				break
			}
		}
		s.full = s.full && inner.full
	}
}

// number counts the lines of what was found, which is ordered.
func (s *search) number() {
	line, at := 1, 0
	for i := range s.found {
		line += bytes.Count(s.text[at:s.found[i].from], []byte("\n"))
		at = s.found[i].from
		s.found[i].line = line
	}
}

var base64Byte = func() (t [256]bool) {
	for _, c := range []byte("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/") {
		t[c] = true
	}
	return t
}()

func isBase64(line []byte) bool {
	for _, c := range bytes.TrimRight(line, "=") {
		if !base64Byte[c] {
			return false
		}
	}
	return len(line) > 0
}

// masks are the parts of a text that are not printed, by line.
type masks map[int][]mask

// mask is a part of a line.
type mask struct {
	from, to int // bytes of the line
	kind     string
}

// masksOf cuts what was found into lines.
func masksOf(text []byte, found []find) masks {
	if len(found) == 0 {
		return nil
	}
	out := masks{}
	for _, f := range found {
		start := bytes.LastIndexByte(text[:f.from], '\n') + 1
		for line, from := f.line, f.from; from < f.to; line++ {
			end := len(text)
			if n := bytes.IndexByte(text[from:], '\n'); n >= 0 {
				end = from + n
			}
			if to := min(end, f.to); to > from {
				out[line] = append(out[line], mask{from - start, to - start, f.kind})
			}
			from, start = end+1, end+1
		}
	}
	return out
}

// apply replaces the masked parts of a line.
func (m masks) apply(line int, text []byte) []byte {
	list := m[line]
	if len(list) == 0 {
		return text
	}
	var out []byte
	at := 0
	for _, x := range list {
		if x.from < at || x.to > len(text) {
			continue
		}
		out = append(out, text[at:x.from]...)
		out = append(out, "[masked: "+x.kind+"]"...)
		at = x.to
	}
	return append(out, text[at:]...)
}
