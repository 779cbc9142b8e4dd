// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package qcow_test

import (
	"encoding/binary"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/warren-vm/warren/internal/qcow"
	"github.com/warren-vm/warren/internal/qemu"
	"github.com/warren-vm/warren/vm"
)

var key = vm.VolumeKey("0123456789012345678901234567890123456789012")

func needImager(t *testing.T) {
	t.Helper()
	if _, err := exec.LookPath("qemu-img"); err != nil {
		t.Skip("qemu-img is not installed")
	}
}

// run is qcow.Run with the key.
func run(t *testing.T, path, verb string, args ...string) (int, string) {
	t.Helper()
	status, said, err := qcow.Run(t.Context(), qcow.Image{
		Path: path, Scratch: t.TempDir(), Keys: []vm.VolumeKey{key}, Verb: verb, Args: args,
	})
	if err != nil {
		t.Fatalf("qemu-img %s failed: %v", verb, err)
	}
	return status, said
}

// volume makes the disk of a volume.
func volume(t *testing.T, dir string) string {
	t.Helper()
	needImager(t)
	path := filepath.Join(dir, "volume.qcow2")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for {
		status, said := run(t, path, "create", "-q", "-f", "qcow2", "-o", "encrypt.format=luks,encrypt.key-secret=k0,encrypt.iter-time=10", path, "16M")
		switch {
		case status == 0:
			return path
		case !strings.Contains(said, "CPU usage"): // QEMU could not measure the host: see volume.tries
			t.Fatalf("create: %d: %s", status, said)
		}
	}
}

// layer makes the disk of a VM.
func layer(t *testing.T, dir string) string {
	t.Helper()
	path := filepath.Join(dir, "layer.qcow2")
	if err := qemu.CreateOverlay(path, "../generations/gen-a/disk.qcow2", 64); err != nil {
		t.Fatal(err)
	}
	return path
}

// foreign is what a disk must not lead to: a file, and a port of the host's
// loopback.
type foreign struct {
	file  string
	port  int
	calls atomic.Int64
}

const secret = "what another account has written"

func newForeign(t *testing.T) *foreign {
	t.Helper()
	f := &foreign{file: filepath.Join(t.TempDir(), "foreign")}
	if err := os.WriteFile(f.file, []byte(secret), 0o600); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	f.port = l.Addr().(*net.TCPAddr).Port
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			f.calls.Add(1)
			c.Close()
		}
	}()
	return f
}

func (f *foreign) nbd() string { return "nbd://127.0.0.1:" + strconv.Itoa(f.port) + "/x" }

func (f *foreign) untouched(t *testing.T, what string) {
	t.Helper()
	if data, err := os.ReadFile(f.file); err != nil || string(data) != secret {
		t.Errorf("%s: a foreign file has %d bytes, %v", what, len(data), err)
	}
	if n := f.calls.Load(); n != 0 {
		t.Errorf("%s: %d connections to the host's loopback", what, n)
	}
}

type extension struct {
	what uint32
	data string
}

const (
	extDataFile = 0x44415441
	extFormat   = 0xe2792aca
)

// forge puts extensions and a backing name into a header, and sets bits of its
// incompatible features. What the header had of extensions stays, but for the
// format of the layer below.
func forge(t *testing.T, path string, incompatible uint64, backing string, add ...extension) {
	t.Helper()
	be := binary.BigEndian
	old, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	at := int(be.Uint32(old[100:]))
	h := append([]byte{}, old[:at]...)
	put := func(what uint32, data string) {
		h = be.AppendUint32(h, what)
		h = be.AppendUint32(h, uint32(len(data)))
		h = append(h, data...)
		h = append(h, make([]byte, (8-len(data)%8)%8)...)
	}
	for {
		what, n := be.Uint32(old[at:]), int(be.Uint32(old[at+4:]))
		if what == 0 {
			break
		}
		if what != extFormat {
			put(what, string(old[at+8:at+8+n]))
		}
		at += 8 + (n+7)&^7
	}
	for _, e := range add {
		put(e.what, e.data)
	}
	put(0, "")
	be.PutUint64(h[72:], be.Uint64(h[72:])|incompatible)
	be.PutUint64(h[8:], 0)
	be.PutUint32(h[16:], 0)
	if backing != "" {
		be.PutUint64(h[8:], uint64(len(h)))
		be.PutUint32(h[16:], uint32(len(backing)))
		h = append(h, backing...)
	}
	write(t, path, h, 0)
}

func write(t *testing.T, path string, data []byte, at int64) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt(data, at); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}

func clone(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	to := filepath.Join(t.TempDir(), filepath.Base(path))
	if err := os.WriteFile(to, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return to
}
