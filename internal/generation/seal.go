// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package generation

import (
	"context"

	"github.com/warren-vm/warren/internal/qemu"
	"github.com/warren-vm/warren/internal/seal"
	"github.com/warren-vm/warren/vm"
)

// SealKey makes a key, wrapped by the host's key, which is made at the first use.
func (s Store) SealKey() ([]byte, error) {
	host, err := seal.EnsureHostKey(s.Dir.HostKey())
	if err != nil {
		return nil, err
	}
	key, err := host.NewKey()
	return key.Wrapped, err
}

func (s Store) key(wrapped []byte) (seal.Key, error) {
	host, err := seal.LoadHostKey(s.Dir.HostKey())
	if err != nil {
		return seal.Key{}, err
	}
	return host.Key(wrapped)
}

// Seal compresses and encrypts a generation's memory and returns its size on the
// disk. It may be called again after a crash.
func (s Store) Seal(ctx context.Context, id vm.GenerationID, wrapped []byte) (int64, error) {
	return s.withKey(id, wrapped, func(key seal.Key, m vm.Manifest) error { return seal.Generation(ctx, s.dir(id), key, m) })
}

// Open makes the plain files for a start; the sealed files stay until DropSealed.
// It may be called again after a crash. Kinds: Corrupt, NoSpace.
func (s Store) Open(ctx context.Context, id vm.GenerationID, wrapped []byte) error {
	_, err := s.withKey(id, wrapped, func(key seal.Key, m vm.Manifest) error { return seal.Open(ctx, s.dir(id), key, m) })
	return err
}

// DropSealed makes the files of Open durable and removes the sealed files.
func (s Store) DropSealed(ctx context.Context, id vm.GenerationID) (int64, error) {
	m, err := s.Load(id)
	if err != nil {
		return 0, err
	}
	if err := seal.DropSealed(ctx, s.dir(id), m); err != nil {
		return 0, err
	}
	return s.dataBytes(id), nil
}

func (s Store) withKey(id vm.GenerationID, wrapped []byte, do func(seal.Key, vm.Manifest) error) (int64, error) {
	key, err := s.key(wrapped)
	if err != nil {
		return 0, err
	}
	m, err := s.Load(id)
	if err != nil {
		return 0, err
	}
	if err := do(key, m); err != nil {
		return 0, err
	}
	return s.dataBytes(id), nil
}

// dataBytes is the space of the generation's own files on the disk; absent files
// take nothing.
func (s Store) dataBytes(id vm.GenerationID) (sum int64) {
	dir := s.dir(id)
	modules, _ := s.modules(id) // fails only for a bad pattern
	for _, path := range append(modules, dir.Disk(), dir.RAM(), dir.Device(), dir.SealedRAM(), dir.SealedDevice()) {
		if n, err := qemu.DataBytes(path); err == nil {
			sum += n
		}
	}
	return sum
}
