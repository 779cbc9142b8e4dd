// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package guest

import (
	"bufio"
	"bytes"
	"io"
	"testing"
	"testing/iotest"
)

// TestExactly: exactly the announced number of bytes passes, however their
// reader reports its end; one fewer or more fails.
func TestExactly(t *testing.T) {
	data := bytes.Repeat([]byte("0123456789"), 100_000)
	readers := map[string]func(io.Reader) io.Reader{
		"plain": func(r io.Reader) io.Reader { return r }, "end with the last bytes": iotest.DataErrReader,
		"halves": iotest.HalfReader, "both": func(r io.Reader) io.Reader { return iotest.DataErrReader(iotest.HalfReader(r)) },
	}
	for name, wrap := range readers {
		for _, more := range []int64{-1, 0, 1} {
			e := &exactly{r: bufio.NewReader(wrap(bytes.NewReader(data))), left: int64(len(data)) + more}
			got, err := io.ReadAll(io.MultiReader(e))
			if more == 0 && (err != nil || !bytes.Equal(got, data)) {
				t.Errorf("%s: %d bytes, %v", name, len(got), err)
			}
			if more != 0 && err == nil {
				t.Errorf("%s: %+d bytes announced pass", name, more)
			}
		}
	}
}
