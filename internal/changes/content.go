// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package changes

import (
	"context"
	"io"

	"github.com/warren-vm/warren/internal/reader"
	"github.com/warren-vm/warren/vm"
)

// Content writes paths of a state of a VM, with what is below them, to w as a tar. The
// state is one of vm.DiffRequest. After an error w has a part of the tar. It writes an
// audit record first: content leaves the guest. Kinds: those of Diff.
func (x *Changes) Content(ctx context.Context, c *vm.Call, ref, state string, paths []vm.GuestPath, w io.Writer) (err error) {
	defer func() { err = vm.WithOp(vm.OpRead, ref, err) }()
	rec, err := x.cfg.Engine.Find(c.Actor, ref)
	if err != nil {
		return err
	}
	if err := checkPaths(paths); err != nil {
		return err
	}
	if len(paths) == 0 {
		return vm.Errorf(vm.Invalid, "paths", "no path is named")
	}
	f, release, err := x.side(ctx, c, ref, state)
	if err != nil {
		return err
	}
	defer release()
	detail := map[string]any{"generation": string(f.Side.Generation), "paths": len(paths)}
	rcpt, err := x.cfg.Journal.Begin(ctx, c, vm.AuditEntry{Op: vm.OpRead, VM: rec.ID, Subject: vm.Clip(paths[0].String(), 1024), Detail: detail})
	if err != nil {
		return err
	}
	n := &counted{w: w}
	err = x.cfg.Reader.Tar(ctx, f.Layers, paths, reader.TarOptions{}, n)
	rcpt.End(err, map[string]any{"bytes": n.n})
	return err
}

// counted counts what is written.
type counted struct {
	w io.Writer
	n int64
}

func (c *counted) Write(p []byte) (int, error) {
	n, err := c.w.Write(p)
	c.n += int64(n)
	return n, err
}
