// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package vt

// print puts one character at the cursor.
func (s *Screen) print(r rune) {
	if s.c.sets[b2i(s.c.shifted)] == '0' && r >= '_' && r <= '~' {
		r = lineDrawing[r-'_']
	}
	w := width(r)
	switch {
	case r >= 0x7f && r < 0xa0:
		return
	case w == 0:
		s.combine(r)
		return
	case w == 2 && s.cols < 2:
		return
	}
	if s.c.wrap && !s.noWrap {
		s.wrapLine()
	}
	if w == 2 && s.c.x == s.cols-1 {
		if s.noWrap {
			return
		}
		s.put(s.c.x, ' ')
		s.wrapLine()
	}
	s.c.wrap = false
	if s.insert {
		s.insertCells(w)
	}
	s.put(s.c.x, r)
	if w == 2 {
		s.put(s.c.x+1, behind)
	}
	s.last = r
	if s.c.x += w; s.c.x >= s.cols {
		s.c.x, s.c.wrap = s.cols-1, true
	}
}

// wrapLine goes to the beginning of the next line, where the text continues.
func (s *Screen) wrapLine() {
	s.cur[s.c.y].wrapped = s.c.y < s.rows-1 || s.end == s.rows
	s.c.x = 0
	s.feed()
}

// put sets one cell. It blanks the other half of a wide character that it breaks.
func (s *Screen) put(x int, r rune) {
	cells := s.cur[s.c.y].cells
	if r != behind {
		s.split(x)
	}
	if x+1 < s.cols && cells[x+1].char == behind {
		cells[x+1].char = ' '
	}
	if x == s.cols-1 {
		s.cur[s.c.y].wrapped = false
	}
	cells[x] = cell{r, s.c.style}
}

// split blanks the wide character whose second half is at x.
func (s *Screen) split(x int) {
	cells := s.cur[s.c.y].cells
	if x < s.cols && cells[x].char == behind {
		cells[x].char = ' '
		if x > 0 {
			cells[x-1].char = ' '
		}
	}
}

// combine adds a mark to the character before the cursor.
func (s *Screen) combine(r rune) {
	x := s.c.x - 1
	if s.c.wrap {
		x = s.c.x
	}
	if x < 0 {
		return
	}
	cells := s.cur[s.c.y].cells
	if cells[x].char == behind {
		x--
	}
	if x < 0 {
		return
	}
	text := s.str(cells[x].char) + string(r)
	if len(text) > 32 {
		return
	}
	if i, ok := s.index[text]; ok {
		cells[x].char = i
		return
	}
	if len(s.clusters) >= maxClusters {
		return
	}
	if s.index == nil {
		s.index = make(map[string]rune)
	}
	i := cluster + rune(len(s.clusters))
	s.clusters = append(s.clusters, text)
	s.index[text] = i
	cells[x].char = i
}

// str returns a cell's character with its marks.
func (s *Screen) str(r rune) string {
	switch {
	case r == behind:
		return ""
	case r >= cluster:
		return s.clusters[r-cluster]
	}
	return string(r)
}

func b2i(b bool) int {
	if b {
		return 1
	}
	return 0
}

// lineFeed is a line feed that the program requested.
func (s *Screen) lineFeed() {
	s.cur[s.c.y].wrapped = false
	s.feed()
}

// feed moves down one line, scrolling at the region's end.
func (s *Screen) feed() {
	s.c.wrap = false
	switch {
	case s.c.y == s.end-1:
		s.scrollUp(s.top, 1)
	case s.c.y < s.rows-1:
		s.c.y++
	}
}

func (s *Screen) reverseLineFeed() {
	s.c.wrap = false
	switch {
	case s.c.y == s.top:
		s.scrollDown(s.top, 1)
	case s.c.y > 0:
		s.c.y--
	}
}

// scrollUp moves the lines from top to the region's end up by n.
func (s *Screen) scrollUp(top, n int) {
	if s.end <= top {
		return
	}
	if top > 0 {
		s.cur[top-1].wrapped = false
	}
	for range min(n, s.end-top) {
		first := s.cur[top]
		copy(s.cur[top:s.end-1], s.cur[top+1:s.end])
		s.wipe(&first)
		s.cur[s.end-1] = first
	}
}

// scrollDown moves them down.
func (s *Screen) scrollDown(top, n int) {
	if s.end <= top {
		return
	}
	if top > 0 {
		s.cur[top-1].wrapped = false
	}
	for range min(n, s.end-top) {
		last := s.cur[s.end-1]
		copy(s.cur[top+1:s.end], s.cur[top:s.end-1])
		s.wipe(&last)
		s.cur[top] = last
	}
	s.cur[s.end-1].wrapped = false
}

// wipe blanks a line, in the current background.
func (s *Screen) wipe(l *line) {
	l.wrapped = false
	l.cells[0] = s.empty()
	for n := 1; n < len(l.cells); n *= 2 { // half the cost of a flood of lines
		copy(l.cells[n:], l.cells[:n])
	}
}

func (s *Screen) empty() cell { return cell{' ', Style{BG: s.c.style.BG}} }

// erase blanks cells from x to before end of the cursor's line.
func (s *Screen) erase(x, end int) {
	l := &s.cur[s.c.y]
	s.split(x)
	if end < s.cols {
		s.split(end)
	} else {
		l.wrapped = false
	}
	for i := x; i < end; i++ {
		l.cells[i] = s.empty()
	}
}

func (s *Screen) insertCells(n int) {
	l := &s.cur[s.c.y]
	s.split(s.c.x)
	n = min(n, s.cols-s.c.x)
	copy(l.cells[s.c.x+n:], l.cells[s.c.x:])
	for i := range n {
		l.cells[s.c.x+i] = s.empty()
	}
	s.repair(l)
}

func (s *Screen) deleteCells(n int) {
	l := &s.cur[s.c.y]
	s.split(s.c.x)
	n = min(n, s.cols-s.c.x)
	s.split(s.c.x + n)
	copy(l.cells[s.c.x:], l.cells[s.c.x+n:])
	for i := s.cols - n; i < s.cols; i++ {
		l.cells[i] = s.empty()
	}
	s.repair(l)
}

// repair blanks a wide character at a line's end that lost its second half.
func (s *Screen) repair(l *line) {
	l.wrapped = false
	if s.wide(l.cells[s.cols-1].char) {
		l.cells[s.cols-1].char = ' '
	}
}

func (s *Screen) wide(r rune) bool {
	if r >= cluster {
		for _, first := range s.clusters[r-cluster] {
			return width(first) == 2
		}
	}
	return width(r) == 2
}

func (s *Screen) tab(n int) {
	for range min(n, s.cols) {
		for s.c.x < s.cols-1 {
			if s.c.x++; s.tabs[s.c.x] {
				break
			}
		}
	}
	s.c.wrap = false
}

func (s *Screen) backTab(n int) {
	for range min(n, s.cols) {
		for s.c.x > 0 {
			if s.c.x--; s.tabs[s.c.x] {
				break
			}
		}
	}
	s.c.wrap = false
}

// align fills the screen with E, a test of terminals.
func (s *Screen) align() {
	s.top, s.end = 0, s.rows
	s.c.x, s.c.y, s.c.wrap = 0, 0, false
	for i := range s.cur {
		s.cur[i].wrapped = false
		for j := range s.cur[i].cells {
			s.cur[i].cells[j] = cell{char: 'E'}
		}
	}
}

func (s *Screen) which() int { return b2i(s.onAlt) }

func (s *Screen) save() {
	s.saved[s.which()] = s.c
	s.saved[s.which()].wrap = false
}

func (s *Screen) restore() {
	s.c = s.saved[s.which()]
	s.c.x, s.c.y = min(s.c.x, s.cols-1), min(s.c.y, s.rows-1)
	if s.c.origin {
		s.c.y = clamp(s.c.y, s.top, s.end-1)
	}
}

// toAlt shows the alternate screen or the main one.
func (s *Screen) toAlt(on bool) {
	s.onAlt, s.c.wrap = on, false
	if !on {
		s.cur = s.main
		return
	}
	if s.alt == nil {
		s.alt = newLines(s.cols, s.rows)
	}
	s.cur = s.alt
}

// lineDrawing are the characters of the set '0', from '_' on.
var lineDrawing = [...]rune{
	' ', '◆', '▒', '␉', '␌', '␍', '␊', '°', '±', '␤', '␋', '┘', '┐', '┌', '└', '┼', '⎺', '⎻', '─', '⎼', '⎽',
	'├', '┤', '┴', '┬', '│', '≤', '≥', 'π', '≠', '£', '·',
}
