// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// printable returns a name for a terminal. Ordinary names stay as they are.
// One that holds anything that could move the cursor, change colours, hide or
// reorder text or break a line (control bytes, escapes, bidi and other
// invisible characters, invalid UTF-8), or that looks like a quoted one, is
// quoted as in Go. Every name that a guest chose goes through it.
func printable(name string) string {
	if name == "" || name[0] == '"' || plain(name) != name {
		return strconv.Quote(name)
	}
	return name
}

// plain escapes the same characters, but does not quote: for messages that
// contain names, and for lines of output.
func plain(text string) string {
	odd := func(r rune) bool { return !unicode.IsPrint(r) }
	if utf8.ValidString(text) && strings.IndexFunc(text, odd) < 0 {
		return text
	}
	var b strings.Builder
	for len(text) > 0 {
		r, n := utf8.DecodeRuneInString(text)
		if part := text[:n]; unicode.IsPrint(r) && (r != utf8.RuneError || n > 1) {
			b.WriteString(part)
		} else {
			quoted := strconv.Quote(part)
			b.WriteString(quoted[1 : len(quoted)-1])
		}
		text = text[n:]
	}
	return b.String()
}
