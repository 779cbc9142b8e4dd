// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package folder

import (
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/warren-vm/warren/internal/link"
)

// kernel is a guest's kernel that says whatever a test wants.
type kernel struct {
	t    *testing.T
	conn net.Conn

	mu      sync.Mutex
	unique  uint64
	waiting map[uint64]chan []byte
	ahead   []byte // the last that was sent ahead
	heard   []note
}

// note is a message of the host that answers nothing.
type note struct {
	kind int
	body []byte
}

// serve serves a directory to a kernel of the test's.
func serve(t *testing.T, dir string, rw bool) *kernel {
	t.Helper()
	return serveAs(t, dir, Options{RW: rw})
}

func serveAs(t *testing.T, dir string, o Options) *kernel {
	t.Helper()
	f, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	here, there := net.Pipe()
	k := &kernel{t: t, conn: here, waiting: map[uint64]chan []byte{}}
	done := make(chan error, 1)
	go func() { done <- Serve(t.Context(), there, f, o) }()
	go k.read()
	t.Cleanup(func() {
		here.Close()
		if err := <-done; err != nil && !errors.Is(err, io.ErrClosedPipe) {
			t.Errorf("Serve: %v", err)
		}
		f.Close()
	})
	if no, _ := k.ask(opInit, 0, put32(nil, protoMajor, protoMinor, 1<<20, ^uint32(0))); no != 0 {
		t.Fatalf("init: %v", no)
	}
	return k
}

func (k *kernel) read() {
	for {
		head := make([]byte, outHeader)
		if _, err := io.ReadFull(k.conn, head); err != nil {
			return
		}
		b := append(head, make([]byte, le.Uint32(head)-outHeader)...)
		if _, err := io.ReadFull(k.conn, b[outHeader:]); err != nil {
			return
		}
		unique := le.Uint64(b[8:])
		k.mu.Lock()
		if unique == 0 && le.Uint32(b[4:]) == link.FolderAhead {
			k.ahead = b[outHeader:]
		} else if unique == 0 {
			k.heard = append(k.heard, note{int(le.Uint32(b[4:])), b[outHeader:]})
		}
		c := k.waiting[unique]
		delete(k.waiting, unique)
		k.mu.Unlock()
		if c != nil {
			c <- b
		}
	}
}

// ask sends a request as a group of the guest, and waits for its answer.
func (k *kernel) askAs(gid uint32, op uint32, node uint64, body []byte) (unix.Errno, []byte) {
	c := make(chan []byte, 1)
	k.mu.Lock()
	k.unique++
	unique := k.unique
	k.waiting[unique] = c
	k.mu.Unlock()
	b := put32(nil, uint32(inHeader+len(body)), op)
	b = put64(b, unique, node)
	b = append(put32(b, 0, gid, 1, 0), body...)
	if _, err := k.conn.Write(b); err != nil {
		k.t.Errorf("op %d: %v", op, err)
		return unix.EIO, nil
	}
	select {
	case b := <-c:
		return unix.Errno(-int32(le.Uint32(b[4:]))), b[outHeader:]
	case <-time.After(10 * time.Second):
		k.t.Errorf("op %d: no answer", op)
		return unix.ETIMEDOUT, nil
	}
}

// forget sends what has no answer.
func (k *kernel) forget(node uint64) {
	b := put64(put32(nil, inHeader+8, opForget), 0, node)
	if _, err := k.conn.Write(put64(put32(b, 0, 0, 1, 0), 1)); err != nil {
		k.t.Errorf("forget: %v", err)
	}
}

func (k *kernel) ask(op uint32, node uint64, body []byte) (unix.Errno, []byte) {
	return k.askAs(0, op, node, body)
}

func text(list ...string) (b []byte) {
	for _, s := range list {
		b = append(append(b, s...), 0)
	}
	return b
}

// find looks a name up and returns its node; 0 = there is none.
func (k *kernel) find(dir uint64, name string) uint64 {
	no, b := k.ask(opLookup, dir, text(name))
	if no != 0 {
		return 0
	}
	return le.Uint64(b)
}

func createBody(flags, mode uint32, name string) []byte {
	return append(put32(nil, flags, mode, 0, 0), text(name)...)
}

func readBody(handle uint64, size uint32) []byte {
	return put32(put64(put32(put64(nil, handle, 0), size, 0), 0), 0, 0)
}

func writeBody(handle uint64, data string) []byte {
	return append(put32(put64(put32(put64(nil, handle, 0), uint32(len(data)), 0), 0), 0, 0), data...)
}

func setattrBody(valid, mode uint32, size uint64) []byte {
	b := put64(put32(nil, valid, 0), 0, size, 0, 0, 0, 0)
	return put32(b, 0, 0, 0, mode, 0, 1000, 1000, 0)
}

// open opens a file by its node and reads it.
func (k *kernel) content(node uint64) (string, unix.Errno) {
	no, b := k.ask(opOpen, node, put32(nil, unix.O_RDONLY, 0))
	if no != 0 {
		return "", no
	}
	no, data := k.ask(opRead, node, readBody(le.Uint64(b), 4096))
	return string(data), no
}

// await waits until the host has said what a test looks for.
func (k *kernel) await(what string, match func(note) bool) {
	k.t.Helper()
	for deadline := time.Now().Add(5 * time.Second); time.Now().Before(deadline); {
		k.mu.Lock()
		for _, n := range k.heard {
			if match(n) {
				k.mu.Unlock()
				return
			}
		}
		k.mu.Unlock()
		<-time.After(5 * time.Millisecond)
	}
	k.t.Errorf("the guest was not told: %s; it heard %v", what, k.heard)
}

func nudgeAbout(kind int, path string) func(note) bool {
	return func(n note) bool { return n.kind == kind && len(n.body) > 32 && string(n.body[32:]) == path }
}

// put writes a file on the host.
func put(t *testing.T, path, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}
