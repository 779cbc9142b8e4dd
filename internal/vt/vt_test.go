// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package vt

import (
	"bytes"
	"testing"
)

// same fails unless a screen drawn by Redraw is the same, and stays so when the
// program continues.
func same(t *testing.T, s *Screen, rest []byte) {
	t.Helper()
	first := s.Redraw()
	other := New(s.cols, s.rows)
	// A terminal in any state must end up in the same one.
	_, _ = other.Write([]byte("junk\x1b[?1049hmore\x1b[5;7r\x1b[?6;1;2004h\x1b(0\x1b[4h\x1b[31;7m\x1b[?25l\x1b]2;half"))
	_, _ = other.Write(first)
	if len(s.title) == 0 {
		other.title = ""
	}
	if again := other.Redraw(); !bytes.Equal(first, again) {
		t.Fatalf("drawn:\n%q\nand then:\n%q", first, again)
	}
	s.last, other.last = 0, 0
	drawn := s.onAlt
	_, _ = s.Write(rest)
	_, _ = other.Write(rest)
	a, b := s.Redraw(), other.Redraw()
	if drawn || !bytes.Contains(rest, []byte("47h")) { // what a hidden screen holds is not drawn
		if !bytes.Equal(a, b) {
			t.Fatalf("after %q:\n%q\nbut the redrawn one has\n%q", rest, a, b)
		}
	}
}

// FuzzScreen: no output breaks the screen, pieces of it give the same as the
// whole, and what Redraw draws is the screen.
func FuzzScreen(f *testing.F) {
	for _, s := range []string{
		"hello\r\nworld", "\x1b[2J\x1b[3;4H\x1b[31mred\x1b[0m", "\x1b[?1049h\x1b[Halt\x1b[?1049l", "äöü€😀漢字e\u0301",
		"\x1b]0;title\x07\x1b[?2004h", "\x1b[2;5r\x1b[?6h\x1b[1;1Hx\n\n\n\n\n", "\x1b(0lqqk\x1b(B", "abc\x1b[3b\x1b[4h\x1b[Hxx",
		"\x1b[38;5;200m\x1b[48:2::1:2:3mx\x1b[K", "\x1bP+q544e\x1b\\", "\x1b7\x1b[5;5H\x1b8\x1bM\x1bD\x1bE", "\xe2\x82A\xff",
		"0123456789012345678901234567890", "\x1b[1;19Hab\x1b7漢\x1b8", "\x1b[3g\x1b[5G\x1bH\r\tx", "\x1b[?7l0123456789012345678901234567890",
		"\x1b[>1u\x1b[=4;2u\x1b[?1049h\x1b[>31u\x1b[<2u", "\x1b]4;1;#fff;7;rgb:1/2/3\x07\x1b]11;red\x1b\\\x1b]104;1\x07\x1b]10;?\x07",
	} {
		f.Add([]byte(s), []byte(s), uint8(3))
	}
	f.Fuzz(func(t *testing.T, a, b []byte, cut uint8) {
		s := New(20, 6)
		_, _ = s.Write(a)
		pieces := New(20, 6)
		for rest := a; len(rest) > 0; {
			n := min(len(rest), 1+int(cut)%7)
			_, _ = pieces.Write(rest[:n])
			rest = rest[n:]
		}
		if x, y := s.Redraw(), pieces.Redraw(); !bytes.Equal(x, y) {
			t.Fatalf("whole %q\npieces %q", x, y)
		}
		same(t, s, b)
		s.Resize(7, 3)
		s.Resize(30, 9)
		same(t, s, a)
	})
}
