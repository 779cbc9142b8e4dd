// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

// Names that a guest chose never steer the terminal.
//
// 003-24
func TestPrintable(t *testing.T) {
	for _, tc := range []struct{ name, in, want string }{
		{"ordinary", "report-1.txt", "report-1.txt"},
		{"a path with blanks", "/work/my file (2).txt", "/work/my file (2).txt"},
		{"other scripts", "ünïcode-日本語-Ωμέγα", "ünïcode-日本語-Ωμέγα"},
		{"quote inside", `it's "so"`, `it's "so"`},
		{"backslash", `a\b`, `a\b`},
		{"empty", "", `""`},
		{"looks quoted", `"a\n"`, `"\"a\\n\""`},
		{"ESC", "a\x1bc", `"a\x1bc"`},
		{"CSI colour", "\x1b[31mred\x1b[0m", `"\x1b[31mred\x1b[0m"`},
		{"8-bit CSI", "a\u009b2Jb", `"a\u009b2Jb"`},
		{"raw 8-bit CSI", "a\x9b2J", `"a\x9b2J"`},
		{"OSC title", "\x1b]0;owned\x07", `"\x1b]0;owned\a"`},
		{"OSC 52 clipboard", "\x1b]52;c;cm0=\x1b\\", `"\x1b]52;c;cm0=\x1b\\"`},
		{"newline", "a\nwarren: ok", `"a\nwarren: ok"`},
		{"carriage return", "bad\rgood", `"bad\rgood"`},
		{"backspace", "bad\b\b\bok", `"bad\b\b\bok"`},
		{"tab", "a\tb", `"a\tb"`},
		{"NUL and DEL", "a\x00b\x7f", `"a\x00b\x7f"`},
		{"bidi override", "a\u202etxt.exe", `"a\u202etxt.exe"`},
		{"bidi isolate", "a\u2066b\u2069", `"a\u2066b\u2069"`},
		{"bidi mark", "a\u200fb", `"a\u200fb"`},
		{"zero width", "a\u200bb\ufeff", `"a\u200bb\ufeff"`},
		{"line separator", "a\u2028b", `"a\u2028b"`},
		{"no-break space", "a\u00a0b", `"a\u00a0b"`},
		{"invalid UTF-8", "a\xff\xfeb", `"a\xff\xfeb"`},
		{"cut UTF-8", "caf\xc3", `"caf\xc3"`},
		{"tag characters", "a\U000e0041", `"a\U000e0041"`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := printable(tc.in); got != tc.want {
				t.Errorf("%q is shown as %s, want %s", tc.in, got, tc.want)
			}
		})
	}
}

func FuzzPrintable(f *testing.F) {
	for _, s := range []string{"a", "\x1b[0m", "\xff", "a\u202eb", `"x"`, "\ufffd"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		for _, out := range []string{printable(s), plain(s)} {
			if !utf8.ValidString(out) || strings.IndexFunc(out, func(r rune) bool { return !unicode.IsPrint(r) }) >= 0 {
				t.Errorf("%q is shown as %q", s, out)
			}
		}
		if plain(s) == s && s != "" && s[0] != '"' && printable(s) != s {
			t.Errorf("an ordinary %q became %q", s, printable(s))
		}
	})
}
