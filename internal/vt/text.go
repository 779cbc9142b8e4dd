// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package vt

import "strings"

// Text returns the screen as lines of text, without blanks at their ends and
// without empty lines at the screen's.
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

// Run is cells of one line that look alike.
type Run struct {
	X    int // of the first
	Text string
	Style
}

// Runs returns a line's cells, those of one look together; blank cells that
// have no look of their own are left out at the end.
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
