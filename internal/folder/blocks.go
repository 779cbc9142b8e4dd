// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package folder

import (
	"container/list"
	"errors"
	"os"
	"sync"

	"github.com/warren-vm/warren/vm"
)

// Sizes of the cache of objects' bytes.
const (
	blockBytes = maxData
	maxBlocks  = 256
)

// blocks keeps parts of objects in a file without a name, which is gone with the process.
// It has room for maxBlocks; the one that was not used for longest makes room for another.
type blocks struct {
	file *os.File

	mu   sync.Mutex
	have map[blockKey]*block
	use  *list.List // of *block, the last used first
	free []int      // places that were given back
}

// blockKey names a block of a version of a key: its bytes never change.
type blockKey struct {
	key, version string
	index        int64
}

type block struct {
	blockKey
	place  int // in the file, in blocks
	ready  chan struct{}
	err    error // once ready
	users  int
	inList *list.Element
}

func newBlocks(dir string) (*blocks, error) {
	f, err := os.CreateTemp(dir, "objects-*")
	if err != nil {
		return nil, vm.Errorf(vm.Internal, dir, "the cache of objects cannot be made: %w", err)
	}
	if err := os.Remove(f.Name()); err != nil {
		f.Close()
		return nil, vm.Errorf(vm.Internal, dir, "the cache of objects cannot be made: %w", err)
	}
	return &blocks{file: f, have: map[blockKey]*block{}, use: list.New()}, nil
}

func (c *blocks) close() { c.file.Close() }

// take returns a block and whether the caller must fill it; nil = all places are in use.
func (c *blocks) take(k blockKey) (b *block, fill bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if b = c.have[k]; b != nil {
		b.users++
		c.use.MoveToFront(b.inList)
		return b, false
	}
	place := len(c.have)
	switch n := len(c.free); {
	case n > 0:
		place, c.free = c.free[n-1], c.free[:n-1]
	case place >= maxBlocks:
		old := c.oldest()
		if old == nil {
			return nil, true
		}
		c.drop(old)
		place, c.free = c.free[0], nil
	}
	b = &block{blockKey: k, place: place, ready: make(chan struct{}), users: 1}
	b.inList = c.use.PushFront(b)
	c.have[k] = b
	return b, true
}

// oldest is the block that was not used for longest, of those that nobody uses. The caller
// holds mu.
func (c *blocks) oldest() *block {
	for e := c.use.Back(); e != nil; e = e.Prev() {
		if b := e.Value.(*block); b.users == 0 { //nolint:forcetypeassert // only blocks are in it
			return b
		}
	}
	return nil
}

// drop forgets a block and gives its place back. The caller holds mu.
func (c *blocks) drop(b *block) {
	delete(c.have, b.blockKey)
	c.use.Remove(b.inList)
	c.free = append(c.free, b.place)
}

// filled ends the filling of a block: its first bytes are data.
func (c *blocks) filled(b *block, data []byte, err error) {
	if err == nil {
		if _, failed := c.file.WriteAt(data, int64(b.place)*blockBytes); failed != nil {
			err = errNotKept
		}
	}
	b.err = err
	close(b.ready)
}

// errNotKept is a block for which the disk had no room.
var errNotKept = errors.New("folder: the block is not kept")

// put ends a use of a block. One that could not be filled is forgotten.
func (c *blocks) put(b *block) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if b.users--; b.users == 0 && b.err != nil {
		c.drop(b)
	}
}

// read reads bytes of a block, which fill fetches if it is not kept: n bytes from its
// beginning. Errors are those of fill.
func (c *blocks) read(k blockKey, n int, from int, p []byte, fill func([]byte) error) error {
	b, mine := c.take(k)
	if b != nil {
		defer c.put(b)
	}
	if b != nil && !mine {
		<-b.ready
		if b.err == nil {
			_, err := c.file.ReadAt(p, int64(b.place)*blockBytes+int64(from))
			return err
		}
	}
	if mine || errors.Is(b.err, errNotKept) {
		data := buffer(outHeader + maxMessage)
		defer recycle(data)
		data = data[:n]
		err := fill(data)
		if mine && b != nil {
			c.filled(b, data, err)
		}
		copy(p, data[from:])
		return err
	}
	return b.err
}
