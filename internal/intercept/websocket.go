// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package intercept

import (
	"bytes"
	"io"
)

// wire is the server's end of a connection after an upgrade to WebSocket. What the guest
// sends must not have a placeholder, and what the server sends has no value.
type wire struct {
	io.ReadWriteCloser
	in     io.Reader // the server's bytes, filtered
	frames frames
	found  func() // called once, when the guest has sent a placeholder
}

func (w *wire) Read(p []byte) (int, error) { return w.in.Read(p) }

func (w *wire) Write(p []byte) (int, error) {
	if w.frames.has(p) {
		w.found()
		_ = w.Close()
		return 0, errFound
	}
	return w.ReadWriteCloser.Write(p)
}

// frames looks into the frames that a client of WebSocket sends, whose payload is masked.
type frames struct {
	needles [][]byte

	head   []byte // of the next frame, as far as it was seen
	left   uint64 // bytes of the payload that are still to come
	mask   [4]byte
	at     int
	window []byte // the newest bytes of the payload
}

// has reads the guest's next bytes and reports whether a needle is in the payload.
func (f *frames) has(p []byte) bool {
	for len(p) > 0 {
		if f.left == 0 {
			f.head = append(f.head, p[0])
			p = p[1:]
			f.begin()
			continue
		}
		n := int(min(uint64(len(p)), f.left))
		from := len(f.window)
		f.window = append(f.window, p[:n]...)
		for i := from; i < len(f.window); i++ {
			f.window[i] ^= f.mask[f.at&3]
			f.at++
		}
		f.left -= uint64(n)
		p = p[n:]
		if f.search() {
			return true
		}
	}
	return false
}

// begin reads the head of a frame when it is complete.
func (f *frames) begin() {
	if len(f.head) < 2 {
		return
	}
	size, more := uint64(f.head[1]&0x7f), 0
	switch size {
	case 126:
		more = 2
	case 127:
		more = 8
	}
	masked := f.head[1]&0x80 != 0
	whole := 2 + more
	if masked {
		whole += 4
	}
	if len(f.head) < whole {
		return
	}
	if more > 0 {
		size = 0
		for _, b := range f.head[2 : 2+more] {
			size = size<<8 | uint64(b)
		}
	}
	f.mask, f.at = [4]byte{}, 0
	if masked {
		copy(f.mask[:], f.head[2+more:])
	}
	f.left, f.head = size, f.head[:0]
}

// search looks for the needles and drops what cannot be a part of one any more.
func (f *frames) search() bool {
	longest := 0
	for _, needle := range f.needles {
		if bytes.Contains(f.window, needle) {
			return true
		}
		longest = max(longest, len(needle))
	}
	if over := len(f.window) - longest; over > 0 {
		f.window = append(f.window[:0], f.window[over:]...)
	}
	return false
}
