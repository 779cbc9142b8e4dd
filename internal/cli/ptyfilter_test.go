// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bytes"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/warren-vm/warren/internal/vt"
)

// What a guest writes reaches the screen of whoever looks, and nothing beyond
// it: not the clipboard, a file, the printer, the keys; and no question is asked
// whose answer would type the guest's own text.
func TestPtyFilter(t *testing.T) {
	for in, want := range map[string]string{
		"plain äöü€😀\r\n\t\x08":              "plain äöü€😀\r\n\t\x08",
		"\x1b[31mred\x1b[0m\x1b[?1049h\x1b":  "\x1b[31mred\x1b[0m\x1b[?1049h",
		"\x1b]0;title\x07\x1b]2;ü\x1b\\x":    "\x1b]0;title\x07\x1b]2;ü\x1b\\x",
		"\x1b(0\x1b7\x1b=\x1b[1 q\x1b[6n":    "\x1b(0\x1b7\x1b=\x1b[1 q\x1b[6n",
		"\x1b]11;?\x07\x1b]8;;https://x\x07": "\x1b]11;?\x07\x1b]8;;https://x\x07",
		"\x1bPq#0;2;0~-\x1b\\x":              "\x1bPq#0;2;0~-\x1b\\x",
		"\x1bP+q544e\x1b\\":                  "\x1bP+q544e\x1b\\",
		"\x1bP=1s\x1b\\x\x1bP=2s\x1b\\":      "\x1bP=1s\x1b\\x\x1bP=2s\x1b\\",
		"\x1b[3\n1mx":                        "\n\x1b[31mx",
		"\x1b[1\x1b[2Jx":                     "\x1b[2Jx",
		"\x1b[12\x18x":                       "\x18x",
		"\ufffd\u00a0":                       "\ufffd\u00a0",
		// clipboard: set, read, in another sequence, cut off
		"a\x1b]52;c;ZXZpbA==\x07b":                     "ab",
		"a\x1b]52;c;?\x1b\\b":                          "ab",
		"a\x1b]052;c;ZXZpbA==\x07b":                    "ab",
		"a\x1bPtmux;\x1b\x1b]52;c;ZXZpbA==\x07\x1b\\b": "a\x1b\\b",
		"a\x1b]52;c;ZX\x18b":                           "a\x18b",
		"a\x1b]5522;x\x07b":                            "ab",
		// reports of the title, settings, the answer back, sums of the screen
		"a\x1b[21tb\x1b[20;1tc\x1b[021td\x1b[18te": "abcd\x1b[18te",
		"a\x1bP$qm\x1b\\b\x05c\x1b[3\x05mX":        "abc\x1b[3mX",
		"a\x1b[1;1;1;1;9;9*yb":                     "ab",
		"a\x1b]50;?\x07b\x1b]3;?x\x07c":            "abc",
		// files, the printer, function keys, programs of the terminal's
		"a\x1b]1337;File=name=eA==:eA==\x07b\x1b]46;/etc/x\x07c": "abc",
		"a\x1b[5ib\x1b[?5ic":                                               "abc",
		"a\x1bP1;1|17/6c730a\x1b\\b\x1bP1!zx\x1b\\c":                       "abc",
		"a\x1b_Ga=T,t=f;L2V0Yy9wYXNzd2Q=\x1b\\b\x1b^x\x1b\\c\x1bXy\x1b\\d": "abcd",
		"a\x1b]9;6;macro\x07b":                                             "ab",
		// control characters of eight bits, and what is no UTF-8
		"a\u009b21tb\u009d52;c;x\u009cc\x9b21td":        "a21tb52;c;xc21td",
		"\xc2\x1b[1mx\xe2\x82\x1b[m":                    "\x1b[1mx\x1b[m",
		"\x1b]2;a\u009cb\x07c":                          "c",
		"\x1b]2;" + strings.Repeat("x", 9000) + "\x07y": "y",
		"\x1b[" + strings.Repeat("1", 9000) + "my":      "1111", // its beginning
		"\x1bPq~\x1b[31mx":                              "\x1bPq~\x18\x1b[31mx",
	} {
		for _, piece := range []int{1, 3, len(in)} {
			var out bytes.Buffer
			f := &ptyFilter{w: &out}
			for rest := []byte(in); len(rest) > 0; {
				n := min(piece, len(rest))
				_, _ = f.Write(rest[:n])
				rest = rest[n:]
			}
			got := out.String()
			if len(in) > 9000 && strings.HasPrefix(in, "\x1b[") {
				if strings.Contains(got, "\x1b") || !strings.HasSuffix(got, "my") {
					t.Errorf("a long sequence %.20q leaves %.40q, want the text after it alone", in, got)
				}
				continue
			}
			if got != want {
				t.Errorf("%.60q in pieces of %d: %q, not %q", in, piece, got, want)
			}
		}
	}
	var out bytes.Buffer
	f := &ptyFilter{w: &out, clipboard: true}
	long := "\x1b]52;c;" + strings.Repeat("QUFB", 9000) + "\x07"
	_, _ = f.Write([]byte(long + "\x1b]52;c;?\x07\x1b]11;?\x07"))
	if out.String() != long+"\x1b]11;?\x07" || f.recoloured {
		t.Errorf("%d bytes, %v", out.Len(), f.recoloured)
	}
	if _, _ = f.Write([]byte("\x1b]4;1;red\x1b\\")); !f.recoloured {
		t.Error("colours that were changed are not remembered")
	}
}

// FuzzPtyFilter: no output gets one of the sequences through that do harm, in
// whatever pieces it comes, and text and a screen's drawing pass unchanged.
func FuzzPtyFilter(f *testing.F) {
	for _, s := range []string{"a\x1b]52;c;x\x07", "\x1b[\x1b]5\x1b\\2;", "\xc2\x9b21t", "\x1bP\x1b]52;x\x07", "\x1b]2;\x1b]52;c;x\x1b\\", "äöü\x1b[31m"} {
		f.Add([]byte(s), uint8(2))
	}
	f.Fuzz(func(t *testing.T, b []byte, cut uint8) {
		var out, pieces bytes.Buffer
		_, _ = (&ptyFilter{w: &out}).Write(b)
		p := &ptyFilter{w: &pieces}
		for rest := b; len(rest) > 0; {
			n := min(len(rest), 1+int(cut)%5)
			_, _ = p.Write(rest[:n])
			rest = rest[n:]
		}
		if !bytes.Equal(out.Bytes(), pieces.Bytes()) {
			t.Fatalf("whole input leaves %q\nin pieces %q", out.Bytes(), pieces.Bytes())
		}
		for _, bad := range []string{"\x1b]52", "\x1b]50", "\x1b]1337", "\x1b_", "\x1b^", "\x1bX", "\x1bP$", "\x1b[21t", "\x1b[20t", "\x1b[5i", "\x05", "\u009b", "\u009d", "\u0090"} {
			if strings.Contains(out.String(), bad) {
				t.Fatalf("%q lets %q through: %q", b, bad, out.Bytes())
			}
		}
		if !utf8.Valid(out.Bytes()) {
			t.Fatalf("%q gives %q", b, out.Bytes())
		}
		s := vt.New(20, 5)
		_, _ = s.Write(b)
		_, _ = s.Write([]byte("\x1b\\\x18")) // nothing is pending
		drawn := s.Redraw()
		var again bytes.Buffer
		_, _ = (&ptyFilter{w: &again}).Write(drawn)
		if !bytes.Equal(drawn, again.Bytes()) {
			t.Fatalf("drawn %q\npasses %q", drawn, again.Bytes())
		}
	})
}
