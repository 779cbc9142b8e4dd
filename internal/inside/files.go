// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package inside

import (
	"context"
	"crypto/sha256"
	"errors"
	"io"

	"github.com/warren-vm/warren/internal/access"
	"github.com/warren-vm/warren/internal/engine"
	"github.com/warren-vm/warren/vm"
)

// Stat describes a directory entry without following a symlink.
func (in *Inside) Stat(ctx context.Context, c *vm.Call, ref, user, path string) (vm.FileInfo, error) {
	return ask(ctx, in, c, ref, vm.OpRead, user, func(ctx context.Context, v *visit) (vm.FileInfo, error) {
		return v.guest.Stat(ctx, user, v.path(path))
	})
}

// ReadDir lists a directory.
func (in *Inside) ReadDir(ctx context.Context, c *vm.Call, ref, user, path string) ([]vm.FileInfo, error) {
	return ask(ctx, in, c, ref, vm.OpRead, user, func(ctx context.Context, v *visit) ([]vm.FileInfo, error) {
		return v.guest.ReadDir(ctx, user, v.path(path))
	})
}

// OpenFile returns a file and its content. The content ends with io.ErrUnexpectedEOF if
// the guest sent less than announced. The caller closes it.
func (in *Inside) OpenFile(ctx context.Context, c *vm.Call, ref, user, path string) (vm.FileInfo, *Download, error) {
	var info vm.FileInfo
	d, err := in.download(ctx, c, ref, path, user, func(ctx context.Context, v *visit) (io.ReadCloser, error) {
		var r io.ReadCloser
		var err error
		info, r, err = v.guest.Open(ctx, user, v.path(path))
		return r, err
	})
	if err != nil {
		return info, nil, err
	}
	d.whole = sha256.New()
	return info, d, nil
}

// TarDown returns a tree as a tar stream. The caller closes it.
func (in *Inside) TarDown(ctx context.Context, c *vm.Call, ref, user, path string) (io.ReadCloser, error) {
	d, err := in.download(ctx, c, ref, path, user, func(ctx context.Context, v *visit) (io.ReadCloser, error) {
		return v.guest.TarDown(ctx, user, v.path(path))
	})
	if err != nil {
		return nil, err
	}
	d.whole, d.tree = sha256.New(), newTreeSum()
	return d, nil
}

// download starts an audited stream out of a guest.
func (in *Inside) download(ctx context.Context, c *vm.Call, ref, path, user string, f func(ctx context.Context, v *visit) (io.ReadCloser, error)) (*Download, error) {
	if err := in.approved(ctx, c, ref, access.Act{Verb: vm.OpRead, User: user, What: "copy out " + path, Details: map[string]string{"to": c.To}}); err != nil {
		return nil, err
	}
	entry := fileEntry(vm.OpRead, path, user, nil)
	if c.To != "" {
		entry = fileEntry(vm.OpRead, path, user, facts{"to": clip(c.To)})
	}
	v, err := in.recorded(ctx, c, ref, user, entry)
	if err != nil {
		return nil, err
	}
	r, err := open(v, func(ctx context.Context) (io.ReadCloser, error) { return f(ctx, v) })
	if err != nil {
		return nil, err
	}
	return &Download{reader: newReader(v, r)}, nil
}

func fileEntry(op vm.Op, path, user string, more facts) vm.AuditEntry {
	entry := vm.AuditEntry{Op: op, Subject: clip(path)}
	if user != "" || len(more) > 0 {
		entry.Detail = map[string]any{}
	}
	for name, text := range more {
		entry.Detail[name] = text
	}
	if user != "" {
		entry.Detail["user"] = user
	}
	return entry
}

// WriteFile writes a file from r under a temporary name and then renames it. If r is
// shorter or longer than o.Size, the old file stays.
func (in *Inside) WriteFile(ctx context.Context, c *vm.Call, ref, user, path string, o vm.WriteOptions, r io.Reader) (vm.FileInfo, error) {
	var info vm.FileInfo
	more := facts{"as": "one file"}
	if o.Mode != 0 {
		more["mode"] = octal(o.Mode)
	}
	if o.Parents {
		more["parents"] = "yes"
	}
	err := in.upload(ctx, c, ref, path, user, more, r, func(ctx context.Context, v *visit, r io.Reader) (err error) {
		info, err = v.guest.WriteFile(ctx, user, v.path(path), o, r)
		return err
	})
	return info, err
}

// TarUp unpacks a tar stream below path.
func (in *Inside) TarUp(ctx context.Context, c *vm.Call, ref, user, path string, r io.Reader) error {
	return in.upload(ctx, c, ref, path, user, facts{"as": "an archive that is unpacked there"}, r, func(ctx context.Context, v *visit, r io.Reader) error {
		return v.guest.TarUp(ctx, user, v.path(path), r)
	})
}

// upload runs an audited stream into a guest.
func (in *Inside) upload(ctx context.Context, c *vm.Call, ref, path, user string, more facts, r io.Reader, f func(ctx context.Context, v *visit, r io.Reader) error) error {
	r, err := in.approvedUpload(ctx, c, ref, onPath(vm.OpWrite, user, path, more), r)
	if err != nil {
		return err
	}
	return in.intake(ctx, c, ref, user, fileEntry(vm.OpWrite, path, user, more), r, f)
}

// Receive runs an audited stream into a guest, as root, for a verb of another room, which
// f carries out. The entry has the verb, which the caller has had approved.
func (in *Inside) Receive(ctx context.Context, c *vm.Call, ref string, entry vm.AuditEntry, r io.Reader, f func(ctx context.Context, g engine.Guest, r io.Reader) error) error {
	return in.intake(ctx, c, ref, "", entry, r, func(ctx context.Context, v *visit, r io.Reader) error { return f(ctx, v.guest, r) })
}

func (in *Inside) intake(ctx context.Context, c *vm.Call, ref, user string, entry vm.AuditEntry, r io.Reader, f func(ctx context.Context, v *visit, r io.Reader) error) error {
	v, err := in.visit(ctx, c, ref, entry.Op, user)
	if err != nil {
		return err
	}
	sent := &counted{r: r}
	if err = v.Begin(ctx, entry); err == nil {
		sent.moved = v.guard()
		err = f(v.ctx, v, sent)
	}
	err = v.Fail(v.ctx, err)
	v.End(err, map[string]any{"bytes": sent.n.Load()})
	return err
}

// Watch reports changes below a directory until the watch is closed. Reported changes
// count as activity of the VM, the open watch does not.
func (in *Inside) Watch(ctx context.Context, c *vm.Call, ref, user, path string, recursive bool) (engine.Watch, error) {
	v, err := in.visit(ctx, c, ref, vm.OpWatch, user)
	if err != nil {
		return nil, err
	}
	w, err := open(v, func(ctx context.Context) (engine.Watch, error) {
		return v.guest.Watch(ctx, user, v.path(path), recursive)
	})
	if err != nil {
		return nil, err
	}
	v.guard()
	v.CountTraffic() // it may report nothing for days
	return &watching{Watch: w, v: v}, nil
}

// watching is a watch with its visit.
type watching struct {
	engine.Watch
	v *visit
}

func (w *watching) Next() (vm.FileEvent, error) {
	ev, err := w.Watch.Next()
	if err == nil {
		w.v.Touch()
	}
	if err != nil && !errors.Is(err, io.EOF) {
		err = w.v.Fail(w.v.ctx, err)
	}
	return ev, err
}

func (w *watching) Close() error {
	err := w.Watch.Close()
	w.v.End(nil, nil)
	return err
}
