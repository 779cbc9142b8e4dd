// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package vmtest

import (
	"context"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/warren-vm/warren/internal/journal"
	"github.com/warren-vm/warren/vm"
)

// Audit is an audit log in memory.
type Audit struct {
	mu sync.Mutex
	// guarded by mu
	recs []vm.AuditRecord
	fail error
	hold chan struct{} // Begin waits until it is closed; nil = no wait
}

// Hold makes every Begin wait until release is called, like a hanging disk.
func (a *Audit) Hold() (release func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	hold := make(chan struct{})
	a.hold = hold
	return func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.hold = nil
		close(hold)
	}
}

// Fail makes every Begin fail; nil ends it.
func (a *Audit) Fail(err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.fail = err
}

// Begin implements engine.Auditor.
func (a *Audit) Begin(ctx context.Context, e vm.AuditEntry) (string, error) {
	a.mu.Lock()
	hold := a.hold
	a.mu.Unlock()
	if hold != nil {
		select {
		case <-hold:
		case <-ctx.Done():
		}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.fail != nil {
		return "", a.fail
	}
	if ctx.Err() != nil {
		return "", context.Cause(ctx)
	}
	r := vm.AuditRecord{
		ID: vm.NewReceiptID(), Seq: int64(len(a.recs) + 1), Time: time.Now().UTC(), Op: e.Op, VM: e.VM,
		Subject: e.Subject, Actor: e.Actor, Request: e.Request, Outcome: "pending", Detail: e.Detail,
		Generation: e.Generation, Network: e.Network, Right: e.Right,
	}
	a.recs = append(a.recs, r)
	return r.ID, nil
}

// End implements engine.Auditor.
func (a *Audit) End(id string, outcome error, detail map[string]any) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	for i := len(a.recs) - 1; i >= 0; i-- { // the newest are needed most often
		r := &a.recs[i]
		if r.ID != id {
			continue
		}
		if r.Outcome != "pending" {
			return vm.Errorf(vm.Internal, id, "the record was ended before")
		}
		r.Outcome, r.EndedAt = "ok", time.Now().UTC()
		if outcome != nil {
			r.Outcome, r.Error = string(vm.KindOf(outcome)), outcome.Error()
		}
		for k, v := range detail {
			d := map[string]any{}
			for k, v := range r.Detail {
				d[k] = v
			}
			d[k] = v
			r.Detail = d
		}
		return nil
	}
	return vm.Errorf(vm.NotFound, id, "no such record")
}

// Pending implements engine.Auditor.
func (a *Audit) Pending(context.Context) ([]vm.AuditRecord, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(a.recs), func(r vm.AuditRecord) bool { return r.Outcome != "pending" }), nil
}

// List implements engine.Auditor.
func (a *Audit) List(_ context.Context, f vm.AuditFilter) ([]vm.AuditRecord, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	var out []vm.AuditRecord
	for _, r := range slices.Backward(a.recs) {
		if (f.Account != "" && r.Actor.Account != f.Account) || (f.VM != "" && r.VM != f.VM) || (f.After > 0 && r.Seq >= f.After) {
			continue
		}
		if out = append(out, r); f.Limit > 0 && len(out) == f.Limit {
			break
		}
	}
	return out, nil
}

// Record implements journal.Auditor.
func (a *Audit) Record(ctx context.Context, list []vm.AuditEntry) error {
	for _, e := range list {
		id, err := a.Begin(ctx, e)
		if err == nil {
			err = a.End(id, nil, nil)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// Accept implements journal.Auditor; it accepts anything.
func (a *Audit) Accept(ctx context.Context, by vm.AuditEntry) (string, error) {
	by.Op = vm.OpAuditAccept
	return a.Begin(ctx, by)
}

// Prune implements journal.Auditor; it removes nothing.
func (a *Audit) Prune(context.Context, time.Time, vm.AuditEntry) (vm.AuditPruned, error) {
	return vm.AuditPruned{}, nil
}

// RotateKey implements journal.Auditor; this log has no key.
func (a *Audit) RotateKey(to string) (string, error) { return to, nil }

// Sign implements journal.Auditor; this log has no key.
func (a *Audit) Sign(context.Context, []byte) ([]byte, string, error) { return nil, "", nil }

// Prove implements journal.Auditor; this log has no proofs.
func (a *Audit) Prove(context.Context, int, func(vm.AuditRecord) bool) ([]vm.ReceiptLine, vm.Checkpoint, error) {
	return nil, vm.Checkpoint{}, nil
}

// Verify implements journal.Auditor.
func (a *Audit) Verify(context.Context, []vm.Checkpoint) (vm.AuditReport, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return vm.AuditReport{Records: int64(len(a.recs)), OK: true}, nil
}

// Events is an event log in memory.
type Events struct {
	mu sync.Mutex
	// guarded by mu
	all     []vm.Event
	changed chan struct{}
}

// Append implements engine.EventLog.
func (l *Events) Append(ev vm.Event) (vm.Event, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	ev.ID = int64(len(l.all) + 1)
	if ev.Time.IsZero() {
		ev.Time = time.Now().UTC()
	}
	l.all = append(l.all, ev)
	if l.changed != nil {
		close(l.changed)
		l.changed = nil
	}
	return ev, nil
}

// All returns every event so far.
func (l *Events) All() []vm.Event {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.all)
}

// Subscribe implements engine.EventLog.
func (l *Events) Subscribe(_ context.Context, after int64) (journal.EventStream, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if after < 0 || after > int64(len(l.all)) {
		after = int64(len(l.all))
	}
	return &eventStream{l: l, next: after, closed: make(chan struct{})}, nil
}

type eventStream struct {
	l      *Events
	next   int64
	closed chan struct{}
	once   sync.Once
}

func (s *eventStream) Next(ctx context.Context) (vm.Event, error) {
	for {
		s.l.mu.Lock()
		if s.next < int64(len(s.l.all)) {
			ev := s.l.all[s.next]
			s.next++
			s.l.mu.Unlock()
			return ev, nil
		}
		if s.l.changed == nil {
			s.l.changed = make(chan struct{})
		}
		changed := s.l.changed
		s.l.mu.Unlock()
		select {
		case <-changed:
		case <-s.closed:
			return vm.Event{}, io.EOF
		case <-ctx.Done():
			return vm.Event{}, context.Cause(ctx)
		}
	}
}

func (s *eventStream) Close() { s.once.Do(func() { close(s.closed) }) }
