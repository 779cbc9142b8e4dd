// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package audit

import (
	"cmp"
	"context"
	"crypto/ed25519"
	"errors"
	"log/slog"
	"os"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/warren-vm/warren/internal/merkle"
	"github.com/warren-vm/warren/vm"
)

const (
	segmentBytes = 8 << 20
	anchorEvery  = 256              // lines; also the most in one write
	anchorDelay  = time.Minute      // a line is signed this long after it was written
	maxUnsigned  = 32 * anchorEvery // with more unsigned lines than this, Begin waits for a signature
	maxBuffer    = 256 << 10        // of lines that are kept for the next write
	endDelay     = 50 * time.Millisecond
	retryDelay   = time.Second // of outcomes that could not be written
)

// Log is the open chain of one host. Close it once.
type Log struct {
	dir          string
	segmentBytes int64
	log          *slog.Logger

	urgent chan struct{} // a caller waits for the disk
	lazy   chan struct{} // an outcome must be written soon
	quit   chan struct{} // closed by Close
	done   chan struct{} // closed when the writer has ended
	kept   chan struct{} // closed when the chain's end was kept after that; nil without a Keeper

	signSoon chan struct{} // many lines are unsigned
	signNow  chan signing
	signed   chan struct{} // closed when the notary has ended
	outside  []*outsideAnchor
	told     sync.WaitGroup // of their goroutines

	mu      sync.Mutex         // guards the fields below
	queue   []*item            // lines that are not on disk yet, oldest first
	pending map[string]*Record // on disk, without an End
	segment int                // number of the last segment
	size    int64              // bytes of it on disk
	closed  bool
	point   point // the last line that is on disk
	signer  Signer
	handed  ed25519.PublicKey // the key that signs from now on, if it is not the signer's
	heir    bool              // the signer's key was handed the log, and has not signed yet
	// signedBy is the key that signed last, in hex; of a log without signatures, the
	// signer's.
	signedBy string
	first    int   // number of the oldest segment that is not pruned
	gone     *Head // the end of the log before this one; nil = there was none

	anchored   int64     // number of the last line that is signed
	anchoredAt time.Time // by the clock on the wall; zero = not since the start
	anchorErr  error     // why the last signature could not be written

	pruning   sync.Mutex // serialises Prune and RotateKey
	successor Signer     // takes over in Open; nil = none

	// The fields below belong to the writer.

	file   *os.File // the last segment
	buf    []byte   // of put, which uses it again
	seq    int64    // of the last line on disk
	hash   string   // of the last line on disk
	origin string   // hash of the first line of the chain
	tree   merkle.Tree
	broken error // the file is in an unknown state: write nothing more
}

// item is one line to write, or a request to write everything before it.
type item struct {
	line
	sync    bool       // no line
	written chan error // buffered; nil when no caller waits
	// abandoned: the caller no longer waits. Guarded by Log.mu.
	abandoned bool
}

// Begin records durably that an action is about to be taken, and returns the
// receipt's id. It blocks for one write to the disk, which concurrent callers
// share. On an error the action must not be taken. Kinds: NoSpace, Limit (too much
// detail), Unavailable (the log is closed), Internal.
func (l *Log) Begin(ctx context.Context, e Entry) (string, error) {
	ln, err := newLine(Begin, e)
	if err != nil {
		return "", err
	}
	it := &item{line: ln, written: make(chan error, 1)}
	if err := l.enqueue(it); err != nil {
		return "", err
	}
	select {
	case err := <-it.written:
		if err != nil {
			return "", err
		}
		return ln.ID, nil
	case <-ctx.Done():
	}
	l.mu.Lock()
	it.abandoned = true
	_, written := l.pending[ln.ID]
	l.mu.Unlock()
	if written { // between the two checks
		return "", errors.Join(ctx.Err(), l.End(ln.ID, ctx.Err(), nil))
	}
	return "", ctx.Err()
}

// End records the outcome of an action; nil = it was done. It does not wait for the
// disk: the line is written some 50 ms later, or as soon as the disk has space
// again. An id that is unknown or has ended has kind NotFound.
func (l *Log) End(id string, outcome error, detail map[string]any) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	r, ok := l.pending[id]
	switch {
	case l.closed:
		return errClosed()
	case !ok:
		return vm.Errorf(vm.NotFound, id, "no such open audit record")
	}
	l.endLocked(r.Entry, id, outcome, detail)
	delete(l.pending, id)
	return nil
}

func (l *Log) endLocked(e Entry, of string, outcome error, detail map[string]any) {
	e.Subject, e.Request, e.Detail = "", "", detail
	ln, err := newLine(End, e)
	if err != nil { // the outcome matters more than the detail
		e.Detail = map[string]any{"omitted": err.Error()}
		ln, _ = newLine(End, e)
	}
	ln.Of, ln.Outcome = of, "ok"
	if outcome != nil {
		ln.Outcome, ln.Error = string(vm.KindOf(outcome)), cut(outcome.Error())
	}
	l.queue = append(l.queue, &item{line: ln})
	wake(l.lazy)
}

func (l *Log) enqueue(items ...*item) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return errClosed()
	}
	l.queue = append(l.queue, items...)
	wake(l.urgent)
	return nil
}

func wake(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default: // it is awake already
	}
}

// Pending returns the actions without an outcome, oldest first.
func (l *Log) Pending() []Record {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := make([]Record, 0, len(l.pending))
	for _, r := range l.pending {
		out = append(out, *r)
	}
	slices.SortFunc(out, func(a, b Record) int { return cmp.Compare(a.Seq, b.Seq) })
	return out
}

// Record durably writes records of what has already happened; each entry has its
// outcome. It blocks for a write to the disk. After an error, some of them may be written.
// Kinds as of Begin.
func (l *Log) Record(ctx context.Context, entries []Entry) error {
	items := make([]*item, 0, len(entries))
	for _, e := range entries {
		ln, err := newLine(Begin, e)
		if err != nil {
			return err
		}
		items = append(items, &item{line: ln, written: make(chan error, 1)})
	}
	if err := l.enqueue(items...); err != nil {
		return err
	}
	for _, it := range items {
		select {
		case err := <-it.written:
			if err != nil {
				return err
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// Sync waits until everything so far is on disk and signed.
func (l *Log) Sync() error {
	it := &item{sync: true, written: make(chan error, 1)}
	if err := l.enqueue(it); err != nil {
		return err
	}
	if err := <-it.written; err != nil {
		return err
	}
	return l.signHead(nil)
}

// Close writes what is left, signs the chain's end and closes the file.
func (l *Log) Close() error {
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		return nil
	}
	it := &item{sync: true, written: make(chan error, 1)}
	l.queue = append(l.queue, it)
	l.closed = true
	close(l.quit)
	l.mu.Unlock()
	<-l.done
	<-l.signed
	for _, o := range l.outside {
		o.end()
	}
	l.told.Wait()
	if l.kept != nil {
		<-l.kept
	}
	l.mu.Lock()
	unsigned := l.anchorErr
	l.mu.Unlock()
	return errors.Join(<-it.written, unsigned, l.file.Close())
}

func errClosed() error { return vm.Errorf(vm.Unavailable, "audit", "the log is closed") }

func fileError(name string, err error) error {
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		return vm.Errorf(vm.NoSpace, name, "no space for the audit log: %w", err).
			WithHint("free disk space: no action is taken without a record")
	}
	return vm.Errorf(vm.Internal, name, "audit log: %w", err)
}

func corrupt(name, format string, args ...any) error {
	return vm.Errorf(vm.Corrupt, name, format, args...).
		WithHint("restore the audit directory from a backup; or move it aside as evidence and start again, which begins a new log, and record that with `warren audit verify --accept-new-log`")
}
