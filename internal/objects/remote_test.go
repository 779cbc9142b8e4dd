// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package objects_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"sync"
	"testing"

	"github.com/warren-vm/warren/internal/objects"
	"github.com/warren-vm/warren/internal/vmtest"
	"github.com/warren-vm/warren/vm"
)

// elsewhere is another S3 in memory.
type elsewhere struct {
	mu   sync.Mutex
	of   map[string][]byte
	fail error // of the next Put
}

func (e *elsewhere) Put(_ context.Context, name string, body io.ReadSeeker, size int64) error {
	data, err := io.ReadAll(body)
	if err != nil || int64(len(data)) != size {
		return errors.Join(err, errors.New("other bytes"))
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.of[name] = data
	err, e.fail = e.fail, nil
	return err
}

func (e *elsewhere) Get(_ context.Context, name string, from, n int64) (io.ReadCloser, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	data, ok := e.of[name]
	if !ok || from+n > int64(len(data)) {
		return nil, vm.Errorf(vm.NotFound, name, "no such body")
	}
	return io.NopCloser(bytes.NewReader(data[from : from+n])), nil
}

func (e *elsewhere) Remove(_ context.Context, name string) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.of, name)
	return nil
}

func (e *elsewhere) len() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return len(e.of)
}

// TestRemote: with another S3 the bytes are there and in no file here; removed and failed
// ones are removed there, those of a server that was killed after its next start.
func TestRemote(t *testing.T) {
	away := &elsewhere{of: map[string][]byte{}}
	h := newHostWith(t, func(s *vmtest.Site) { s.Remote = away })
	body := random(1 << 20)
	v := h.put("big", body).Version
	h.put("small", []byte("small"))
	if !bytes.Equal(h.bytes("big", ""), body) {
		t.Error("the object has other bytes")
	}
	if away.len() != 1 || h.files() != 0 {
		t.Errorf("%d bodies are there and %d files here, want 1 and 0", away.len(), h.files())
	}
	away.fail = errors.New("the connection broke")
	if _, err := h.room.Put(t.Context(), h.call, objects.PutRequest{Bucket: "box", Key: "fails", Size: -1}, bytes.NewReader(body)); err == nil {
		t.Error("a body that the other S3 does not store is stored")
	}
	h.soon("what had arrived of it is removed", func() bool { return away.len() == 1 && h.files() == 0 })
	h.reopen()
	if !bytes.Equal(h.bytes("big", v), body) {
		t.Error("after a restart the object has other bytes")
	}
	h.must(second(h.room.Remove(t.Context(), h.call, objects.RemoveRequest{Bucket: "box", Key: "big", Version: v})))
	h.soon("the removed body is gone", func() bool { return away.len() == 0 })
}
