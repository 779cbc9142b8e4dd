// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package qcow

import (
	"encoding/binary"
	"errors"
	"io"

	"github.com/warren-vm/warren/vm"
)

const (
	l2Entries  = ClusterSize / 8
	groupBytes = l2Entries * ClusterSize // of the disk, that one second-level table maps

	// Bits of an entry (QEMU, docs/interop/qcow2.txt).
	entryOffset     = 0x00ff_ffff_ffff_fe00
	entryCompressed = 1 << 62
	entryZero       = 1 << 0

	maxGroups = 64 // that a chain keeps in memory, 128 KiB each
	maxLayers = 128
)

// DiskLayer is one file of a chain. Chains may share it.
type DiskLayer struct {
	file io.ReaderAt
	size int64 // of the disk, not of the file
	l1   []uint64
}

// OpenLayer reads the header and the first-level table of a disk of kind Layer. The
// file stays the caller's. Kinds: Corrupt, Internal.
func OpenLayer(file io.ReaderAt) (*DiskLayer, error) {
	head := make([]byte, ClusterSize)
	if err := readFull(file, head, 0); err != nil {
		return nil, err
	}
	if _, err := Parse(head, Layer); err != nil {
		return nil, err
	}
	be := binary.BigEndian
	l := &DiskLayer{file: file, size: int64(be.Uint64(head[atSize:]))}
	want := (l.size + groupBytes - 1) / groupBytes
	if n := int64(be.Uint32(head[atL1Entries:])); n < want {
		return nil, refused("its first table has %d entries, its size needs %d", n, want)
	}
	table := make([]byte, want*8)
	if err := readFull(file, table, int64(be.Uint64(head[atL1:]))); err != nil {
		return nil, err
	}
	l.l1 = make([]uint64, want)
	for i := range l.l1 {
		l.l1[i] = be.Uint64(table[i*8:]) & entryOffset
		if l.l1[i] != 0 && !place(l.l1[i]) {
			return nil, refused("a table lies at %d", l.l1[i])
		}
	}
	return l, nil
}

// Chain reads a disk through its layers, without QEMU. It follows nothing that a
// layer's header names: the caller gives the layers. The methods of a chain are
// for one goroutine.
type Chain struct {
	layers []*DiskLayer // the top first
	groups map[int64][]cluster
	order  []int64 // of groups, the oldest first
}

// cluster is where a cluster of the disk lies; without a layer it is zeros.
type cluster struct {
	layer  *DiskLayer
	offset int64
}

// NewChain joins layers, the top first. A layer must not be smaller than the one
// below. Kind Corrupt.
func NewChain(layers ...*DiskLayer) (*Chain, error) {
	if len(layers) == 0 || len(layers) > maxLayers {
		return nil, refused("it has %d layers", len(layers))
	}
	for i, l := range layers[1:] {
		if l.size > layers[i].size {
			return nil, refused("a layer has %d bytes, the one above it %d", l.size, layers[i].size)
		}
	}
	return &Chain{layers: layers, groups: map[int64][]cluster{}}, nil
}

// Size is the size of the disk in bytes.
func (c *Chain) Size() int64 { return c.layers[0].size }

// ReadAt reads the disk as a guest sees it.
func (c *Chain) ReadAt(p []byte, off int64) (n int, err error) {
	for n < len(p) {
		at := off + int64(n)
		if at < 0 || at >= c.Size() {
			return n, io.EOF
		}
		part := p[n:min(len(p), n+int(ClusterSize-at%ClusterSize))]
		part = part[:min(int64(len(part)), c.Size()-at)]
		if err := c.readCluster(part, at); err != nil {
			return n, err
		}
		n += len(part)
	}
	return n, nil
}

// readCluster reads bytes of one cluster.
func (c *Chain) readCluster(p []byte, at int64) error {
	group, err := c.group(at / groupBytes)
	if err != nil {
		return err
	}
	clear(p)
	at2 := group[at%groupBytes/ClusterSize]
	if at2.layer == nil {
		return nil
	}
	// What a layer has beyond its end is not shown by the layers above it.
	visible := min(int64(len(p)), at2.layer.size-at)
	if visible <= 0 {
		return nil
	}
	_, err = at2.layer.file.ReadAt(p[:visible], at2.offset+at%ClusterSize)
	if err != nil && !errors.Is(err, io.EOF) {
		return vm.Errorf(vm.Internal, "", "a disk cannot be read: %w", err)
	}
	return nil // a file may end inside its last cluster, whose rest is zeros
}

// Zeros returns how many bytes from an offset on no layer has, up to a bound. They
// read as zeros. 0 = the byte there may be anything.
func (c *Chain) Zeros(off, most int64) (int64, error) {
	end := min(off+most, c.Size())
	at := off
	for at < end {
		group, err := c.group(at / groupBytes)
		if err != nil {
			return 0, err
		}
		if group[at%groupBytes/ClusterSize].layer != nil {
			break
		}
		at += ClusterSize - at%ClusterSize
	}
	return max(0, min(at, end)-off), nil
}

// Differ calls f for each run of clusters that two disks do not have at the same
// place of the same file; outside of these runs they are equal. A disk that ends
// earlier is taken for zeros there. An error of f ends it.
func Differ(a, b *Chain, f func(off, n int64) error) error {
	size := max(a.Size(), b.Size())
	from, to := int64(0), int64(0) // the run so far
	for g := int64(0); g*groupBytes < size; g++ {
		if a.sameTables(b, g) {
			continue
		}
		ga, err := a.group(g)
		if err != nil {
			return err
		}
		gb, err := b.group(g)
		if err != nil {
			return err
		}
		for i := range ga {
			at := g*groupBytes + int64(i)*ClusterSize
			if ga[i] == gb[i] || at >= size {
				continue
			}
			if at != to {
				if to > from {
					if err := f(from, to-from); err != nil {
						return err
					}
				}
				from = at
			}
			to = min(at+ClusterSize, size)
		}
	}
	if to > from {
		return f(from, to-from)
	}
	return nil
}

// sameTables reports whether two disks have a group of clusters from the same
// tables of the same layers.
func (c *Chain) sameTables(other *Chain, g int64) bool {
	a, b := c.tables(g), other.tables(g)
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i] != b[i] {
			return false
		}
	}
	return true
}

// tables are the second-level tables of a group, the top first.
func (c *Chain) tables(g int64) (found []cluster) {
	for _, l := range c.layers {
		if g < int64(len(l.l1)) && l.l1[g] != 0 {
			found = append(found, cluster{l, int64(l.l1[g])})
		}
	}
	return found
}

// empty is a group that no layer has.
var empty = make([]cluster, l2Entries)

// group joins the tables of a group.
func (c *Chain) group(g int64) ([]cluster, error) {
	if known, ok := c.groups[g]; ok {
		return known, nil
	}
	tables := c.tables(g)
	if len(tables) == 0 {
		return empty, nil
	}
	out, known := make([]cluster, l2Entries), make([]bool, l2Entries)
	raw := make([]byte, ClusterSize)
	for _, t := range tables {
		if err := readFull(t.layer.file, raw, t.offset); err != nil {
			return nil, err
		}
		for i := range out {
			e := binary.BigEndian.Uint64(raw[i*8:])
			if known[i] || e&(entryOffset|entryZero|entryCompressed) == 0 {
				continue
			}
			known[i] = true
			switch offset := e & entryOffset; {
			case e&entryCompressed != 0:
				return nil, refused("it has a compressed cluster")
			case e&entryZero != 0:
			case !place(offset):
				return nil, refused("a cluster lies at %d", offset)
			default:
				out[i] = cluster{t.layer, int64(offset)}
			}
		}
	}
	if len(c.order) == maxGroups {
		delete(c.groups, c.order[0])
		c.order = c.order[1:]
	}
	c.groups[g], c.order = out, append(c.order, g)
	return out, nil
}

func readFull(f io.ReaderAt, p []byte, off int64) error {
	if n, err := f.ReadAt(p, off); n < len(p) {
		if errors.Is(err, io.EOF) {
			return refused("it ends within a table")
		}
		return vm.Errorf(vm.Internal, "", "a disk cannot be read: %w", err)
	}
	return nil
}
