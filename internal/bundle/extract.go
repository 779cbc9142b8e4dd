// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package bundle

import (
	"bytes"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/warren-vm/warren/internal/layout"
)

// Extractor makes files of entries. The zero value is ready. It serves one goroutine.
type Extractor struct {
	dirs map[string]bool // that it has made
	buf  []byte
}

// Write makes one new file of an entry, with the entry's mode, and with holes where it has
// zeros. It makes the directories above it (0700). It syncs nothing. Kinds: Exists, NoSpace,
// Denied, and those of r.
func (x *Extractor) Write(path string, e Entry, r io.Reader) (err error) {
	if dir := filepath.Dir(path); !x.dirs[dir] {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return layout.Error(dir, err)
		}
		if x.dirs == nil {
			x.dirs = map[string]bool{}
		}
		x.dirs[dir] = true
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, fs.FileMode(e.Mode)&0o777)
	if err != nil {
		return layout.Error(path, err)
	}
	defer func() {
		if closeErr := f.Close(); err == nil {
			err = layout.Error(path, closeErr)
		}
	}()
	if err := f.Chmod(fs.FileMode(e.Mode) & 0o777); err != nil { // whatever the umask is
		return layout.Error(path, err)
	}
	if x.buf == nil {
		x.buf = make([]byte, 1<<20)
	}
	return x.sparse(f, e.Size, r)
}

// hole is how many bytes of zeros at least are not written.
const hole = 4 << 10

var zeros [hole]byte

func (x *Extractor) sparse(f *os.File, size int64, r io.Reader) error {
	for at := int64(0); at < size; {
		n, err := io.ReadFull(r, x.buf[:min(int64(len(x.buf)), size-at)])
		if err != nil {
			return err
		}
		for _, part := range runs(x.buf[:n]) {
			if _, err := f.WriteAt(x.buf[part[0]:part[1]], at+int64(part[0])); err != nil {
				return layout.Error(f.Name(), err)
			}
		}
		at += int64(n)
	}
	return layout.Error(f.Name(), f.Truncate(size))
}

// runs are the ranges of a buffer that are not zeros.
func runs(b []byte) (list [][2]int) {
	for at := 0; at < len(b); at += hole {
		end := min(at+hole, len(b))
		switch {
		case bytes.Equal(b[at:end], zeros[:end-at]):
		case len(list) > 0 && list[len(list)-1][1] == at:
			list[len(list)-1][1] = end
		default:
			list = append(list, [2]int{at, end})
		}
	}
	return list
}
