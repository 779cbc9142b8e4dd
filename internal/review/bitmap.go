// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package review

import "math/bits"

// bitmap is a set of block numbers below a bound.
type bitmap []uint64

func newBitmap(n uint64) bitmap { return make(bitmap, (n+63)/64) }

func (m bitmap) set(n uint64) { m[n/64] |= 1 << (n % 64) }

func (m bitmap) has(n uint64) bool { return n/64 < uint64(len(m)) && m[n/64]&(1<<(n%64)) != 0 }

func (m bitmap) count() (n uint64) {
	for _, w := range m {
		n += uint64(bits.OnesCount64(w))
	}
	return n
}
