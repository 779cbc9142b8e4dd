// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package hostile

import (
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"

	"github.com/warren-vm/warren/internal/folder"
)

// The messages are those of Linux' include/uapi/linux/fuse.h.
const (
	fuseLookup      = 1
	fuseForget      = 2
	fuseOpen        = 14
	fuseWrite       = 16
	fuseRelease     = 18
	fuseInit        = 26
	fuseOpendir     = 27
	fuseReleasedir  = 29
	fuseReaddirplus = 44

	fuseRoot  = 1
	fuseEntry = 128 // bytes of what is told of a name
)

var le = binary.LittleEndian

// fuse is a guest's kernel that sends what it likes, from one goroutine.
type fuse struct {
	t      *testing.T
	conn   net.Conn
	unique uint64
}

// given serves a directory to such a kernel.
func given(t *testing.T, dir string, rw bool) *fuse {
	t.Helper()
	real, err := filepath.EvalSymlinks(dir)
	if err != nil {
		t.Fatal(err)
	}
	d, err := folder.Open(real)
	if err != nil {
		t.Fatal(err)
	}
	here, there := net.Pipe()
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = folder.Serve(t.Context(), there, d, folder.Options{RW: rw})
	}()
	t.Cleanup(func() { here.Close(); <-done; d.Close() })
	f := &fuse{t: t, conn: here}
	if no, _ := f.ask(fuseInit, 0, words(7, 36, 1<<20, ^uint32(0))); no != 0 {
		t.Fatalf("init: %v", no)
	}
	return f
}

func words(list ...uint32) (b []byte) {
	for _, w := range list {
		b = le.AppendUint32(b, w)
	}
	return b
}

func longs(list ...uint64) (b []byte) {
	for _, l := range list {
		b = le.AppendUint64(b, l)
	}
	return b
}

func (f *fuse) message(op uint32, node uint64, body []byte) []byte {
	f.unique++
	b := append(words(uint32(40+len(body)), op), longs(f.unique, node)...)
	return append(append(b, words(0, 0, 1, 0)...), body...)
}

// ask sends a request, with what follows in the same breath, and waits for its
// answer.
func (f *fuse) ask(op uint32, node uint64, body []byte, after ...[]byte) (syscall.Errno, []byte) {
	b := f.message(op, node, body)
	unique := f.unique
	for _, more := range after {
		b = append(b, more...)
	}
	go func() { _, _ = f.conn.Write(b) }() // the host may have something to say first
	for {
		head := make([]byte, 16)
		if _, err := io.ReadFull(f.conn, head); err != nil {
			f.t.Error(err)
			return syscall.EIO, nil
		}
		rest := make([]byte, le.Uint32(head)-16)
		if _, err := io.ReadFull(f.conn, rest); err != nil {
			f.t.Error(err)
			return syscall.EIO, nil
		}
		if le.Uint64(head[8:]) == unique {
			return syscall.Errno(-int32(le.Uint32(head[4:]))), rest
		}
	}
}

func (f *fuse) forget(node uint64) []byte { return f.message(fuseForget, node, longs(1)) }

// open returns a handle; 0 = it was refused.
func (f *fuse) open(op uint32, node uint64, flags uint32) uint64 {
	if no, b := f.ask(op, node, words(flags, 0)); no == 0 {
		return le.Uint64(b)
	}
	return 0
}

func (f *fuse) lookup(dir uint64, name string, after ...[]byte) uint64 {
	if no, b := f.ask(fuseLookup, dir, append([]byte(name), 0), after...); no == 0 {
		return le.Uint64(b)
	}
	return 0
}

// TestReadOnlyFolderBesideAWritableOne: a guest that lists directories of the one
// while it forgets them, and looks up those of the other meanwhile, writes to none
// but the writable one.
func TestReadOnlyFolderBesideAWritableOne(t *testing.T) {
	const dirs, rounds = 8, 400
	mine, theirs := t.TempDir(), t.TempDir()
	for i := range dirs {
		for _, top := range []string{mine, theirs} {
			dir := filepath.Join(top, fmt.Sprint("d", i))
			if err := os.Mkdir(dir, 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(dir, "file"), []byte("precious"), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	writable, readOnly := given(t, mine, true), given(t, theirs, false)
	stop := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() { // has descriptors of its directories come and go
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
			}
			n := readOnly.lookup(fuseRoot, fmt.Sprint("d", i%dirs))
			readOnly.lookup(n, "file", readOnly.forget(n))
		}
	})
	written := 0
	for i := range rounds {
		n := writable.lookup(fuseRoot, fmt.Sprint("d", i%dirs))
		h := writable.open(fuseOpendir, n, 0)
		no, list := writable.ask(fuseReaddirplus, 0, append(longs(h, 0), words(8<<10, 0, 0, 0, 0, 0)...), writable.forget(n))
		if no != 0 {
			t.Errorf("a list: %v", no)
		}
		for len(list) > fuseEntry {
			file, length := le.Uint64(list), int(le.Uint32(list[fuseEntry+16:]))
			list = list[fuseEntry+(24+length+7)&^7:]
			if file == 0 {
				continue
			}
			if w := writable.open(fuseOpen, file, syscall.O_WRONLY); w != 0 {
				body := append(append(longs(w, 0), words(8, 0)...), longs(0)...)
				if no, _ := writable.ask(fuseWrite, file, append(append(body, words(0, 0)...), "attacked"...)); no == 0 {
					written++
				}
				writable.ask(fuseRelease, file, longs(w, 0, 0))
			}
			writable.lookup(fuseRoot, "nothing", writable.forget(file))
		}
		writable.ask(fuseReleasedir, 0, longs(h, 0, 0))
	}
	close(stop)
	wg.Wait()
	if written != rounds {
		t.Errorf("of %d files that were listed %d could be written", rounds, written)
	}
	for i := range dirs {
		if b, err := os.ReadFile(filepath.Join(theirs, fmt.Sprint("d", i), "file")); err != nil || string(b) != "precious" {
			t.Errorf("a file of the read-only folder holds %q, %v", b, err)
		}
		if b, err := os.ReadFile(filepath.Join(mine, fmt.Sprint("d", i), "file")); err != nil || string(b) != "attacked" {
			t.Errorf("a file of the writable folder holds %q, %v", b, err)
		}
	}
}
