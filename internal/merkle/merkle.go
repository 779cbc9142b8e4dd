// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

// Package merkle computes the tree of RFC 6962 over the leaves of a log that only grows,
// and its proofs: that a leaf is in a tree, and that a tree is the beginning of a later
// one. It reads leaves as a stream and keeps only what a proof needs.
package merkle

import (
	"crypto/sha256"
	"math/bits"
)

// Hash is the SHA-256 of a node.
type Hash [sha256.Size]byte

// Leaf returns the hash of a leaf.
func Leaf(data []byte) Hash {
	var room [65]byte
	return sha256.Sum256(append(room[:1], data...))
}

func join(left, right Hash) Hash {
	var room [1 + 2*sha256.Size]byte
	room[0] = 1
	copy(room[1:], left[:])
	copy(room[1+sha256.Size:], right[:])
	return sha256.Sum256(room[:])
}

// Tree is a tree that grows. It holds only the roots of its full subtrees, the largest
// first. The zero Tree is empty.
type Tree struct {
	Size  int64
	Peaks []Hash
}

// Add appends a leaf.
func (t *Tree) Add(leaf Hash) { t.push(leaf, nil) }

// push calls full for each subtree that the leaf fills.
func (t *Tree) push(leaf Hash, full func(s span, h Hash)) {
	t.Peaks = append(t.Peaks, leaf)
	t.Size++
	if full != nil {
		full(span{t.Size - 1, t.Size}, leaf)
	}
	for level := range bits.TrailingZeros64(uint64(t.Size)) { //nolint:gosec // a size is positive
		n := len(t.Peaks)
		h := join(t.Peaks[n-2], t.Peaks[n-1])
		t.Peaks = append(t.Peaks[:n-2], h)
		if full != nil {
			full(span{t.Size - 2<<level, t.Size}, h)
		}
	}
}

// Root returns the root of the tree.
func (t *Tree) Root() Hash {
	if len(t.Peaks) == 0 {
		return sha256.Sum256(nil)
	}
	h := t.Peaks[len(t.Peaks)-1]
	for i := len(t.Peaks) - 2; i >= 0; i-- {
		h = join(t.Peaks[i], h)
	}
	return h
}

// Clone returns a tree that shares nothing with t.
func (t *Tree) Clone() Tree { return Tree{t.Size, append([]Hash(nil), t.Peaks...)} }

// Whole reports whether the tree has as many peaks as its size needs.
func (t *Tree) Whole() bool {
	return t.Size >= 0 && len(t.Peaks) == bits.OnesCount64(uint64(t.Size)) //nolint:gosec // it is not negative
}

// span is the leaves from lo up to but without hi.
type span struct{ lo, hi int64 }

func (s span) size() int64 { return s.hi - s.lo }

// full reports whether the span is one node of every tree that is large enough.
func (s span) full() bool { return s.size()&(s.size()-1) == 0 && s.lo%s.size() == 0 }

// split returns the two children of a span with more than one leaf.
func (s span) split() (left, right span) {
	k := int64(1) << (bits.Len64(uint64(s.size()-1)) - 1) //nolint:gosec // it is above 1
	return span{s.lo, s.lo + k}, span{s.lo + k, s.hi}
}

// inclusion lists the nodes of the proof that leaf i is in the tree s, from the leaf up.
func inclusion(i int64, s span) []span {
	if s.size() == 1 {
		return nil
	}
	left, right := s.split()
	if i < left.hi {
		return append(inclusion(i, left), right)
	}
	return append(inclusion(i, right), left)
}

// consistency lists the nodes of the proof that the first m leaves of s are a tree. known
// says that the verifier knows the root of the part.
func consistency(m int64, s span, known bool) []span {
	if m == s.hi {
		if known {
			return nil
		}
		return []span{s}
	}
	left, right := s.split()
	if m <= left.hi {
		return append(consistency(m, left, known), right)
	}
	return append(consistency(m, right, false), left)
}

// Prover collects the nodes for proofs about one tree while its leaves go past.
type Prover struct {
	size  int64
	tree  Tree
	nodes map[span]Hash
}

// NewProver returns a prover for the tree of the first size leaves. Ask for all proofs
// before the first leaf.
func NewProver(size int64) *Prover { return &Prover{size: size, nodes: map[span]Hash{}} }

func (p *Prover) want(list []span) {
	for _, s := range list {
		if s.full() {
			p.nodes[s] = Hash{}
			continue
		}
		left, right := s.split()
		p.want([]span{left, right})
	}
}

// WantInclusion asks for the proof of leaf i, counted from 0.
func (p *Prover) WantInclusion(i int64) { p.want(inclusion(i, span{0, p.size})) }

// WantConsistency asks for the proof that the first m leaves are the beginning.
func (p *Prover) WantConsistency(m int64) {
	if m > 0 && m < p.size {
		p.want(consistency(m, span{0, p.size}, true))
	}
}

// Add takes the next leaf. Leaves beyond the size do not count.
func (p *Prover) Add(leaf Hash) {
	if p.tree.Size == p.size {
		return
	}
	p.tree.push(leaf, func(s span, h Hash) {
		if _, ok := p.nodes[s]; ok {
			p.nodes[s] = h
		}
	})
}

// Root returns the root over the leaves so far.
func (p *Prover) Root() Hash { return p.tree.Root() }

// Complete reports whether every leaf went past.
func (p *Prover) Complete() bool { return p.tree.Size == p.size }

func (p *Prover) value(s span) Hash {
	if s.full() {
		return p.nodes[s]
	}
	left, right := s.split()
	return join(p.value(left), p.value(right))
}

func (p *Prover) values(list []span) []Hash {
	out := make([]Hash, 0, len(list))
	for _, s := range list {
		out = append(out, p.value(s))
	}
	return out
}

// Inclusion returns a proof that WantInclusion asked for.
func (p *Prover) Inclusion(i int64) []Hash { return p.values(inclusion(i, span{0, p.size})) }

// Consistency returns a proof that WantConsistency asked for.
func (p *Prover) Consistency(m int64) []Hash {
	if m <= 0 || m >= p.size {
		return nil
	}
	return p.values(consistency(m, span{0, p.size}, true))
}

// Included checks that the leaf number i, counted from 0, is in a tree of size leaves
// with the given root (RFC 9162, 2.1.3.2).
func Included(leaf Hash, i, size int64, proof []Hash, root Hash) bool {
	if i < 0 || i >= size {
		return false
	}
	at, last, h := i, size-1, leaf
	for _, p := range proof {
		if last == 0 {
			return false
		}
		if at&1 == 1 || at == last {
			h = join(p, h)
			for at&1 == 0 && at != 0 {
				at, last = at>>1, last>>1
			}
		} else {
			h = join(h, p)
		}
		at, last = at>>1, last>>1
	}
	return last == 0 && h == root
}

// Consistent checks that the tree of m leaves with root old is the beginning of the tree
// of n leaves with root now (RFC 9162, 2.1.4.2).
func Consistent(m, n int64, old, now Hash, proof []Hash) bool {
	switch {
	case m <= 0 || m > n:
		return false
	case m == n:
		return old == now && len(proof) == 0
	case len(proof) == 0:
		return false
	}
	if m&(m-1) == 0 {
		proof = append([]Hash{old}, proof...)
	}
	at, last := m-1, n-1
	for at&1 == 1 {
		at, last = at>>1, last>>1
	}
	was, is := proof[0], proof[0]
	for _, p := range proof[1:] {
		if last == 0 {
			return false
		}
		if at&1 == 1 || at == last {
			was, is = join(p, was), join(p, is)
			for at&1 == 0 && at != 0 {
				at, last = at>>1, last>>1
			}
		} else {
			is = join(is, p)
		}
		at, last = at>>1, last>>1
	}
	return last == 0 && was == old && is == now
}
