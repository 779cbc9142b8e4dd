// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/warren-vm/warren/vm"
)

const (
	writeDeadline = 10 * time.Second // of one durable write
	lookDeadline  = 3 * time.Second  // of a look at the store after a lost answer
	followAgain   = time.Second      // pause after the store stopped to tell of changes
)

// Ledger is the set of tables of one server.
type Ledger struct {
	backend Backend
	host    string
	others  bool // records without a host belong to another server
	log     *slog.Logger

	life context.Context // ends with Close; set by Load
	stop context.CancelFunc
	work sync.WaitGroup // goroutines that end with life

	mu     sync.Mutex
	tables map[string]table // by kind; guarded by mu until Load

	newsMu sync.Mutex
	news   []func()      // calls of Changed that are due; guarded by newsMu
	more   chan struct{} // holds one while there is news
}

// table is what the ledger needs of a Table of any type.
type table interface {
	load(entries []Entry, revision int64, first bool)
	follow(ev Event)
}

// New returns a ledger without tables. host is the id of this server among those
// that share the backend. Add tables with Add, then call Load once.
func New(b Backend, host string, log *slog.Logger) *Ledger {
	return &Ledger{backend: b, host: host, log: log, tables: map[string]table{}, more: make(chan struct{}, 1)}
}

// Host is the id of this server.
func (l *Ledger) Host() string { return l.host }

// LeaveUnclaimed says that the records without a host, which an older warren
// wrote, belong to another server. Without it they are this server's. Call it
// before Load.
func (l *Ledger) LeaveUnclaimed() { l.others = true }

// Owns reports whether records that name a host belong to this server.
func (l *Ledger) Owns(host string) bool { return host == l.host || host == "" && !l.others }

// Load reads every table and then follows what other servers write, until Close.
func (l *Ledger) Load(ctx context.Context) error {
	l.life, l.stop = context.WithCancel(context.WithoutCancel(ctx))
	from, err := l.read(ctx, true)
	if err != nil {
		l.stop()
		return err
	}
	l.work.Go(func() { l.follow(from) })
	l.work.Go(l.tell)
	return nil
}

// Close ends the following and waits for a call of Changed that is in progress.
// Tables stay readable.
func (l *Ledger) Close() {
	if l.stop != nil {
		l.stop()
		l.work.Wait()
	}
}

// read reads every table at one revision and returns it. Tables that showed
// different revisions would seem to contradict each other: a token, say, whose
// identity another server made in between.
func (l *Ledger) read(ctx context.Context, first bool) (revision int64, err error) {
	entries, revision, err := l.backend.ReadAll(ctx, slices.Sorted(maps.Keys(l.tables))...)
	if err != nil {
		return 0, err
	}
	of := map[string][]Entry{}
	for _, e := range entries {
		of[e.Kind] = append(of[e.Kind], e)
	}
	for kind, t := range l.tables {
		t.load(of[kind], revision, first)
	}
	return revision, nil
}

// follow hands every change to its table. When the store no longer has all changes
// after a revision, the tables are read again.
func (l *Ledger) follow(after int64) {
	for l.life.Err() == nil {
		var err error
		after, err = l.followFrom(after)
		if l.life.Err() != nil {
			return
		}
		l.log.Warn("the record store stopped to tell of changes", "err", err)
		if vm.KindOf(err) == vm.NotFound {
			if rev, err := l.read(l.life, false); err != nil {
				l.log.Warn("records could not be read again", "err", err)
			} else {
				after = max(after, rev)
				continue
			}
		}
		select {
		case <-l.life.Done():
		case <-time.After(followAgain):
		}
	}
}

// followFrom follows until an error and returns the last revision that was seen.
func (l *Ledger) followFrom(after int64) (int64, error) {
	f := l.backend.Follow(l.life, after)
	defer f.Close()
	for {
		ev, err := f.Next(l.life)
		if err != nil {
			return after, err
		}
		after = max(after, ev.Revision)
		if t := l.tables[ev.Kind]; t != nil {
			t.follow(ev)
		}
	}
}

// tell calls Changed, one call after the other, in the order of the changes.
func (l *Ledger) tell() {
	for {
		select {
		case <-l.more:
		case <-l.life.Done():
			return
		}
		l.newsMu.Lock()
		due := l.news
		l.news = nil
		l.newsMu.Unlock()
		for _, f := range due {
			if l.life.Err() != nil {
				return
			}
			f()
		}
	}
}

// later has f called by tell.
func (l *Ledger) later(f func()) {
	l.newsMu.Lock()
	l.news = append(l.news, f)
	l.newsMu.Unlock()
	select {
	case l.more <- struct{}{}:
	default:
	}
}
