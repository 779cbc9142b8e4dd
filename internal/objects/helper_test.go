// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package objects_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/warren-vm/warren/internal/access"
	"github.com/warren-vm/warren/internal/objects"
	"github.com/warren-vm/warren/internal/vmtest"
	"github.com/warren-vm/warren/vm"
)

// host is a server's rooms on a simulated host, with one bucket.
type host struct {
	*testing.T
	site *vmtest.Site
	*vmtest.House
	room  *objects.Objects
	call  *vm.Call // of the admin
	clock *vmtest.Clock
}

func newHost(t *testing.T) *host {
	t.Helper()
	return newHostWith(t, func(*vmtest.Site) {})
}

func newHostWith(t *testing.T, set func(*vmtest.Site)) *host {
	t.Helper()
	site, err := vmtest.NewSite(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	h := &host{T: t, site: site, clock: vmtest.NewClock()}
	site.Clock, site.S3URL = h.clock, "http://s3.test"
	set(site)
	h.open()
	h.bucket("box")
	return h
}

func (h *host) open() {
	h.Helper()
	e, err := h.site.Open(h.Context())
	if err != nil {
		h.Fatal(err)
	}
	h.House, h.room = e, e.Rooms.Objects
	h.Cleanup(func() { h.close(e) })
	if h.call == nil {
		if h.call, _, err = vmtest.Admin(h.Context(), e); err != nil {
			h.Fatal(err)
		}
	}
}

func (h *host) close(e *vmtest.House) {
	h.Helper()
	ctx, stop := context.WithTimeout(context.Background(), 10*time.Second)
	defer stop()
	if err := e.Close(ctx); err != nil {
		h.Errorf("close: %v", err)
	}
}

// reopen ends the server and starts another one on the same files.
func (h *host) reopen() {
	h.Helper()
	h.close(h.House)
	h.open()
}

func (h *host) must(err error) {
	h.Helper()
	if err != nil {
		h.Fatal(err)
	}
}

func (h *host) bucket(name string) {
	h.Helper()
	_, err := h.room.CreateBucket(h.Context(), h.call, name)
	h.must(err)
}

// account makes an account and returns a call by its key.
func (h *host) account(name string) *vm.Call {
	h.Helper()
	_, _, secret, err := h.CreateAccount(h.Context(), h.call, name)
	h.must(err)
	actor, err := h.Authenticate(h.Context(), secret)
	h.must(err)
	return &vm.Call{Actor: actor}
}

// identity makes an identity and returns a call by its token.
func (h *host) identity(name string) *vm.Call {
	h.Helper()
	i, err := h.CreateIdentity(h.Context(), h.call, name)
	h.must(err)
	_, secret, err := h.CreateToken(h.Context(), h.call, string(i.ID), access.TokenRequest{})
	h.must(err)
	actor, err := h.Authenticate(h.Context(), secret)
	h.must(err)
	return &vm.Call{Actor: actor}
}

// put writes an object of the bucket box.
func (h *host) put(key string, body []byte) vm.Object {
	h.Helper()
	o, err := h.room.Put(h.Context(), h.call, objects.PutRequest{Bucket: "box", Key: key, Size: int64(len(body))}, bytes.NewReader(body))
	h.must(err)
	return o
}

// bytes reads a version; "" = the newest.
func (h *host) bytes(key, version string) []byte {
	h.Helper()
	c, err := h.room.Get(h.Context(), h.call, objects.Which{Bucket: "box", Key: key, Version: version})
	h.must(err)
	b, err := c.Bytes(h.Context(), 1<<30)
	h.must(err)
	return b
}

// refused wants an error with a code.
func (h *host) refused(what string, err error, code string) {
	h.Helper()
	if err == nil || vm.AsError(err).Code != code {
		h.Errorf("%s gives %v, want %s", what, err, code)
	}
}

func (h *host) use() vm.BucketUse {
	h.Helper()
	list, err := h.room.Usage(h.Context(), h.call)
	h.must(err)
	for _, u := range list {
		if u.Bucket == "box" {
			return u
		}
	}
	h.Fatal("the bucket box is not listed")
	return vm.BucketUse{}
}

// files counts the files of bodies.
func (h *host) files() (n int) {
	h.Helper()
	h.must(filepath.WalkDir(h.site.Dir.Objects(), func(path string, d os.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() && d.Name() != "index.db" {
			n++
		}
		if errors.Is(err, os.ErrNotExist) { // it was removed meanwhile
			err = nil
		}
		return err
	}))
	return n
}

// soon waits until a fact is true.
func (h *host) soon(what string, fact func() bool) {
	h.Helper()
	for end := time.Now().Add(10 * time.Second); !fact(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			h.Fatalf("it is not true in ten seconds that %s", what)
		}
	}
}

func random(n int) []byte {
	b := make([]byte, n)
	_, _ = rand.Read(b)
	return b
}

// broken fails after some bytes.
type broken struct {
	io.Reader
	err error
}

func (b broken) Read(p []byte) (int, error) {
	n, err := b.Reader.Read(p)
	if errors.Is(err, io.EOF) {
		err = b.err
	}
	return n, err
}
