// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package volume

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"io/fs"
	"os"

	"github.com/warren-vm/warren/internal/layout"
	"github.com/warren-vm/warren/vm"
)

// Store holds the volumes of a data directory. It may be copied. Calls about one
// volume must not overlap.
type Store struct {
	Dir layout.Dir
}

func (s Store) dir(id vm.VolumeID) layout.VolumeDir { return layout.VolumeDir(s.Dir.Volume(id)) }

// Disk is the file that a machine plugs in.
func (s Store) Disk(id vm.VolumeID) string { return s.dir(id).Disk() }

// keyBytes is the size of a volume's key: 256 bits.
const keyBytes = 32

// newKey makes a random key. It is text, because QEMU takes a LUKS passphrase as
// UTF-8.
func newKey() vm.VolumeKey {
	raw := make([]byte, keyBytes)
	_, _ = rand.Read(raw) // never fails
	return base64.RawStdEncoding.AppendEncode(nil, raw)
}

// Create makes a volume's files, with one slot. On an error it removes them.
func (s Store) Create(ctx context.Context, id vm.VolumeID, sizeMiB int, slot vm.VolumeSlotSpec) (err error) {
	if err := layout.MakeDir(s.Dir.Volumes()); err != nil {
		return err
	}
	tmp, err := layout.Temp(s.Dir.Volumes())
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	key := newKey()
	defer clear(key)
	d := layout.VolumeDir(tmp)
	first, err := s.wrap(id, key, slot)
	if err != nil {
		return err
	}
	if err := saveSlots(d, slots{Format: slotsFormat, Slots: []wrapped{first}}); err != nil {
		return err
	}
	if err := makeDisk(ctx, d.Disk(), key, sizeMiB); err != nil {
		return err
	}
	if err := backUp(d); err != nil {
		return err
	}
	return layout.Publish(tmp, s.Dir.Volume(id))
}

// Remove erases a volume: first the wrapped keys, without which the rest is noise.
// Absent files are no error.
func (s Store) Remove(id vm.VolumeID) error {
	d := s.dir(id)
	if err := erase(d.Slots()); err != nil {
		return err
	}
	if err := os.RemoveAll(string(d)); err != nil {
		return layout.Error(string(d), err)
	}
	return nil
}

// erase overwrites a small file before it removes it: a disk may keep the blocks.
func erase(path string) error {
	st, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return layout.Error(path, err)
	}
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return layout.Error(path, err)
	}
	_, err = f.Write(make([]byte, st.Size()))
	err = errors.Join(err, f.Sync(), f.Close())
	if err == nil {
		err = os.Remove(path)
	}
	return layout.Error(path, err)
}

// List returns the ids of all volumes that have files here, and removes the remains
// of unfinished creations.
func (s Store) List() ([]vm.VolumeID, error) {
	entries, err := os.ReadDir(s.Dir.Volumes())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, layout.Error(s.Dir.Volumes(), err)
	}
	var out []vm.VolumeID
	for _, e := range entries {
		switch {
		case layout.IsTemp(e.Name()):
			if err := os.RemoveAll(s.Dir.Volume(vm.VolumeID(e.Name()))); err != nil {
				return nil, layout.Error(e.Name(), err)
			}
		case vm.IsVolumeID(e.Name()):
			out = append(out, vm.VolumeID(e.Name()))
		}
	}
	return out, nil
}

// Open returns the key of a volume for a secret, after it has checked the disk: the
// header, and that the key opens it. It does not check a disk that a machine uses.
// recovered reports that the header was damaged and restored from its copy. Kinds:
// Denied, without the part of the secret that was wrong, Corrupt, NotFound.
func (s Store) Open(ctx context.Context, id vm.VolumeID, secret vm.VolumeSecret, inUse bool) (key vm.VolumeKey, recovered bool, err error) {
	key, err = s.unwrap(id, secret)
	if err != nil {
		return nil, false, err
	}
	defer func() {
		if err != nil {
			clear(key)
			key = nil
		}
	}()
	d := s.dir(id)
	if inUse {
		return key, false, nil
	}
	if recovered, err = recoverHeader(d); err != nil {
		return key, false, err
	}
	if err = checkDisk(ctx, id, d.Disk(), key); err != nil {
		return key, recovered, err
	}
	return key, recovered, backUp(d)
}

// Grow makes an unused volume larger.
func (s Store) Grow(ctx context.Context, id vm.VolumeID, key vm.VolumeKey, sizeMiB int) error {
	d := s.dir(id)
	if err := growDisk(ctx, d.Disk(), key, sizeMiB); err != nil {
		return err
	}
	return backUp(d)
}

// Used is the space that the volume takes on the host's disk.
func (s Store) Used(id vm.VolumeID) (int64, error) { return diskUsage(s.dir(id).Disk()) }
