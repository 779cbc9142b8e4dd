// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package guest

import (
	"context"
	"encoding/binary"
	"io"
	"net/url"
	"sync"

	"github.com/warren-vm/warren/internal/link"
	"github.com/warren-vm/warren/vm"
)

// StatFollow describes a path, following a symlink at its end.
func (c *Client) StatFollow(ctx context.Context, user, path string) (vm.FileInfo, error) {
	var i vm.FileInfo
	q := where(user, path)
	q.Set("follow", "1")
	return i, c.askJSON(ctx, "GET", "/stat", q, &i)
}

// Link creates a hard link at path to the file target.
func (c *Client) Link(ctx context.Context, user, target, path string) error {
	q := where(user, path)
	q.Set("target", target)
	_, err := c.ask(ctx, "POST", "/link", q, nil)
	return err
}

// SetAttr changes attributes of a file, following a symlink at its end.
func (c *Client) SetAttr(ctx context.Context, user, path string, a vm.FileAttr) error {
	q := where(user, path)
	if a.Size != nil {
		q.Set("size", itoa(*a.Size))
	}
	if a.Mode != nil {
		q.Set("mode", itoa(int64(*a.Mode)))
	}
	if a.UID != nil && a.GID != nil {
		q.Set("uid", itoa(int64(*a.UID)))
		q.Set("gid", itoa(int64(*a.GID)))
	}
	if !a.Mtime.IsZero() {
		q.Set("atime", itoa(a.Atime.UnixNano()))
		q.Set("mtime", itoa(a.Mtime.UnixNano()))
	}
	_, err := c.ask(ctx, "POST", "/setattr", q, nil)
	return err
}

// File is an open file of a guest. Its methods are safe for concurrent use;
// the guest executes them in some order.
type File struct {
	conn *Stream
	name string

	mu   sync.Mutex // guards writes together with waiting
	wait chan chan piece
	over chan struct{} // closed when the reader has ended
	err  error         // why
}

// piece is the guest's answer to one frame.
type piece struct {
	data []byte
	err  error
}

// maxAsked is how many answers may be outstanding.
const maxAsked = 64

// OpenHandle opens a file to be read and written in pieces, until ctx ends.
func (c *Client) OpenHandle(ctx context.Context, user, path string, o vm.OpenOptions) (*File, error) {
	q := where(user, path)
	q.Set("mode", itoa(int64(o.Mode)))
	for name, on := range map[string]bool{
		"read": o.Read, "write": o.Write, "append": o.Append, "create": o.Create, "truncate": o.Truncate, "exclusive": o.Exclusive,
	} {
		if on {
			q.Set(name, "1")
		}
	}
	return c.openFile(ctx, path, q)
}

func (c *Client) openFile(ctx context.Context, path string, q url.Values) (*File, error) {
	verb, q := c.ruled("/handle", q)
	conn, _, err := c.stream(ctx, verb, q)
	if err != nil {
		return nil, err
	}
	f := &File{conn: conn, name: path, wait: make(chan chan piece, maxAsked), over: make(chan struct{})}
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	go func() { // ends with the connection
		defer close(f.over)
		defer stop()
		f.err = f.answers()
		_ = conn.Close()
	}()
	return f, nil
}

// answers passes each answer to the oldest request.
func (f *File) answers() error {
	frames := link.NewFrameReader(f.conn)
	for {
		kind, b, err := frames.Next()
		if err != nil {
			return &vm.Error{Kind: vm.GuestFault, Subject: f.name, Msg: "the link to the guest's agent broke", Err: err}
		}
		var p piece
		switch kind {
		case link.FrameStdout:
			p.data = append([]byte(nil), b...)
		case link.FrameStdinAck:
		case link.FrameError:
			p.err = refusal("/handle", b)
		default:
			return fault("unexpected frame %d", kind)
		}
		select {
		case ch := <-f.wait:
			ch <- p
		default:
			return fault("an answer without a request")
		}
	}
}

// ask sends one frame and waits for its answer.
func (f *File) ask(kind link.FrameType, head, payload []byte) ([]byte, error) {
	b := make([]byte, link.FrameHeader, link.FrameHeader+len(head)+len(payload))
	link.PutFrameHeader(b, kind, len(head)+len(payload))
	b = append(append(b, head...), payload...)
	answer := make(chan piece, 1)
	f.mu.Lock()
	select {
	case f.wait <- answer:
	case <-f.over:
		f.mu.Unlock()
		return nil, f.err
	}
	_, err := f.conn.Write(b)
	f.mu.Unlock()
	if err != nil {
		_ = f.conn.Close() // the order of answers is unknown now
	}
	select {
	case p := <-answer:
		return p.data, p.err
	case <-f.over:
		select {
		case p := <-answer:
			return p.data, p.err
		default:
			return nil, f.err
		}
	}
}

// ReadAt reads from an offset. If it returns fewer bytes, the error is io.EOF.
func (f *File) ReadAt(p []byte, at int64) (int, error) {
	n := 0
	for n < len(p) {
		var head [12]byte
		binary.BigEndian.PutUint64(head[:], uint64(at)+uint64(n))
		binary.BigEndian.PutUint32(head[8:], uint32(min(len(p)-n, link.MaxFrame)))
		b, err := f.ask(link.FrameRead, head[:], nil)
		if err != nil {
			return n, err
		}
		if len(b) > len(p)-n {
			return n, fault("more bytes than were asked for")
		}
		if len(b) == 0 {
			return n, io.EOF
		}
		n += copy(p[n:], b)
	}
	return n, nil
}

// WriteAt writes at an offset. A file that was opened to append is written at its end.
func (f *File) WriteAt(p []byte, at int64) (int, error) {
	n := 0
	for n < len(p) {
		part := p[n:min(len(p), n+link.MaxFrame-8)]
		var head [8]byte
		binary.BigEndian.PutUint64(head[:], uint64(at)+uint64(n))
		if _, err := f.ask(link.FrameWrite, head[:], part); err != nil {
			return n, err
		}
		n += len(part)
	}
	return n, nil
}

// Close closes the file. All writes have been acknowledged before.
func (f *File) Close() error {
	err := f.conn.Close()
	<-f.over
	return err
}
