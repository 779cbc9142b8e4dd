// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package review

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"

	"github.com/rogpeppe/go-internal/diff"
)

const (
	maxText      = 1 << 20   // bytes of a file that is compared line by line
	maxAllText   = 64 << 20  // of all such files together, both sides
	maxHunks     = 256 << 10 // bytes of the hunks of one file that are shown
	maxAllHunks  = 4 << 20   // of all files
	maxLine      = 2000      // bytes of a line in hunks
	noNewlineEnd = `\ No newline at end of file`
)

// lineDiff is what differs between two texts.
type lineDiff struct {
	hunks          []byte // in unified form, without headers of files
	added, removed int
	came           []int // numbers of the lines that came, from 1
}

// diffLines compares two texts in O(n log n), whatever they hold.
func diffLines(was, now []byte) lineDiff {
	out := diff.Diff("a", was, "b", now)
	for range 3 { // "diff a b", "--- a", "+++ b"
		_, out, _ = bytes.Cut(out, []byte("\n"))
	}
	d := lineDiff{hunks: out}
	eachHunkLine(out, func(l hunkLine) {
		switch l.sign {
		case '+':
			d.added++
			d.came = append(d.came, l.now)
		case '-':
			d.removed++
		}
	})
	return d
}

// hunkLine is a line of a hunk with its numbers on the two sides.
type hunkLine struct {
	sign     byte // ' ', '+', '-', '@' for the head of a hunk, '\\' for a missing line end
	was, now int
	text     []byte // without the sign and the line's end
}

// eachHunkLine reads hunks that diffLines made.
func eachHunkLine(hunks []byte, each func(hunkLine)) {
	was, now := 0, 0
	for len(hunks) > 0 {
		var line []byte
		line, hunks, _ = bytes.Cut(hunks, []byte("\n"))
		if len(line) == 0 {
			continue
		}
		l := hunkLine{sign: line[0], was: was, now: now, text: line[1:]}
		switch line[0] {
		case '@':
			was, now = hunkStart(line)
		case ' ':
			was, now = was+1, now+1
		case '-':
			was++
		case '+':
			now++
		}
		each(l)
	}
}

// hunkStart takes the numbers of the first lines out of "@@ -3,7 +3,8 @@".
func hunkStart(head []byte) (was, now int) {
	parts := strings.Fields(string(head))
	if len(parts) < 3 {
		return 0, 0
	}
	number := func(s string) int {
		s, _, _ = strings.Cut(s[1:], ",")
		n, _ := strconv.Atoi(s)
		return n
	}
	return number(parts[1]), number(parts[2])
}

// show writes hunks as they are shown: secrets masked, long lines cut. cut says what
// is missing.
func show(hunks []byte, was, now masks, room int) (text, cut string) {
	var out strings.Builder
	most, full, long := min(room, maxHunks), false, false
	eachHunkLine(hunks, func(l hunkLine) {
		if full {
			return
		}
		line := l.text
		switch l.sign {
		case '-':
			line = was.apply(l.was, line)
		case '+', ' ':
			line = now.apply(l.now, line)
		}
		rest := ""
		if len(line) > maxLine {
			rest, line, long = fmt.Sprintf("… (%d bytes more)", len(line)-maxLine), line[:maxLine], true
		}
		if out.Len()+len(line)+len(rest)+2 > most {
			full = true
			return
		}
		out.WriteByte(l.sign)
		out.Write(line)
		out.WriteString(rest + "\n")
	})
	switch {
	case full && room < maxHunks:
		cut = "the lines of all files together are too many to show"
	case full:
		cut = fmt.Sprintf("only the first %d KiB of the changed lines are shown", maxHunks>>10)
	case long:
		cut = fmt.Sprintf("lines are cut after %d bytes", maxLine)
	}
	return out.String(), cut
}

// countLines is the number of lines of a text.
func countLines(text []byte) int {
	n := bytes.Count(text, []byte("\n"))
	if len(text) > 0 && text[len(text)-1] != '\n' {
		n++
	}
	return n
}

// anyMasked reports whether hunks have a line with a secret.
func anyMasked(hunks []byte, was, now masks) (is bool) {
	eachHunkLine(hunks, func(l hunkLine) {
		is = is || l.sign == '-' && len(was[l.was]) > 0 || (l.sign == '+' || l.sign == ' ') && len(now[l.now]) > 0
	})
	return is
}
