// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bytes"
	"io"
	"strconv"
	"unicode/utf8"
)

// ptyFilter copies a guest's output to this program's terminal. It removes
// sequences that act beyond the screen: on the viewer's clipboard, files,
// printer and function keys, and queries whose answer would type text of the
// guest's choice, or text of the screen, into the guest. Everything else passes
// unchanged, as soon as it is recognised.
type ptyFilter struct {
	w         io.Writer
	clipboard bool // the guest may set it

	state      filterState
	held       []byte // an incomplete sequence or character
	drop       bool   // the string is dropped
	recoloured bool   // the guest has changed the terminal's colours
	steered    bool   // it has written more than text
	alternate  bool   // the alternate screen is shown
}

type filterState uint8

const (
	filterGround  filterState = iota
	filterEscape              // after ESC and intermediate bytes
	filterControl             // after CSI
	filterText                // in OSC, which is held to its end
	filterHead                // in DCS, before its kind is known
	filterBody                // in DCS, APC, PM or SOS
	filterEnd                 // there, after ESC
)

const (
	maxHeld      = 8 << 10 // limit of a sequence; a longer one is dropped
	maxClipboard = 1 << 20 // limit of one that sets the clipboard
	// recolour resets a guest's colours.
	recolour = "\x1b]104\x07\x1b]110\x07\x1b]111\x07\x1b]112\x07"
)

func (f *ptyFilter) Write(p []byte) (int, error) {
	out := make([]byte, 0, len(p)+len(f.held))
	for _, c := range p {
		out = f.take(out, c)
	}
	if len(out) > 0 {
		if _, err := f.w.Write(out); err != nil {
			return 0, err
		}
	}
	return len(p), nil
}

// take processes one byte and appends the bytes that may be written.
func (f *ptyFilter) take(out []byte, c byte) []byte {
	switch {
	case f.state == filterGround:
		return f.ground(out, c)
	case c == 0x18 || c == 0x1a: // CAN, SUB
		f.reset()
		return append(out, c)
	case f.state == filterEnd:
		return f.end(out, c)
	case f.state == filterBody:
		return f.body(out, c)
	case f.state == filterText:
		return f.text(out, c)
	case c == 0x1b:
		f.begin()
		return out
	case c < ' ': // terminals obey it in the middle of a sequence
		return f.ground(out, c)
	case c >= 0x7f:
		f.reset()
		return f.ground(out, c)
	}
	f.held = append(f.held, c)
	return f.sequence(out, c)
}

func (f *ptyFilter) reset() { f.state, f.held, f.drop = filterGround, f.held[:0], false }

func (f *ptyFilter) begin() {
	f.reset()
	f.state, f.held = filterEscape, append(f.held, 0x1b)
}

// pass writes a complete, permitted sequence.
func (f *ptyFilter) pass(out []byte, ok bool) []byte {
	if ok {
		f.steered = f.steered || f.held[0] == 0x1b
		out = append(out, f.held...)
	}
	f.reset()
	return out
}

// ground processes a byte of text. It removes invalid UTF-8 and 8-bit control
// characters, because some terminals obey them.
func (f *ptyFilter) ground(out []byte, c byte) []byte {
	switch {
	case f.state != filterGround: // a control character in a sequence
		if c != 0x05 {
			out = append(out, c)
		}
		return out
	case c == 0x1b:
		f.begin()
		return out
	case c == 0x05: // requests the answerback
		f.reset()
		return out
	case c < utf8.RuneSelf:
		f.reset()
		return append(out, c)
	case utf8.RuneStart(c):
		f.held = append(f.held[:0], c)
		return out
	}
	f.held = append(f.held, c)
	if !utf8.FullRune(f.held) {
		return out
	}
	r, _ := utf8.DecodeRune(f.held)
	return f.pass(out, r != utf8.RuneError && r > 0x9f || string(f.held) == "\ufffd")
}

// sequence checks the bytes held so far; c is the last one.
func (f *ptyFilter) sequence(out []byte, c byte) []byte {
	if len(f.held) > maxHeld {
		f.reset()
		return out
	}
	switch f.state {
	case filterEscape:
		switch {
		case len(f.held) == 2 && c == '[':
			f.state = filterControl
		case len(f.held) == 2 && c == ']':
			f.state = filterText
		case len(f.held) == 2 && c == 'P':
			f.state = filterHead
		case len(f.held) == 2 && (c == '_' || c == '^' || c == 'X'):
			f.state, f.drop = filterBody, true
		case c >= '0':
			return f.pass(out, true)
		}
	case filterControl:
		if c >= '@' {
			f.noteScreen(f.held[2:])
			return f.pass(out, harmless(f.held[2:]))
		}
	case filterHead:
		if c >= '@' {
			f.state, f.drop = filterBody, !picture(f.held[2:])
			if !f.drop {
				out = append(out, f.held...)
			}
			f.held = f.held[:0]
		}
	}
	return out
}

// noteScreen notes which screen a control sequence turns to.
func (f *ptyFilter) noteScreen(b []byte) {
	n := len(b) - 1
	if b[0] != '?' || b[n] != 'h' && b[n] != 'l' {
		return
	}
	for mode := range bytes.SplitSeq(b[1:n], []byte{';'}) {
		switch string(mode) {
		case "47", "1047", "1049":
			f.alternate = b[n] == 'h'
		}
	}
}

// harmless reports whether a control sequence may pass. Sequences that print,
// report the title or checksum the screen may not.
func harmless(b []byte) bool {
	n := len(b) - 1
	switch b[n] {
	case 'i':
		return false
	case 't':
		op, _, _ := bytes.Cut(b[:n], []byte{';'})
		k, err := strconv.Atoi(string(op))
		return err != nil || k != 20 && k != 21
	case 'y':
		return n == 0 || b[n-1] != '*'
	}
	return true
}

// picture reports whether a DCS may pass: an image, a query for the terminal's
// capabilities, or the beginning or end of a synchronised update.
func picture(b []byte) bool {
	n := len(b) - 1
	head := bytes.TrimLeft(b[:n], "0123456789;")
	return b[n] == 'q' && (len(head) == 0 || string(head) == "+") || b[n] == 's' && n > 0 && b[0] == '='
}

// text processes a byte of an OSC.
func (f *ptyFilter) text(out []byte, c byte) []byte {
	limit := maxHeld
	if f.clipboard && bytes.HasPrefix(f.held, []byte("\x1b]52;")) {
		limit = maxClipboard
	}
	last := len(f.held) - 1
	escaped := f.held[last] == 0x1b && last > 0
	switch {
	case c == 0x07 && !escaped:
		return f.textEnd(out, f.held[2:], c)
	case escaped && c == '\\':
		return f.textEnd(out, f.held[2:last], c)
	case escaped:
		f.begin()
		return f.take(out, c)
	case c < ' ' && c != 0x1b || c == 0x7f:
		return out
	}
	if f.held = append(f.held, c); len(f.held) > limit {
		f.state, f.drop, f.held = filterBody, true, f.held[:0]
	}
	return out
}

// textEnd decides about a whole OSC.
func (f *ptyFilter) textEnd(out, body []byte, c byte) []byte {
	number, rest, _ := bytes.Cut(body, []byte{';'})
	n, err := strconv.Atoi(string(number))
	asks := bytes.IndexByte(rest, '?') >= 0
	ok := false
	switch {
	case err != nil || !utf8.Valid(body) || bytes.ContainsFunc(body, func(r rune) bool { return r >= 0x80 && r <= 0x9f }):
	case n == 52:
		ok = f.clipboard && !asks
	case n == 4 || n == 5 || n >= 10 && n <= 19:
		ok = true
		f.recoloured = f.recoloured || !asks
	default: // titles, the directory, links, colours back, the pointer, prompts
		ok = n >= 0 && n <= 2 || n == 7 || n == 8 || n == 22 || n == 104 || n == 105 || n >= 110 && n <= 119 || n == 133
	}
	f.held = append(f.held, c)
	return f.pass(out, ok)
}

// body processes a byte of a string that is not held.
func (f *ptyFilter) body(out []byte, c byte) []byte {
	switch {
	case c == 0x1b:
		f.state = filterEnd
	case c == 0x07 && f.drop: // it may have been an OSC
		f.reset()
	case !f.drop && (c >= ' ' && c < 0x7f || c == '\r' || c == '\n'):
		return append(out, c)
	}
	return out
}

// end processes the byte after ESC in a string.
func (f *ptyFilter) end(out []byte, c byte) []byte {
	passed := !f.drop
	f.begin()
	switch {
	case c == '\\' && passed:
		return append(f.pass(out, true), c)
	case c == '\\':
		f.reset()
		return out
	case passed:
		out = append(out, 0x18) // the terminal's string ends where ours does
	}
	return f.take(out, c)
}
