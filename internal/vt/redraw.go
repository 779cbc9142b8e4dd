// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package vt

import (
	"strconv"
	"strings"
)

// Redraw returns output that makes an xterm, in whatever state it is, show exactly
// this screen with its modes. The program's next output continues it, even in the
// middle of a sequence.
func (s *Screen) Redraw() []byte {
	d := &drawing{s: s}
	d.put("\x1b\\\x1b[?1049l\x1b[!p\x1b[?1049l\x1b(B\x1b)B\x0f\x1b[?5;6;9;12;66;1000;1002;1003;1004;1005;1006;1007;1015;1016;2004;2031l")
	d.put("\x1b[4;20l\x1b[>4;0m\x1b>\x1b[?7h\x1b[r\x1b[m\x1b[H\x1b[2J")
	d.tabs()
	s.keys[0].draw(d)
	s.colors.draw(d)
	if s.onAlt {
		d.lines(s.main)
		d.cursor(s.saved[0], 0)
		d.put("\x1b[?1049h" + plain + "\x1b[H\x1b[2J")
		s.keys[1].draw(d)
	}
	d.lines(s.cur)
	d.cursor(s.saved[s.which()], 0)
	d.put("\x1b7" + plain)
	d.style = Style{}
	d.modes()
	if s.title != "" {
		d.put("\x1b]2;" + s.title + "\x07")
	}
	d.last()
	return append(d.b, s.p.pending...)
}

// plain is the state in which lines are drawn.
const plain = "\x1b[m\x1b(B\x1b)B\x0f\x1b[?6l"

// drawing is output in the making.
type drawing struct {
	s     *Screen
	b     []byte
	style Style // in force
}

func (d *drawing) put(t string) { d.b = append(d.b, t...) }

func (d *drawing) goTo(x, y int) {
	d.put("\x1b[" + strconv.Itoa(y+1) + ";" + strconv.Itoa(x+1) + "H")
}

// tabs sets the tab stops if they are not the default ones.
func (d *drawing) tabs() {
	usual := true
	for i, on := range d.s.tabs {
		usual = usual && on == (i%8 == 0)
	}
	if usual {
		return
	}
	d.put("\x1b[3g")
	for i, on := range d.s.tabs {
		if on {
			d.goTo(i, 0)
			d.put("\x1bH")
		}
	}
	d.put("\x1b[H")
}

// lines draws the cells that are not blank. The screen is blank, the cursor at
// home.
func (d *drawing) lines(l []line) {
	d.style = Style{}
	joined := false // wrapping reaches the line
	for y := range l {
		n := used(l[y].cells)
		if l[y].wrapped {
			n = len(l[y].cells)
		}
		if joined {
			n = max(n, 1)
		}
		if n > 0 && !joined {
			d.goTo(0, y)
		}
		for x := 0; x < n; x++ {
			d.cell(l[y].cells[x])
		}
		joined = l[y].wrapped && y+1 < len(l)
	}
}

// used is the number of cells up to the last that is not blank.
func used(c []cell) int {
	n := len(c)
	for n > 0 && c[n-1] == (cell{char: ' '}) {
		n--
	}
	return n
}

func (d *drawing) cell(c cell) {
	if c.char == behind {
		return
	}
	d.setStyle(c.style)
	d.put(d.s.str(c.char))
}

// setStyle changes the current style.
func (d *drawing) setStyle(t Style) {
	if t != d.style {
		d.put(t.sgr())
		d.style = t
	}
}

// sgr returns the sequence that sets exactly this style.
func (t Style) sgr() string {
	var b strings.Builder
	b.WriteString("\x1b[0")
	for _, a := range [...]struct {
		attr Attr
		code string
	}{
		{Bold, ";1"},
		{Faint, ";2"},
		{Italic, ";3"},
		{Underline, ";4"},
		{Blink, ";5"},
		{Inverse, ";7"},
		{Invisible, ";8"},
		{Strike, ";9"},
		{DoubleUnderline, ";21"},
		{CurlyUnderline, ";4:3"},
		{Overline, ";53"},
	} {
		if t.Attr&a.attr != 0 {
			b.WriteString(a.code)
		}
	}
	b.WriteString(t.FG.sgr(30))
	b.WriteString(t.BG.sgr(40))
	b.WriteByte('m')
	return b.String()
}

func (c Color) sgr(base int) string {
	n := int(c & 0xffffff)
	switch {
	case c == 0:
		return ""
	case c >= mixed:
		return ";" + strconv.Itoa(base+8) + ";2;" + strconv.Itoa(n>>16) + ";" + strconv.Itoa(n>>8&255) + ";" + strconv.Itoa(n&255)
	case n < 8:
		return ";" + strconv.Itoa(base+n)
	case n < 16:
		return ";" + strconv.Itoa(base+60+n-8)
	}
	return ";" + strconv.Itoa(base+8) + ";5;" + strconv.Itoa(n)
}

// cursor puts the cursor where c is, with its style, sets and origin mode. top is
// the scroll region's.
func (d *drawing) cursor(c cursor, top int) {
	y := c.y
	if c.origin {
		d.put("\x1b[?6h")
		y -= top
	}
	d.goTo(c.x, y)
	if c.wrap { // printing the last character again causes this
		cells := d.s.cur[c.y].cells
		if cells[c.x].char == behind {
			d.goTo(c.x-1, y)
			d.cell(cells[c.x-1])
		} else {
			d.cell(cells[c.x])
		}
	}
	d.setStyle(c.style)
	for i, set := range c.sets {
		if set != 'B' {
			d.put("\x1b" + string("()"[i]) + string(set))
		}
	}
	if c.shifted {
		d.put("\x0e")
	}
}

func (d *drawing) modes() {
	s := d.s
	for i, n := range passiveModes {
		if s.passive&(1<<i) != 0 {
			d.put("\x1b[?" + strconv.Itoa(n) + "h")
		}
	}
	if s.keypad {
		d.put("\x1b=")
	}
	if s.modKeys != 0 {
		d.put("\x1b[>4;" + strconv.Itoa(s.modKeys) + "m")
	}
	d.put("\x1b[" + strconv.Itoa(s.shape) + " q")
}

// last sets what would disturb the drawing, then the cursor.
func (d *drawing) last() {
	s := d.s
	if s.top != 0 || s.end != s.rows {
		d.put("\x1b[" + strconv.Itoa(s.top+1) + ";" + strconv.Itoa(s.end) + "r")
	}
	d.cursor(s.c, s.top)
	for _, m := range [...]struct {
		on   bool
		text string
	}{{s.noWrap, "\x1b[?7l"}, {s.insert, "\x1b[4h"}, {s.newline, "\x1b[20h"}, {s.hidden, "\x1b[?25l"}} {
		if m.on {
			d.put(m.text)
		}
	}
}
