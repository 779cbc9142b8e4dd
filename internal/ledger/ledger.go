// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"context"
	"log/slog"
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
	log     *slog.Logger
	stop    context.CancelFunc
	done    chan struct{} // closed when the follower has ended

	mu     sync.Mutex
	tables map[string]table // by kind; guarded by mu until Load
}

// table is what the ledger needs of a Table of any type.
type table interface {
	load(ctx context.Context) (revision int64, err error)
	take(ev Event)
}

// New returns a ledger without tables. host is the id of this server among those
// that share the backend. Add tables with Add, then call Load once.
func New(b Backend, host string, log *slog.Logger) *Ledger {
	return &Ledger{backend: b, host: host, log: log, done: make(chan struct{}), tables: map[string]table{}}
}

// Host is the id of this server.
func (l *Ledger) Host() string { return l.host }

// Load reads every table and then follows what other servers write, until Close.
func (l *Ledger) Load(ctx context.Context) error {
	life, stop := context.WithCancel(context.WithoutCancel(ctx))
	l.stop = stop
	from := int64(-1)
	for _, t := range l.tables {
		rev, err := t.load(ctx)
		if err != nil {
			stop()
			close(l.done)
			return err
		}
		if from < 0 || rev < from {
			from = rev
		}
	}
	go l.follow(life, max(from, 0))
	return nil
}

// Close ends the following. Tables stay readable.
func (l *Ledger) Close() {
	if l.stop != nil {
		l.stop()
		<-l.done
	}
}

// follow hands every change to its table. When the store no longer has all changes
// after a revision, the tables are read again.
func (l *Ledger) follow(life context.Context, after int64) {
	defer close(l.done)
	for life.Err() == nil {
		f := l.backend.Follow(life, after)
		var err error
		for {
			var ev Event
			if ev, err = f.Next(life); err != nil {
				break
			}
			after = max(after, ev.Revision)
			if t := l.tables[ev.Kind]; t != nil {
				t.take(ev)
			}
		}
		f.Close()
		if life.Err() != nil {
			return
		}
		l.log.Warn("the record store stopped to tell of changes", "err", err)
		if vm.KindOf(err) == vm.NotFound {
			after = l.readAgain(life, after)
		}
		select {
		case <-life.Done():
		case <-time.After(followAgain):
		}
	}
}

func (l *Ledger) readAgain(life context.Context, after int64) int64 {
	least := int64(-1)
	for _, t := range l.tables {
		rev, err := t.load(life)
		if err != nil {
			l.log.Warn("records could not be read again", "err", err)
			return after
		}
		if least < 0 || rev < least {
			least = rev
		}
	}
	return max(least, after)
}
