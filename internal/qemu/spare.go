// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package qemu

import (
	"context"
	"errors"
	"os"

	"golang.org/x/sys/unix"

	"github.com/warren-vm/warren/internal/layout"
)

// A capture copies the memory file that the machine was started on, which never
// changes. For a machine that is captured repeatedly, the next copy is made between
// two captures: the spare.

// spareRoom is what the disk must have free, in addition to four times the
// memory, for a spare to be made.
const spareRoom = 4 << 30

// MakeSpare copies the machine's base for the next capture and writes the copy back
// to the disk, so that less is left to write after the capture. It makes none if
// there is one already, if the base may hold data of a volume, or if the disk lacks
// room. Its owner removes it with DropSpare.
func (p *Process) MakeSpare(ctx context.Context) error {
	s := p.Machine()
	path := layout.VMDir(s.Dir).SpareRAM()
	size := int64(s.Plugged.Boot(s.Size).MemoryMiB) << 20
	var st unix.Statfs_t
	if s.Generation == nil || s.Generation.Secret || fileExists(path) || unix.Statfs(s.Dir, &st) != nil || int64(st.Bavail)*st.Bsize < spareRoom+4*size {
		return nil
	}
	tmp := path + ".tmp"
	if err := os.Remove(tmp); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fileError(tmp, err)
	}
	ram, err := createRAM(ctx, tmp, s.Generation.RAM, size)
	if err != nil {
		return err
	}
	if err := os.Rename(tmp, path); err != nil {
		ram.discard()
		return fileError(path, err)
	}
	// From now on a capture can take it; the capture writes back what is left.
	err = fileError(path, ram.file.Sync())
	if err != nil {
		os.Remove(path) // its data may be lost
	}
	return errors.Join(err, ram.close())
}

// DropSpare removes what MakeSpare has made, if it is still there.
func (p *Process) DropSpare() {
	path := layout.VMDir(p.Spec.Dir).SpareRAM()
	os.Remove(path)
	os.Remove(path + ".tmp")
}

// takeSpare renames the spare to path; ok is false when there is none.
func takeSpare(spare, path string, size int64) (r *ramFile, ok bool) {
	if st, err := os.Stat(spare); err != nil || st.Size() != size || os.Rename(spare, path) != nil {
		return nil, false
	}
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err == nil {
		r, err = mapRAM(f, size)
	}
	if err == nil {
		err = r.note()
	}
	if err != nil { // it is made again
		if r != nil {
			_ = r.close()
		}
		os.Remove(path)
		return nil, false
	}
	return r, true
}
