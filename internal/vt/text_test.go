// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package vt

import (
	"strings"
	"testing"
	"unicode"
)

// Output read as text is what a person saw go by, and steers no terminal.
func TestPlain(t *testing.T) {
	for in, want := range map[string]string{
		"one\r\ntwo":                                "one\ntwo",
		"\x1b[31mred\x1b[0m\r\n":                    "red\n",
		"10%\r50%\r100%\r\n":                        "100%\n",
		"abc\b\b\x1b[KX\r\n":                        "aX\n",
		"abcd\x1b[3D\x1b[2Pz":                       "az",
		"ab\x1b[2G\x1b[1@X":                         "aXb",
		"a\x1b]52;c;ZXZpbA==\x07b\x1b]0;t\x1b\\c":   "abc",
		"a\x1b[21tb\x1b[6nc\x1bP$q\"p\x1b\\d":       "abcd",
		"sh$ vim\r\n\x1b[?1049hfull\x1b[?1049lsh$ ": "sh$ vim\nsh$",
		"a\u009bb\x00c\x7f":                         "abc",
		"ä€😀":                                       "ä€😀",
		"\x1b[?2004h$ ls\x1b[?2004l\r\n":            "$ ls\n",
		"left\x1b[5;9Hright":                        "left\nright",
		"\x1b(0x\x1b(B":                             "x",
	} {
		if got, used := Plain([]byte(in)); got != want || used != len(in) {
			t.Errorf("the text of %q is %q, of %d of %d bytes, want %q", in, got, used, len(in), want)
		}
	}
	for in, used := range map[string]int{"abc\x1b[3": 3, "abc\xe2\x82": 3, "x\x1b]0;tit": 1, "\x1b": 0} {
		if _, got := Plain([]byte(in)); got != used {
			t.Errorf("%q: used %d, not %d", in, got, used)
		}
	}
}

// FuzzPlain: no output gets a control character through, nor stops the reader.
func FuzzPlain(f *testing.F) {
	f.Add([]byte("\x1b[1;31mx\x1b]52;c;x\x07\r\ny\b\x1b[K\x1b[5Pz"))
	f.Fuzz(func(t *testing.T, b []byte) {
		text, used := Plain(b)
		if used > len(b) {
			t.Fatalf("used %d bytes of %d", used, len(b))
		}
		if strings.ContainsFunc(text, func(r rune) bool { return unicode.IsControl(r) && r != '\n' && r != '\t' }) {
			t.Fatalf("%q gives %q", b, text)
		}
		s := New(10, 4)
		_, _ = s.Write(b)
		if got := s.Text() + s.Title(); strings.ContainsFunc(got, func(r rune) bool { return unicode.IsControl(r) && r != '\n' }) {
			t.Fatalf("%q shows %q", b, got)
		}
	})
}

// The screen as text and as runs of one look.
func TestText(t *testing.T) {
	s := New(12, 4)
	_, _ = s.Write([]byte("plain \x1b[1;31mred\x1b[0m\r\n漢字 x\r\n\r\n  end"))
	if got, want := s.Text(), "plain red\n漢字 x\n\n  end"; got != want {
		t.Errorf("the screen's text is %q, want %q", got, want)
	}
	runs := s.Runs(0)
	if len(runs) != 2 || runs[0].Text != "plain " || runs[1].X != 6 || runs[1].Text != "red" || runs[1].Attr != Bold || runs[1].FG.String() != "1" {
		t.Errorf("the runs of line 0 are %+v, want plain and a bold red one", runs)
	}
	if got := s.Runs(9); got != nil {
		t.Errorf("the runs of a line off the screen are %+v, want none", got)
	}
}
