// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package agent

// ringSize is how much output of an attached command is kept in case its client leaves.
const ringSize = 64 << 10

// ring keeps the last ringSize bytes written. The zero value is ready.
type ring struct {
	buf []byte
	at  int // oldest byte, once buf is full
}

func (r *ring) write(p []byte) {
	if len(p) >= ringSize {
		r.buf, r.at = append(r.buf[:0], p[len(p)-ringSize:]...), 0
		return
	}
	if room := ringSize - len(r.buf); room > 0 {
		n := min(room, len(p))
		r.buf = append(r.buf, p[:n]...)
		p = p[n:]
	}
	for len(p) > 0 {
		n := copy(r.buf[r.at:], p)
		r.at = (r.at + n) % ringSize
		p = p[n:]
	}
}

// take returns the bytes in order and empties the ring.
func (r *ring) take() []byte {
	b := make([]byte, 0, len(r.buf))
	b = append(append(b, r.buf[r.at:]...), r.buf[:r.at]...)
	*r = ring{}
	return b
}
