// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"errors"
	"syscall"
	"unsafe"
)

// tapeSize is how much output a terminal keeps.
const tapeSize = 1 << 20

// tape keeps the last tapeSize bytes of a terminal's output, by their absolute
// offsets. Its memory is a memfd, so that it survives an upgrade, and only
// written pages cost memory. It is not safe for concurrent use.
type tape struct {
	fd  int
	mem []byte // nil = freed
	end int64
}

// newTape makes an empty tape.
func newTape() (*tape, error) {
	fd, err := memfd()
	if err != nil {
		return nil, err
	}
	return mapTape(fd, 0)
}

// mapTape maps the memory of a descriptor.
func mapTape(fd int, end int64) (*tape, error) {
	if err := syscall.Ftruncate(fd, tapeSize); err != nil {
		_ = syscall.Close(fd)
		return nil, err
	}
	mem, err := syscall.Mmap(fd, 0, tapeSize, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED)
	if err != nil {
		_ = syscall.Close(fd)
		return nil, err
	}
	return &tape{fd: fd, mem: mem, end: end}, nil
}

// start is the offset of the oldest kept byte.
func (t *tape) start() int64 {
	if t.mem == nil {
		return t.end
	}
	return max(0, t.end-tapeSize)
}

func (t *tape) write(p []byte) {
	if t.mem == nil {
		return
	}
	if skip := len(p) - tapeSize; skip > 0 {
		t.end += int64(skip)
		p = p[skip:]
	}
	for len(p) > 0 {
		n := copy(t.mem[t.end%tapeSize:], p)
		t.end += int64(n)
		p = p[n:]
	}
}

// read copies the output after an offset, which is between start and end.
func (t *tape) read(b []byte, at int64) int {
	if t.mem == nil {
		return 0
	}
	b = b[:min(int64(len(b)), t.end-at)]
	n := copy(b, t.mem[at%tapeSize:])
	return n + copy(b[n:], t.mem)
}

// since returns a copy of the output after an offset, and the offset at which it begins.
func (t *tape) since(at int64) ([]byte, int64) {
	at = min(max(at, t.start()), t.end)
	b := make([]byte, t.end-at)
	return b[:t.read(b, at)], at
}

// free releases the memory.
func (t *tape) free() {
	if t.mem != nil {
		_ = syscall.Munmap(t.mem)
		_ = syscall.Close(t.fd)
		t.mem = nil
	}
}

// memfd creates anonymous memory with a descriptor.
func memfd() (int, error) {
	name := [...]byte{'w', 'a', 'r', 'r', 'e', 'n', 0}
	r, _, e := syscall.Syscall(sysMemfdCreate, uintptr(unsafe.Pointer(&name[0])), 1 /* MFD_CLOEXEC */, 0)
	if e != 0 {
		return 0, e
	}
	return int(r), nil
}

// sysMemfdCreate is the number of memfd_create, which package syscall lacks.
const sysMemfdCreate = 319

// fill creates anonymous memory that holds b.
func fill(b []byte) (int, error) {
	fd, err := memfd()
	if err != nil {
		return 0, err
	}
	for off := 0; off < len(b); {
		n, err := syscall.Pwrite(fd, b[off:], int64(off))
		if err != nil {
			return 0, errors.Join(err, syscall.Close(fd))
		}
		off += n
	}
	return fd, nil
}
