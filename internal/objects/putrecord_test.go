// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package objects_test

import (
	"bytes"
	"errors"
	"testing"

	"github.com/warren-vm/warren/internal/objects"
	"github.com/warren-vm/warren/vm"
)

// TestPutRecord: a version whose audit record cannot be written does not exist, whether its
// bytes belong into the index or into a file. Others are written as before.
func TestPutRecord(t *testing.T) {
	h := newHost(t)
	for _, size := range []int{100, 1 << 20} {
		h.site.Audit.Fail(errors.New("the disk of the audit log is gone"))
		_, err := h.room.Put(t.Context(), h.call, objects.PutRequest{Bucket: "box", Key: "a", Size: int64(size)}, bytes.NewReader(random(size)))
		h.site.Audit.Fail(nil)
		if err == nil {
			t.Errorf("a PUT of %d bytes succeeds without its record", size)
		}
		if _, err := h.room.Head(t.Context(), h.call, objects.Which{Bucket: "box", Key: "a"}); vm.KindOf(err) != vm.NotFound {
			t.Errorf("after a PUT of %d bytes without its record, the key has a version: %v", size, err)
		}
		if n := h.files(); n != 0 {
			t.Errorf("after a PUT of %d bytes without its record, %d files are left, want none", size, n)
		}
	}
	h.put("a", random(100))
}
