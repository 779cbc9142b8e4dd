// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package audit

import (
	"context"
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/warren-vm/warren/vm"
)

const (
	segmentBytes = 32 << 20
	anchorEvery  = 256 // lines
	recent       = 10_000
	maxUnwritten = 1 << 20 // bytes that wait for a disk that takes nothing
	endDelay     = 50 * time.Millisecond // an outcome is on disk this long after End
)

// Log is the open chain of one host. Close it once.
type Log struct {
	dir string
	key ed25519.PrivateKey

	mu sync.Mutex // guards the fields below
	// file is the last segment; only the writer goroutine writes to it.
	file     *os.File
	size     int64
	segment  int
	seq      int64 // of the last line
	hash     string
	buf      []byte         // lines not yet written
	waiters  []chan<- error // of Begins in buf
	records  []*Record      // the most recent, oldest first
	byID     map[string]*Record
	anchored int64 // seq of the last anchor; only the writer uses it
	closed   bool

	failed error // of the last write; only the writer uses it, and Close after it

	wake chan bool     // true = somebody waits
	done chan struct{} // closed when the writer has ended
}

// Open opens the chain in dir, making it first, and repairs a line that a
// crash left torn. Kinds: Corrupt (a line before the last does not fit the
// chain), NoSpace, Internal.
func Open(dir string) (*Log, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fileError(dir, err)
	}
	key, err := loadKey(dir)
	if err != nil {
		return nil, err
	}
	l := &Log{dir: dir, key: key, hash: genesis, byID: map[string]*Record{}, wake: make(chan bool, 1), done: make(chan struct{})}
	torn, err := l.load()
	if err != nil {
		return nil, err
	}
	if err := l.openSegment(); err != nil {
		return nil, err
	}
	go l.write()
	if torn > 0 {
		err = l.note(fmt.Sprintf("%d bytes of a torn last line were cut off after a crash", torn))
	}
	return l, err
}

// Begin records durably that an action is about to be taken, and returns the
// receipt's id. When it fails the action must not be taken.
func (l *Log) Begin(ctx context.Context, e Entry) (string, error) {
	if len(e.Subject) > maxSubject {
		e.Subject = e.Subject[:maxSubject] + "…"
	}
	id := vm.NewReceiptID()
	ln := line{ID: id, Phase: Begin, Entry: e}
	written := make(chan error, 1)
	if err := l.append(ln, written); err != nil {
		return "", err
	}
	select {
	case err := <-written:
		return id, err
	case <-ctx.Done():
		// The line may be written all the same; then it is closed as cancelled.
		return "", errors.Join(ctx.Err(), l.End(id, ctx.Err(), nil))
	}
}

// End records the outcome of an action; nil = it was done. It does not wait
// for the disk. An unknown id has kind NotFound.
func (l *Log) End(id string, outcome error, detail map[string]any) error {
	l.mu.Lock()
	r, ok := l.byID[id]
	l.mu.Unlock()
	if !ok || r.Outcome != Pending {
		return vm.Errorf(vm.NotFound, id, "no such open audit record")
	}
	ln := line{ID: vm.NewReceiptID(), Phase: End, Of: id, Outcome: "ok", Entry: Entry{Op: r.Op, VM: r.VM, Detail: detail}}
	if outcome != nil {
		ln.Outcome, ln.Error = string(vm.KindOf(outcome)), outcome.Error()
		if len(ln.Error) > maxSubject {
			ln.Error = ln.Error[:maxSubject] + "…"
		}
	}
	return l.append(ln, nil)
}

func (l *Log) note(text string) error {
	written := make(chan error, 1)
	if err := l.append(line{ID: vm.NewReceiptID(), Phase: Note, Entry: Entry{Subject: text}}, written); err != nil {
		return err
	}
	return <-written
}

// append puts a line at the end of the chain and wakes the writer.
func (l *Log) append(ln line, written chan<- error) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return vm.Errorf(vm.Unavailable, "audit", "the chain is closed")
	}
	if len(l.buf) > maxUnwritten {
		return vm.Errorf(vm.NoSpace, "audit", "the chain cannot be written").WithHint("free disk space: no action is taken without a record")
	}
	ln.Seq, ln.Time = l.seq+1, time.Now().UTC()
	data, err := json.Marshal(ln)
	if err != nil {
		return vm.Errorf(vm.Internal, "audit", "%w", err)
	}
	if len(data) > maxLine {
		return vm.Errorf(vm.Limit, "audit", "a record of %d bytes, at most %d", len(data), maxLine)
	}
	hash := chain(l.hash, data)
	l.buf = append(l.buf, hash...)
	l.buf = append(append(append(l.buf, ' '), data...), '\n')
	l.seq, l.hash = ln.Seq, hash
	l.take(ln)
	if written != nil {
		l.waiters = append(l.waiters, written)
	}
	select {
	case l.wake <- written != nil:
	default:
		if written != nil { // replace a lazy wake by an urgent one
			select {
			case <-l.wake:
			default:
			}
			l.wake <- true
		}
	}
	return nil
}

// take notes a line in memory. The lock is held.
func (l *Log) take(ln line) {
	switch ln.Phase {
	case Begin:
		r := &Record{Entry: ln.Entry, ID: ln.ID, Seq: ln.Seq, Time: ln.Time, Outcome: Pending}
		l.records = append(l.records, r)
		l.byID[ln.ID] = r
		if len(l.records) > 2*recent {
			l.forget()
		}
	case End:
		if r, ok := l.byID[ln.Of]; ok {
			r.Outcome, r.Error, r.EndedAt, r.Result = ln.Outcome, ln.Error, ln.Time, ln.Detail
		}
	}
}

// forget drops old ended records from memory.
func (l *Log) forget() {
	old := l.records[:len(l.records)-recent]
	kept := old[:0:0]
	for _, r := range old {
		if r.Outcome == Pending {
			kept = append(kept, r)
		} else {
			delete(l.byID, r.ID)
		}
	}
	l.records = append(kept, l.records[len(l.records)-recent:]...)
}

// write is the one goroutine that writes: whatever has gathered while the last
// write was on its way goes out together.
func (l *Log) write() {
	defer close(l.done)
	for urgent := range l.wake {
		if !urgent {
			timer := time.NewTimer(endDelay)
			select {
			case <-timer.C:
			case _, open := <-l.wake:
				timer.Stop()
				if !open {
					l.flush(true)
					return
				}
			}
		}
		l.flush(false)
	}
	l.flush(true)
}

func (l *Log) flush(last bool) {
	l.mu.Lock()
	buf, waiters := l.buf, l.waiters
	l.buf, l.waiters = nil, nil
	seq, hash := l.seq, l.hash
	l.mu.Unlock()
	err := l.store(buf)
	if err == nil {
		buf = nil
	}
	if err == nil && (last && seq > l.anchored || seq >= l.anchored+anchorEvery) {
		err = l.anchor(seq, hash)
	}
	if err != nil {
		// The lines stay in the chain and go out with the next ones; who waited
		// for them is refused, and a later start closes them.
		l.mu.Lock()
		l.buf = append(buf, l.buf...)
		l.mu.Unlock()
	}
	l.failed = err
	for _, w := range waiters {
		w <- err
	}
}

func (l *Log) store(buf []byte) error {
	if len(buf) == 0 {
		return nil
	}
	if l.size > segmentBytes {
		l.segment++
		l.file.Close()
		if err := l.openSegment(); err != nil {
			return err
		}
	}
	if _, err := l.file.Write(buf); err != nil {
		return fileError(l.file.Name(), errors.Join(err, l.file.Truncate(l.size)))
	}
	if err := l.file.Sync(); err != nil {
		return fileError(l.file.Name(), errors.Join(err, l.file.Truncate(l.size)))
	}
	l.size += int64(len(buf))
	return nil
}

func segmentName(n int) string { return fmt.Sprintf("%06d.jsonl", n) }

func (l *Log) openSegment() error {
	f, err := os.OpenFile(filepath.Join(l.dir, segmentName(l.segment)), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return fileError(l.dir, err)
	}
	st, err := f.Stat()
	if err != nil {
		f.Close()
		return fileError(l.dir, err)
	}
	l.file, l.size = f, st.Size()
	return nil
}

// Pending returns the actions that were begun and have no outcome.
func (l *Log) Pending() []Record {
	l.mu.Lock()
	defer l.mu.Unlock()
	var out []Record
	for _, r := range l.records {
		if r.Outcome == Pending {
			out = append(out, *r)
		}
	}
	return out
}

// Filter says which records are wanted.
type Filter struct {
	Account vm.AccountID // "" = all
	VM      vm.ID        // "" = all
	Limit   int          // 0 = 100
	Before  int64        // only records with a lower Seq; 0 = from the newest
}

// List returns records, newest first: of the last 10,000, which are in memory.
// Older ones are in the files.
func (l *Log) List(f Filter) []Record {
	if f.Limit <= 0 {
		f.Limit = 100
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	var out []Record
	for _, r := range slices.Backward(l.records) {
		if len(out) == f.Limit {
			break
		}
		if (f.Before == 0 || r.Seq < f.Before) && (f.Account == "" || r.Actor.Account == f.Account) && (f.VM == "" || r.VM == f.VM) {
			out = append(out, *r)
		}
	}
	return out
}

// Sync waits until everything so far is on disk and signs the chain's end.
func (l *Log) Sync() error { return l.note("verified") }

// Close writes what is left, signs the chain's end and closes the file.
func (l *Log) Close() error {
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		return nil
	}
	l.closed = true
	close(l.wake)
	l.mu.Unlock()
	<-l.done
	return errors.Join(l.failed, l.file.Close())
}

func fileError(name string, err error) error {
	if errors.Is(err, syscall.ENOSPC) {
		return vm.Errorf(vm.NoSpace, name, "no space for the audit chain: %w", err).WithHint("free disk space: no action is taken without a record")
	}
	return vm.Errorf(vm.Internal, name, "audit chain: %w", err)
}
