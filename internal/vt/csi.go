// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package vt

import "strconv"

// params are the numbers of a control sequence. Numbers joined by colons are one
// with parts.
type params [][]int

// at returns a number; absent or 0 gives def.
func (p params) at(i, def int) int {
	if i >= len(p) || p[i][0] <= 0 {
		return def
	}
	return p[i][0]
}

// maxNumber bounds the numbers of a sequence.
const maxNumber = 65535

func parseParams(b []byte) params {
	p := params{{-1}}
	for _, c := range b {
		last := &p[len(p)-1]
		n := &(*last)[len(*last)-1]
		switch {
		case c >= '0' && c <= '9':
			*n = min(max(*n, 0)*10+int(c-'0'), maxNumber)
		case c == ':' && len(*last) < maxParams:
			*last = append(*last, -1)
		case c == ';' && len(p) < maxParams:
			p = append(p, []int{-1})
		}
	}
	return p
}

// csi carries out a control sequence without its introducer.
func (s *Screen) csi(b []byte) {
	final := b[len(b)-1]
	b = b[:len(b)-1]
	var mark, inter byte
	if len(b) > 0 && b[0] >= '<' && b[0] <= '?' {
		mark, b = b[0], b[1:]
	}
	if n := len(b); n > 0 && b[n-1] < '0' {
		inter, b = b[n-1], b[:n-1]
	}
	p := parseParams(b)
	if final != 'b' {
		s.last = 0
	}
	switch {
	case mark == 0 && inter == 0:
		s.move(final, p)
	case mark == '?' && inter == 0 && (final == 'h' || final == 'l'):
		for i := range p {
			s.setPrivate(p.at(i, 0), final == 'h')
		}
	case mark == '?' && inter == 0 && (final == 'J' || final == 'K'):
		s.change(final, p)
	case mark == '?' && inter == 0 && final == 'n' && p.at(0, 0) == 6:
		s.reportCursor("?")
	case mark == '>' && inter == 0 && final == 'm':
		if p.at(0, 0) == 4 {
			s.modKeys = clamp(p.at(1, 0), 0, 9)
		}
	case mark == '>' && inter == 0 && final == 'c':
		s.reply("\x1b[>0;276;0c")
	case (mark == '<' || mark == '>' || mark == '=') && inter == 0 && final == 'u':
		s.keys[s.which()].obey(mark, p)
	case inter == '!' && final == 'p':
		s.softReset()
	case inter == ' ' && final == 'q':
		s.shape = clamp(p.at(0, 0), 0, 6)
	}
}

// softReset is DECSTR.
func (s *Screen) softReset() {
	s.hidden, s.insert, s.noWrap, s.keypad = false, false, false, false
	s.passive &^= 1 // cursor keys
	s.top, s.end = 0, s.rows
	x, y, wrap := s.c.x, s.c.y, s.c.wrap
	s.c = home()
	s.c.x, s.c.y, s.c.wrap = x, y, wrap
	s.saved[s.which()] = home()
}

// move carries out sequences that move the cursor, and passes on the others.
func (s *Screen) move(final byte, p params) {
	n := p.at(0, 1)
	low, high := s.top, s.end-1
	if s.c.y < low {
		low = 0
	}
	if s.c.y > high {
		high = s.rows - 1
	}
	switch final {
	case 'A':
		s.goTo(s.c.x, max(low, s.c.y-n))
	case 'B', 'e':
		s.goTo(s.c.x, min(high, s.c.y+n))
	case 'C', 'a':
		s.goTo(s.c.x+n, s.c.y)
	case 'D':
		s.goTo(s.c.x-n, s.c.y)
	case 'E':
		s.goTo(0, min(high, s.c.y+n))
	case 'F':
		s.goTo(0, max(low, s.c.y-n))
	case 'G', '`':
		s.goTo(n-1, s.c.y)
	case 'd':
		s.goTo(s.c.x, s.line(n))
	case 'H', 'f':
		s.goTo(p.at(1, 1)-1, s.line(n))
	case 'I':
		s.tab(n)
	case 'Z':
		s.backTab(n)
	case 's':
		s.save()
	case 'u':
		s.restore()
	default:
		s.change(final, p)
	}
}

func (s *Screen) goTo(x, y int) {
	s.c.x, s.c.y, s.c.wrap = clamp(x, 0, s.cols-1), clamp(y, 0, s.rows-1), false
}

// line converts a line number of a sequence to one of the screen.
func (s *Screen) line(n int) int {
	if s.c.origin {
		return min(s.top+n-1, s.end-1)
	}
	return n - 1
}

// change carries out sequences that change the content, and passes on the others.
func (s *Screen) change(final byte, p params) {
	n := p.at(0, 1)
	switch final {
	case 'J':
		s.eraseScreen(p.at(0, 0))
	case 'K':
		switch p.at(0, 0) {
		case 0:
			s.erase(s.c.x, s.cols)
		case 1:
			s.erase(0, s.c.x+1)
		case 2:
			s.erase(0, s.cols)
		}
		s.c.wrap = false
	case 'X':
		s.erase(s.c.x, min(s.cols, s.c.x+n))
		s.c.wrap = false
	case '@':
		s.insertCells(n)
		s.c.wrap = false
	case 'P':
		s.deleteCells(n)
		s.c.wrap = false
	case 'L', 'M':
		if s.c.y < s.top || s.c.y >= s.end {
			return
		}
		if final == 'L' {
			s.scrollDown(s.c.y, n)
		} else {
			s.scrollUp(s.c.y, n)
		}
		s.c.x, s.c.wrap = 0, false
	case 'S':
		s.c.wrap = false
		s.scrollUp(s.top, n)
	case 'T':
		s.c.wrap = false
		if len(p) == 1 {
			s.scrollDown(s.top, n)
		}
	case 'b':
		if s.last != 0 {
			for range min(n, s.cols*s.rows) {
				s.print(s.last)
			}
		}
	default:
		s.set(final, p)
	}
}

func (s *Screen) eraseScreen(how int) {
	y := s.c.y
	from, to := 0, 0
	switch how {
	case 0:
		s.erase(s.c.x, s.cols)
		from, to = y+1, s.rows
	case 1:
		s.erase(0, s.c.x+1)
		to = y
	case 2:
		to = s.rows
	}
	if how == 0 && s.c.x == 0 && y > 0 {
		s.cur[y-1].wrapped = false
	}
	for i := from; i < to; i++ {
		s.wipe(&s.cur[i])
	}
	if how != 3 {
		s.c.wrap = false
	}
}

// set carries out sequences that change modes.
func (s *Screen) set(final byte, p params) {
	switch final {
	case 'm':
		s.c.style.apply(p)
	case 'r':
		top, end := p.at(0, 1)-1, min(p.at(1, s.rows), s.rows)
		if top < end-1 {
			s.top, s.end = top, end
			s.goTo(0, s.line(1))
		}
	case 'g':
		switch p.at(0, 0) {
		case 0:
			s.tabs[s.c.x] = false
		case 3:
			clear(s.tabs)
		}
	case 'h', 'l':
		for i := range p {
			switch p.at(i, 0) {
			case 4:
				s.insert = final == 'h'
			case 20:
				s.newline = final == 'h'
			}
		}
	case 'n':
		switch p.at(0, 0) {
		case 5:
			s.reply("\x1b[0n")
		case 6:
			s.reportCursor("")
		}
	case 'c':
		if p.at(0, 0) == 0 {
			s.reply("\x1b[?62;22c")
		}
	}
}

func (s *Screen) reportCursor(mark string) {
	y := s.c.y
	if s.c.origin {
		y -= s.top
	}
	s.reply("\x1b[" + mark + strconv.Itoa(y+1) + ";" + strconv.Itoa(s.c.x+1) + "R")
}

func (s *Screen) reply(text string) {
	if s.Reply != nil {
		s.Reply([]byte(text))
	}
}

// setPrivate sets or resets one of DEC's or xterm's modes.
func (s *Screen) setPrivate(n int, on bool) {
	switch n {
	case 6:
		s.c.origin = on
		s.goTo(0, s.line(1))
	case 7:
		s.noWrap = !on
	case 25:
		s.hidden = !on
	case 47, 1047:
		if !on && n == 1047 && s.onAlt {
			s.clearAlt()
		}
		s.toAlt(on)
	case 1048:
		if on {
			s.save()
		} else {
			s.restore()
		}
	case 1049:
		if on {
			if !s.onAlt {
				s.save()
			}
			s.toAlt(true)
			s.clearAlt()
		} else {
			s.toAlt(false)
			s.restore()
		}
	}
	for i, m := range passiveModes {
		if m != n {
			continue
		}
		if s.passive &^= 1 << i; on {
			s.passive |= 1 << i
		}
	}
}

func (s *Screen) clearAlt() {
	for i := range s.alt {
		s.wipe(&s.alt[i])
	}
}

// apply is SGR.
func (t *Style) apply(p params) {
	for i := 0; i < len(p); i++ {
		n := max(p[i][0], 0)
		switch {
		case n == 0:
			*t = Style{}
		case n == 4 && len(p[i]) > 1:
			t.underline(p[i][1])
		case n == 21:
			t.underline(2)
		case n < len(sgrOn) && sgrOn[n] != 0:
			if n == 4 {
				t.underline(1)
			}
			t.Attr |= sgrOn[n]
		case n == 53:
			t.Attr |= Overline
		case n == 55:
			t.Attr &^= Overline
		case n >= 22 && n <= 29:
			t.Attr &^= sgrOff[n-22]
		case n >= 30 && n <= 37:
			t.FG = palette + Color(n-30)
		case n >= 40 && n <= 47:
			t.BG = palette + Color(n-40)
		case n >= 90 && n <= 97:
			t.FG = palette + Color(n-90+8)
		case n >= 100 && n <= 107:
			t.BG = palette + Color(n-100+8)
		case n == 39:
			t.FG = 0
		case n == 49:
			t.BG = 0
		case n == 38 || n == 48 || n == 58:
			c, used := extended(p[i:])
			i += used
			switch {
			case c == 0:
			case n == 38:
				t.FG = c
			case n == 48:
				t.BG = c
			}
		}
	}
}

var (
	sgrOn  = [...]Attr{1: Bold, 2: Faint, 3: Italic, 4: Underline, 5: Blink, 6: Blink, 7: Inverse, 8: Invisible, 9: Strike}
	sgrOff = [...]Attr{Bold | Faint, Italic, Underline | DoubleUnderline | CurlyUnderline, Blink, 0, Inverse, Invisible, Strike}
)

func (t *Style) underline(kind int) {
	t.Attr &^= Underline | DoubleUnderline | CurlyUnderline
	switch kind {
	case 0:
	case 2:
		t.Attr |= DoubleUnderline
	case 1:
		t.Attr |= Underline
	default:
		t.Attr |= CurlyUnderline
	}
}

// extended reads 38;5;n, 38;2;r;g;b and their forms with colons. used is how
// many further parameters belong to it.
func extended(p params) (c Color, used int) {
	if parts := p[0]; len(parts) > 1 {
		switch {
		case parts[1] == 5 && len(parts) > 2:
			return palette + Color(clamp(parts[2], 0, 255)), 0
		case parts[1] == 2 && len(parts) > 4:
			return rgb(parts[len(parts)-3:]), 0
		}
		return 0, 0
	}
	switch {
	case len(p) > 2 && p[1][0] == 5:
		return palette + Color(clamp(p[2][0], 0, 255)), 2
	case len(p) > 4 && p[1][0] == 2:
		return rgb([]int{p[2][0], p[3][0], p[4][0]}), 4
	}
	return 0, len(p) - 1
}

func rgb(v []int) Color {
	c := mixed
	for i, n := range v[:3] {
		c |= Color(clamp(n, 0, 255)) << (16 - 8*i)
	}
	return c
}
