// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package vt

import (
	"strconv"
	"strings"
	"unicode/utf8"
)

// state is the parser's place in a sequence.
type state uint8

const (
	ground    state = iota
	escape          // after ESC
	escapeTwo       // after ESC and an intermediate byte
	control         // after CSI
	text            // in OSC, DCS, APC, PM or SOS
	textEsc         // in such a string, after ESC
	partial         // in the middle of a character
)

const (
	maxControl = 256  // bytes of a control sequence; longer ones are skipped
	maxText    = 4096 // bytes of a string; the rest is skipped
	maxParams  = 32
)

// parser keeps the bytes of an incomplete sequence.
type parser struct {
	state   state
	pending []byte
	long    bool // more bytes arrived than are kept
}

// Write takes output of the program. It never fails.
func (s *Screen) Write(b []byte) (int, error) {
	n := len(b)
	for len(b) > 0 {
		if s.p.state == ground {
			b = s.plainRun(b)
			if len(b) == 0 {
				break
			}
		}
		b = s.step(b)
	}
	return n, nil
}

// plainRun prints the characters at the beginning of b.
func (s *Screen) plainRun(b []byte) []byte {
	for len(b) > 0 && b[0] >= ' ' && b[0] < 0x7f {
		n := s.quick(b)
		if n == 0 {
			s.print(rune(b[0]))
			n = 1
		}
		b = b[n:]
	}
	return b
}

// quick prints like print, as long as the text is ASCII that replaces narrow
// characters before the last column, and returns how much it printed.
func (s *Screen) quick(b []byte) int {
	if s.c.wrap || s.insert || s.c.sets[b2i(s.c.shifted)] == '0' {
		return 0
	}
	cells := s.cur[s.c.y].cells[s.c.x:]
	n := 0
	for n < min(len(b), len(cells)-1) && b[n] >= ' ' && b[n] < 0x7f && cells[n].char != behind && cells[n+1].char != behind {
		cells[n] = cell{rune(b[n]), s.c.style}
		n++
	}
	if n > 0 {
		s.c.x += n
		s.last = rune(b[n-1])
	}
	return n
}

// step takes the first byte of b, or the rest of a character.
func (s *Screen) step(b []byte) []byte {
	c := b[0]
	switch s.p.state {
	case ground:
		if c < 0x80 {
			s.control(c)
			return b[1:]
		}
		return s.character(b)
	case partial:
		return s.character(b)
	}
	s.sequence(c)
	return b[1:]
}

// character takes one character of more than a byte; its earlier bytes are pending.
func (s *Screen) character(b []byte) []byte {
	have := len(s.p.pending)
	whole := b
	if have > 0 {
		whole = append(s.p.pending[:have:have], b[:min(len(b), utf8.UTFMax)]...)
	}
	if !utf8.FullRune(whole) {
		s.p.pending = append(s.p.pending[:0], whole...)
		s.p.state = partial
		return nil
	}
	r, n := utf8.DecodeRune(whole)
	for r == utf8.RuneError && n < len(whole) && !utf8.FullRune(whole[:n+1]) {
		n++ // an unfinished beginning of a character is one mistake
	}
	s.p.state, s.p.pending = ground, s.p.pending[:0]
	s.print(r)
	return b[max(0, n-have):]
}

// begin enters a sequence.
func (s *Screen) begin(c byte) {
	s.p.state, s.p.long = escape, false
	s.p.pending = append(s.p.pending[:0], c)
}

func (s *Screen) abort() { s.p.state, s.p.pending = ground, s.p.pending[:0] }

// keep adds a byte to the pending ones, up to a limit.
func (s *Screen) keep(c byte, limit int) {
	if len(s.p.pending) >= limit {
		s.p.long = true
		return
	}
	s.p.pending = append(s.p.pending, c)
}

// sequence takes a byte inside a sequence.
func (s *Screen) sequence(c byte) {
	inText := s.p.state == text || s.p.state == textEsc
	switch {
	case c == 0x18 || c == 0x1a: // CAN, SUB
		s.abort()
		return
	case c == 0x1b && !inText:
		s.begin(c)
		return
	case c < ' ' && !inText:
		s.control(c) // carried out in the middle of a sequence, as by a VT100
		return
	case c >= 0x7f && !inText:
		if c == 0x7f {
			return
		}
		s.abort()
		s.character([]byte{c})
		return
	}
	switch s.p.state {
	case escape:
		s.afterEscape(c)
	case escapeTwo:
		s.keep(c, maxControl)
		if c >= '0' {
			s.escapeEnd()
		}
	case control:
		s.keep(c, maxControl)
		if c >= '@' {
			p := s.p
			s.p.state = ground
			if !p.long {
				s.csi(p.pending[2:])
			}
			s.p.pending = s.p.pending[:0]
		}
	case text:
		switch c {
		case 0x07:
			s.textEnd()
		case 0x1b:
			s.p.state = textEsc
			s.p.pending = append(s.p.pending, c) // one over the limit at most
		default:
			s.keep(c, maxText)
		}
	case textEsc:
		s.p.pending = s.p.pending[:len(s.p.pending)-1]
		if c == '\\' {
			s.textEnd()
			return
		}
		s.begin(0x1b) // ends the string without carrying it out
		s.sequence(c)
	}
}

func (s *Screen) afterEscape(c byte) {
	s.keep(c, maxControl)
	switch {
	case c == '[':
		s.p.state = control
	case c == ']' || c == 'P' || c == '_' || c == '^' || c == 'X':
		s.p.state = text
	case c < '0':
		s.p.state = escapeTwo
	default:
		s.escapeEnd()
	}
}

// escapeEnd carries out a complete escape sequence.
func (s *Screen) escapeEnd() {
	seq := string(s.p.pending[1:])
	s.abort()
	s.last = 0
	if s.p.long {
		return
	}
	switch seq {
	case "7":
		s.save()
	case "8":
		s.restore()
	case "=":
		s.keypad = true
	case ">":
		s.keypad = false
	case "D":
		s.lineFeed()
	case "E":
		s.c.x = 0
		s.lineFeed()
	case "H":
		s.tabs[s.c.x] = true
	case "M":
		s.reverseLineFeed()
	case "c":
		s.reset()
		s.title = ""
	case "#8":
		s.align()
	default:
		if len(seq) == 2 && (seq[0] == '(' || seq[0] == ')') {
			set := byte('B')
			if seq[1] == '0' {
				set = '0'
			}
			s.c.sets[seq[0]-'('] = set
		}
	}
}

// textEnd carries out a complete string: only titles and colours matter.
func (s *Screen) textEnd() {
	body := string(s.p.pending[2:])
	osc, long := s.p.pending[1] == ']', s.p.long
	s.abort()
	number, rest, more := strings.Cut(body, ";")
	n, err := strconv.Atoi(number)
	switch {
	case !osc || err != nil:
	case (n == 0 || n == 2) && more && len(number) == 1:
		s.title = clean(rest)
	case !long:
		s.colors.osc(n, rest)
	}
}

// maxTitle is the stored length of a title.
const maxTitle = 512

// clean removes control characters from a title.
func clean(t string) string {
	out := make([]rune, 0, min(len(t), maxTitle))
	for _, r := range t {
		if r >= ' ' && r != 0x7f && (r < 0x80 || r > 0x9f) && r != utf8.RuneError && len(out) < maxTitle {
			out = append(out, r)
		}
	}
	return string(out)
}

// control carries out a control character.
func (s *Screen) control(c byte) {
	if c != 0x1b {
		s.last = 0
	}
	switch c {
	case 0x08:
		s.c.x = max(0, s.c.x-1)
		s.c.wrap = false
	case '\t':
		s.tab(1)
	case '\n', 0x0b, 0x0c:
		s.lineFeed()
		if s.newline {
			s.c.x = 0
		}
	case '\r':
		s.c.x, s.c.wrap = 0, false
	case 0x0e:
		s.c.shifted = true
	case 0x0f:
		s.c.shifted = false
	case 0x1b:
		s.begin(c)
	}
}
