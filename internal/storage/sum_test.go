// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package storage

import (
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/warren-vm/warren/vm"
)

func file(ino uint64, item string, allocated int64, shared ...Range) File {
	return File{Item: Item{"vm", item}, Inode: Inode{1, ino}, Allocated: allocated, Shared: shared}
}

func byItem(f *File) []string { return []string{f.Item.ID} }

func TestSum(t *testing.T) {
	for name, c := range map[string]struct {
		files []File
		want  map[string]vm.Bytes
		total int64
	}{
		"own blocks": {[]File{file(1, "a", 100), file(2, "b", 50)}, map[string]vm.Bytes{"a": {Unique: 100}, "b": {Unique: 50}}, 150},
		"two names of one file, one owner": {
			[]File{file(1, "a", 100), file(1, "a", 100)}, map[string]vm.Bytes{"a": {Unique: 100}}, 100,
		},
		"two names of one file, two owners": {
			[]File{file(1, "a", 100), file(1, "b", 100)}, map[string]vm.Bytes{"a": {Shared: 100}, "b": {Shared: 100}}, 100,
		},
		"a reflink that was written to": {
			[]File{file(1, "a", 100, Range{0, 100}), file(2, "b", 130, Range{20, 100})},
			map[string]vm.Bytes{"a": {Unique: 20, Shared: 80}, "b": {Unique: 50, Shared: 80}},
			150,
		},
		"a reflink within one owner": {
			[]File{file(1, "a", 100, Range{0, 100}), file(2, "a", 100, Range{0, 100})}, map[string]vm.Bytes{"a": {Unique: 100}}, 100,
		},
		"whoever shared it is gone": {[]File{file(1, "a", 100, Range{500, 600})}, map[string]vm.Bytes{"a": {Unique: 100}}, 100},
		"three, one of them apart": {
			[]File{file(1, "a", 40, Range{0, 40}), file(2, "b", 40, Range{20, 60}), file(3, "c", 10, Range{1000, 1010})},
			map[string]vm.Bytes{"a": {Unique: 20, Shared: 20}, "b": {Unique: 20, Shared: 20}, "c": {Unique: 10}},
			70,
		},
		"another device": {
			[]File{file(1, "a", 40, Range{0, 40}), {Item: Item{"vm", "b"}, Inode: Inode{2, 1}, Allocated: 40, Shared: []Range{{0, 40}}}},
			map[string]vm.Bytes{"a": {Unique: 40}, "b": {Unique: 40}},
			80,
		},
	} {
		got := Sum(c.files, byItem)
		if !maps.Equal(got.Of, c.want) || got.Total != c.total {
			t.Errorf("%s: %v and %d in all, not %v and %d", name, got.Of, got.Total, c.want, c.total)
		}
	}
}

// TestSumAgainstEveryBlock compares with counting each block by itself.
func TestSumAgainstEveryBlock(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for round := range 300 {
		var files []File
		blocks := map[int64]map[string]bool{}
		want := map[string]vm.Bytes{}
		for ino := range uint64(1 + r.IntN(6)) {
			item := string(rune('a' + r.IntN(4)))
			f := file(ino, item, 0)
			for range r.IntN(4) {
				start := int64(r.IntN(40))
				rg := Range{start, start + 1 + int64(r.IntN(15))}
				if slices.ContainsFunc(f.Shared, func(o Range) bool { return rg.Start < o.End && o.Start < rg.End }) {
					continue // a file has a block once
				}
				f.Shared = append(f.Shared, rg)
				f.Allocated += rg.End - rg.Start
				for b := rg.Start; b < rg.End; b++ {
					if blocks[b] == nil {
						blocks[b] = map[string]bool{}
					}
					blocks[b][item] = true
				}
			}
			files = append(files, f)
			want[item] = vm.Bytes{}
		}
		for _, owners := range blocks {
			for o := range owners {
				w := want[o]
				if len(owners) == 1 {
					w.Unique++
				} else {
					w.Shared++
				}
				want[o] = w
			}
		}
		got := Sum(files, byItem)
		if !maps.Equal(got.Of, want) || got.Total != int64(len(blocks)) {
			t.Fatalf("round %d: %v and %d in all, not %v and %d: %+v", round, got.Of, got.Total, want, len(blocks), files)
		}
	}
}

func BenchmarkSum10000(b *testing.B) {
	var files []File
	for i := range 10_000 {
		at := int64(i % 50 << 30)
		files = append(files, file(uint64(i), string(vm.NewID()), 1<<20, Range{at, at + 300<<20}, Range{at + 400<<20, at + 500<<20}))
	}
	for b.Loop() {
		Sum(files, byItem)
	}
}
