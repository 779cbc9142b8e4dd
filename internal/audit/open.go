// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package audit

import (
	"fmt"
	"os"

	"github.com/warren-vm/warren/internal/layout"
)

// Open opens the log in dir, creates it if needed, and repairs a line that a crash
// left torn. It reads and checks only the last segment. Only one process at a time:
// the caller holds the lock of the data directory. Kinds: Corrupt (the last segment
// does not fit the chain or its signatures), NoSpace, Internal.
func Open(dir string) (*Log, error) { return openSized(dir, segmentBytes) }

func openSized(dir string, segmentBytes int64) (*Log, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fileError(dir, err)
	}
	key, err := loadKey(dir)
	if err != nil {
		return nil, err
	}
	l := &Log{
		dir: dir, key: key, segmentBytes: segmentBytes, hash: genesis, pending: map[string]*Record{},
		urgent: make(chan struct{}, 1), lazy: make(chan struct{}, 1), quit: make(chan struct{}), done: make(chan struct{}),
	}
	torn, err := l.load()
	if err != nil {
		return nil, err
	}
	if l.file, err = openSegment(dir, l.segment); err != nil {
		return nil, err
	}
	if torn > 0 {
		if err := l.repair(torn); err != nil {
			l.file.Close()
			return nil, err
		}
	}
	l.end = Head{Seq: l.seq, Hash: l.hash}
	go l.write()
	return l, nil
}

// repair cuts off a torn last line and records that. The action of that line was
// never allowed to begin.
func (l *Log) repair(torn int64) error {
	if err := l.file.Truncate(l.size); err != nil {
		return fileError(l.file.Name(), err)
	}
	ln, err := newLine(Note, Entry{Subject: fmt.Sprintf("%d bytes of a torn last line were cut off after a crash", torn)})
	if err != nil {
		return err
	}
	l.size, err = l.put([]*line{&ln})
	return err
}

// load finds the chain's end, its last signature and the open actions. It returns
// the number of bytes after the last whole line.
func (l *Log) load() (torn int64, err error) {
	found, err := segments(l.dir)
	if err != nil {
		return 0, err
	}
	last, err := l.lastAnchor()
	if err != nil {
		return 0, err
	}
	if len(found) > 0 {
		if l.segment = found[len(found)-1]; l.segment != len(found)-1 {
			return 0, corrupt(l.dir, "a segment of the log is missing: there are %d, the last is number %d", len(found), l.segment)
		}
		if torn, err = l.loadSegment(last); err != nil {
			return 0, err
		}
	}
	if last.Seq > l.seq {
		return 0, corrupt(l.dir, "the tail is cut: record %d was signed, but the last one is %d", last.Seq, l.seq)
	}
	l.anchored = last.Seq
	return torn, nil
}

// startOfSegment takes the chain's hash before the last segment from the line
// before it.
func (l *Log) startOfSegment() error {
	l.seq, l.hash = 0, genesis
	if l.segment == 0 {
		return nil
	}
	name := l.segmentPath(l.segment - 1)
	torn, err := backward(name, -1, func(raw []byte) error {
		ln, hash, err := parse(raw)
		if err != nil {
			return corrupt(name, "the last record %w", err)
		}
		l.seq, l.hash = ln.Seq, hash
		return errStop
	})
	if err == nil && (torn > 0 || l.seq == 0) {
		err = corrupt(name, "it ends in the middle of a record")
	}
	return err
}

// loadSegment reads the last segment. If a crash left it without its first line,
// which lists the open actions, it is removed and the one before is the last.
func (l *Log) loadSegment(last anchor) (torn int64, err error) {
	if err := l.startOfSegment(); err != nil {
		return 0, err
	}
	name := l.segmentPath(l.segment)
	older := map[string]bool{} // open actions that began in earlier segments
	l.size, torn, err = forward(name, func(raw []byte) error {
		ln, hash, err := next(raw, l.seq, l.hash)
		if err != nil {
			return corrupt(name, "record %d %w", l.seq+1, err)
		}
		if ln.Seq == last.Seq && hash != last.Hash {
			return corrupt(name, "record %d is not the one that was signed", ln.Seq)
		}
		l.seq, l.hash = ln.Seq, hash
		switch ln.Phase {
		case Begin:
			l.pending[ln.ID] = ln.record()
		case End:
			delete(l.pending, ln.Of)
			delete(older, ln.Of)
		case Note:
			for _, id := range ln.Open {
				older[id] = true
			}
		}
		return nil
	})
	if err != nil {
		return 0, err
	}
	if l.size == 0 && l.segment > 0 {
		if err := os.Remove(name); err != nil {
			return 0, fileError(name, err)
		}
		l.segment--
		return l.loadSegment(last)
	}
	return torn, l.findBegun(older)
}

// findBegun finds the beginnings of actions in older segments.
func (l *Log) findBegun(ids map[string]bool) error {
	for n := l.segment - 1; n >= 0 && len(ids) > 0; n-- {
		_, err := backward(l.segmentPath(n), -1, func(raw []byte) error {
			ln, _, err := parse(raw)
			if err != nil {
				return corrupt(l.segmentPath(n), "a record %w", err)
			}
			if ln.Phase == Begin && ids[ln.ID] {
				l.pending[ln.ID] = ln.record()
				delete(ids, ln.ID)
			}
			if len(ids) == 0 {
				return errStop
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// next reads the line that follows the one with this number and hash.
func next(raw []byte, seq int64, hash string) (line, string, error) {
	ln, own, err := parse(raw)
	if err == nil {
		err = ln.follows(seq, hash)
	}
	return ln, own, err
}

func syncDir(dir string) error {
	if err := layout.SyncDir(dir); err != nil {
		return fileError(dir, err)
	}
	return nil
}
