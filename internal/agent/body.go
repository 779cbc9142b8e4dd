// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strconv"
)

// lengthReader reads a body of known length.
type lengthReader struct {
	in   *bufio.Reader
	left int64
}

func (l *lengthReader) Read(p []byte) (int, error) {
	if l.left == 0 {
		return 0, io.EOF
	}
	if int64(len(p)) > l.left {
		p = p[:l.left]
	}
	n, err := l.in.Read(p)
	l.left -= int64(n)
	if err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	return n, err
}

// chunkReader reads a chunked body.
type chunkReader struct {
	in   *bufio.Reader
	left int64 // bytes left of the current chunk
	any  bool  // a chunk was read: its end mark comes next
	err  error
}

func (c *chunkReader) Read(p []byte) (int, error) {
	if c.err == nil && c.left == 0 {
		c.err = c.nextChunk()
	}
	if c.err != nil {
		return 0, c.err
	}
	if int64(len(p)) > c.left {
		p = p[:c.left]
	}
	n, err := c.in.Read(p)
	c.left -= int64(n)
	if err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	c.err = err
	return n, err
}

// nextChunk reads the next chunk's size line. It returns io.EOF for the last chunk.
func (c *chunkReader) nextChunk() error {
	limit := 256
	line := func() (string, error) {
		s, err := readLine(c.in, &limit)
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return s, err
	}
	if c.any {
		if s, err := line(); err != nil || s != "" {
			return errors.Join(errHead, err)
		}
	}
	s, err := line()
	if err != nil {
		return err
	}
	n, err := strconv.ParseInt(s, 16, 64)
	if err != nil || n < 0 {
		return errHead
	}
	c.left, c.any = n, true
	if n > 0 {
		return nil
	}
	if s, err := line(); err != nil || s != "" { // trailers are not used
		return errors.Join(errHead, err)
	}
	return io.EOF
}

// chunkSize is the largest chunk that chunkWriter writes.
const chunkSize = 256 << 10

// chunkWriter writes a chunked body, each chunk in one write.
type chunkWriter struct {
	w   io.Writer
	buf []byte
}

// chunkHead is the length of a chunk's size line: eight digits and its end.
const chunkHead = 10

// Write sends p as one or more chunks at once.
func (c *chunkWriter) Write(p []byte) (int, error) {
	sent := 0
	for sent < len(p) {
		n := min(len(p)-sent, chunkSize)
		c.buf = fmt.Appendf(c.buf[:0], "%08x\r\n", n)
		c.buf = append(c.buf, p[sent:sent+n]...)
		c.buf = append(c.buf, '\r', '\n')
		if _, err := c.w.Write(c.buf); err != nil {
			return sent, err
		}
		sent += n
	}
	return sent, nil
}

// ReadFrom sends all of r without another copy.
func (c *chunkWriter) ReadFrom(r io.Reader) (int64, error) {
	buf := make([]byte, chunkHead+chunkSize+2)
	var sent int64
	for {
		n, err := r.Read(buf[chunkHead : chunkHead+chunkSize])
		if n > 0 {
			copy(buf, fmt.Appendf(c.buf[:0], "%08x\r\n", n))
			copy(buf[chunkHead+n:], "\r\n")
			if _, werr := c.w.Write(buf[:chunkHead+n+2]); werr != nil {
				return sent, werr
			}
			sent += int64(n)
		}
		if err == io.EOF {
			return sent, nil
		}
		if err != nil {
			return sent, err
		}
	}
}

// end writes the last chunk, which marks a complete body.
func (c *chunkWriter) end() error {
	_, err := io.WriteString(c.w, "0\r\n\r\n")
	return err
}
