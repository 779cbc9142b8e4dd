// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package link

import (
	"encoding/binary"
	"fmt"
	"io"
)

// FrameType is the kind of a frame on an upgraded stream.
type FrameType byte

// The frames of an exec stream. Stdin, StdinEOF and Signal go to the guest,
// the others come from it. End of input and exit are frames, never a
// half-closed stream: a closed stream means that the peer has left.
const (
	FrameStdin    FrameType = 1 // bytes for the process
	FrameStdinEOF FrameType = 2 // no more input
	FrameStdout   FrameType = 3 // bytes from the process
	FrameStderr   FrameType = 4 // bytes from the process
	FrameSignal   FrameType = 5 // name of a signal for its process group
	FrameStarted  FrameType = 6 // the process
	FrameExit     FrameType = 7 // how it ended; the last frame
	FrameError    FrameType = 8 // why it could not continue; the last frame
	FrameStdinAck FrameType = 9 // 4 bytes: how much input was taken

	// Of terminals only.
	FrameSize   FrameType = 10 // 4 bytes: the viewer's columns and rows
	FrameReplay FrameType = 11 // what the next output frames repeat

	// Of open files only: answered by FrameStdout, FrameStdinAck or FrameError.
	FrameRead  FrameType = 12 // offset [8], length [4]
	FrameWrite FrameType = 13 // offset [8], bytes
)

const (
	// FrameHeader is the length of a frame's header: type [1], length [4, big endian].
	FrameHeader = 5
	// MaxFrame is the longest payload.
	MaxFrame = 64 << 10
	// StdinWindow is how much input may be unacknowledged.
	StdinWindow = 256 << 10
)

// PutFrameHeader writes the header of a frame with n bytes of payload into the
// first FrameHeader bytes of b, so that one write can send header and payload.
func PutFrameHeader(b []byte, t FrameType, n int) {
	b[0] = byte(t)
	binary.BigEndian.PutUint32(b[1:], uint32(n))
}

// WriteFrame writes one frame in one write. A payload longer than MaxFrame is
// an error of the caller.
func WriteFrame(w io.Writer, t FrameType, payload []byte) error {
	if len(payload) > MaxFrame {
		return fmt.Errorf("link: a frame of %d bytes is longer than %d", len(payload), MaxFrame)
	}
	b := make([]byte, FrameHeader+len(payload))
	PutFrameHeader(b, t, len(payload))
	copy(b[FrameHeader:], payload)
	_, err := w.Write(b)
	return err
}

// FrameReader reads frames.
type FrameReader struct {
	r    io.Reader
	head [FrameHeader]byte
	buf  []byte
}

// NewFrameReader returns a reader of the frames of r, which should be buffered.
func NewFrameReader(r io.Reader) *FrameReader { return &FrameReader{r: r} }

// Next returns the next frame. The payload is valid until the next call. The
// error is io.EOF between frames, io.ErrUnexpectedEOF inside one.
func (f *FrameReader) Next() (FrameType, []byte, error) {
	if _, err := io.ReadFull(f.r, f.head[:]); err != nil {
		return 0, nil, err
	}
	n := binary.BigEndian.Uint32(f.head[1:])
	t := FrameType(f.head[0])
	if t < FrameStdin || t > FrameWrite {
		return 0, nil, fmt.Errorf("link: no such frame type: %d", t)
	}
	if n > MaxFrame {
		return 0, nil, fmt.Errorf("link: a frame of %d bytes is longer than %d", n, MaxFrame)
	}
	if int(n) > cap(f.buf) {
		f.buf = make([]byte, max(int(n), 4096))
	}
	b := f.buf[:n]
	if _, err := io.ReadFull(f.r, b); err != nil {
		if err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		return 0, nil, err
	}
	return t, b, nil
}
