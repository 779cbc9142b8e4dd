// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"io"
	"sync"
	"sync/atomic"
	"time"
)

const (
	maxLeftTold = 5   // lines about what was left out
	maxLeftKept = 100 // of it in JSON
)

// transfer is one copy: its progress, and the entries that were left out.
type transfer struct {
	began time.Time
	bytes atomic.Int64 // of files, so far
	size  atomic.Int64 // of all files; -1 = not known
	files atomic.Int64

	mu      sync.Mutex // guards the fields below
	left    []leftOut
	leftAll int
}

// leftOut is an entry of a tree that was not copied.
type leftOut struct {
	Path   string `json:"path"`             // within the tree
	Target string `json:"target,omitempty"` // of a symlink that leads outside; "" = a device, pipe or socket
}

// copied describes a copy for --json.
type copied struct {
	From  string `json:"from"`
	To    string `json:"to"`
	Bytes int64  `json:"bytes"` // of files
	Files int64  `json:"files"`
	// LeftOut are the first of LeftOutCount entries that were not copied.
	LeftOut      []leftOut `json:"leftOut"`
	LeftOutCount int       `json:"leftOutCount"`
}

func newTransfer() *transfer {
	t := &transfer{began: time.Now(), left: []leftOut{}}
	t.size.Store(-1)
	return t
}

// counted counts the bytes read from a file.
func (t *transfer) counted(r io.Reader) io.Reader { return countedReader{r, t} }

type countedReader struct {
	r io.Reader
	t *transfer
}

// Read reads from the file.
func (c countedReader) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.t.bytes.Add(int64(n))
	return n, err
}

// leaveOut records an entry that is not copied; target is a symlink's, else
// "".
func (t *transfer) leaveOut(path, target string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.leftAll++; len(t.left) < maxLeftKept {
		t.left = append(t.left, leftOut{path, target})
	}
}

// progress describes the progress after a time.
func (t *transfer) progress(took time.Duration) string {
	n, size := t.bytes.Load(), t.size.Load()
	text := human(n)
	if size >= 0 {
		text += " of " + human(size)
	}
	if ms := took.Milliseconds(); ms > 0 {
		text += ", " + human(n*1000/ms) + "/s"
	}
	return text
}

// result describes the finished copy.
func (t *transfer) result(from, to string) copied {
	t.mu.Lock()
	defer t.mu.Unlock()
	return copied{From: from, To: to, Bytes: t.bytes.Load(), Files: t.files.Load(), LeftOut: t.left, LeftOutCount: t.leftAll}
}

// tellLeftOut prints to stderr the entries that were left out.
func (s *streams) tellLeftOut(c copied) {
	for i, l := range c.LeftOut {
		switch {
		case i == maxLeftTold:
			s.notef("… and %d more of %s; --json lists them", c.LeftOutCount-i, printable(c.From))
			return
		case l.Target != "":
			s.notef("left out: %s, a link that leads outside, to %s", printable(l.Path), printable(l.Target))
		default:
			s.notef("left out: %s, which is neither a file, a directory nor a symlink", printable(l.Path))
		}
	}
}
