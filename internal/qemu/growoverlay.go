// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package qemu

import (
	"encoding/binary"
	"errors"
	"os"

	"github.com/warren-vm/warren/internal/qcow"
	"github.com/warren-vm/warren/vm"
)

// The fields of a qcow2's header that a growth reads or changes, by their offsets
// (QEMU, docs/interop/qcow2.txt).
const (
	headSize     = 24 // 8 bytes; then 4 of encryption, 4 of entries of the first-level table
	headEntries  = 36
	headTable    = 40
	headIncompat = 72
	headLength   = 80
)

// GrowOverlay makes the virtual size of an unused overlay at least sizeMiB; a
// larger one stays. The added part reads as zeros. The first-level table that
// CreateOverlay and QEMU make has whole clusters, and one cluster is enough for
// vm.MaxDiskMiB, so the table never moves.
func GrowOverlay(path string, sizeMiB int) (err error) {
	if sizeMiB <= 0 || sizeMiB > vm.MaxDiskMiB {
		return vm.Errorf(vm.Invalid, path, "a disk has 1 to %d MiB, not %d", vm.MaxDiskMiB, sizeMiB)
	}
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return fileError(path, err)
	}
	defer func() { err = errors.Join(err, fileError(path, f.Close())) }()
	if _, err := qcow.Read(f, qcow.Layer); err != nil {
		return err
	}
	h := make([]byte, headLength)
	if _, err := f.ReadAt(h, 0); err != nil {
		return fileError(path, err)
	}
	be := binary.BigEndian
	size := uint64(sizeMiB) << 20
	switch {
	case be.Uint64(h[headSize:]) >= size:
		return nil
	case be.Uint64(h[headIncompat:]) != 0:
		return vm.Errorf(vm.Corrupt, path, "the overlay was not closed properly").
			WithHint("start and stop the VM, then try again")
	}
	had, want := int64(be.Uint32(h[headEntries:])), int64((size+l2Covers-1)/l2Covers)
	if had > want || had == 0 || want*8 > clusterSize {
		return vm.Errorf(vm.Corrupt, path, "the overlay's table has %d entries", had)
	}
	// The bytes behind the table may be anything: they must be zeros before the
	// header includes them.
	table := int64(be.Uint64(h[headTable:]))
	if _, err := f.WriteAt(make([]byte, (want-had)*8), table+had*8); err != nil {
		return fileError(path, err)
	}
	if err := f.Sync(); err != nil {
		return fileError(path, err)
	}
	be.PutUint64(h[headSize:], size)
	be.PutUint32(h[headEntries:], uint32(want))
	if _, err := f.WriteAt(h[headSize:headTable], headSize); err != nil {
		return fileError(path, err)
	}
	return fileError(path, f.Sync())
}
