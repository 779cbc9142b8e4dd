// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

// Package qcow opens disks that a QEMU may have written. Check reads a disk's
// header before any program opens the disk, because a header can name other files
// and hosts. Run is the one place that starts qemu-img on such a disk, confined to
// it. A guest that has taken over QEMU can write any bytes.
package qcow

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/warren-vm/warren/internal/layout"
	"github.com/warren-vm/warren/vm"
)

// ClusterSize is the cluster size of every disk that Warren makes. The header and
// all that belongs to it are in the first cluster.
const ClusterSize = 1 << clusterBits

const clusterBits = 16

// Kind is what a disk is.
type Kind int

const (
	// Layer is the disk of a VM, a generation or an image. It is not encrypted, and
	// may have a layer below it.
	Layer Kind = iota
	// Volume is the disk of a managed volume. It is encrypted and has no layer
	// below it.
	Volume
)

// Header is what a disk's header says.
type Header struct {
	Backing string // the name of the layer below; "" = none
	// Where the LUKS header and the key material of a volume are.
	LUKSOffset, LUKSLength int64
}

// The fields of a header, by their offsets (QEMU, docs/interop/qcow2.txt). Those
// from 72 on are version 3's.
const (
	atVersion       = 4
	atBackingOffset = 8
	atBackingLength = 16
	atClusterBits   = 20
	atSize          = 24
	atCrypt         = 32
	atL1Entries     = 36
	atL1            = 40
	atRefcounts     = 48
	atRefClusters   = 56
	atSnapshots     = 60
	atSnapshotTable = 64
	atIncompatible  = 72
	atCompatible    = 80
	atAutoclear     = 88
	atRefOrder      = 96
	atHeaderLength  = 100
	minHeader       = 104
	maxHeader       = 512
)

// Feature bits that a disk of Warren's may have. The others would allow an external
// data file, bitmaps, and kinds of clusters that Warren never makes.
const (
	mayIncompatible = 1<<0 | 1<<1 // not closed properly; known to be damaged
	mayCompatible   = 1 << 0      // reference counts written late
)

// Header extensions that a disk of Warren's may have.
const (
	extEnd      = 0
	extFormat   = 0xe2792aca // of the layer below
	extFeatures = 0x6803f857 // names of feature bits
	extLUKS     = 0x0537be77
)

const (
	cryptNone = 0
	cryptLUKS = 2

	maxSize        = vm.MaxDiskMiB << 20 // bytes; vm.MaxVolumeMiB is the same
	maxL1          = 32 << 20 / 8
	maxRefClusters = 8 << 20 / ClusterSize
	maxSnapshots   = 4 * vm.MaxVolumeSnapshots // including begun ones
	maxOffset      = 1 << 44                   // of anything in a disk
	maxLUKS        = 16 << 20
	minLUKS        = 592
	maxBacking     = 1023
	maxExtensions  = 16
)

// Parse reads a header from the first cluster of a disk. Its errors have kind
// Corrupt and name what a disk of that kind never has.
func Parse(cluster []byte, kind Kind) (h Header, err error) {
	be := binary.BigEndian
	if len(cluster) < ClusterSize || string(cluster[:4]) != "QFI\xfb" {
		return h, refused("it is not a qcow2 file")
	}
	cluster = cluster[:ClusterSize]
	u32 := func(at int) uint64 { return uint64(be.Uint32(cluster[at:])) }
	u64 := func(at int) uint64 { return be.Uint64(cluster[at:]) }
	crypt := uint64(cryptNone)
	if kind == Volume {
		crypt = cryptLUKS
	}
	length := u32(atHeaderLength)
	switch {
	case u32(atVersion) != 3:
		return h, refused("its version is %d", u32(atVersion))
	case u64(atIncompatible)&^mayIncompatible != 0:
		return h, refused("it has features of which an external data file may be one: %#x", u64(atIncompatible))
	case u64(atCompatible)&^mayCompatible != 0 || u64(atAutoclear) != 0:
		return h, refused("it has features %#x and %#x", u64(atCompatible), u64(atAutoclear))
	case u32(atClusterBits) != clusterBits || u32(atRefOrder) != 4:
		return h, refused("its clusters are not of %d bytes with counts of 16 bits", ClusterSize)
	case u32(atCrypt) != crypt:
		return h, refused("its encryption is of kind %d", u32(atCrypt))
	case u64(atSize) == 0 || u64(atSize) > maxSize:
		return h, refused("its size is %d", u64(atSize))
	case u32(atL1Entries) > maxL1 || !place(u64(atL1)):
		return h, refused("its first table has %d entries at %d", u32(atL1Entries), u64(atL1))
	case u32(atRefClusters) > maxRefClusters || !place(u64(atRefcounts)):
		return h, refused("its reference counts are of %d clusters at %d", u32(atRefClusters), u64(atRefcounts))
	case kind == Layer && u32(atSnapshots) != 0 || u32(atSnapshots) > maxSnapshots || u32(atSnapshots) > 0 && !place(u64(atSnapshotTable)):
		return h, refused("it has %d snapshots at %d", u32(atSnapshots), u64(atSnapshotTable))
	case length < minHeader || length > maxHeader || length%8 != 0 || len(bytes.Trim(cluster[minHeader:length], "\x00")) > 0:
		return h, refused("its header has fields that are not known, or %d bytes", length)
	}
	format, err := h.extensions(cluster, int(length), kind)
	if err != nil {
		return h, err
	}
	return h, h.backing(cluster, kind, format)
}

// place reports whether an offset is valid.
func place(offset uint64) bool {
	return offset > 0 && offset < maxOffset && offset%ClusterSize == 0
}

// extensions reads what follows the fields, up to its end, and returns the format
// of the layer below.
func (h *Header) extensions(cluster []byte, at int, kind Kind) (format string, err error) {
	be := binary.BigEndian
	for range maxExtensions {
		if at+8 > len(cluster) {
			break
		}
		what, n := be.Uint32(cluster[at:]), int(be.Uint32(cluster[at+4:]))
		at += 8
		if what == extEnd {
			return format, nil
		}
		if n < 0 || n > len(cluster)-at {
			break
		}
		data := cluster[at : at+n]
		switch {
		case what == extFeatures:
		case what == extFormat && kind == Layer && format == "":
			format = string(data)
		case what == extLUKS && kind == Volume && h.LUKSLength == 0 && n == 16:
			offset, length := be.Uint64(data), be.Uint64(data[8:])
			if !place(offset) || length < minLUKS || length > maxLUKS {
				return "", refused("its LUKS header has %d bytes at %d", length, offset)
			}
			h.LUKSOffset, h.LUKSLength = int64(offset), int64(length)
		default:
			return "", refused("its header has an extension %#x", what)
		}
		at += (n + 7) &^ 7
	}
	return "", refused("the extensions of its header have no end")
}

// backing reads the name of the layer below.
func (h *Header) backing(cluster []byte, kind Kind, format string) error {
	be := binary.BigEndian
	offset, n := be.Uint64(cluster[atBackingOffset:]), uint64(be.Uint32(cluster[atBackingLength:]))
	switch {
	case kind == Volume && h.LUKSLength == 0:
		return refused("it has no LUKS header")
	case offset == 0 && n == 0:
		return nil
	case kind == Volume:
		return refused("it names a layer below it")
	case n == 0 || n > maxBacking || offset < minHeader || offset+n > ClusterSize || offset > ClusterSize:
		return refused("the name of the layer below has %d bytes at %d", n, offset)
	case format != "qcow2":
		return refused("the layer below is of the format %q", format)
	}
	name := string(cluster[offset : offset+n])
	// QEMU does not treat a name with a colon before a slash as a path: nbd://,
	// json:{...}.
	if first, _, _ := strings.Cut(name, "/"); strings.ContainsAny(first, ":") || strings.ContainsRune(name, 0) {
		return refused("the layer below is named %q", name)
	}
	h.Backing = name
	return nil
}

func refused(format string, args ...any) error {
	return vm.Errorf(vm.Corrupt, "", "no disk of Warren's: "+format, args...)
}

// Read is Parse of an open disk. Kind Internal if the disk cannot be read.
func Read(f io.ReaderAt, kind Kind) (Header, error) {
	cluster := make([]byte, ClusterSize)
	if _, err := f.ReadAt(cluster, 0); err != nil && !errors.Is(err, io.EOF) {
		return Header{}, vm.Errorf(vm.Internal, "", "its header cannot be read: %w", err)
	} else if err != nil {
		return Header{}, refused("it is shorter than a header")
	}
	return Parse(cluster, kind)
}

// Check is Read of the file of that name, which must be a regular file; the path of
// a layer may contain links of the operator. Kinds: Corrupt, NotFound.
func Check(path string, kind Kind) (Header, error) {
	flags := os.O_RDONLY | unix.O_NONBLOCK
	if kind == Volume {
		flags |= unix.O_NOFOLLOW
	}
	f, err := os.OpenFile(path, flags, 0)
	if errors.Is(err, unix.ELOOP) {
		return Header{}, refused("it is a link")
	}
	if err != nil {
		return Header{}, layout.Error(path, err)
	}
	defer f.Close()
	if st, err := f.Stat(); err != nil {
		return Header{}, layout.Error(path, err)
	} else if !st.Mode().IsRegular() {
		return Header{}, refused("it is no regular file")
	}
	return Read(f, kind)
}
