// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package qemu

import (
	"encoding/binary"
	"os"
	"path/filepath"

	"github.com/warren-vm/warren/vm"
)

const (
	clusterBits = 16
	clusterSize = 1 << clusterBits
	// l2Covers is how many bytes of the disk one entry of the first-level table
	// covers.
	l2Covers = clusterSize / 8 * clusterSize
)

// CreateOverlay writes an empty qcow2 with a virtual size of sizeMiB above the
// qcow2 backingRel, a path relative to path's directory. It writes the format
// itself, because running qemu-img takes longer than all other files of a start. An
// existing path is refused (Exists). The file has mode 0600. Its content is durable
// on return, its name is not: the caller that gives the file its place syncs the
// directory.
func CreateOverlay(path, backingRel string, sizeMiB int) (err error) {
	if filepath.IsAbs(backingRel) || backingRel == "" || len(backingRel) > 1023 {
		return vm.Errorf(vm.Internal, path, "backing name %q is not a relative path of at most 1023 bytes", backingRel)
	}
	if sizeMiB <= 0 || sizeMiB > vm.MaxDiskMiB {
		return vm.Errorf(vm.Invalid, path, "a disk has 1 to %d MiB, not %d", vm.MaxDiskMiB, sizeMiB)
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return fileError(path, err)
	}
	defer func() {
		if cerr := f.Close(); err == nil && cerr != nil {
			err = fileError(path, cerr)
		}
		if err != nil {
			os.Remove(path)
		}
	}()
	for _, part := range overlayParts(backingRel, int64(sizeMiB)<<20) {
		if _, err := f.WriteAt(part.data, part.off); err != nil {
			return fileError(path, err)
		}
	}
	return fileError(path, f.Sync())
}

type part struct {
	off  int64
	data []byte
}

// overlayParts returns header, reference count table, one block of counts, and the
// first-level table, which is all zeros: every read goes to the backing file.
func overlayParts(backing string, size int64) []part {
	entries := (size + l2Covers - 1) / l2Covers
	l1Clusters := (entries*8 + clusterSize - 1) / clusterSize
	clusters := 3 + l1Clusters

	be := binary.BigEndian
	h := make([]byte, 0, 2048)
	h = append(h, 'Q', 'F', 'I', 0xfb)
	h = be.AppendUint32(h, 3) // version
	nameAt := len(h)
	h = be.AppendUint64(h, 0) // offset of the backing name, filled in below
	h = be.AppendUint32(h, uint32(len(backing)))
	h = be.AppendUint32(h, clusterBits)
	h = be.AppendUint64(h, uint64(size))
	h = be.AppendUint32(h, 0) // no encryption
	h = be.AppendUint32(h, uint32(entries))
	h = be.AppendUint64(h, 3*clusterSize) // first-level table
	h = be.AppendUint64(h, 1*clusterSize) // reference count table
	h = be.AppendUint32(h, 1)             // clusters of it
	h = be.AppendUint32(h, 0)             // no internal snapshots
	h = be.AppendUint64(h, 0)
	h = be.AppendUint64(h, 0)   // incompatible features
	h = be.AppendUint64(h, 0)   // compatible features
	h = be.AppendUint64(h, 0)   // autoclear features
	h = be.AppendUint32(h, 4)   // reference counts of 16 bits
	h = be.AppendUint32(h, 104) // length of this header
	h = be.AppendUint32(h, 0xe2792aca)
	h = be.AppendUint32(h, 5)
	h = append(h, "qcow2\x00\x00\x00"...) // format of the backing file
	h = be.AppendUint64(h, 0)             // end of extensions
	be.PutUint64(h[nameAt:], uint64(len(h)))
	h = append(h, backing...)

	table := be.AppendUint64(nil, 2*clusterSize)
	var counts []byte
	for range clusters {
		counts = be.AppendUint16(counts, 1)
	}
	last := part{clusters*clusterSize - 1, []byte{0}} // sets the file's length
	return []part{{0, h}, {clusterSize, table}, {2 * clusterSize, counts}, last}
}
