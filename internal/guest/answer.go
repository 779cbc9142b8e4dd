// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package guest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net"

	"github.com/warren-vm/warren/internal/link"
	"github.com/warren-vm/warren/vm"
)

// Limits on the memory that one answer of a guest can take.
const (
	maxAnswer = 16 << 20 // bytes of an answer that is read into memory
	maxHead   = 256 << 10
	// maxElements limits the elements of all lists of a JSON answer together,
	// because an element of three bytes becomes a struct of two hundred. No honest
	// answer of maxAnswer bytes has so many.
	maxElements = 128 << 10
	maxDepth    = 32
	// smallAnswer is the size that every call may read at any time. A client
	// reads only one larger answer at a time.
	smallAnswer = 1 << 20
)

var (
	errElements = fmt.Errorf("its lists have more than %d elements", maxElements)
	errDepth    = fmt.Errorf("its lists are nested more than %d deep", maxDepth)
	errLong     = fmt.Errorf("it is longer than %d bytes", maxAnswer)
	errHead     = fmt.Errorf("its head is longer than %d bytes", maxHead)
)

// census counts the list elements of JSON while it arrives, before a decoder
// allocates anything. It accepts invalid JSON. The zero value is ready.
type census struct {
	elements int
	depth    int
	lists    uint64 // bit n = a list is open at depth n
	text     bool   // inside a string
	escaped  bool   // after a backslash in it
}

// Write counts; its error names the limit that was exceeded.
func (c *census) Write(p []byte) (int, error) {
	for i, b := range p {
		switch {
		case c.escaped:
			c.escaped = false
		case c.text:
			c.text, c.escaped = b != '"', b == '\\'
		case b == '"':
			c.text = true
		case b == '[', b == '{':
			if c.depth++; c.depth > maxDepth {
				return i, errDepth
			}
			c.lists &^= 1 << c.depth
			if b == '[' {
				c.lists |= 1 << c.depth
				c.elements++
			}
		case b == ']', b == '}':
			c.depth = max(c.depth-1, 0)
		case b == ',' && c.lists&(1<<c.depth) != 0:
			c.elements++
		}
		if c.elements > maxElements {
			return i, errElements
		}
	}
	return len(p), nil
}

// readAnswer reads a whole answer and passes it to take; look sees the bytes as they
// arrive. Memory is allocated only as bytes arrive, whatever length the guest announced.
func (c *Client) readAnswer(ctx context.Context, path string, r io.Reader, look io.Writer, take func([]byte) error) error {
	var b bytes.Buffer
	r = io.TeeReader(io.LimitReader(r, maxAnswer+1), look)
	n, err := io.CopyN(&b, r, smallAnswer)
	if err == nil && n == smallAnswer {
		select {
		case c.large <- struct{}{}:
			defer func() { <-c.large }()
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		_, err = b.ReadFrom(r)
	}
	if b.Len() > maxAnswer {
		err = errLong
	}
	switch {
	case err == nil, errors.Is(err, io.EOF):
		return take(b.Bytes())
	case errors.Is(err, errElements), errors.Is(err, errDepth), errors.Is(err, errLong):
		return fault("its answer to %s is refused: %w", path, err)
	}
	return broken(ctx, err)
}

// headReader reads a connection that begins with the head of an answer. The
// head's size is limited until lift is called.
type headReader struct {
	net.Conn
	left int64
}

func newHeadReader(c net.Conn) *headReader { return &headReader{Conn: c, left: maxHead} }

func (h *headReader) Read(p []byte) (int, error) {
	if h.left <= 0 {
		return 0, fault("%w", errHead)
	}
	n, err := h.Conn.Read(p[:min(int64(len(p)), h.left)])
	h.left -= int64(n)
	return n, err
}

// lift removes the limit.
func (h *headReader) lift() { h.left = math.MaxInt64 }

// refusal decodes the error with which a guest answers a request for path.
func refusal(path string, b []byte) error {
	var e *vm.Error
	if err := link.DecodeError(b); errors.As(err, &e) {
		return honest(path, e)
	}
	return fault("it refuses %s without a reason", path)
}
