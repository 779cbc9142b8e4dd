// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package intercept

import (
	"errors"
	"io"
)

// maxMarks bounds what is kept between the bytes of one message.
const maxMarks = 64 << 10

var errFrames = errors.New("the server's frames are not those of WebSocket without extensions")

// serverFrames passes on the frames that a server of WebSocket sends. It replaces a secret in
// a message, also if the message has it in two frames. The end of a message is passed on when
// it has come; before it the last bytes wait, as many as held says.
type serverFrames struct {
	src           io.Reader
	secret, shown [][]byte
	hold          int

	chunk []byte
	out   []byte // may be passed on
	err   error

	head    []byte // of the next frame, as far as it was seen
	left    uint64 // bytes of the payload that are still to come
	control bool   // the frame is not a part of a message
	final   bool   // the frame is the last of its message

	text  []byte // of the message, not passed on yet
	marks []mark // that stand between the bytes of text
	kept  int    // bytes of marks
	aside []byte // payload of a control frame
}

// mark is the head of a frame, or a whole control frame.
type mark struct {
	at  int // where in text
	raw []byte
}

func newServerFrames(src io.Reader, secret, shown [][]byte, hold int) *serverFrames {
	return &serverFrames{src: src, secret: secret, shown: shown, hold: hold, chunk: make([]byte, filterChunk)}
}

func (f *serverFrames) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	for len(f.out) == 0 {
		if f.err != nil {
			return 0, f.err
		}
		k, err := f.src.Read(f.chunk)
		f.err = err
		if !f.take(f.chunk[:k]) {
			f.err = errFrames
		}
	}
	n := copy(p, f.out)
	f.out = f.out[n:]
	return n, nil
}

// take reads the server's next bytes. It returns false if they are not frames.
func (f *serverFrames) take(b []byte) bool {
	f.out = f.out[:0]
	for len(b) > 0 {
		if f.left == 0 {
			f.head = append(f.head, b[0])
			b = b[1:]
			if !f.begin() {
				return false
			}
			continue
		}
		n := int(min(uint64(len(b)), f.left))
		if f.control {
			f.aside = append(f.aside, b[:n]...)
		} else {
			f.text = append(f.text, b[:n]...)
		}
		b = b[n:]
		if f.left -= uint64(n); f.left == 0 {
			f.end()
		}
	}
	replace(f.text, f.secret, f.shown)
	keep := 0
	if f.err == nil {
		keep = held(f.text, f.hold)
	}
	f.pass(len(f.text) - keep)
	return f.kept <= maxMarks
}

// begin reads the head of a frame when it is complete. It returns false if it is not one of
// a server without extensions.
func (f *serverFrames) begin() bool {
	first := f.head[0]
	if code := first & 0x0f; first&0x70 != 0 || code > 10 || code > 2 && code < 8 {
		return false
	}
	if len(f.head) < 2 {
		return true
	}
	if f.head[1]&0x80 != 0 { // a mask
		return false
	}
	size, more := uint64(f.head[1]), 0
	switch size {
	case 126:
		more = 2
	case 127:
		more = 8
	}
	f.control, f.final = first&0x08 != 0, first&0x80 != 0
	if f.control && (more > 0 || !f.final) {
		return false
	}
	if len(f.head) < 2+more {
		return true
	}
	if more > 0 {
		size = 0
		for _, b := range f.head[2:] {
			size = size<<8 | uint64(b)
		}
	}
	f.put(f.head)
	f.left, f.head = size, nil
	if size == 0 {
		f.end()
	}
	return true
}

// end ends a frame.
func (f *serverFrames) end() {
	switch {
	case f.control:
		replace(f.aside, f.secret, f.shown)
		f.put(f.aside)
		f.aside = nil
	case f.final:
		replace(f.text, f.secret, f.shown)
		f.pass(len(f.text))
	}
}

// put has bytes follow what there is of the message.
func (f *serverFrames) put(raw []byte) {
	f.marks = append(f.marks, mark{len(f.text), raw})
	f.kept += len(raw)
}

// pass passes n bytes of the message on, and what stands before the next one.
func (f *serverFrames) pass(n int) {
	done, gone := 0, 0
	for _, m := range f.marks {
		if m.at > n {
			break
		}
		f.out = append(append(f.out, f.text[done:m.at]...), m.raw...)
		done = m.at
		f.kept -= len(m.raw)
		gone++
	}
	f.out = append(f.out, f.text[done:n]...)
	f.text = append(f.text[:0], f.text[n:]...)
	f.marks = append(f.marks[:0], f.marks[gone:]...)
	for i := range f.marks {
		f.marks[i].at -= n
	}
}
