// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package monitor

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/warren-vm/warren/internal/layout"
	"github.com/warren-vm/warren/vm"
)

const (
	maxBacklog   = 10_000 // connections that wait for their record
	reportBatch  = 200    // connections of one report
	reportDelay  = 200 * time.Millisecond
	reportRetry  = 2 * time.Second
	reportCall   = 40 * time.Second            // the server waits up to 30 s for its disk
	reportFinal  = 5 * time.Second             // for what is left at the machine's end
	lastWait     = reportFinal + 2*time.Second // for a monitor to end after its machine
	hourlyBudget = 1000                        // records an hour; beyond it, one sum a minute
	sumEvery     = time.Minute
)

// reporter hands the guest's connections to the server, which records them. While the
// server is away it keeps them, up to a bound; then the network allows no new one. If the
// machine ends meanwhile, it leaves them in a file.
type reporter struct {
	client *http.Client
	left   string // path of that file
	log    *slog.Logger
	now    func() time.Time
	wake   chan struct{}

	mu      sync.Mutex // guards the fields below
	waiting []vm.Connection
	first   int64 // number of waiting[0]
	dropped int64 // refusals that were not kept, before the next one
	hour    time.Time
	used    int // of the budget, in this hour
	sum     *vm.ConnectionsSum
}

func newReporter(client *http.Client, left string, log *slog.Logger) *reporter {
	return &reporter{client: client, left: left, log: log, now: time.Now, wake: make(chan struct{}, 1), first: 1}
}

// add takes a connection that has ended or was refused. It does not block.
func (r *reporter) add(c vm.Connection) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.now()
	if now.Sub(r.hour) >= time.Hour {
		r.hour, r.used = now, 0
	}
	switch {
	case r.used >= hourlyBudget:
		r.count(now, c)
	case len(r.waiting) >= maxBacklog && !c.Allowed:
		r.dropped++
		return
	default:
		r.used++
		r.waiting = append(r.waiting, c)
	}
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// count adds a connection to the sum of those beyond the budget. r.mu is held.
func (r *reporter) count(now time.Time, c vm.Connection) {
	if r.sum == nil {
		r.sum = &vm.ConnectionsSum{Since: now.UTC()}
	}
	r.sum.Until = now.UTC()
	if c.Allowed {
		r.sum.Allowed++
	} else {
		r.sum.Refused++
	}
	r.sum.Up += c.Up
	r.sum.Down += c.Down
}

// full says why no new connection may be made; "" = it may.
func (r *reporter) full() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.waiting) < maxBacklog {
		return ""
	}
	return "the server that records connections does not answer: no record, no connection"
}

// run reports until ctx ends, and then what is left.
func (r *reporter) run(ctx context.Context) {
	for failing := false; ; {
		wait := sumEvery
		if failing {
			wait = reportRetry
		}
		timer := time.NewTimer(wait)
		select {
		case <-r.wake:
			timer.Reset(reportDelay) // more may come
			if failing {
				timer.Reset(reportRetry)
			}
			select {
			case <-timer.C:
			case <-ctx.Done():
			}
		case <-timer.C:
		case <-ctx.Done():
		}
		timer.Stop()
		if ctx.Err() != nil {
			break
		}
		err := r.flush(ctx, false)
		if err != nil && !failing {
			r.log.Warn("connections of the guest could not be recorded yet", "err", err)
		}
		failing = err != nil
	}
	last, stop := context.WithTimeout(context.WithoutCancel(ctx), reportFinal)
	defer stop()
	if err := r.flush(last, true); err != nil {
		if lost := r.leave(); lost != nil {
			r.log.Error("the last connections of the guest are not recorded", "err", err, "lost", lost)
			return
		}
		r.log.Warn("the last connections of the guest are not recorded yet; they wait in a file for the server's next start", "err", err)
	}
}

// leave writes what could not be reported to the file, after what an earlier monitor left.
func (r *reporter) leave() error {
	var list []vm.ConnectionBatch
	if err := layout.ReadJSON(r.left, &list); err != nil && vm.KindOf(err) != vm.NotFound {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	first, dropped := r.first, r.dropped
	for part := range slices.Chunk(r.waiting, reportBatch) {
		list = append(list, vm.ConnectionBatch{First: first, Dropped: dropped, List: part})
		first, dropped = first+int64(len(part)), 0
	}
	if r.sum != nil {
		list = append(list, vm.ConnectionBatch{Sum: r.sum})
	}
	if len(list) > vm.MaxLeft {
		return vm.Errorf(vm.Limit, r.left, "%d reports wait for the server, at most %d may", len(list), vm.MaxLeft)
	}
	return layout.WriteJSON(r.left, list, 0o600)
}

// flush reports all that waits; the sum only once a minute, or at the end.
func (r *reporter) flush(ctx context.Context, end bool) error {
	for {
		r.mu.Lock()
		n := min(len(r.waiting), reportBatch)
		b := vm.ConnectionBatch{First: r.first, Dropped: r.dropped, List: append([]vm.Connection(nil), r.waiting[:n]...)}
		if r.sum != nil && (end || r.now().Sub(r.sum.Since) >= sumEvery) {
			sum := *r.sum
			b.Sum = &sum
		}
		r.mu.Unlock()
		if n == 0 && b.Sum == nil {
			return nil
		}
		if err := r.send(ctx, b); err != nil {
			return err
		}
		r.mu.Lock()
		r.waiting, r.first = r.waiting[n:], r.first+int64(n)
		if n > 0 {
			r.dropped -= b.Dropped
		}
		if b.Sum != nil {
			r.sum = r.sum.Less(*b.Sum)
		}
		r.mu.Unlock()
	}
}

func (r *reporter) send(ctx context.Context, b vm.ConnectionBatch) error {
	ending := ctx // a report that is in progress when the machine ends gets its answer
	ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), reportCall)
	defer stop()
	defer context.AfterFunc(ending, func() { time.AfterFunc(reportFinal, stop) })()
	data, err := json.Marshal(b)
	if err != nil {
		return err
	}
	q, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+vm.MonitorHost+"/connections", bytes.NewReader(data))
	if err != nil {
		return err
	}
	a, err := r.client.Do(q)
	if err != nil {
		return err
	}
	defer a.Body.Close()
	said, err := io.ReadAll(io.LimitReader(a.Body, 1024))
	if a.StatusCode != http.StatusOK {
		return vm.Errorf(vm.Unavailable, "records", "the server answered %s: %s", a.Status, said)
	}
	return err
}
