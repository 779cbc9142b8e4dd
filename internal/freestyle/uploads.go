// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package freestyle

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"net/http"
	"path"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/warren-vm/warren/internal/engine"
	"github.com/warren-vm/warren/vm"
)

// Limits of uploads in chunks.
const (
	maxUploads   = 256
	maxPerVM     = 16
	uploadIdle   = time.Hour
	maxChunk     = 256 << 20
	maxLinks     = 16
	uploadPrefix = ".freestyle-"
)

// upload is a file that arrives in chunks. Its bytes are in the guest, in a file beside the one
// that it becomes. A restart of the server forgets it.
type upload struct {
	id     string
	owner  vm.Actor
	vm     string
	named  string // the path as it was given
	path   string // the file that it becomes
	temp   string
	size   int64
	digest string // wanted; "" = any
	mode   *uint32

	busy     sync.Mutex // held by a chunk or the commit
	mu       sync.Mutex
	received int64     // guarded by mu; changed with busy held
	used     time.Time // guarded by mu
	sum      hash.Hash // of what was received; used with busy held
}

type uploadAnswer struct {
	ID       string `json:"uploadId"`
	Path     string `json:"path"`
	Size     int64  `json:"size"`
	Received int64  `json:"receivedBytes"`
}

func (u *upload) shown() uploadAnswer {
	u.mu.Lock()
	defer u.mu.Unlock()
	return uploadAnswer{u.id, u.named, u.size, u.received}
}

// add counts bytes that are written.
func (u *upload) add(p []byte) {
	_, _ = u.sum.Write(p) // documented never to fail
	u.mu.Lock()
	defer u.mu.Unlock()
	u.received, u.used = u.received+int64(len(p)), time.Now()
}

func (c *caller) beginUpload() (answer, error) {
	var in struct {
		Path   string  `json:"path"`
		Size   *int64  `json:"size"`
		SHA256 string  `json:"sha256"`
		Mode   *uint32 `json:"mode"`
	}
	if err := c.decode(&in); err != nil {
		return answer{}, err
	}
	digest, err := checkDigest(in.SHA256)
	switch {
	case err != nil:
		return answer{}, err
	case in.Size == nil || *in.Size < 0:
		return answer{}, invalid("size", "is missing or negative")
	case *in.Size > maxFile:
		return answer{}, &vm.Error{Kind: vm.Limit, Subject: "size", Msg: "a file has at most 16 GiB", Code: largeBody}
	case in.Mode != nil && *in.Mode > 0o7777:
		return answer{}, invalid("mode", "%d is not a mode", *in.Mode)
	}
	id, p, err := c.at(in.Path)
	if err != nil {
		return answer{}, err
	}
	u := &upload{
		id: "up-" + strings.TrimPrefix(string(vm.NewRequestID()), "ri-"), owner: c.call.Actor, vm: id, named: in.Path, size: *in.Size, digest: digest, mode: in.Mode,
		sum: sha256.New(), used: time.Now(),
	}
	if u.path, err = c.target(id, p); err != nil {
		return answer{}, err
	}
	u.temp = path.Join(path.Dir(u.path), uploadPrefix+u.id)
	if err := c.d.enrol(u); err != nil {
		return answer{}, err
	}
	if err := c.makeTemp(u); err != nil {
		c.d.forget(u)
		return answer{}, err
	}
	return ok(u.shown())
}

// target follows the links at the end of a path, as a write to it does.
func (c *caller) target(id, p string) (string, error) {
	for range maxLinks {
		i, err := c.d.Inside.Stat(c.ctx, c.call, id, "", p)
		switch {
		case vm.AsError(err).Code == "FILE_NOT_FOUND":
			return p, nil
		case err != nil:
			return "", err
		case i.Kind == vm.FileRegular:
			return p, nil
		case i.Kind != vm.FileSymlink:
			return "", invalid(vm.Clip(p, 200), "not a regular file")
		}
		if path.IsAbs(i.Target) {
			p = path.Clean(i.Target)
		} else {
			p = path.Join(path.Dir(p), i.Target)
		}
	}
	return "", invalid(vm.Clip(p, 200), "has too many links")
}

func (c *caller) makeTemp(u *upload) error {
	if err := c.d.Inside.Mkdir(c.ctx, c.again(), u.vm, "", path.Dir(u.temp), 0o755, true); err != nil {
		return err
	}
	f, err := c.d.Inside.OpenHandle(c.ctx, c.again(), u.vm, "", u.temp, vm.OpenOptions{Write: true, Create: true, Exclusive: true, Mode: newMode})
	if err != nil {
		return err
	}
	return f.Close()
}

// enrol keeps an upload, unless there are too many.
func (d *Door) enrol(u *upload) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	same := 0
	for _, o := range d.uploads {
		o.mu.Lock()
		old := time.Since(o.used) > uploadIdle
		o.mu.Unlock()
		if old {
			delete(d.uploads, o.id)
			d.work.Go(func() { d.sweep(d.Lifetime, o) }) // ends with the server
		} else if o.vm == u.vm {
			same++
		}
	}
	if same >= maxPerVM || len(d.uploads) >= maxUploads {
		return vm.Errorf(vm.Busy, u.vm, "too many uploads are open").WithHint("commit or delete some; an upload ends after an hour without a chunk")
	}
	d.uploads[u.id] = u
	return nil
}

func (d *Door) forget(u *upload) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.uploads, u.id)
}

// sweep removes the bytes of an upload that ended. A VM that sleeps is not woken for it.
func (d *Door) sweep(ctx context.Context, u *upload) {
	if rec, ok := d.Engine.VMOf(vm.ID(u.vm)); !ok || rec.State != vm.Running {
		return
	}
	ctx, stop := context.WithTimeout(ctx, time.Minute)
	defer stop()
	call := &vm.Call{Actor: u.owner, Request: vm.NewRequestID()}
	if err := d.Inside.Remove(ctx, call, u.vm, "", u.temp, false); err != nil && vm.KindOf(err) != vm.NotFound {
		d.Log.Warn("the bytes of an upload that ended stay in its VM", "vm", u.vm, "file", u.temp, "err", err)
	}
}

// upload finds the upload in the path. It is the caller's own, or nobody's.
func (c *caller) upload() (*upload, error) {
	rec, err := c.find()
	if err != nil {
		return nil, err
	}
	id := c.PathValue("upload")
	c.d.mu.Lock()
	u := c.d.uploads[id]
	c.d.mu.Unlock()
	if u == nil || u.vm != string(rec.ID) || u.owner.Account != c.call.Actor.Account || u.owner.Identity != c.call.Actor.Identity {
		return nil, vm.Errorf(vm.NotFound, vm.Clip(id, 64), "no such upload").WithHint("it was committed, or it ended after an hour without a chunk or with the server: send the file again")
	}
	return u, nil
}

func (c *caller) uploadState() (answer, error) {
	u, err := c.upload()
	if err != nil {
		return answer{}, err
	}
	return ok(u.shown())
}

func (c *caller) dropUpload() (answer, error) {
	u, err := c.upload()
	if err != nil {
		return answer{}, err
	}
	c.d.forget(u)
	c.d.sweep(c.ctx, u)
	return done, nil
}

func inUse(u *upload) error {
	return vm.Errorf(vm.Busy, u.id, "a chunk of this upload is being written").WithHint("ask for its receivedBytes, and continue there")
}

// uploadChunk writes a chunk. What was received before is not written again.
func (c *caller) uploadChunk() error {
	u, err := c.upload()
	if err != nil {
		return err
	}
	offset, err := strconv.ParseInt(c.URL.Query().Get("offset"), 10, 64)
	if err != nil || offset < 0 {
		return invalid("offset", "is missing or no number")
	}
	if !u.busy.TryLock() {
		return inUse(u)
	}
	defer u.busy.Unlock()
	have := u.shown().Received
	switch {
	case offset > have:
		return vm.Errorf(vm.WrongState, u.id, "the chunk begins at %d, but only %d bytes have been received", offset, have)
	case c.ContentLength > maxChunk:
		return &vm.Error{Kind: vm.Limit, Subject: u.id, Msg: "a chunk has at most 256 MiB", Code: largeBody}
	case c.ContentLength >= 0 && offset+c.ContentLength > u.size:
		return invalid(u.id, "the chunk goes beyond the %d bytes of the file", u.size)
	}
	body := http.MaxBytesReader(c.w, c.Body, maxChunk)
	if _, err := io.CopyN(io.Discard, body, have-offset); err != nil && !errors.Is(err, io.EOF) {
		return cutOff(u, err)
	}
	if err := c.fill(u, body, have); err != nil {
		return err
	}
	send(c.w, encode(answer{http.StatusOK, u.shown()}))
	return nil
}

func cutOff(u *upload, err error) error {
	if tooLarge := new(http.MaxBytesError); errors.As(err, &tooLarge) {
		return &vm.Error{Kind: vm.Limit, Subject: u.id, Msg: "a chunk has at most 256 MiB", Code: largeBody}
	}
	return invalid(u.id, "the chunk is cut off")
}

// fill writes the rest of a chunk at an offset.
func (c *caller) fill(u *upload, body io.Reader, at int64) error {
	f, err := c.d.Inside.OpenHandle(c.ctx, c.again(), u.vm, "", u.temp, vm.OpenOptions{Write: true})
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }() // a write that failed has said so
	buf := make([]byte, copyBytes)
	for {
		n, err := io.ReadFull(body, buf)
		if at+int64(n) > u.size {
			return invalid(u.id, "the chunk goes beyond the %d bytes of the file", u.size)
		}
		if n > 0 {
			if err := writeAll(f, buf[:n], at); err != nil {
				return err
			}
			u.add(buf[:n])
			at += int64(n)
		}
		switch {
		case errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) && bodyEnded(body):
			return nil
		case err != nil:
			return cutOff(u, err)
		}
	}
}

// bodyEnded tells the end of a body from a connection that broke, for both of which
// io.ReadFull has the same error.
func bodyEnded(body io.Reader) bool {
	n, err := body.Read(make([]byte, 1))
	return n == 0 && errors.Is(err, io.EOF)
}

func writeAll(f engine.File, p []byte, at int64) error {
	n, err := f.WriteAt(p, at)
	if err == nil && n < len(p) {
		err = fmt.Errorf("only %d of %d bytes were written: %w", n, len(p), io.ErrShortWrite)
	}
	return err
}

// commitUpload gives the file its name, if all of it has arrived intact.
func (c *caller) commitUpload() (answer, error) {
	u, err := c.upload()
	if err != nil {
		return answer{}, err
	}
	if !u.busy.TryLock() {
		return answer{}, inUse(u)
	}
	defer u.busy.Unlock()
	if have := u.shown().Received; have != u.size {
		return answer{}, invalid(u.id, "%d of %d bytes have been received", have, u.size)
	}
	if u.digest != "" && hex.EncodeToString(u.sum.Sum(nil)) != u.digest {
		return answer{}, wrongDigest()
	}
	attr := vm.FileAttr{Mode: u.mode}
	old, err := c.d.Inside.Stat(c.ctx, c.call, u.vm, "", u.path)
	switch {
	case err == nil && old.Kind != vm.FileRegular:
		return answer{}, invalid(vm.Clip(u.path, 200), "not a regular file")
	case err == nil:
		kept := old.Mode & 0o7777
		if attr.UID, attr.GID = &old.UID, &old.GID; attr.Mode == nil {
			attr.Mode = &kept
		}
	case vm.AsError(err).Code != "FILE_NOT_FOUND":
		return answer{}, err
	}
	if attr.Mode != nil {
		if err := c.d.Inside.SetAttr(c.ctx, c.again(), u.vm, "", u.temp, attr); err != nil {
			return answer{}, err
		}
	}
	if err := c.d.Inside.Rename(c.ctx, c.again(), u.vm, "", u.temp, u.path); err != nil {
		return answer{}, err
	}
	c.d.forget(u)
	return done, nil
}
