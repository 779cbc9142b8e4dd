// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

// Package journal writes audit records and events for every room of the server, and keeps
// paths of the host out of answers to callers. Begin comes before the action: no record,
// no action.
package journal

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/warren-vm/warren/vm"
)

// Auditor keeps the audit log.
type Auditor interface {
	// Begin durably records that an action is about to happen and returns the receipt's
	// id.
	Begin(ctx context.Context, e vm.AuditEntry) (string, error)
	// End records the outcome; nil = success.
	End(id string, outcome error, detail map[string]any) error
	// Pending lists records without an outcome.
	Pending(ctx context.Context) ([]vm.AuditRecord, error)
	// List returns records, newest first.
	List(ctx context.Context, f vm.AuditFilter) ([]vm.AuditRecord, error)
	// Record durably records what has happened; each entry has an outcome.
	Record(ctx context.Context, list []vm.AuditEntry) error
	// Verify checks the whole chain, and checkpoints from outside against it.
	Verify(ctx context.Context, outside []vm.Checkpoint) (vm.AuditReport, error)
	// Accept records that the loss of the log before this one is known.
	Accept(ctx context.Context, by vm.AuditEntry) (receipt string, err error)
	// Prune removes old records and records that.
	Prune(ctx context.Context, before time.Time, by vm.AuditEntry) (vm.AuditPruned, error)
	// RotateKey lets another key sign; "" = a new one. It returns the public key.
	RotateKey(to string) (string, error)
	// Sign signs a message with the key that signs the log, whose hex public key it returns.
	Sign(ctx context.Context, message []byte) (sig []byte, key string, err error)
	// Prove returns the records that pick takes, with proofs against a checkpoint.
	Prove(ctx context.Context, most int, pick func(vm.AuditRecord) bool) ([]vm.ReceiptLine, vm.Checkpoint, error)
}

// EventLog is the host's stream of events.
type EventLog interface {
	// Append sets the event's ID and Time (if zero) and stores it.
	Append(e vm.Event) (vm.Event, error)
	// Subscribe replays events with an ID above after and then sends new ones until
	// ctx ends. Kind NotFound, code EVENTS_GONE when after is too old; after < 0 =
	// only new ones.
	Subscribe(ctx context.Context, after int64) (EventStream, error)
}

// EventStream delivers events in order.
type EventStream interface {
	Next(ctx context.Context) (vm.Event, error)
	Close()
}

// Config is what a journal writes to.
type Config struct {
	Audit  Auditor
	Events EventLog
	Log    *slog.Logger
	Dirs   []string // of the host, which callers must not see
}

// Journal writes audit records and events.
type Journal struct {
	cfg    Config
	hidden []string
	mute   func() bool // see Mute; nil = never
	facts  Facts
}

// New returns a journal.
func New(c Config) *Journal {
	return &Journal{cfg: c, hidden: hiddenDirs(c.Dirs...)}
}

// Mute makes the journal write nothing while f returns true. Tests simulate the death of
// the server with it. Call it before the first record.
func (j *Journal) Mute(f func() bool) { j.mute = f }

func (j *Journal) muted() bool { return j.mute != nil && j.mute() }

// Facts says on what a decision stood.
type Facts struct {
	// VM returns the record of a VM.
	VM func(id vm.ID) (vm.VM, bool)
	// Right returns the digest of the permission by which a caller acts on a VM; "" = it is
	// the account's own.
	Right func(who vm.Actor, id vm.ID) string
}

// Know sets what the journal asks for facts. Call it before the first record.
func (j *Journal) Know(f Facts) { j.facts = f }

// complete adds the facts on which a decision stood.
func (j *Journal) complete(e *vm.AuditEntry) {
	if e.VM == "" || j.facts.VM == nil {
		return
	}
	if v, ok := j.facts.VM(e.VM); ok {
		if e.Generation = v.Generation; e.Network == "" {
			e.Network = v.Network.Digest()
		}
	}
	e.Right = j.facts.Right(e.Actor, e.VM)
}

// Happened durably records what has already happened; each entry has its outcome. It
// blocks for a write to disk, at most 30 s.
func (j *Journal) Happened(ctx context.Context, c *vm.Call, list []vm.AuditEntry) error {
	for i := range list {
		list[i].Actor, list[i].Request = c.Actor, c.Request
		j.complete(&list[i])
	}
	bounded, stop := context.WithTimeoutCause(ctx, auditDeadline,
		vm.Errorf(vm.Timeout, "audit", "the disk did not store the record within %s", auditDeadline))
	defer stop()
	return j.cfg.Audit.Record(bounded, list)
}

// Receipt is an audit record whose outcome is not written yet. A nil one stands for a
// verb without an audit record.
type Receipt struct {
	j    *Journal
	id   string
	once sync.Once
}

// auditDeadline bounds the wait for the disk, so that a hanging disk blocks a caller only
// that long. It is real time even where a test has a clock of its own: a disk doesn't
// follow that clock, and advancing it made records that were being written late.
const auditDeadline = 30 * time.Second

// Begin writes an audit record durably, with the actor and the request of c. It sets c's
// receipt id unless there is one. The caller ends the receipt. It blocks for a write to
// disk, at most 30 s.
func (j *Journal) Begin(ctx context.Context, c *vm.Call, entry vm.AuditEntry) (*Receipt, error) {
	entry.Actor, entry.Request = c.Actor, c.Request
	j.complete(&entry)
	bounded, stop := context.WithTimeoutCause(ctx, auditDeadline,
		vm.Errorf(vm.Timeout, "audit", "the disk did not store the record within %s", auditDeadline))
	id, err := j.cfg.Audit.Begin(bounded, entry)
	if err != nil && ctx.Err() == nil && bounded.Err() != nil {
		err = context.Cause(bounded)
	}
	stop()
	if err != nil {
		return nil, vm.Errorf(vm.KindOf(err), "", "no audit record could be written: %w", err).
			WithHint("nothing was done; check that the data directory has space and is writable, and that its disk answers")
	}
	if c.Receipt == "" {
		c.Receipt = id
	}
	return &Receipt{j: j, id: id}, nil
}

// Record is Begin for rooms that do not import this package: end writes the outcome,
// as Receipt.End does.
func (j *Journal) Record(ctx context.Context, c *vm.Call, entry vm.AuditEntry) (end func(outcome error, detail map[string]any), err error) {
	r, err := j.Begin(ctx, c, entry)
	return r.End, err
}

// End writes the outcome, once; nil = success. It blocks for a write.
func (r *Receipt) End(outcome error, detail map[string]any) {
	if r == nil || r.j.muted() {
		return
	}
	r.once.Do(func() {
		if err := r.j.cfg.Audit.End(r.id, r.j.Conceal(outcome), detail); err != nil {
			r.j.cfg.Log.Error("the outcome of an action could not be recorded", "receipt", r.id, "err", err)
		}
	})
}

// ClosePending writes an outcome for records that an earlier server left without one.
func (j *Journal) ClosePending(ctx context.Context) error {
	open, err := j.cfg.Audit.Pending(ctx)
	if err != nil {
		return err
	}
	for _, r := range open {
		cut := vm.Errorf(vm.Unavailable, string(r.VM), "the server ended before the outcome was known")
		if err := j.cfg.Audit.End(r.ID, cut, nil); err != nil {
			return err
		}
	}
	return nil
}

// Emit stores an event. If that fails, the event is logged and lost.
func (j *Journal) Emit(ev vm.Event) {
	if j.muted() {
		return
	}
	if _, err := j.cfg.Events.Append(ev); err != nil {
		j.cfg.Log.Warn("an event was lost", "type", ev.Type, "vm", ev.VM, "err", err)
	}
}

// EmitVM stores an event about a VM, with its state and name in the data.
func (j *Journal) EmitVM(rec vm.VM, kind string, data map[string]any) {
	if data == nil {
		data = map[string]any{}
	}
	data["state"] = string(rec.State)
	if rec.Name != "" {
		data["name"] = rec.Name
	}
	j.Emit(vm.Event{Type: kind, VM: rec.ID, Account: rec.Account, Data: data})
}
