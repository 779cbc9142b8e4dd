// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package scan

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
)

// The scanner and the server speak in messages: a kind, the length of what follows as four
// bytes, and that many bytes. The server sends All with an Input; the scanner
// answers with Said and a Verdict. Before the answer it may ask for ranges of the
// upload with Want, to which the server answers with Have.
const (
	All  = 'a' // an Input, to be judged by Whole
	Want = 'w' // offset (8 bytes) and length (4 bytes) of a range
	Have = 'h' // the bytes of a range; fewer at the end of the upload
	Said = 's' // a Verdict
)

// MaxMessage bounds a message, and MaxRange what a Want may ask for.
const (
	MaxMessage = 1 << 20
	MaxRange   = 256 << 10
)

// Send writes a message.
func Send(w io.Writer, kind byte, data []byte) error {
	out := make([]byte, 0, len(data)+5)
	out = append(out, kind)
	out = binary.BigEndian.AppendUint32(out, uint32(len(data))) //nolint:gosec // callers stay below MaxMessage
	_, err := w.Write(append(out, data...))
	return err
}

// Receive reads a message of at most MaxMessage bytes.
func Receive(r io.Reader) (kind byte, data []byte, err error) {
	var head [5]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return 0, nil, err
	}
	n := binary.BigEndian.Uint32(head[1:])
	if n > MaxMessage {
		return 0, nil, errors.New("a message is too long")
	}
	data = make([]byte, n)
	_, err = io.ReadFull(r, data)
	return head[0], data, err
}

// Serve judges uploads until the input ends.
func Serve(in io.Reader, out io.Writer) error {
	r := bufio.NewReader(in)
	for {
		kind, data, err := Receive(r)
		if errors.Is(err, io.EOF) {
			return nil
		}
		var u Input
		if err == nil {
			err = json.Unmarshal(data, &u)
		}
		if err != nil {
			return err
		}
		var v Verdict
		switch kind {
		case All:
			if v, err = Whole(u, &ranges{r: r, w: out, size: u.Size}); err != nil {
				return err
			}
		default:
			return errors.New("a message is of an unknown kind")
		}
		if data, err = json.Marshal(v); err == nil {
			err = Send(out, Said, data)
		}
		if err != nil {
			return err
		}
	}
}

// ranges reads the upload through the server, a block at a time. It keeps the last block.
type ranges struct {
	r    io.Reader
	w    io.Writer
	size int64
	at   int64
	have []byte
}

// ReadAt reads the upload.
func (g *ranges) ReadAt(p []byte, off int64) (n int, err error) {
	for n < len(p) {
		if off >= g.size {
			return n, io.EOF
		}
		if off < g.at || off >= g.at+int64(len(g.have)) {
			if err := g.fetch(off); err != nil {
				return n, err
			}
		}
		c := copy(p[n:], g.have[off-g.at:])
		n, off = n+c, off+int64(c)
	}
	return n, nil
}

func (g *ranges) fetch(off int64) error {
	length := min(MaxRange, g.size-off)
	ask := binary.BigEndian.AppendUint64(nil, uint64(off)) //nolint:gosec // checked by ReadAt
	ask = binary.BigEndian.AppendUint32(ask, uint32(length))
	if err := Send(g.w, Want, ask); err != nil {
		return err
	}
	kind, data, err := Receive(g.r)
	if err == nil && (kind != Have || int64(len(data)) != length) {
		err = io.ErrUnexpectedEOF
	}
	g.at, g.have = off, data
	return err
}
