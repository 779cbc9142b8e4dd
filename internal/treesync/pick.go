// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package treesync

import (
	"bufio"
	"context"
	"io"
	"os"
	"path"

	"github.com/warren-vm/warren/vm"
)

// MaxPicked is how many files one Pick takes at most, and MaxPickedNames how many
// bytes their names have.
const (
	MaxPicked      = 2000
	MaxPickedNames = 256 << 10
)

// picked is the line before a file's content.
type picked struct {
	Path vm.GuestPath `json:"path"`
	Size int64        `json:"size"`
	Gone bool         `json:"gone,omitempty"` // it is not there any more, or is no file; no content follows
	End  bool         `json:"end,omitempty"`  // the last line
}

// Pick writes files to w in the order of names. A file that becomes shorter
// meanwhile is filled with zeros: its digest tells.
func Pick(ctx context.Context, root *os.Root, names []vm.GuestPath, w io.Writer) error {
	out := bufio.NewWriterSize(w, 128<<10)
	in := walker{root: root}
	defer in.close()
	for _, p := range names {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := checkPath(string(p)); err != nil {
			return err
		}
		if err := pickOne(&in, string(p), out); err != nil {
			return err
		}
	}
	if err := writeLine(out, picked{End: true}); err != nil {
		return err
	}
	return out.Flush()
}

func pickOne(in *walker, p string, out *bufio.Writer) error {
	gone := picked{Path: vm.GuestPath(p), Gone: true}
	d, err := in.dir(path.Dir(p))
	if err != nil {
		return writeLine(out, gone)
	}
	f, err := openFile(d, path.Base(p))
	if err != nil {
		return writeLine(out, gone)
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil || !st.Mode().IsRegular() {
		return writeLine(out, gone)
	}
	if err := writeLine(out, picked{Path: vm.GuestPath(p), Size: st.Size()}); err != nil {
		return err
	}
	n, err := io.Copy(out, io.LimitReader(f, st.Size()))
	if err != nil {
		return err
	}
	_, err = io.CopyN(out, zeros{}, st.Size()-n)
	return err
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

// picking reads what Pick wrote.
type picking struct{ in *lines }

// next returns the content of the file p, which must be the next one. ok is false
// if it is not there any more or has another size. The content must be read to
// its end before the next call.
func (p *picking) next(name vm.GuestPath, size int64) (r io.Reader, ok bool, err error) {
	var h picked
	if err := p.in.next(&h); err != nil {
		return nil, false, err
	}
	switch {
	case h.End || h.Path != name || h.Size < 0:
		return nil, false, fault("another file was sent than was asked for")
	case h.Gone:
		return nil, false, nil
	case h.Size != size:
		_, err := io.CopyN(io.Discard, p.in.in, h.Size)
		return nil, false, err
	}
	return io.LimitReader(p.in.in, size), true, nil
}

// end reads the last line.
func (p *picking) end() error {
	var h picked
	if err := p.in.next(&h); err != nil {
		return err
	}
	if !h.End {
		return fault("more files were sent than were asked for")
	}
	return p.in.drained()
}

// walker opens directories of a tree and keeps the last one open. It follows no
// link.
type walker struct {
	root *os.Root
	at   string
	d    *os.Root // nil = none
	fd   *os.File // the directory of the last call of dir, for system calls; nil = not opened
}

func (w *walker) dir(at string) (*os.Root, error) {
	if w.at == at && w.d != nil {
		return w.d, nil
	}
	if at == "." && w.d == nil {
		return w.root, nil
	}
	w.close()
	if at == "." {
		return w.root, nil
	}
	for i := 0; i <= len(at); i++ {
		if i < len(at) && at[i] != '/' {
			continue
		}
		if st, err := w.root.Lstat(at[:i]); err != nil {
			return nil, err
		} else if !st.IsDir() {
			return nil, vm.Errorf(vm.Invalid, vm.GuestPath(at[:i]).String(), "is no directory")
		}
	}
	d, err := w.root.OpenRoot(at)
	if err != nil {
		return nil, err
	}
	w.at, w.d = at, d
	return d, nil
}

// file returns the directory that dir has returned, as a file.
func (w *walker) file(d *os.Root) (f *os.File, err error) {
	if w.fd == nil {
		w.fd, err = d.Open(".")
	}
	return w.fd, err
}

func (w *walker) close() {
	if w.fd != nil {
		_ = w.fd.Close() // nothing was written through it
		w.fd = nil
	}
	if w.d != nil {
		_ = w.d.Close()
		w.d = nil
	}
}
