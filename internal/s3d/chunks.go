// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package s3d

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"strconv"
)

// chunks turns a body of signed chunks (aws-chunked) into one of chunks without
// signatures. It keeps a trailing checksum.
type chunks struct {
	from *bufio.Reader
	head []byte // to be read next
	left int64  // bytes of the present chunk, with the end of its line
	last bool   // the chunk without bytes was read
	err  error
}

// maxChunkLine is the longest line between chunks.
const maxChunkLine = 1024

var errChunk = errors.New("the body is not made of chunks")

// Read returns errChunk for a body that is not made of chunks, and io.ErrUnexpectedEOF for
// one that is cut.
func (c *chunks) Read(p []byte) (int, error) {
	for {
		switch {
		case len(c.head) > 0:
			n := copy(p, c.head)
			c.head = c.head[n:]
			return n, nil
		case c.left > 0:
			n, err := c.from.Read(p[:min(int64(len(p)), c.left)])
			if c.left -= int64(n); errors.Is(err, io.EOF) {
				c.err, c.left = io.ErrUnexpectedEOF, 0
			} else if err != nil {
				c.err, c.left = err, 0
			}
			if n > 0 {
				return n, nil
			}
		case c.err != nil:
			return 0, c.err
		case c.last:
			c.err = c.trailer()
		default:
			c.err = c.chunk()
		}
	}
}

// line reads a line without its end.
func (c *chunks) line() ([]byte, error) {
	line, err := c.from.ReadSlice('\n')
	switch {
	case errors.Is(err, io.EOF) && len(line) == 0:
		return nil, io.EOF
	case errors.Is(err, io.EOF):
		return nil, io.ErrUnexpectedEOF
	case errors.Is(err, bufio.ErrBufferFull) || len(line) > maxChunkLine:
		return nil, errChunk
	}
	return bytes.TrimSpace(line), err
}

// chunk reads the line before a chunk.
func (c *chunks) chunk() error {
	line, err := c.line()
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		return err
	}
	size, _, _ := bytes.Cut(line, []byte(";"))
	n, err := strconv.ParseUint(string(bytes.TrimSpace(size)), 16, 40)
	if err != nil {
		return errChunk
	}
	c.head = append(strconv.AppendUint(nil, n, 16), "\r\n"...)
	if c.last = n == 0; !c.last {
		c.left = int64(n) + 2
	}
	return nil
}

// trailer reads what follows the last chunk, to the end.
func (c *chunks) trailer() error {
	for lines := 0; ; lines++ {
		line, err := c.line()
		switch {
		case errors.Is(err, io.EOF):
			c.head = append(c.head, "\r\n"...)
			return io.EOF
		case err != nil:
			return err
		case lines > 16 || len(c.head) > maxChunkLine:
			return errChunk
		case len(line) == 0 || bytes.HasPrefix(bytes.ToLower(line), []byte("x-amz-trailer-signature:")):
		default:
			c.head = append(append(c.head, line...), "\r\n"...)
		}
	}
}
