// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package objects_test

import (
	"io"
	"strconv"
	"strings"
	"testing"

	"github.com/warren-vm/warren/internal/objects"
	"github.com/warren-vm/warren/vm"
)

// TestRecordsTakeSpace: copies, and delete markers that hide nothing, have no bytes, but
// their records count: an account that is full makes no more of them. It can still delete.
func TestRecordsTakeSpace(t *testing.T) {
	h := newHost(t)
	other := h.account("small")
	_, err := h.SetQuota(t.Context(), h.call, other.Actor.Account, vm.Quota{Disk: 64 << 10})
	h.must(err)
	h.must(second(h.room.CreateBucket(t.Context(), other, "small")))
	h.must(second(h.room.Put(t.Context(), other, objects.PutRequest{Bucket: "small", Key: "a", Size: 40 << 10}, io.LimitReader(&counted{}, 40<<10))))
	ends := func(what string, do func(key string) error) {
		t.Helper()
		for i := range 100 {
			if err = do(what + strconv.Itoa(i)); err != nil {
				break
			}
		}
		h.refused("one hundred of "+what+" in 24 KiB", err, "OBJECT_QUOTA_EXCEEDED")
	}
	ends("copies", func(key string) error {
		_, _, err := h.room.Copy(t.Context(), other, objects.Which{Bucket: "small", Key: "a"}, objects.PutRequest{Bucket: "small", Key: key}, false, false)
		return err
	})
	ends("markers", func(key string) error {
		return second(h.room.Remove(t.Context(), other, objects.RemoveRequest{Bucket: "small", Key: key}))
	})
	h.must(second(h.room.Remove(t.Context(), other, objects.RemoveRequest{Bucket: "small", Key: "a"})))
}

// swapped removes the bucket of an upload in the middle, and has another account make one
// of the same name.
type swapped struct {
	io.Reader
	h     *host
	other *vm.Call
}

func (s *swapped) Read(p []byte) (int, error) {
	if s.other != nil {
		s.h.must(s.h.room.RemoveBucket(s.h.Context(), s.h.call, "box", true))
		s.h.must(second(s.h.room.CreateBucket(s.h.Context(), s.other, "box")))
		s.other = nil
	}
	return s.Reader.Read(p)
}

// TestBucketGoneDuringUpload: an upload whose bucket was removed meanwhile is no success,
// also if the name has become another account's.
func TestBucketGoneDuringUpload(t *testing.T) {
	h := newHost(t)
	body := &swapped{strings.NewReader("x"), h, h.account("other")}
	h.refused("an upload to a bucket that was removed", second(h.room.Put(t.Context(), h.call, objects.PutRequest{Bucket: "box", Key: "k", Size: 1}, body)), "BUCKET_NOT_FOUND")
}
