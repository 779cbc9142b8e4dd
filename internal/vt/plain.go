// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package vt

import (
	"strings"
	"unicode/utf8"
)

// Plain returns a program's output as lines of text: the last state of each line,
// without colours and control sequences. It leaves out what full-screen programs
// drew on the alternate screen. used is how much of b was read: an incomplete
// sequence or character is not.
func Plain(b []byte) (text string, used int) {
	p := &plainer{}
	for used < len(b) {
		n := p.next(b[used:])
		if n == 0 {
			break
		}
		used += n
	}
	p.flush()
	return p.out.String(), used
}

// maxLine bounds a line; a longer one is broken.
const maxLine = 1 << 16

// plainer edits one line like a terminal of endless width.
type plainer struct {
	out  strings.Builder
	line []rune
	x    int
	alt  bool
}

// next takes one character or sequence; 0 = it is incomplete.
func (p *plainer) next(b []byte) int {
	switch c := b[0]; {
	case c == 0x1b:
		return p.escape(b)
	case c == '\n':
		p.flush()
		if !p.alt {
			p.out.WriteByte('\n')
		}
	case c == '\r':
		p.x = 0
	case c == 0x08:
		p.x = max(0, p.x-1)
	case c == '\t':
		p.put('\t')
	case c < ' ' || c == 0x7f:
	default:
		if !utf8.FullRune(b) {
			return 0
		}
		r, n := utf8.DecodeRune(b)
		if r < 0x80 || r > 0x9f {
			p.put(r)
		}
		return n
	}
	return 1
}

func (p *plainer) put(r rune) {
	if p.alt {
		return
	}
	if len(p.line) >= maxLine && p.x >= len(p.line) {
		p.flush()
		p.out.WriteByte('\n')
	}
	for len(p.line) < p.x {
		p.line = append(p.line, ' ')
	}
	if p.x == len(p.line) {
		p.line = append(p.line, r)
	} else {
		p.line[p.x] = r
	}
	p.x++
}

func (p *plainer) flush() {
	p.out.WriteString(strings.TrimRight(string(p.line), " "))
	p.line, p.x = p.line[:0], 0
}

// escape takes a sequence.
func (p *plainer) escape(b []byte) int {
	if len(b) < 2 {
		return 0
	}
	switch c := b[1]; {
	case c == '[':
		for i := 2; i < len(b); i++ {
			switch {
			case b[i] >= '@' && b[i] <= '~':
				p.csi(b[2:i], b[i])
				return i + 1
			case b[i] < ' ' || b[i] > '~' || i > maxControl:
				return i // broken off
			}
		}
		return 0
	case c == ']' || c == 'P' || c == '_' || c == '^' || c == 'X':
		for i := 2; i < len(b); i++ {
			switch b[i] {
			case 0x07, 0x18, 0x1a:
				return i + 1
			case 0x1b:
				if i+1 == len(b) {
					return 0
				}
				if b[i+1] == '\\' {
					return i + 2
				}
				return i
			}
		}
		if len(b) > maxText {
			return len(b) // its text is never shown, however long
		}
		return 0
	case c >= ' ' && c < '0':
		for i := 2; i < len(b); i++ {
			if b[i] >= '0' {
				return i + 1
			}
		}
		return 0
	case c < ' ' || c > '~':
		return 1
	}
	return 2
}

// csi carries out sequences that edit a line.
func (p *plainer) csi(body []byte, final byte) {
	if len(body) > 0 && body[0] == '?' {
		for _, n := range parseParams(body[1:]) {
			if n[0] == 47 || n[0] == 1047 || n[0] == 1049 {
				p.flush()
				p.alt = final == 'h'
			}
		}
		return
	}
	if p.alt || len(body) > 0 && body[0] >= '<' {
		return
	}
	params := parseParams(body)
	n := min(params.at(0, 1), maxLine)
	end := min(p.x, len(p.line))
	switch final {
	case 'C', 'a':
		p.x = min(p.x+n, maxLine)
	case 'D':
		p.x = max(0, p.x-n)
	case 'G', '`':
		p.x = n - 1
	case 'K', 'J':
		switch params.at(0, 0) {
		case 0:
			p.line = p.line[:end]
		case 1:
			for i := range end {
				p.line[i] = ' '
			}
		default:
			p.line = p.line[:0]
		}
	case 'P':
		if p.x < len(p.line) {
			p.line = append(p.line[:p.x], p.line[min(p.x+n, len(p.line)):]...)
		}
	case '@':
		if p.x < len(p.line) && len(p.line)+n <= maxLine {
			p.line = append(p.line[:p.x], append([]rune(strings.Repeat(" ", n)), p.line[p.x:]...)...)
		}
	case 'H', 'f', 'd', 'A', 'B', 'E', 'F':
		if len(p.line) > 0 { // another line of the screen
			p.flush()
			p.out.WriteByte('\n')
		}
		p.x = 0
	}
}
