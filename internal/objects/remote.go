// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package objects

import (
	"context"
	"io"
	"sync"

	"github.com/warren-vm/warren/vm"
)

// Remote is another S3, which stores the bytes of versions. A name is not the key of an
// object: rights, versions and everything else about objects stay with the index.
type Remote interface {
	// Put stores a body of size bytes, and returns when the other S3 has it.
	Put(ctx context.Context, name string, body io.ReadSeeker, size int64) error
	// Get returns n bytes from an offset on.
	Get(ctx context.Context, name string, from, n int64) (io.ReadCloser, error)
	// Remove removes a body; it is no error when there is none.
	Remove(ctx context.Context, name string) error
}

// remote keeps bodies on another S3. A body is first written to a file of the data
// directory, and then sent as a whole. While it is sent, the index lists it as garbage, so
// that a start removes it if the server ends before the version is committed.
type remote struct {
	files
	at Remote
	o  *Objects

	mu   sync.Mutex
	sent map[string]func() // ends the pin of a body that is not committed yet; guarded by mu
}

type remoteWriter struct {
	*fileWriter
	r       *remote
	ctx     context.Context
	account vm.AccountID
}

func remoteName(account vm.AccountID, id string) string {
	return "warren/" + string(account) + "/" + id
}

func (r *remote) create(ctx context.Context, account vm.AccountID) (bodyWriter, error) {
	w, err := r.newFile()
	if err != nil {
		return nil, err
	}
	return &remoteWriter{w, r, ctx, account}, nil
}

func (w *remoteWriter) finish() error {
	w.r.mu.Lock()
	w.r.sent[w.name] = w.r.o.pins.add(w.name)
	w.r.mu.Unlock()
	err := w.r.o.index.update(func(t *tx) error { return t.put(inGarbage, garbageKey(w.account, w.name), nil) })
	if err != nil {
		return err
	}
	if _, err := w.Seek(0, io.SeekStart); err != nil {
		return diskError(w.Name(), err)
	}
	return w.r.at.Put(w.ctx, remoteName(w.account, w.name), w.File, w.written)
}

// release ends the pin of a body.
func (r *remote) release(id string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if end := r.sent[id]; end != nil {
		end()
		delete(r.sent, id)
	}
}

// abort has what was sent removed as garbage.
func (w *remoteWriter) abort() {
	w.fileWriter.abort()
	w.r.release(w.name)
	w.r.o.collect()
}

func (r *remote) settle(_ vm.AccountID, id string) error {
	r.release(id)
	return r.files.remove(r.o.life, "", id)
}

func (r *remote) open(ctx context.Context, account vm.AccountID, id string, from, n int64) (io.ReadCloser, error) {
	return r.at.Get(ctx, remoteName(account, id), from, n)
}

func (r *remote) remove(ctx context.Context, account vm.AccountID, id string) error {
	return r.at.Remove(ctx, remoteName(account, id))
}

// reconcile deletes the files of bodies that were being sent.
func (r *remote) reconcile() error {
	return r.files.reconcile(func(string) vm.AccountID { return "" })
}
