// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package audit

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/warren-vm/warren/internal/layout"
	"github.com/warren-vm/warren/internal/merkle"
	"github.com/warren-vm/warren/vm"
)

// write is the one goroutine that writes: lines that arrived during the last write
// go out together. It ends when quit is closed.
func (l *Log) write() {
	defer close(l.done)
	soon := time.NewTimer(endDelay)
	defer soon.Stop()
	armed := true // soon is running
	for {
		select {
		case <-l.urgent:
		case <-soon.C:
			armed = false
		case <-l.lazy:
			if !armed {
				soon.Reset(endDelay)
				armed = true
			}
			continue
		case <-l.quit:
			l.flush()
			return
		}
		if l.flush() && !armed {
			soon.Reset(retryDelay)
			armed = true
		}
	}
}

// flush writes the queue to disk. It reports whether outcomes are left that could
// not be written.
func (l *Log) flush() (left bool) {
	for {
		l.mu.Lock()
		batch := slices.Clone(l.queue[:min(len(l.queue), anchorEvery)])
		l.mu.Unlock()
		if len(batch) == 0 {
			return false
		}
		size, err := l.store(batch)
		left, due := l.settle(batch, size, err)
		if due {
			wake(l.signSoon)
		}
		if left {
			return true
		}
	}
}

// store appends a batch of lines and waits for the disk; all of them are written or
// none. It returns the segment's new size.
func (l *Log) store(batch []*item) (int64, error) {
	if l.broken != nil {
		return l.size, l.broken
	}
	l.mu.Lock()
	behind := l.seq-l.anchored >= maxUnsigned
	l.mu.Unlock()
	if behind {
		if err := l.signHead(nil); err != nil {
			return l.size, err
		}
	}
	lines := make([]*line, 0, len(batch))
	for _, it := range batch {
		if !it.sync {
			lines = append(lines, &it.line)
		}
	}
	if l.size >= l.segmentBytes && len(lines) > 0 {
		if err := l.rotate(); err != nil {
			return l.size, err
		}
	}
	return l.put(lines)
}

// put writes lines and moves the chain's end. Only the writer calls it, and Open
// before there is a writer.
func (l *Log) put(lines []*line) (int64, error) {
	if len(lines) == 0 {
		return l.size, nil
	}
	buf := l.buf[:0]
	var err error
	seq, hash, origin, tree := l.seq, l.hash, l.origin, l.tree.Clone()
	for _, ln := range lines {
		ln.Seq, ln.Prev = seq+1, hash
		var sum [sha256.Size]byte
		if buf, sum, err = appendLine(buf, ln); err != nil {
			return l.size, err
		}
		hash = hex.EncodeToString(sum[:])
		if tree.Add(merkle.Leaf(sum[:])); origin == "" {
			origin = hash
		}
		seq++
	}
	if l.buf = nil; cap(buf) <= maxBuffer {
		l.buf = buf
	}
	_, err = l.file.WriteAt(buf, l.size)
	if err == nil {
		err = l.file.Sync()
	}
	if err != nil {
		if terr := l.file.Truncate(l.size); terr != nil {
			l.broken = fileError(l.file.Name(), errors.Join(err, terr))
		}
		return l.size, fileError(l.file.Name(), err)
	}
	l.seq, l.hash, l.origin, l.tree = seq, hash, origin, tree
	return l.size + int64(len(buf)), nil
}

// settle removes a batch from the queue and answers its callers. If the write
// failed, outcomes stay in the queue, because their actions were done. It reports
// whether there are any, and whether a signature is due.
func (l *Log) settle(batch []*item, size int64, err error) (left, due bool) {
	l.mu.Lock()
	l.size = size
	l.point = l.here()
	if err == nil {
		l.queue = slices.Clone(l.queue[len(batch):])
	} else {
		batch, l.queue = l.queue, nil // later lines would fail, too
		for _, it := range batch {
			if it.written == nil {
				l.queue = append(l.queue, it)
			}
		}
		left = len(l.queue) > 0
	}
	for _, it := range batch {
		if err != nil || it.Phase != Begin || it.Outcome != "" {
			continue
		}
		r := it.record()
		if it.abandoned {
			l.endLocked(r.Entry, it.ID, vm.Cancelled, nil)
		} else {
			l.pending[it.ID] = r
		}
	}
	due = l.due()
	l.mu.Unlock()
	for _, it := range batch {
		if it.written != nil {
			it.written <- err
		}
	}
	return left, due
}

// due reports whether a signature is due: many lines are unsigned, or the last one was made
// long ago by the clock of the records, which keeps running while the host sleeps. The caller
// holds the lock.
func (l *Log) due() bool {
	unsigned := l.seq - l.anchored
	return unsigned >= anchorEvery || unsigned > 0 && time.Now().Round(0).Sub(l.anchoredAt) > anchorDelay
}

// here is the state of the chain that is on disk. The writer calls it, and Open before
// there is a writer.
func (l *Log) here() point {
	return point{Head: Head{Seq: l.seq, Hash: l.hash, Log: l.origin}, tree: l.tree} // put makes a tree of its own
}

func segmentName(n int) string { return fmt.Sprintf("%06d.jsonl", n) }

// rotate begins a new segment. Its first line names the open actions, so that a
// start needs to read only the last segment.
func (l *Log) rotate() error {
	l.mu.Lock()
	head := line{ID: vm.NewReceiptID(), Time: time.Now().UTC(), Phase: Note, Subject: newSegment}
	for _, p := range l.tree.Peaks {
		head.Tree = append(head.Tree, hex.EncodeToString(p[:]))
	}
	for id := range l.pending {
		head.Open = append(head.Open, id)
	}
	for _, it := range l.queue {
		if it.Phase == End { // written to the new segment
			head.Open = append(head.Open, it.Of)
		}
	}
	next := l.segment + 1
	l.mu.Unlock()
	if len(head.Open) > maxOpen { // their line would be too long: the segment grows instead
		return nil
	}
	slices.Sort(head.Open)
	f, err := openSegment(l.dir, next)
	if err != nil {
		return err
	}
	if err := f.Truncate(0); err != nil { // what an earlier attempt left
		return errors.Join(fileError(f.Name(), err), f.Close())
	}
	old, oldSize := l.file, l.size
	l.file = f
	l.setSize(next, 0)
	size, err := l.put([]*line{&head})
	if err != nil {
		l.file = old
		l.setSize(next-1, oldSize)
		// A start accepts an empty last segment, and a complete one.
		return errors.Join(err, f.Close(), os.Remove(f.Name()))
	}
	l.setSize(next, size)
	return old.Close()
}

func (l *Log) setSize(segment int, size int64) {
	l.mu.Lock()
	l.segment, l.size = segment, size
	l.mu.Unlock()
}

func openSegment(dir string, n int) (*os.File, error) {
	name := filepath.Join(dir, segmentName(n))
	f, err := os.OpenFile(name, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fileError(name, err)
	}
	if err := layout.SyncDir(dir); err != nil {
		return nil, errors.Join(fileError(name, err), f.Close())
	}
	return f, nil
}
