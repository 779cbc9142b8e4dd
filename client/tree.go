// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/url"

	"github.com/warren-vm/warren/api"
	"github.com/warren-vm/warren/vm"
)

// Stat describes a directory entry, not following a symlink.
func (c *Client) Stat(ctx context.Context, ref, path string) (vm.FileInfo, error) {
	return about[vm.FileInfo](ctx, c, "GET", ref, nil, url.Values{"path": {path}}, "fs", "stat")
}

// ReadDir lists a directory.
func (c *Client) ReadDir(ctx context.Context, ref, path string) ([]vm.FileInfo, error) {
	out, err := about[api.FileList](ctx, c, "GET", ref, nil, url.Values{"path": {path}}, "fs", "list")
	return out.Files, err
}

// Mkdir makes a directory, with parents also the missing ones above it.
func (c *Client) Mkdir(ctx context.Context, ref, path string, mode uint32, parents bool) error {
	return c.fileOp(ctx, ref, "mkdir", api.FileOp{Path: path, Mode: mode, Parents: parents})
}

// Rename moves an entry.
func (c *Client) Rename(ctx context.Context, ref, from, to string) error {
	return c.fileOp(ctx, ref, "rename", api.FileOp{From: from, To: to})
}

// Remove removes an entry, recursively a whole tree.
func (c *Client) Remove(ctx context.Context, ref, path string, recursive bool) error {
	return c.fileOp(ctx, ref, "remove", api.FileOp{Path: path, Recursive: recursive})
}

// Chmod sets permission bits.
func (c *Client) Chmod(ctx context.Context, ref, path string, mode uint32) error {
	return c.fileOp(ctx, ref, "chmod", api.FileOp{Path: path, Mode: mode})
}

// Symlink makes path a symlink with that target.
func (c *Client) Symlink(ctx context.Context, ref, target, path string) error {
	return c.fileOp(ctx, ref, "symlink", api.FileOp{Target: target, Path: path})
}

func (c *Client) fileOp(ctx context.Context, ref, verb string, op api.FileOp) error {
	path, err := vmPath(ref, "fs", verb)
	if err != nil {
		return err
	}
	return c.json(ctx, call{method: http.MethodPost, path: path, in: op}, nil)
}

// Watch is a stream of changes of files.
type Watch struct{ lines *lines }

// Watch reports changes below a directory until it is closed or ctx ends.
func (c *Client) Watch(ctx context.Context, ref, path string, recursive bool) (*Watch, error) {
	p, err := vmPath(ref, "fs", "watch")
	if err != nil {
		return nil, err
	}
	q := url.Values{"path": {path}}
	if recursive {
		q.Set("recursive", "true")
	}
	resp, err := c.send(ctx, call{method: http.MethodGet, path: p, query: q})
	if err != nil {
		return nil, err
	}
	return &Watch{c.lines(ctx, resp.Body)}, nil
}

// Next waits for a change. io.EOF when the watch has ended.
func (w *Watch) Next() (vm.FileEvent, error) {
	for {
		line, err := w.lines.next()
		if err != nil {
			return vm.FileEvent{}, err
		}
		if len(line) == 0 {
			continue // keeps the connection alive
		}
		// A watch that failed on the way says so in a line of its own.
		var ev struct {
			vm.FileEvent
			Error *api.ErrorBody `json:"error"`
		}
		if err := json.Unmarshal(line, &ev); err != nil {
			return vm.FileEvent{}, vm.Errorf(vm.Internal, w.lines.c.base, "a change is not understood: %w", err)
		}
		if ev.Error != nil {
			return vm.FileEvent{}, api.DecodeError(*ev.Error)
		}
		return ev.FileEvent, nil
	}
}

// Close ends the watch.
func (w *Watch) Close() error { return w.lines.body.Close() }

// lines reads a body line by line.
type lines struct {
	c    *Client
	ctx  context.Context
	body io.ReadCloser
	r    *bufio.Scanner
}

const maxLine = 1 << 20

func (c *Client) lines(ctx context.Context, body io.ReadCloser) *lines {
	r := bufio.NewScanner(body)
	r.Buffer(make([]byte, 0, 4<<10), maxLine)
	return &lines{c: c, ctx: ctx, body: body, r: r}
}

// next returns a line without its end; it is valid until the next call.
func (l *lines) next() ([]byte, error) {
	if l.r.Scan() {
		return l.r.Bytes(), nil
	}
	if err := l.r.Err(); err != nil {
		return nil, l.c.transportError(l.ctx, err)
	}
	return nil, io.EOF
}
