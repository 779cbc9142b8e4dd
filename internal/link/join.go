// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package link

// joinSize limits how much is joined into one write: the guest's kernel
// accepts this much at once.
const joinSize = 32 << 10

// yamux frame headers: version, type, flags (2), stream (4), length (4).
const (
	muxHeader = 12
	muxData   = 0 // type of a data frame
	muxSyn    = 1 // flag of a frame that opens a stream, or of a ping that wants an answer
)

// joiner joins the header and the body of a multiplexer frame, which yamux writes separately,
// into one write. The zero value is ready. Only yamux's sending goroutine uses it.
type joiner struct {
	buf []byte
}

// write passes b to out, with the semantics of io.Writer. It holds a data
// header back until its body comes.
func (j *joiner) write(out func([]byte) (int, error), b []byte) (int, error) {
	if len(j.buf) == 0 {
		if len(b) == muxHeader && b[0] == 0 && b[1] == muxData && b[8]|b[9]|b[10]|b[11] != 0 {
			j.buf = append(j.buf, b...)
			return len(b), nil
		}
		return out(b)
	}
	head := len(j.buf)
	n := min(len(b), joinSize-head)
	j.buf = append(j.buf, b[:n]...)
	_, err := out(j.buf)
	j.buf = j.buf[:0]
	if err != nil {
		return 0, err
	}
	if n < len(b) {
		var m int
		m, err = out(b[n:])
		n += m
	}
	return n, err
}
