// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package audit

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"strings"
	"time"

	"github.com/warren-vm/warren/vm"
)

// Head is the end of a chain: its last line.
type Head struct {
	Seq      int64  `json:"seq"`
	Hash     string `json:"hash"`
	Log      string `json:"log,omitempty"`  // the log's id: the hash of its first line
	Key      string `json:"key,omitempty"`  // the public key that signed it last
	Gone     *Head  `json:"gone,omitempty"` // the end of the log before this one, which is gone
	Revision int64  `json:"-"`              // the keeper's own
}

// Keeper keeps the end of the chain outside of the log's directory, so that a tail
// that was cut off together with its signatures is detected.
type Keeper interface {
	// Load returns what was saved last; the zero Head when there is nothing.
	Load(ctx context.Context) (Head, error)
	// Save keeps the chain's end durably.
	Save(ctx context.Context, h Head) error
}

const (
	keepEvery    = time.Second // interval at which the chain's end is kept
	keepDeadline = 5 * time.Second
)

// compare compares the log with the end that the keeper has, before anything is signed.
// Kind Corrupt: the tail was cut off or replaced, or the key was.
func (l *Log) compare(kept Head, last vm.Checkpoint) error {
	end := l.here()
	switch {
	case kept.Seq == 0 || end.Seq == 0:
	case kept.Log != "" && kept.Log != end.Log:
		return corrupt(l.dir, "the log belongs to another server: its id is %s, but the record store knows %s", end.Log, kept.Log)
	case kept.Seq > end.Seq:
		return corrupt(l.dir, "the tail is cut: the record store knows record %d, but the last one is %d", kept.Seq, end.Seq)
	default:
		hash, err := l.hashOf(kept.Seq)
		if err != nil {
			return err
		}
		if hash != kept.Hash {
			return corrupt(l.dir, "record %d is not the one that the record store knows", kept.Seq)
		}
		return l.succeeds(kept, last)
	}
	return nil
}

// succeeds checks that the key that signed last is the one that the keeper knows, or that
// this one handed over to it.
func (l *Log) succeeds(kept Head, last vm.Checkpoint) error {
	if kept.Key == "" || kept.Key == l.signedBy {
		return nil
	}
	if last.Seq == 0 {
		return swapped(l.signedBy, kept.Key)
	}
	v := verifier{kept: kept}
	err := v.signatures(l.dir, kept.Key)
	if errors.Is(err, errFound) {
		return vm.AsError(corrupt(l.dir, "%s", v.Problem)).WithCode(v.Code)
	}
	return err
}

// keep keeps the log's end from now on: a second after a line was written, and when the
// log is closed. If an end was kept and the log is new, its first line says so.
func (l *Log) keep(ctx context.Context, k Keeper, kept Head) error {
	if kept.Seq > 0 && l.head().Seq == 0 {
		l.log.Error("the audit log is gone: a new one begins", "lastRecord", kept.Seq, "hash", kept.Hash)
		if err := l.note(fmt.Sprintf(newLog+"the one before it ended with record %d, hash %s", kept.Seq, kept.Hash)); err != nil {
			return err
		}
		l.mu.Lock()
		l.gone = &kept
		l.mu.Unlock()
		end := l.head()
		if err := k.Save(ctx, end); err != nil { // else a start after a crash would take it for a foreign one
			return err
		}
		end.Revision = kept.Revision
		return l.startKeeping(ctx, k, end)
	}
	return l.startKeeping(ctx, k, kept)
}

func (l *Log) startKeeping(ctx context.Context, k Keeper, saved Head) error {
	l.kept = make(chan struct{})
	go l.keepEnd(ctx, k, saved, l.log) // ends after the writer
	return nil
}

// Accept records that an administrator knows that the log before this one is gone: until
// then, Verify calls that a fault. by names who asks. Kinds as of Begin, and NotFound
// when this log has replaced no other.
func (l *Log) Accept(ctx context.Context, by Entry) (receipt string, err error) {
	before := ""
	_, _, err = forward(l.segmentPath(0), func(raw []byte) error {
		if ln, _, err := parse(raw); err == nil && ln.Phase == Note && strings.HasPrefix(ln.Subject, newLog) {
			before = ln.Subject
		}
		return io.EOF
	})
	switch {
	case err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, fs.ErrNotExist):
		return "", err
	case before == "":
		return "", vm.Errorf(vm.NotFound, "audit", "this audit log has not taken the place of another one").WithHint("`warren audit verify` says what is odd about it")
	}
	by.Op, by.Detail = vm.OpAuditAccept, map[string]any{"before": before}
	if receipt, err = l.Begin(ctx, by); err != nil {
		return "", err
	}
	return receipt, errors.Join(l.End(receipt, nil, nil), l.Sync())
}

// note writes a record of Warren itself and waits for the disk.
func (l *Log) note(subject string) error {
	ln, err := newLine(Note, Entry{Subject: subject})
	if err != nil {
		return err
	}
	it := &item{line: ln, written: make(chan error, 1)}
	if err := l.enqueue(it); err != nil {
		return err
	}
	return <-it.written
}

// head is the last line on disk.
func (l *Log) head() Head {
	l.mu.Lock()
	defer l.mu.Unlock()
	h := l.point.Head
	h.Key, h.Gone = l.signedBy, l.gone
	return h
}

// hashOf finds a line from the chain's end backwards; "" when it is not there.
func (l *Log) hashOf(seq int64) (hash string, err error) {
	l.mu.Lock()
	segment, size, first := l.segment, l.size, l.first
	l.mu.Unlock()
	found := errors.New("found")
	for n := segment; n >= first; n-- {
		_, err := backward(l.segmentPath(n), size, func(raw []byte) error {
			ln, own, err := parse(raw)
			switch {
			case err != nil:
				return corrupt(l.segmentPath(n), "a record %w", err)
			case ln.Seq == seq:
				hash = own
				return found
			case ln.Seq < seq:
				return found
			}
			return nil
		})
		if errors.Is(err, found) {
			return hash, nil
		}
		if err != nil {
			return "", err
		}
		size = -1
	}
	return "", nil
}

// keepEnd is the one goroutine that keeps the chain's end, until the writer and the notary
// have ended. It logs a failure once and retries.
func (l *Log) keepEnd(lifetime context.Context, k Keeper, saved Head, log *slog.Logger) {
	defer close(l.kept)
	tick := time.NewTicker(keepEvery)
	defer tick.Stop()
	failing := false
	for over := false; !over; {
		select {
		case <-tick.C:
		case <-l.signed: // after the writer's end
			over = true
		}
		end := l.head()
		if end.Revision = saved.Revision; end == saved {
			continue
		}
		ctx, stop := context.WithTimeout(lifetime, keepDeadline)
		err := k.Save(ctx, end)
		stop()
		if err == nil {
			saved = end
		} else if !failing {
			log.Error("the end of the audit log could not be kept in the record store", "record", end.Seq, "err", err)
		}
		failing = err != nil
	}
}
