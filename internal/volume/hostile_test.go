// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package volume

import (
	"bytes"
	"encoding/binary"
	"net"
	"os"
	"path/filepath"
	"testing"

	"github.com/warren-vm/warren/vm"
)

// The header of a volume was rewritten by the QEMU of a guest, to have another
// file of the host cut and a port of its loopback called. No step that serve
// takes with the volume does either; unlocking it puts the header back.
func TestHostileHeader(t *testing.T) {
	s := newStore(t)
	id, d := made(t, s, vm.VolumeSlotSpec{})
	key := open(t, s, id, vm.VolumeSecret{})
	foreign := filepath.Join(t.TempDir(), "foreign")
	if err := os.WriteFile(foreign, []byte("another's"), 0o600); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	called := make(chan struct{}, 100)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			called <- struct{}{}
			c.Close()
		}
	}()
	whole, err := os.ReadFile(d.Disk())
	if err != nil {
		t.Fatal(err)
	}
	for name, spoil := range map[string]func(h []byte){
		"data file": func(h []byte) {
			h[79] |= 4
			extend(h, 0x44415441, foreign)
		},
		"nbd": func(h []byte) {
			at := extend(h, 0xe2792aca, "raw")
			url := "nbd://" + l.Addr().String() + "/x"
			binary.BigEndian.PutUint64(h[8:], uint64(at))
			binary.BigEndian.PutUint32(h[16:], uint32(len(url)))
			copy(h[at:], url)
		},
	} {
		spoilt := bytes.Clone(whole)
		spoil(spoilt)
		for step, do := range map[string]func() error{
			"grow":     func() error { return s.Grow(t.Context(), id, key, 128) },
			"snapshot": func() error { return s.Snapshot(t.Context(), id, key, "vs-aaaaaaaa") },
			"rotate":   func() error { _, err := s.Rotate(t.Context(), id, key); return err },
			"back up":  func() error { return s.BackUp(id) },
		} {
			if err := os.WriteFile(d.Disk(), spoilt, 0o600); err != nil {
				t.Fatal(err)
			}
			if err := do(); vm.KindOf(err) != vm.Corrupt {
				t.Errorf("on a disk with a foreign %s, %s: %v, want corrupt", name, step, err)
			}
		}
		got, recovered, err := s.Open(t.Context(), id, vm.VolumeSecret{}, false)
		if err != nil || !recovered || !bytes.Equal(got, key) {
			t.Errorf("%s: recovered %v, %v", name, recovered, err)
		}
		if data, err := os.ReadFile(foreign); err != nil || string(data) != "another's" {
			t.Errorf("%s: another's file has %d bytes, %v", name, len(data), err)
		}
		select {
		case <-called:
			t.Errorf("%s: the host's loopback was called", name)
		default:
		}
	}
}

// extend puts an extension at the end of a header, and says where there is room
// behind it.
func extend(h []byte, what uint32, data string) int {
	be := binary.BigEndian
	at := int(be.Uint32(h[100:]))
	for be.Uint32(h[at:]) != 0 {
		at += 8 + (int(be.Uint32(h[at+4:]))+7)&^7
	}
	be.PutUint32(h[at:], what)
	be.PutUint32(h[at+4:], uint32(len(data)))
	at += 8 + copy(h[at+8:], data)
	return (at+7)&^7 + 8 // after the end of the extensions
}
