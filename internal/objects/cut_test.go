// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package objects_test

import (
	"bytes"
	"fmt"
	"io"
	"testing"

	"github.com/warren-vm/warren/internal/objects"
	"github.com/warren-vm/warren/vm"
)

// A body of unknown length whose connection breaks is not stored as if it had ended there.
func TestPutOfACutBody(t *testing.T) {
	h := newHost(t)
	for what, why := range map[string]error{"a cut connection": io.ErrUnexpectedEOF, "a wrapped error of one": fmt.Errorf("read: %w", io.ErrUnexpectedEOF), "a wrapped end": fmt.Errorf("read: %w", io.EOF)} {
		for _, size := range []int{0, 10, 100_000, 1 << 20} {
			body := io.MultiReader(bytes.NewReader(make([]byte, size)), failing{why})
			o, err := h.room.Put(t.Context(), h.call, objects.PutRequest{Bucket: "box", Key: "k", Size: -1}, body)
			if err == nil {
				t.Errorf("a body that ends with %s after %d bytes is stored with %d bytes, want an error", what, size, o.Size)
			}
		}
	}
	if _, err := h.room.Head(t.Context(), h.call, objects.Which{Bucket: "box", Key: "k"}); vm.KindOf(err) != vm.NotFound {
		t.Errorf("after bodies that were cut the object is there (%v)", err)
	}
}

// failing is a reader that fails.
type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }
