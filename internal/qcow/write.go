// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package qcow

import (
	"bufio"
	"encoding/binary"
	"errors"
	"io"
	"os"
	"slices"

	"github.com/warren-vm/warren/internal/layout"
	"github.com/warren-vm/warren/vm"
)

// Extent is a run of clusters of a disk that its base does not have: data, or zeros where
// the base may have data. Offset and length are in bytes, multiples of ClusterSize.
type Extent struct {
	Off  int64 `json:"off"`
	Len  int64 `json:"len"`
	Zero bool  `json:"zero,omitempty"`
}

// maxRuns bounds the runs of one disk.
const maxRuns = 1 << 20

// Extents returns what a disk has in addition to its base, in order. They may share layers.
// Kinds: Corrupt, Limit.
func Extents(disk, base *Chain) (list []Extent, err error) {
	add := func(off, n int64, zero bool) error {
		if last := len(list) - 1; last >= 0 && list[last].Zero == zero && list[last].Off+list[last].Len == off {
			list[last].Len += n
			return nil
		}
		if len(list) == maxRuns {
			return vm.Errorf(vm.Limit, "", "the disk has more than %d runs of data", maxRuns)
		}
		list = append(list, Extent{off, n, zero})
		return nil
	}
	err = Differ(disk, base, func(off, n int64) error {
		for end := off + n; off < end; {
			zeros, err := disk.Zeros(off, end-off)
			if err != nil {
				return err
			}
			step, zero := zeros, true
			if zeros == 0 {
				step, zero = min(ClusterSize, end-off), false
			}
			if err := add(off, step, zero); err != nil {
				return err
			}
			off += step
		}
		return nil
	})
	return list, err
}

// DataBytes is how many bytes of data runs have.
func DataBytes(list []Extent) (sum int64) {
	for _, r := range list {
		if !r.Zero {
			sum += r.Len
		}
	}
	return sum
}

// CheckExtents refuses runs that another wrote and that are none of a disk of that size. Kind
// Invalid.
func CheckExtents(list []Extent, size int64) error {
	bad := func(why string) error { return vm.Errorf(vm.Invalid, "disk", "its runs of data %s", why) }
	if size <= 0 || size > maxSize || size%ClusterSize != 0 || len(list) > maxRuns {
		return bad("are too many, or its size is not possible")
	}
	at := int64(0)
	for _, r := range list {
		if r.Off < at || r.Len <= 0 || r.Off%ClusterSize != 0 || r.Len%ClusterSize != 0 || r.Len > size-r.Off {
			return bad("overlap, or leave the disk")
		}
		at = r.Off + r.Len
	}
	return nil
}

// Reader reads the data of runs of a disk, one after the other.
func (c *Chain) Reader(list []Extent) io.Reader { return &runReader{c: c, list: list} }

type runReader struct {
	c    *Chain
	list []Extent
	at   int64 // in the first
}

func (r *runReader) Read(p []byte) (int, error) {
	for len(r.list) > 0 && (r.list[0].Zero || r.at == r.list[0].Len) {
		r.list, r.at = r.list[1:], 0
	}
	if len(r.list) == 0 {
		return 0, io.EOF
	}
	p = p[:min(int64(len(p)), r.list[0].Len-r.at)]
	n, err := r.c.ReadAt(p, r.list[0].Off+r.at)
	r.at += int64(n)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return n, err
}

// plan is where the parts of a new disk lie, in clusters.
type plan struct {
	refTable, refBlocks, l1, l2, data int64 // how many of each
}

const (
	countsPerBlock = ClusterSize / 2 // of 16 bits
	copied         = 1 << 63         // the entry's cluster belongs to one table only
)

func planOf(list []Extent, size int64) (p plan, groups []int64) {
	for _, r := range list {
		for g := r.Off / groupBytes; g <= (r.Off+r.Len-1)/groupBytes; g++ {
			if len(groups) == 0 || groups[len(groups)-1] != g {
				groups = append(groups, g)
			}
		}
	}
	p.l1 = ((size+groupBytes-1)/groupBytes*8 + ClusterSize - 1) / ClusterSize
	p.l2, p.data = int64(len(groups)), DataBytes(list)/ClusterSize
	for {
		blocks := (p.total() + countsPerBlock - 1) / countsPerBlock
		table := (blocks*8 + ClusterSize - 1) / ClusterSize
		if blocks == p.refBlocks && table == p.refTable {
			return p, groups
		}
		p.refBlocks, p.refTable = blocks, table
	}
}

func (p plan) total() int64 { return 1 + p.refTable + p.refBlocks + p.l1 + p.l2 + p.data }

// WriteLayer makes a disk of kind Layer at path, which does not exist, above backing, a
// path relative to its directory: these runs, with the data that r has of them in their
// order. The caller has checked the runs. The file has mode 0600 and is not synced. After
// an error the file may be incomplete. Kinds: those of r, NoSpace, Exists.
func WriteLayer(path, backing string, size int64, list []Extent, r io.Reader) (err error) {
	if backing == "" || backing[0] == '/' || len(backing) > maxBacking {
		return vm.Errorf(vm.Internal, path, "the backing name is not relative")
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return layout.Error(path, err)
	}
	defer func() {
		if closeErr := f.Close(); err == nil {
			err = layout.Error(path, closeErr)
		}
	}()
	p, groups := planOf(list, size)
	out := bufio.NewWriterSize(f, 1<<20)
	w := layerWriter{out: out, p: p}
	w.header(backing, size)
	w.counts()
	w.tables(list, groups)
	if w.err == nil {
		var n int64
		n, w.err = io.Copy(out, io.LimitReader(r, p.data*ClusterSize))
		if w.err == nil && n != p.data*ClusterSize {
			w.err = vm.Errorf(vm.Corrupt, "disk", "its data ends early")
		}
	}
	if w.err == nil {
		w.err = out.Flush()
	}
	return layout.Error(path, w.err)
}

// layerWriter writes the parts of a disk in their order.
type layerWriter struct {
	out *bufio.Writer
	p   plan
	err error
}

// put writes whole clusters: b, and zeros to the end of the last.
func (w *layerWriter) put(b []byte, clusters int64) {
	if w.err == nil {
		_, w.err = w.out.Write(b)
	}
	if pad := clusters*ClusterSize - int64(len(b)); w.err == nil && pad > 0 {
		_, w.err = w.out.Write(make([]byte, pad))
	}
}

func (w *layerWriter) header(backing string, size int64) {
	be, h := binary.BigEndian, make([]byte, minHeader, ClusterSize)
	copy(h, "QFI\xfb")
	be.PutUint32(h[atVersion:], 3)
	be.PutUint32(h[atBackingLength:], uint32(len(backing)))
	be.PutUint32(h[atClusterBits:], clusterBits)
	be.PutUint64(h[atSize:], uint64(size))
	be.PutUint32(h[atCrypt:], cryptNone)
	be.PutUint32(h[atL1Entries:], uint32((size+groupBytes-1)/groupBytes))
	be.PutUint64(h[atL1:], uint64(1+w.p.refTable+w.p.refBlocks)*ClusterSize)
	be.PutUint64(h[atRefcounts:], ClusterSize)
	be.PutUint32(h[atRefClusters:], uint32(w.p.refTable))
	be.PutUint32(h[atRefOrder:], 4)
	be.PutUint32(h[atHeaderLength:], minHeader)
	h = be.AppendUint32(h, extFormat)
	h = be.AppendUint32(h, 5)
	h = append(h, "qcow2\x00\x00\x00"...)
	h = be.AppendUint64(h, extEnd)
	be.PutUint64(h[atBackingOffset:], uint64(len(h)))
	w.put(append(h, backing...), 1)
}

// counts writes the reference counts: every cluster is used once.
func (w *layerWriter) counts() {
	var table []byte
	for i := range w.p.refBlocks {
		table = binary.BigEndian.AppendUint64(table, uint64(1+w.p.refTable+i)*ClusterSize)
	}
	w.put(table, w.p.refTable)
	blocks := make([]byte, w.p.total()*2)
	for i := 1; i < len(blocks); i += 2 {
		blocks[i] = 1
	}
	w.put(blocks, w.p.refBlocks)
}

// tables writes the first table and the second ones. Data follows them in its order.
func (w *layerWriter) tables(list []Extent, groups []int64) {
	be := binary.BigEndian
	list = slices.Clone(list) // it is used up
	l2At := 1 + w.p.refTable + w.p.refBlocks + w.p.l1
	l1 := make([]byte, w.p.l1*ClusterSize)
	for i, g := range groups {
		be.PutUint64(l1[g*8:], uint64(l2At+int64(i))*ClusterSize|copied)
	}
	w.put(l1, w.p.l1)
	next := uint64(l2At+w.p.l2) * ClusterSize
	table := make([]byte, ClusterSize)
	for _, g := range groups {
		clear(table)
		for len(list) > 0 && list[0].Off/groupBytes == g {
			r := list[0]
			n := min(r.Len, (g+1)*groupBytes-r.Off)
			for at := r.Off; at < r.Off+n; at += ClusterSize {
				entry := uint64(entryZero)
				if !r.Zero {
					entry = next | copied
					next += ClusterSize
				}
				be.PutUint64(table[at%groupBytes/ClusterSize*8:], entry)
			}
			if list[0].Off, list[0].Len = r.Off+n, r.Len-n; list[0].Len > 0 {
				break // the rest is in the next group
			}
			list = list[1:]
		}
		w.put(table, 1)
	}
}
