// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package storage

import (
	"cmp"
	"slices"

	"github.com/warren-vm/warren/vm"
)

// The kinds of items, as in vm.StorageItem.
const (
	VM         = "vm"
	Generation = "generation"
	Image      = "image"
	Volume     = "volume"
	Repository = "repository"
	Objects    = "objects" // the objects of an account, whose id is the item's
	Other      = "other"   // records, logs and caches of the server itself
)

// Item is one thing that owns files.
type Item struct{ Kind, ID string }

// Inode identifies a file, whatever its names.
type Inode struct{ Device, Number uint64 }

// Range is a part of a device, in bytes.
type Range struct{ Start, End int64 }

// File is one name of a file, with the file's blocks.
type File struct {
	Item      Item
	Path      string // below the data directory
	Memory    bool   // memory of a machine, or its device state
	Inode     Inode
	Allocated int64   // bytes in blocks; holes have none
	Shared    []Range // those of its blocks that other files may share
}

// Use is the disk space of each owner and of all together, with each block counted
// once.
type Use[O comparable] struct {
	Of    map[O]vm.Bytes
	Total int64
}

// inode is a file with all owners of its names.
type inode struct {
	file   *File
	owners []int
}

// Sum adds up the space of each owner. A file may have several owners and several
// names. A block that only files of one owner share is that owner's own.
func Sum[O comparable](files []File, owners func(*File) []O) Use[O] {
	numbers := map[O]int{}
	var known []O
	inodes := map[Inode]*inode{}
	for i := range files {
		f := &files[i]
		n := inodes[f.Inode]
		if n == nil {
			n = &inode{file: f}
			inodes[f.Inode] = n
		}
		for _, o := range owners(f) {
			k, ok := numbers[o]
			if !ok {
				k = len(known)
				numbers[o], known = k, append(known, o)
			}
			if !slices.Contains(n.owners, k) {
				n.owners = append(n.owners, k)
			}
		}
	}
	bytes := make([]vm.Bytes, len(known))
	total := addOwn(bytes, inodes) + addShared(bytes, inodes)
	out := Use[O]{Of: make(map[O]vm.Bytes, len(known)), Total: total}
	for k, o := range known {
		out.Of[o] = bytes[k]
	}
	return out
}

// addOwn adds the blocks that no other file shares.
func addOwn(bytes []vm.Bytes, inodes map[Inode]*inode) (total int64) {
	for _, n := range inodes {
		own := n.file.Allocated
		for _, r := range n.file.Shared {
			own -= r.End - r.Start
		}
		own = max(0, own)
		total += own
		for _, o := range n.owners {
			if len(n.owners) == 1 {
				bytes[o].Unique += own
			} else {
				bytes[o].Shared += own
			}
		}
	}
	return total
}

// edge is the beginning or end of a file's blocks on a device.
type edge struct {
	device uint64
	at     int64
	begins bool
	inode  *inode
}

// addShared adds the blocks that files may share. It walks over each device from
// start to end and knows at each place which owners have it. Shared bytes advance a
// mark; an owner's part is how far the mark moved while the owner was present. So
// the time is that of sorting, however many owners share.
func addShared(bytes []vm.Bytes, inodes map[Inode]*inode) (total int64) {
	var edges []edge
	for _, n := range inodes {
		for _, r := range n.file.Shared {
			edges = append(edges, edge{n.file.Inode.Device, r.Start, true, n}, edge{n.file.Inode.Device, r.End, false, n})
		}
	}
	slices.SortFunc(edges, func(a, b edge) int { return cmp.Or(cmp.Compare(a.device, b.device), cmp.Compare(a.at, b.at)) })
	names := make([]int, len(bytes))   // of each owner, at this place
	since := make([]int64, len(bytes)) // the mark when the owner appeared
	var here, sum int                  // owners at this place, and the sum of their numbers
	var mark int64
	for i, e := range edges {
		if i > 0 && here > 0 {
			n := e.at - edges[i-1].at // within one device: between two devices no owner is present
			total += n
			if here == 1 {
				bytes[sum].Unique += n
			} else {
				mark += n
			}
		}
		for _, o := range e.inode.owners {
			switch {
			case e.begins:
				if names[o]++; names[o] == 1 {
					here, sum, since[o] = here+1, sum+o, mark
				}
			default:
				if names[o]--; names[o] == 0 {
					here, sum = here-1, sum-o
					bytes[o].Shared += mark - since[o]
				}
			}
		}
	}
	return total
}
