// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package intercept

import (
	"bytes"
	"errors"
	"io"
	"slices"
)

// errFound ends a stream that has a text which must not pass.
var errFound = errors.New("the stream has a text that must not pass")

const filterChunk = 32 << 10

// filter passes a stream on, without certain texts: it replaces each by one of the same
// length, or fails with errFound. It finds a text across the borders of reads. If the reader
// knows the texts, the filter keeps back only what may be the beginning of one. If they are
// secret, what it keeps back does not depend on them: see held.
type filter struct {
	src     io.Reader
	needles [][]byte
	with    [][]byte // replacements, of the same lengths; nil = fail
	hold    int      // no text is longer; 0 = the reader knows the texts

	store []byte // behind buf
	buf   []byte // read and not passed on yet
	ready int    // how much of buf may be passed on
	err   error
}

func newFilter(src io.Reader, needles, with [][]byte) *filter {
	longest := 0
	for _, needle := range needles {
		longest = max(longest, len(needle))
	}
	return &filter{src: src, needles: needles, with: with, store: make([]byte, longest+filterChunk)}
}

// newMask returns a filter for texts that its reader must not learn. Each is of printable
// ASCII and has at most hold bytes.
func newMask(src io.Reader, secret, shown [][]byte, hold int) *filter {
	return &filter{src: src, needles: secret, with: shown, hold: hold, store: make([]byte, hold+filterChunk)}
}

func (f *filter) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	for {
		if f.ready > 0 {
			n := copy(p, f.buf[:f.ready])
			f.buf, f.ready = f.buf[n:], f.ready-n
			return n, nil
		}
		if f.err != nil {
			return 0, f.err
		}
		kept := copy(f.store, f.buf)
		k, err := f.src.Read(f.store[kept:])
		f.buf, f.err = f.store[:kept+k], err
		f.look()
	}
}

// look searches what was read.
func (f *filter) look() {
	if f.with != nil {
		replace(f.buf, f.needles, f.with)
	} else if slices.ContainsFunc(f.needles, func(needle []byte) bool { return bytes.Contains(f.buf, needle) }) {
		f.buf, f.ready, f.err = nil, 0, errFound
		return
	}
	keep := 0
	switch {
	case f.err != nil: // nothing follows
	case f.hold > 0:
		keep = held(f.buf, f.hold)
	default:
		for _, needle := range f.needles {
			keep = max(keep, begun(f.buf, needle))
		}
	}
	f.ready = len(f.buf) - keep
}

// replace replaces each needle in b by a text of the same length.
func replace(b []byte, needles, with [][]byte) {
	for i, needle := range needles {
		for at := 0; ; {
			k := bytes.Index(b[at:], needle)
			if k < 0 {
				break
			}
			at += k
			copy(b[at:], with[i])
			at += len(needle)
		}
	}
}

// held returns how much of b must wait for what follows, because a secret of at most hold
// bytes may begin in it. It sees only which bytes no secret has, so that whoever chooses the
// bytes of an answer learns nothing from what comes at once.
func held(b []byte, hold int) int {
	for n := range min(len(b), hold-1) {
		if c := b[len(b)-1-n]; c < 0x20 || c > 0x7e {
			return n
		}
	}
	return min(len(b), hold-1)
}

// begun returns the length of the longest end of b with which a needle begins.
func begun(b, needle []byte) int {
	for n := min(len(b), len(needle)-1); n > 0; n-- {
		if b[len(b)-n] == needle[0] && bytes.HasPrefix(needle, b[len(b)-n:]) {
			return n
		}
	}
	return 0
}

// sized makes a text n bytes long: cut, or filled up with asterisks.
func sized(text string, n int) []byte {
	out := bytes.Repeat([]byte{'*'}, n)
	copy(out, text)
	return out
}
