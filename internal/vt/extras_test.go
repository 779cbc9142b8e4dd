// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package vt

import (
	"strings"
	"testing"
)

// What kitty's keyboard protocol and a program's colours have come to is drawn
// for the next viewer; what nobody has touched is not.
func TestExtras(t *testing.T) {
	for in, want := range map[string][]string{
		"x":                                  {"\x1b[<16u"},
		"\x1b[>5u":                           {"\x1b[<16u\x1b[>5u"},
		"\x1b[=1u\x1b[=2;2u\x1b[=1;3u":       {"\x1b[<16u\x1b[=2;1u"},
		"\x1b[>1u\x1b[>3u\x1b[<u":            {"\x1b[<16u\x1b[>1u"},
		"\x1b[>1u\x1b[<9u":                   {"\x1b[<16u"},
		"\x1b[>1u\x1b[?1049h\x1b[>8u":        {"\x1b[<16u\x1b[>1u", "\x1b[<16u\x1b[>8u"},
		"\x1b]4;3;#123;300;red\x07":          {"\x1b]104\x07\x1b]110\x07\x1b]111\x07\x1b]112\x07\x1b]4;3;#123\x07"},
		"\x1b]10;red;rgb:00/11/22\x1b\\":     {"\x1b]10;red\x07\x1b]11;rgb:00/11/22\x07"},
		"\x1b]12;blue\x07\x1b]112\x07":       {"\x1b]104\x07\x1b]110\x07\x1b]111\x07\x1b]112\x07"},
		"\x1b]4;1;red;2;tan\x07\x1b]104;1\a": {"\x1b]112\x07\x1b]4;2;tan\x07"},
	} {
		s := New(20, 5)
		_, _ = s.Write([]byte(in))
		got := string(s.Redraw())
		for _, w := range want {
			at := strings.Index(got, w)
			if at < 0 {
				t.Errorf("%q: no %q in %q", in, w, got)
				continue
			}
			if rest := got[at+len(w):]; strings.HasPrefix(rest, "\x1b[>") && !strings.HasPrefix(rest, "\x1b[>4") || strings.HasPrefix(rest, "\x1b]") {
				t.Errorf("%q draws more: %q", in, got[at:])
			}
		}
		same(t, s, []byte("\x1b[<u\x1b[>2uy"))
	}
	// A question, or what is no colour, is none; nor is there an answer to a
	// question about colours or keys, which a viewer's terminal gives.
	s := New(20, 5)
	s.Reply = func(b []byte) { t.Errorf("answered %q", b) }
	_, _ = s.Write([]byte("\x1b]10;?\x07\x1b]4;1;?\x07\x1b]11;a b\x07\x1b]11;\x07\x1b]4;x;red\x07\x1b]4;-1;red\x07\x1b]4\x07\x1b[?u"))
	if got := string(s.Redraw()); strings.Contains(got, "\x1b]") {
		t.Errorf("the redraw %q has an operating system command", got)
	}
}

// TestNoReflection: what a program asks of its terminal is answered without
// any of the program's own text, so that no output types a command: not its
// title, nor a setting, nor the answer back, nor the clipboard. And neither a
// drawing nor text hands the question on to a viewer's terminal.
func TestNoReflection(t *testing.T) {
	for _, in := range []string{
		"\x1b]0;evil\nrm\x07\x1b[21t", "\x1b]1;evil\x07\x1b[20t", "\x05", "\x1bP$qm\x1b\\", "\x1bP$q\"pevil\x1b\\", "\x1bP+q6576696c\x1b\\",
		"\x1b]52;c;ZXZpbA==\x07", "\x1b]52;c;?\x07", "\x1b]50;?\x07", "\x1b]1337;File=name=ZXZpbA==;inline=0:ZXZpbA==\x07", "\x1b[5i evil\x1b[4i",
		"\x1b[1;1;1;1;1;1*y", "\x1bP1;1|17/6576696c\x1b\\", "\x1b_Ga=T,t=f;ZXZpbA==\x1b\\", "\x1b^evil\x1b\\", "\x1bXevil\x1b\\", "\x1bZ", "\x1b[?15n",
		"\x1b[?26n", "\x1b[0x", "\x1b[>q", "\x1b[=c", "\x1bPtmux;\x1b\x1b]52;c;ZXZpbA==\x07\x1b\\",
	} {
		s := New(40, 5)
		var replies string
		s.Reply = func(b []byte) { replies += string(b) }
		_, _ = s.Write([]byte("a" + in + "b"))
		if strings.Contains(replies, "evil") || strings.ContainsAny(replies, "\r\n") {
			t.Errorf("%q is answered with %q", in, replies)
		}
		drawn := string(s.Redraw())
		for _, bad := range []string{"\x1b]5", "\x1b]13", "\x1bP", "\x1b_", "\x1b^", "\x1bX", "\x1bZ", "21t", "20t", "\x05", "\x1b[5i", "n", "*y", "ZXZpbA"} {
			if strings.Contains(drawn, bad) {
				t.Errorf("%q is drawn with %q: %q", in, bad, drawn)
			}
		}
		text, _ := Plain([]byte("a" + in + "b"))
		if strings.ContainsAny(text+s.Text()+s.Title(), "\x1b\x05\x07\n") || strings.Contains(text, "ZXZpbA") {
			t.Errorf("%q reads %q, %q, %q", in, text, s.Text(), s.Title())
		}
	}
	s := New(40, 5)
	_, _ = s.Write([]byte("\x1b[5n\x1b[6n\x1b[c")) // nobody listens
	var got string
	s.Reply = func(b []byte) { got += string(b) }
	_, _ = s.Write([]byte("\x1b[3;4H\x1b[5n\x1b[6n\x1b[c\x1b[>c"))
	if got != "\x1b[0n\x1b[3;4R\x1b[?62;22c\x1b[>0;276;0c" {
		t.Errorf("the replies are %q, want status, cursor position and both device attributes", got)
	}
}
