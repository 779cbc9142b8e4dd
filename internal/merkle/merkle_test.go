// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package merkle

import (
	"encoding/hex"
	"fmt"
	"testing"
)

// naive is the definition of RFC 6962, 2.1.
func naive(leaves []Hash) Hash {
	if len(leaves) == 1 {
		return leaves[0]
	}
	k := 1
	for k*2 < len(leaves) {
		k *= 2
	}
	return join(naive(leaves[:k]), naive(leaves[k:]))
}

// TestKnownRoots: the roots of the test vectors of Certificate Transparency.
func TestKnownRoots(t *testing.T) {
	inputs := []string{"", "00", "10", "2021", "3031", "40414243", "5051525354555657", "606162636465666768696a6b6c6d6e6f"}
	want := map[int]string{
		1: "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
		2: "fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125",
		8: "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328",
	}
	var tree Tree
	for i, in := range inputs {
		data, err := hex.DecodeString(in)
		if err != nil {
			t.Fatal(err)
		}
		tree.Add(Leaf(data))
		root := tree.Root()
		if w, ok := want[i+1]; ok && hex.EncodeToString(root[:]) != w {
			t.Errorf("the root of %d leaves is %x, want %s", i+1, root, w)
		}
	}
}

// TestProofs: every proof of every small tree verifies, and none does after one bit was
// changed, for another place, or with a hash too few or too many.
func TestProofs(t *testing.T) {
	var leaves []Hash
	for n := int64(1); n <= 40; n++ {
		leaves = append(leaves, Leaf(fmt.Appendf(nil, "leaf %d", n)))
		p := NewProver(n)
		for i := range n {
			p.WantInclusion(i)
			p.WantConsistency(i)
		}
		var tree Tree
		roots := []Hash{tree.Root()}
		for _, l := range leaves {
			tree.Add(l)
			p.Add(l)
			roots = append(roots, tree.Root())
		}
		root := tree.Root()
		if root != naive(leaves) || p.Root() != root || !tree.Whole() || !p.Complete() {
			t.Fatalf("the root of %d leaves is not that of the definition", n)
		}
		for i := range n {
			proof := p.Inclusion(i)
			if !Included(leaves[i], i, n, proof, root) {
				t.Errorf("the proof of leaf %d of %d does not verify", i, n)
			}
			if Included(leaves[i], (i+1)%n, n, proof, root) && n > 1 {
				t.Errorf("the proof of leaf %d of %d verifies for the next one", i, n)
			}
			if Included(leaves[i], i, n, append(proof, root), root) {
				t.Errorf("the proof of leaf %d of %d verifies with one hash more", i, n)
			}
			if len(proof) > 0 {
				proof[0][3] ^= 1
				if Included(leaves[i], i, n, proof, root) {
					t.Errorf("the changed proof of leaf %d of %d verifies", i, n)
				}
			}
			if i == 0 {
				continue
			}
			between := p.Consistency(i)
			if !Consistent(i, n, roots[i], root, between) {
				t.Errorf("the proof that %d leaves begin %d does not verify", i, n)
			}
			between[0][3] ^= 1
			if Consistent(i, n, roots[i], root, between) {
				t.Errorf("the changed proof that %d leaves begin %d verifies", i, n)
			}
		}
	}
}
