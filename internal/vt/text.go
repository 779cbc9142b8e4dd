// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package vt

import (
	"strconv"
	"strings"
)

// Text returns the screen as lines of text, without trailing blanks and empty
// lines.
func (s *Screen) Text() string {
	lines := make([]string, s.rows)
	for y := range s.cur {
		var b strings.Builder
		for _, c := range s.cur[y].cells {
			b.WriteString(s.str(c.char))
		}
		lines[y] = strings.TrimRight(b.String(), " ")
	}
	return strings.TrimRight(strings.Join(lines, "\n"), "\n")
}

// Run is a range of cells of one line with one style.
type Run struct {
	X    int // of the first
	Text string
	Style
}

// Runs returns a line's cells, grouped by style; trailing blank cells without a
// style are left out.
func (s *Screen) Runs(y int) []Run {
	if y < 0 || y >= s.rows {
		return nil
	}
	cells := s.cur[y].cells
	var runs []Run
	var b strings.Builder
	for x, n := 0, used(cells); x < n; {
		r := Run{X: x, Style: cells[x].style}
		for ; x < n && cells[x].style == r.Style; x++ {
			b.WriteString(s.str(cells[x].char))
		}
		r.Text = b.String()
		b.Reset()
		runs = append(runs, r)
	}
	return runs
}

// String returns "" for the default, a palette index, or "#rrggbb".
func (c Color) String() string {
	n := int(c & 0xffffff)
	switch {
	case c == 0:
		return ""
	case c >= mixed:
		return "#" + strconv.FormatInt(1<<24|int64(n), 16)[1:]
	}
	return strconv.Itoa(n)
}

// attrNames are the attributes' names, in the order of their bits.
var attrNames = [...]string{
	"bold", "faint", "italic", "underline", "blink", "inverse", "invisible", "strike", "doubleUnderline", "curlyUnderline", "overline",
}

// Names returns the attributes that are set.
func (a Attr) Names() []string {
	var out []string
	for i, name := range attrNames {
		if a&(1<<i) != 0 {
			out = append(out, name)
		}
	}
	return out
}
