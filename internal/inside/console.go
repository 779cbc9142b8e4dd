// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package inside

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"time"

	"github.com/warren-vm/warren/vm"
)

// followEvery is how often a followed console log is checked for new bytes.
const followEvery = 250 * time.Millisecond

// ConsoleLog returns what the guest wrote to its serial console, from an offset within
// the kept part; a negative offset counts from the end. It works in every state of the
// VM. With follow it continues until ctx ends or the VM is deleted. The caller closes it.
func (in *Inside) ConsoleLog(ctx context.Context, c *vm.Call, ref string, from int64, follow bool) (io.ReadCloser, int64, error) {
	if err := c.Actor.OwnerOnly(ref); err != nil {
		return nil, 0, vm.WithOp(vm.OpRead, ref, err)
	}
	rec, err := in.cfg.Engine.Get(ctx, c, ref)
	if err != nil {
		return nil, 0, vm.WithOp(vm.OpRead, ref, err)
	}
	r := &consoleReader{in: in, ctx: ctx, call: c, id: rec.ID, path: in.cfg.Dir.ConsoleLog(rec.ID), follow: follow}
	offset, err := r.open(from)
	if err != nil {
		return nil, 0, vm.WithOp(vm.OpRead, ref, vm.Errorf(vm.Internal, r.path, "%w", err))
	}
	return r, offset, nil
}

// consoleReader reads the older half of a console log, then the newer one, then what is
// appended.
type consoleReader struct {
	in     *Inside
	ctx    context.Context
	call   *vm.Call
	id     vm.ID
	path   string
	follow bool
	files  []*os.File // still to be read, oldest first; the last one grows
}

// open opens the files and seeks to the offset, which it returns clamped.
func (r *consoleReader) open(from int64) (int64, error) {
	var sizes []int64
	var total int64
	for _, name := range []string{r.path + ".1", r.path} {
		f, err := os.Open(name)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			_ = r.Close()
			return 0, err
		}
		r.files = append(r.files, f)
		st, err := f.Stat()
		if err != nil {
			_ = r.Close()
			return 0, err
		}
		sizes = append(sizes, st.Size())
		total += st.Size()
	}
	if from < 0 {
		from += total
	}
	from = min(max(from, 0), total)
	left := from
	for i, size := range sizes {
		skip := min(left, size)
		if _, err := r.files[i].Seek(skip, io.SeekStart); err != nil {
			_ = r.Close()
			return 0, err
		}
		left -= skip
	}
	return from, nil
}

func (r *consoleReader) Read(p []byte) (int, error) {
	for {
		for len(r.files) > 0 {
			n, err := r.files[0].Read(p)
			if n > 0 || (err != nil && !errors.Is(err, io.EOF)) {
				return n, err
			}
			if len(r.files) == 1 {
				break
			}
			_ = r.files[0].Close()
			r.files = r.files[1:]
		}
		if !r.follow {
			return 0, io.EOF
		}
		if err := r.await(); err != nil {
			return 0, err
		}
	}
}

// await waits a moment and opens a log that was created or rotated meanwhile.
func (r *consoleReader) await() error {
	if _, err := r.in.cfg.Engine.Get(r.ctx, r.call, string(r.id)); vm.KindOf(err) == vm.NotFound {
		return io.EOF
	}
	after, stop := r.in.cfg.Clock.After(followEvery)
	defer stop()
	select {
	case <-after:
	case <-r.ctx.Done():
		return context.Cause(r.ctx)
	case <-r.in.life.Done():
		return io.EOF
	}
	f, err := os.Open(r.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return vm.Errorf(vm.Internal, r.path, "%w", err)
	}
	if len(r.files) > 0 && sameFile(f, r.files[len(r.files)-1]) {
		return f.Close()
	}
	r.files = append(r.files, f)
	return nil
}

func sameFile(a, b *os.File) bool {
	sa, errA := a.Stat()
	sb, errB := b.Stat()
	return errA == nil && errB == nil && os.SameFile(sa, sb)
}

func (r *consoleReader) Close() error {
	var errs []error
	for _, f := range r.files {
		errs = append(errs, f.Close())
	}
	r.files = nil
	return errors.Join(errs...)
}
