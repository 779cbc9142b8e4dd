// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package changes

import (
	"context"
	"sync/atomic"

	"github.com/warren-vm/warren/internal/reader"
	"github.com/warren-vm/warren/internal/review"
	"github.com/warren-vm/warren/vm"
)

// CountReads makes the room count how often it has a disk read for a truth. Call it before
// the first use.
func (x *Changes) CountReads() (reads func() int) {
	counted := &countedReader{DiskReader: x.cfg.Reader}
	x.cfg.Reader = counted
	return func() int { return int(counted.n.Load()) }
}

type countedReader struct {
	DiskReader
	n atomic.Int32
}

func (c *countedReader) Truth(ctx context.Context, d reader.Disks, workdir string, each func(review.TruthLine) error) error {
	c.n.Add(1)
	return c.DiskReader.Truth(ctx, d, workdir, each)
}

// Recorded reports whether there is a record of a VM's memory.
func (m *Memories) Recorded(id vm.ID) bool {
	_, ok := m.table.Get(id)
	return ok
}

// Noted reports whether a task holds anything about a VM's memory.
func (m *Memories) Noted(id vm.ID) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	_, dirty := m.dirty[id]
	return dirty || m.watched[id] || m.syncing[id] != nil
}
