// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package guest

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/url"

	"github.com/warren-vm/warren/vm"
)

// The file verbs act with the rights of the named Linux user; "" is root.
// Relative paths start in the user's home.

func where(user, path string) url.Values {
	return url.Values{"user": {user}, "path": {path}}
}

// Stat describes a path without following a symlink at its end.
func (c *Client) Stat(ctx context.Context, user, path string) (vm.FileInfo, error) {
	var i vm.FileInfo
	err := c.askJSON(ctx, "GET", "/stat", where(user, path), &i)
	return i, err
}

// ReadDir lists a directory, sorted by name.
func (c *Client) ReadDir(ctx context.Context, user, path string) ([]vm.FileInfo, error) {
	var list []vm.FileInfo
	err := c.askJSON(ctx, "GET", "/readdir", where(user, path), &list)
	return list, err
}

// Open opens a file for reading. The reader returns io.ErrUnexpectedEOF if
// the guest sends less than it announced.
func (c *Client) Open(ctx context.Context, user, path string) (vm.FileInfo, io.ReadCloser, error) {
	var i vm.FileInfo
	resp, err := c.do(ctx, "GET", "/file", where(user, path), nil, 0)
	if err != nil {
		return i, nil, err
	}
	if err := json.Unmarshal([]byte(resp.Header.Get("Warren-Info")), &i); err != nil {
		_ = resp.Body.Close()
		return i, nil, odd(err)
	}
	return i, &body{ctx: ctx, r: resp.Body, left: resp.ContentLength}, nil
}

// WriteFile writes a file under a temporary name and renames it when it is
// complete, so that no reader sees a partial file.
func (c *Client) WriteFile(ctx context.Context, user, path string, o vm.WriteOptions, r io.Reader) (vm.FileInfo, error) {
	q := where(user, path)
	q.Set("mode", itoa(int64(o.Mode)))
	if o.Parents {
		q.Set("parents", "1")
	}
	for name, value := range o.Attrs {
		q.Add("attr", name+"="+value)
	}
	size := o.Size
	if size < 0 {
		size = -1
		r = &source{r: r}
	} else {
		r = &exactly{r: bufio.NewReader(r), left: size}
	}
	var i vm.FileInfo
	b, err := c.upload(ctx, "/file", q, r, size)
	if err != nil {
		return i, err
	}
	return i, odd(json.Unmarshal(b, &i))
}

// Mkdir creates a directory. With parents it also creates missing parents,
// and accepts an existing directory.
func (c *Client) Mkdir(ctx context.Context, user, path string, mode uint32, parents bool) error {
	q := where(user, path)
	q.Set("mode", itoa(int64(mode)))
	if parents {
		q.Set("parents", "1")
	}
	_, err := c.ask(ctx, "POST", "/mkdir", q, nil)
	return err
}

// Rename moves a path and replaces an existing file there.
func (c *Client) Rename(ctx context.Context, user, from, to string) error {
	_, err := c.ask(ctx, "POST", "/rename", url.Values{"user": {user}, "path": {from}, "to": {to}}, nil)
	return err
}

// Remove removes a file or an empty directory, with recursive a whole tree. A
// missing path is an error in any case.
func (c *Client) Remove(ctx context.Context, user, path string, recursive bool) error {
	q := where(user, path)
	if recursive {
		q.Set("recursive", "1")
	}
	_, err := c.ask(ctx, "POST", "/remove", q, nil)
	return err
}

// Chmod sets the permission bits, with setuid, setgid and sticky.
func (c *Client) Chmod(ctx context.Context, user, path string, mode uint32) error {
	q := where(user, path)
	q.Set("mode", itoa(int64(mode)))
	_, err := c.ask(ctx, "POST", "/chmod", q, nil)
	return err
}

// Symlink makes a symbolic link at path that points to target.
func (c *Client) Symlink(ctx context.Context, user, target, path string) error {
	q := where(user, path)
	q.Set("target", target)
	_, err := c.ask(ctx, "POST", "/symlink", q, nil)
	return err
}

// TarDown streams a tree (names relative to path, "." first) or one file as a
// tar archive. The guest chooses the names, so unpack with care.
func (c *Client) TarDown(ctx context.Context, user, path string) (io.ReadCloser, error) {
	resp, err := c.do(ctx, "GET", "/tar", where(user, path), nil, 0) //nolint:bodyclose // the caller closes it, as body
	if err != nil {
		return nil, err
	}
	return &body{ctx: ctx, r: resp.Body, left: -1}, nil
}

// TarUp unpacks a tar archive below the directory path, and creates it if it
// is missing. Entries stay below it whatever their names are.
func (c *Client) TarUp(ctx context.Context, user, path string, r io.Reader) error {
	_, err := c.upload(ctx, "/tar", where(user, path), &source{r: r}, -1)
	return err
}

// Restore puts what a tar archive holds as "entry" in the place of a path, in one step,
// with owners, modes, times and extended attributes. It follows no links on the way, and
// makes missing directories. Kind Unsupported when the agent is too old for it.
func (c *Client) Restore(ctx context.Context, path string, r io.Reader) error {
	_, err := c.upload(ctx, "/restore", where("", path), &source{r: r}, -1)
	return err
}

// Watch is a running watch of a directory.
type Watch struct {
	body io.ReadCloser
	in   *bufio.Reader
	stop context.CancelFunc
	ctx  context.Context
}

// Watch reports changes below path, with recursive in the whole tree, until
// Close or the end of ctx. It returns once the watch exists.
func (c *Client) Watch(ctx context.Context, user, path string, recursive bool) (*Watch, error) {
	q := where(user, path)
	if recursive {
		q.Set("recursive", "1")
	}
	ctx, stop := context.WithCancel(ctx)
	resp, err := c.do(ctx, "GET", "/watch", q, nil, 0) //nolint:bodyclose // Watch.Close closes it
	if err != nil {
		stop()
		return nil, err
	}
	return &Watch{body: resp.Body, in: bufio.NewReader(resp.Body), stop: stop, ctx: ctx}, nil
}

// Next waits for the next change. It returns io.EOF after Close and when the
// watched path is removed.
func (w *Watch) Next() (vm.FileEvent, error) {
	var ev vm.FileEvent
	line, err := w.in.ReadSlice('\n')
	switch {
	case err == io.EOF && len(line) == 0, err != nil && w.ctx.Err() != nil:
		return ev, io.EOF
	case errors.Is(err, bufio.ErrBufferFull):
		return ev, fault("an event that is too long")
	case err != nil:
		return ev, broken(w.ctx, err)
	}
	return ev, odd(json.Unmarshal(bytes.TrimSpace(line), &ev))
}

// Close ends the watch.
func (w *Watch) Close() {
	w.stop()
	_ = w.body.Close()
}

// body is an answer's body that reports a cut stream. left is -1 if the
// transport marks the end itself.
type body struct {
	ctx  context.Context
	r    io.ReadCloser
	left int64
}

func (b *body) Read(p []byte) (int, error) {
	n, err := b.r.Read(p)
	if b.left >= 0 {
		b.left -= int64(n)
	}
	if err == nil || err == io.EOF && b.left <= 0 {
		return n, err
	}
	if b.ctx.Err() != nil {
		return n, context.Cause(b.ctx)
	}
	return n, io.ErrUnexpectedEOF
}

func (b *body) Close() error { return b.r.Close() }

// sourceError marks an error of the caller's own reader.
type sourceError struct{ err error }

func (e *sourceError) Error() string { return e.err.Error() }
func (e *sourceError) Unwrap() error { return e.err }

// source reads from a reader and marks its errors.
type source struct{ r io.Reader }

func (s *source) Read(p []byte) (int, error) {
	n, err := s.r.Read(p)
	if err != nil && err != io.EOF {
		err = &sourceError{err}
	}
	return n, err
}

// exactly reads from a reader and fails unless it has exactly as many bytes
// as announced. It holds the last byte back until it has seen the end.
type exactly struct {
	r    *bufio.Reader
	left int64
}

func (e *exactly) Read(p []byte) (int, error) {
	if e.left == 0 {
		return 0, e.atEnd()
	}
	if int64(len(p)) > e.left {
		p = p[:e.left]
	}
	n, err := e.r.Read(p)
	e.left -= int64(n)
	if e.left == 0 && (err == nil || err == io.EOF) { // a reader may return its end with its last bytes
		if end := e.atEnd(); err == nil && !errors.Is(end, io.EOF) {
			return 0, end
		}
		return n, io.EOF
	}
	switch {
	case err == io.EOF:
		err = &sourceError{vm.Errorf(vm.Invalid, "", "the content ends %d bytes short", e.left).WithCode("FILES_BAD_REQUEST")}
	case err != nil:
		err = &sourceError{err}
	}
	return n, err
}

// atEnd returns io.EOF if the reader has ended.
func (e *exactly) atEnd() error {
	switch _, err := e.r.Peek(1); err {
	case nil:
		return &sourceError{vm.Errorf(vm.Invalid, "", "the content is longer than announced").WithCode("FILES_BAD_REQUEST")}
	case io.EOF:
		return io.EOF
	default:
		return &sourceError{err}
	}
}
