// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"errors"
	"io"

	"github.com/warren-vm/warren/vm"
)

// Stat describes a directory entry, not following a symlink.
func (e *Engine) Stat(ctx context.Context, c *vm.Call, ref, user, path string) (vm.FileInfo, error) {
	c.User = user
	return ask(ctx, e, c, ref, vm.OpRead, func(ctx context.Context, v *visit) (vm.FileInfo, error) {
		return v.guest.Stat(ctx, user, v.path(path))
	})
}

// ReadDir lists a directory.
func (e *Engine) ReadDir(ctx context.Context, c *vm.Call, ref, user, path string) ([]vm.FileInfo, error) {
	c.User = user
	return ask(ctx, e, c, ref, vm.OpRead, func(ctx context.Context, v *visit) ([]vm.FileInfo, error) {
		return v.guest.ReadDir(ctx, user, v.path(path))
	})
}

// OpenFile returns a file and its content. The content ends with
// io.ErrUnexpectedEOF when the guest sent less than it announced. The caller
// closes it.
func (e *Engine) OpenFile(ctx context.Context, c *vm.Call, ref, user, path string) (vm.FileInfo, io.ReadCloser, error) {
	var info vm.FileInfo
	r, err := e.download(ctx, c, ref, path, user, func(ctx context.Context, v *visit) (io.ReadCloser, error) {
		var r io.ReadCloser
		var err error
		info, r, err = v.guest.Open(ctx, user, v.path(path))
		return r, err
	})
	return info, r, err
}

// TarDown returns a tree as a tar stream. The caller closes it.
func (e *Engine) TarDown(ctx context.Context, c *vm.Call, ref, user, path string) (io.ReadCloser, error) {
	return e.download(ctx, c, ref, path, user, func(ctx context.Context, v *visit) (io.ReadCloser, error) {
		return v.guest.TarDown(ctx, user, v.path(path))
	})
}

// download starts a recorded stream out of a guest.
func (e *Engine) download(ctx context.Context, c *vm.Call, ref, path, user string, f func(ctx context.Context, v *visit) (io.ReadCloser, error)) (io.ReadCloser, error) {
	c.User = user
	v, err := e.visit(ctx, c, ref, vm.OpRead)
	if err != nil {
		return nil, err
	}
	entry := fileEntry(path, user)
	if c.To != "" {
		entry.Detail = map[string]any{"to": clip(c.To)}
		if user != "" {
			entry.Detail["user"] = user
		}
	}
	if err := v.recordAs(ctx, c, entry); err != nil {
		err = v.fail(ctx, err)
		v.end(err, nil)
		return nil, err
	}
	r, err := open(v, func(ctx context.Context) (io.ReadCloser, error) { return f(ctx, v) })
	if err != nil {
		return nil, err
	}
	return newReader(v, r), nil
}

func fileEntry(path, user string) vm.AuditEntry {
	entry := vm.AuditEntry{Subject: clip(path)}
	if user != "" {
		entry.Detail = map[string]any{"user": user}
	}
	return entry
}

// WriteFile writes a file from r: under a temporary name, renamed when all of
// it has come. A shorter or longer stream than o.Size leaves the old file.
func (e *Engine) WriteFile(ctx context.Context, c *vm.Call, ref, user, path string, o vm.WriteOptions, r io.Reader) (vm.FileInfo, error) {
	var info vm.FileInfo
	err := e.upload(ctx, c, ref, path, user, r, func(ctx context.Context, v *visit, r io.Reader) (err error) {
		info, err = v.guest.WriteFile(ctx, user, v.path(path), o, r)
		return err
	})
	return info, err
}

// TarUp unpacks a tar stream below path.
func (e *Engine) TarUp(ctx context.Context, c *vm.Call, ref, user, path string, r io.Reader) error {
	return e.upload(ctx, c, ref, path, user, r, func(ctx context.Context, v *visit, r io.Reader) error {
		return v.guest.TarUp(ctx, user, v.path(path), r)
	})
}

// upload carries out a recorded stream into a guest.
func (e *Engine) upload(ctx context.Context, c *vm.Call, ref, path, user string, r io.Reader, f func(ctx context.Context, v *visit, r io.Reader) error) error {
	c.User = user
	v, err := e.visit(ctx, c, ref, vm.OpWrite)
	if err != nil {
		return err
	}
	in := &counted{r: r}
	if err = v.recordAs(ctx, c, fileEntry(path, user)); err == nil {
		in.moved = v.guard()
		err = f(v.ctx, v, in)
	}
	err = v.fail(v.ctx, err)
	v.end(err, map[string]any{"bytes": in.n.Load()})
	return err
}

// Watch reports changes below a directory until the watch is closed. What it
// reports is activity of the VM; that it is open is not.
func (e *Engine) Watch(ctx context.Context, c *vm.Call, ref, user, path string, recursive bool) (Watch, error) {
	c.User = user
	v, err := e.visit(ctx, c, ref, vm.OpWatch)
	if err != nil {
		return nil, err
	}
	w, err := open(v, func(ctx context.Context) (Watch, error) {
		return v.guest.Watch(ctx, user, v.path(path), recursive)
	})
	if err != nil {
		return nil, err
	}
	v.guard()
	v.loosen() // it may see nothing for days
	return &watching{Watch: w, v: v}, nil
}

// watching is a watch that holds its visit.
type watching struct {
	Watch
	v *visit
}

func (w *watching) Next() (vm.FileEvent, error) {
	ev, err := w.Watch.Next()
	if err == nil {
		w.v.touch()
	}
	if err != nil && !errors.Is(err, io.EOF) {
		err = w.v.fail(w.v.ctx, err)
	}
	return ev, err
}

func (w *watching) Close() error {
	err := w.Watch.Close()
	w.v.end(nil, nil)
	return err
}
