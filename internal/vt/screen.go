// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

// Package vt is a terminal's screen: it takes a program's output and knows what an
// xterm would show, so that the screen can be drawn again for a later viewer, or
// read as text. It keeps no lines that have scrolled off and draws nothing itself.
// It uses only the standard library, because it runs in every guest.
package vt

// MaxCols and MaxRows bound a screen's size.
const (
	MaxCols = 600
	MaxRows = 250
)

// Color is 0 for the default, else a palette index or an RGB value.
type Color uint32

const (
	palette Color = 1 << 24 // and the index
	mixed   Color = 2 << 24 // and 8 bits each of red, green and blue
)

// Attr are the attributes of a cell other than its colours.
type Attr uint16

// The attributes.
const (
	Bold Attr = 1 << iota
	Faint
	Italic
	Underline
	Blink
	Inverse
	Invisible
	Strike
	DoubleUnderline
	CurlyUnderline
	Overline
)

// Style is how a cell looks.
type Style struct {
	FG, BG Color
	Attr   Attr
}

// cell is one place of the screen. Beyond Unicode, char is an index into
// Screen.clusters: a character with combining marks.
type cell struct {
	char  rune
	style Style
}

const (
	behind  rune = -1       // the second half of a wide character
	cluster rune = 0x110000 // and the index
	// maxClusters bounds the number of different characters with marks on one
	// screen.
	maxClusters = 4096
)

type line struct {
	cells   []cell
	wrapped bool // the text continues in the next line
}

type cursor struct {
	x, y    int
	wrap    bool // beyond the last column: the next character starts the next line
	style   Style
	origin  bool    // positions count from the scroll region
	sets    [2]byte // G0 and G1: 'B' or '0'
	shifted bool    // G1 is in use
}

// Screen is a terminal's screen. It is not safe for concurrent use.
type Screen struct {
	cols, rows int
	main, alt  []line // alt is nil until it is used
	cur        []line // one of them
	onAlt      bool
	c          cursor
	saved      [2]cursor // of main and alt
	top, end   int       // the scroll region: lines top to end-1

	passive  uint32 // modes that only affect the viewer's terminal; bits of passiveModes
	hidden   bool   // the cursor
	noWrap   bool
	insert   bool
	newline  bool
	keypad   bool
	shape    int // of the cursor
	modKeys  int // xterm's modifyOtherKeys
	title    string
	keys     [2]keyFlags // of main and alt
	colors   colors
	tabs     []bool
	last     rune // the last character printed, for REP
	clusters []string
	index    map[string]rune

	p parser

	// Reply, if not nil, gets the answers to the program's queries.
	Reply func([]byte)
}

// passiveModes are private modes that change what a terminal sends, or how it shows
// everything, but not the screen's content.
var passiveModes = [...]int{1, 5, 9, 12, 66, 1000, 1002, 1003, 1004, 1005, 1006, 1007, 1015, 1016, 2004, 2031}

// New returns an empty screen. The size is forced into its bounds.
func New(cols, rows int) *Screen {
	s := &Screen{}
	s.cols, s.rows = clamp(cols, 1, MaxCols), clamp(rows, 1, MaxRows)
	s.reset()
	return s
}

// reset is the state of a terminal when it is switched on.
func (s *Screen) reset() {
	*s = Screen{cols: s.cols, rows: s.rows, p: parser{pending: s.p.pending[:0]}, Reply: s.Reply, title: s.title, colors: colors{changed: s.colors.changed}}
	s.main = newLines(s.cols, s.rows)
	s.cur = s.main
	s.c = home()
	s.saved = [2]cursor{home(), home()}
	s.end = s.rows
	s.defaultTabs(0)
}

func home() cursor { return cursor{sets: [2]byte{'B', 'B'}} }

func newLines(cols, rows int) []line {
	l := make([]line, rows)
	for i := range l {
		l[i].cells = blank(cols)
	}
	return l
}

func blank(cols int) []cell {
	c := make([]cell, cols)
	for i := range c {
		c[i].char = ' '
	}
	return c
}

func (s *Screen) defaultTabs(from int) {
	s.tabs = append(s.tabs[:min(from, len(s.tabs))], make([]bool, max(0, s.cols-from))...)
	for i := from; i < s.cols; i++ {
		s.tabs[i] = i%8 == 0
	}
}

func clamp(n, low, high int) int { return max(low, min(n, high)) }

// Size returns the screen's size.
func (s *Screen) Size() (cols, rows int) { return s.cols, s.rows }

// Title returns the window title that the program has set.
func (s *Screen) Title() string { return s.title }

// Alternate reports whether the alternate screen is shown, as full-screen programs
// do.
func (s *Screen) Alternate() bool { return s.onAlt }

// Cursor returns the cursor's position, from 0, and whether it is shown.
func (s *Screen) Cursor() (x, y int, visible bool) { return s.c.x, s.c.y, !s.hidden }

// BracketedPaste reports whether the program wants pasted text to be marked.
func (s *Screen) BracketedPaste() bool { return s.mode(2004) }

func (s *Screen) mode(n int) bool {
	for i, m := range passiveModes {
		if m == n {
			return s.passive&(1<<i) != 0
		}
	}
	return false
}

// Resize changes the size. Lines are cut or extended, not wrapped again: the
// program is notified and redraws. A screen that gets lower loses lines above the
// cursor before those below it.
func (s *Screen) Resize(cols, rows int) {
	cols, rows = clamp(cols, 1, MaxCols), clamp(rows, 1, MaxRows)
	if cols == s.cols && rows == s.rows {
		return
	}
	up := max(0, s.c.y-rows+1)
	s.main = resized(s.main, cols, rows, up)
	if s.alt != nil {
		s.alt = resized(s.alt, cols, rows, up)
	}
	s.cur = s.main
	if s.onAlt {
		s.cur = s.alt
	}
	before := s.cols
	s.cols, s.rows = cols, rows
	s.defaultTabs(min(before, cols))
	s.top, s.end = 0, rows
	for _, c := range []*cursor{&s.c, &s.saved[0], &s.saved[1]} {
		c.y = clamp(c.y-up, 0, rows-1)
		c.x = min(c.x, cols-1)
		c.wrap = false
	}
}

func resized(old []line, cols, rows, up int) []line {
	l := newLines(cols, rows)
	for i := range l {
		if i+up >= len(old) {
			break
		}
		copy(l[i].cells, old[i+up].cells)
		l[i].wrapped = old[i+up].wrapped && cols == len(old[i+up].cells)
		if n := len(old[i+up].cells); cols < n && old[i+up].cells[cols].char == behind {
			l[i].cells[cols-1].char = ' '
		}
	}
	if n := len(l); n > 0 {
		l[n-1].wrapped = false
	}
	return l
}
