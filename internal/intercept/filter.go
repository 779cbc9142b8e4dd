// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package intercept

import (
	"bytes"
	"errors"
	"io"
)

// errFound ends a stream that has a text which must not pass.
var errFound = errors.New("the stream has a text that must not pass")

const filterChunk = 32 << 10

// filter passes a stream on, without certain texts: it replaces each by one of the same
// length, or fails with errFound. It finds a text across the borders of reads, and keeps back
// only what may be the beginning of one, so that a stream of events does not stall.
type filter struct {
	src     io.Reader
	needles [][]byte
	with    [][]byte // replacements, of the same lengths; nil = fail

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
	for i, needle := range f.needles {
		for at := 0; ; {
			k := bytes.Index(f.buf[at:], needle)
			if k < 0 {
				break
			}
			if f.with == nil {
				f.buf, f.ready, f.err = nil, 0, errFound
				return
			}
			at += k
			copy(f.buf[at:], f.with[i])
			at += len(needle)
		}
	}
	keep := 0
	if f.err == nil {
		for _, needle := range f.needles {
			keep = max(keep, begun(f.buf, needle))
		}
	}
	f.ready = len(f.buf) - keep
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
