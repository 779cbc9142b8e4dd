// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"bytes"
	"io"
	"os"
)

// holeSize is the least length of a hole that is made. Direct writes of it are aligned.
const holeSize = 64 << 10

var noBytes [holeSize]byte

// holes writes a new file from its beginning and leaves holes where there are only zeros,
// so that a sparse file takes no more space than it had. Whoever writes sets the size in
// the end.
type holes struct{ f *os.File }

func (h *holes) Write(p []byte) (n int, err error) {
	for n < len(p) && err == nil {
		part := p[n:min(len(p), n+holeSize)]
		m := len(part)
		if m == holeSize && bytes.Equal(part, noBytes[:]) {
			_, err = h.f.Seek(holeSize, io.SeekCurrent)
		} else {
			m, err = h.f.Write(part)
		}
		n += m
	}
	return n, err
}
