// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package objects_test

import (
	"bytes"
	"io"
	"testing"

	"github.com/warren-vm/warren/internal/objects"
)

// TestSnapshot: a copy of the index and the bytes that it names are whole, while objects are
// written and removed.
func TestSnapshot(t *testing.T) {
	h := newHost(t)
	body := random(64 << 10)
	v := h.put("a", body)
	h.put("small", []byte("x"))
	_, _, err := h.room.Copy(t.Context(), h.call, objects.Which{Bucket: "box", Key: "a"}, objects.PutRequest{Bucket: "box", Key: "b"}, false, false)
	h.must(err)
	var index bytes.Buffer
	n := 0
	err = h.room.Snapshot(t.Context(), &index, func(b objects.Body) error {
		n++
		for _, key := range []string{"a", "b"} { // gone before they are copied
			if _, err := h.room.Remove(t.Context(), h.call, objects.RemoveRequest{Bucket: "box", Key: key}); err != nil {
				return err
			}
		}
		if _, err := h.room.Remove(t.Context(), h.call, objects.RemoveRequest{Bucket: "box", Key: "a", Version: v.Version}); err != nil {
			return err
		}
		r, err := b.Open(t.Context())
		if err != nil {
			return err
		}
		defer r.Close()
		got, err := io.ReadAll(r)
		if !bytes.Equal(got, body) {
			t.Error("the body has other bytes")
		}
		return err
	})
	if err != nil || n != 1 || index.Len() == 0 {
		t.Errorf("the snapshot has %d bodies and an index of %d bytes, %v; want one body", n, index.Len(), err)
	}
}
