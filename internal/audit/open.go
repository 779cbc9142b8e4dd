// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package audit

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"os"

	"github.com/warren-vm/warren/internal/layout"
	"github.com/warren-vm/warren/internal/merkle"
	"github.com/warren-vm/warren/vm"
)

// Options are what a log may have beside its directory.
type Options struct {
	Signer  Signer       // of checkpoints; nil = a key in the directory
	Outside []Anchor     // places outside of the directory that get each checkpoint
	Keeper  Keeper       // has the log's end, which is compared before anything is signed; nil = none
	Log     *slog.Logger // nil = none
}

// Open opens the log in dir, creates it if needed, and repairs a line that a crash
// left torn. It reads and checks only the last segment; of a log of an older warren,
// once, all of them. Only one process at a time: the caller holds the lock of the data
// directory. The log outlives ctx. Kinds: Corrupt (the last segment does not fit the
// chain, its signatures or what the keeper has, or another key signs it), NoSpace,
// Internal, and those of the signer and the keeper.
func Open(ctx context.Context, dir string, o Options) (*Log, error) {
	return openSized(ctx, dir, o, segmentBytes)
}

func openSized(ctx context.Context, dir string, o Options, segmentBytes int64) (*Log, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fileError(dir, err)
	}
	l := &Log{
		dir: dir, segmentBytes: segmentBytes, hash: genesis, pending: map[string]*Record{}, log: o.Log,
		urgent: make(chan struct{}, 1), lazy: make(chan struct{}, 1), quit: make(chan struct{}), done: make(chan struct{}),
		signSoon: make(chan struct{}, 1), signNow: make(chan signing), signed: make(chan struct{}),
	}
	if l.log == nil {
		l.log = slog.New(slog.DiscardHandler)
	}
	last, err := lastCheckpoint(dir)
	if err != nil {
		return nil, err
	}
	var kept Head
	if o.Keeper != nil {
		if kept, err = o.Keeper.Load(ctx); err != nil {
			return nil, err
		}
	}
	if err := l.chooseSigner(last, o.Signer, kept); err != nil {
		return nil, err
	}
	torn, err := l.load(last)
	if err != nil {
		return nil, err
	}
	if err := l.compare(kept, last); err != nil {
		return nil, err
	}
	l.gone = kept.Gone
	if !l.heir {
		if err := publish(dir, l.signer.Public()); err != nil {
			return nil, err
		}
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
	l.point = l.here()
	lifetime := context.WithoutCancel(ctx) // its goroutines end with Close
	if l.heir || l.due() {                 // what a crash left unsigned
		wake(l.signSoon)
	}
	go l.write()
	go l.notary(lifetime)
	l.startOutside(lifetime, o.Outside)
	if o.Keeper != nil {
		err = l.keep(lifetime, o.Keeper, kept)
	}
	if err == nil && l.successor != nil {
		err = l.handOver(l.successor.Public(), l.successor)
	}
	if err != nil {
		return nil, errors.Join(err, l.Close())
	}
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
func (l *Log) load(last vm.Checkpoint) (torn int64, err error) {
	found, err := segments(l.dir)
	if err != nil {
		return 0, err
	}
	if len(found) > 0 {
		l.first, l.segment = found[0], found[len(found)-1]
		if have := l.segment - l.first + 1; have != len(found) {
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

// startOfSegment takes the chain's hash and tree before the last segment from the segment
// itself, or, if an older warren wrote it, from all before it.
func (l *Log) startOfSegment(last vm.Checkpoint) error {
	l.seq, l.hash, l.origin, l.tree = 0, genesis, "", merkle.Tree{}
	if l.segment == 0 {
		return nil
	}
	stop := errors.New("stop")
	var head line
	_, _, err := forward(l.segmentPath(l.segment), func(raw []byte) (err error) {
		if head, _, err = parse(raw); err != nil {
			err = corrupt(l.segmentPath(l.segment), "the first record %w", err)
		} else {
			err = stop
		}
		return err
	})
	if err != nil && !errors.Is(err, stop) {
		return err
	}
	if tree, ok := head.peaks(); ok && last.Log != "" {
		l.seq, l.hash, l.origin, l.tree = head.Seq-1, head.Prev, last.Log, tree
		return nil
	}
	err = hashes(l.dir, func(n int, sum [sha256.Size]byte) error {
		if n == l.segment {
			return stop
		}
		l.hash = hex.EncodeToString(sum[:])
		if l.seq++; l.seq == 1 {
			l.origin = l.hash
		}
		l.tree.Add(merkle.Leaf(sum[:]))
		return nil
	})
	if errors.Is(err, stop) {
		err = nil
	}
	if err == nil && l.seq == 0 {
		err = corrupt(l.dir, "the segments before number %d are empty", l.segment)
	}
	return err
}

// peaks returns the tree that the first line of a segment names.
func (ln *line) peaks() (t merkle.Tree, ok bool) {
	t.Size = ln.Seq - 1
	for _, p := range ln.Tree {
		sum, err := hex.DecodeString(p)
		if err != nil || len(sum) != sha256.Size {
			return t, false
		}
		t.Peaks = append(t.Peaks, merkle.Hash(sum))
	}
	return t, ln.Seq > 1 && t.Whole()
}

// loadSegment reads the last segment. If a crash left it without its first line,
// which lists the open actions, it is removed and the one before is the last.
func (l *Log) loadSegment(last vm.Checkpoint) (torn int64, err error) {
	if err := l.startOfSegment(last); err != nil {
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
		sum, err := hex.DecodeString(hash)
		if err != nil {
			return corrupt(name, "record %d %w", ln.Seq, err)
		}
		l.seq, l.hash = ln.Seq, hash
		if l.tree.Add(merkle.Leaf(sum)); l.origin == "" {
			l.origin = hash
		}
		switch ln.Phase {
		case Begin:
			if ln.Outcome == "" {
				l.pending[ln.ID] = ln.record()
			}
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
	if l.size == 0 && l.segment > l.first {
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
	for n := l.segment - 1; n >= l.first && len(ids) > 0; n-- {
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
		err = follows(ln.Seq, ln.Prev, seq, hash)
	}
	return ln, own, err
}

func syncDir(dir string) error {
	if err := layout.SyncDir(dir); err != nil {
		return fileError(dir, err)
	}
	return nil
}
