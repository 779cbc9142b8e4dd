// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package inside

// Loopbacks counts the guests with connections to their loopback.
func (in *Inside) Loopbacks() int {
	in.mu.Lock()
	defer in.mu.Unlock()
	return len(in.loopback)
}

// TreeSum is the digest of a tar stream's files, and their number.
func TreeSum(data []byte) (string, int) {
	t := newTreeSum()
	_, _ = t.Write(data) // its end tells
	return t.end()
}
