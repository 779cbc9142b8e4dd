// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"context"
	"encoding/hex"
	"maps"
	"slices"
	"time"

	"github.com/warren-vm/warren/internal/audit"
	"github.com/warren-vm/warren/internal/journal"
	"github.com/warren-vm/warren/vm"
)

// auditor implements journal.Auditor with the chain in dir.
type auditor struct {
	log  *audit.Log
	dir  string
	head *auditHead
}

var _ journal.Auditor = auditor{}

func auditEntry(e vm.AuditEntry) audit.Entry {
	return audit.Entry{
		Op: e.Op, VM: e.VM, Subject: e.Subject, Actor: e.Actor, Request: e.Request, Detail: e.Detail,
		Generation: e.Generation, Network: e.Network, Right: e.Right, Outcome: e.Outcome,
	}
}

// Begin records that an action is about to be taken.
func (a auditor) Begin(ctx context.Context, e vm.AuditEntry) (string, error) {
	return a.log.Begin(ctx, auditEntry(e))
}

// Record records what has happened.
func (a auditor) Record(ctx context.Context, list []vm.AuditEntry) error {
	entries := make([]audit.Entry, 0, len(list))
	for _, e := range list {
		entries = append(entries, auditEntry(e))
	}
	return a.log.Record(ctx, entries)
}

// End records an action's outcome.
func (a auditor) End(id string, outcome error, detail map[string]any) error {
	return a.log.End(id, outcome, detail)
}

// Pending lists actions without an outcome.
func (a auditor) Pending(context.Context) ([]vm.AuditRecord, error) {
	return auditRecords(a.log.Pending()), nil
}

// List lists records, newest first.
func (a auditor) List(_ context.Context, f vm.AuditFilter) ([]vm.AuditRecord, error) {
	l, err := a.log.List(audit.Filter{
		Account: f.Account, VM: f.VM, Op: f.Op, Actor: f.Actor, ID: f.ID, Since: f.Since, Until: f.Until, Limit: f.Limit, Before: f.After,
	})
	return auditRecords(l), err
}

// Verify checks the chain on disk, its end against the one in the record store, and
// checkpoints from outside against it.
func (a auditor) Verify(ctx context.Context, outside []vm.Checkpoint) (vm.AuditReport, error) {
	if err := a.log.Sync(); err != nil {
		return vm.AuditReport{}, err
	}
	kept, err := a.head.Load(ctx)
	if err != nil {
		return vm.AuditReport{}, err
	}
	r, err := audit.Verify(a.dir, "", kept, outside...)
	report := auditReport(r)
	states := a.log.Outside()
	for _, name := range slices.Sorted(maps.Keys(states)) {
		if states[name] != "" {
			report.Notes = append(report.Notes, "the anchor "+name+" "+states[name])
		}
	}
	return report, err
}

func auditReport(r audit.Report) vm.AuditReport {
	out := vm.AuditReport{
		Records: r.Records, Signed: r.Anchored, OK: r.Problem == "", Problem: r.Problem, Code: r.Code, Fix: r.Fix,
		Pruned: r.Pruned, Anchors: r.Outside, Log: r.Log, Root: r.Root, Notes: r.Notes,
	}
	if key, err := vm.ParseSigningKey(r.Key); err == nil {
		out.Key = vm.Fingerprint(key)
	}
	return out
}

// Accept records that the loss of the log before this one is known.
func (a auditor) Accept(ctx context.Context, by vm.AuditEntry) (string, error) {
	return a.log.Accept(ctx, auditEntry(by))
}

// Prune removes old segments.
func (a auditor) Prune(ctx context.Context, before time.Time, by vm.AuditEntry) (vm.AuditPruned, error) {
	p, err := a.log.Prune(ctx, before, auditEntry(by))
	return vm.AuditPruned(p), err
}

// RotateKey lets another key sign.
func (a auditor) RotateKey(to string) (string, error) {
	if to == "" {
		key, err := a.log.RotateKey(nil)
		return hex.EncodeToString(key), err
	}
	key, err := vm.ParseSigningKey(to)
	if err == nil {
		_, err = a.log.RotateKey(key)
	}
	return hex.EncodeToString(key), err
}

// Sign signs a document of the server's own.
func (a auditor) Sign(ctx context.Context, message []byte) ([]byte, string, error) {
	return a.log.Sign(ctx, message)
}

// Prove returns lines with their proofs.
func (a auditor) Prove(_ context.Context, most int, pick func(vm.AuditRecord) bool) ([]vm.ReceiptLine, vm.Checkpoint, error) {
	lines, at, err := a.log.Prove(most, func(r audit.Record) bool { return pick(auditRecords([]audit.Record{r})[0]) })
	out := make([]vm.ReceiptLine, 0, len(lines))
	for _, l := range lines {
		proof := make([]string, 0, len(l.Proof))
		for _, h := range l.Proof {
			proof = append(proof, hex.EncodeToString(h[:]))
		}
		out = append(out, vm.ReceiptLine{Seq: l.Seq, Record: string(l.Record), Proof: proof})
	}
	return out, at, err
}

// auditRecords pairs each action in the log with its result.
func auditRecords(in []audit.Record) []vm.AuditRecord {
	out := make([]vm.AuditRecord, 0, len(in))
	for _, r := range in {
		detail := r.Detail
		if len(r.Result) > 0 {
			detail = make(map[string]any, len(r.Detail)+len(r.Result))
			maps.Copy(detail, r.Detail)
			maps.Copy(detail, r.Result)
		}
		out = append(out, vm.AuditRecord{
			ID: r.ID, Seq: r.Seq, Time: r.Time, Op: r.Op, VM: r.VM, Subject: r.Subject, Actor: r.Actor, Request: r.Request,
			Outcome: r.Outcome, Error: r.Error, EndedAt: r.EndedAt, Detail: detail, Generation: r.Generation, Network: r.Network, Right: r.Right,
		})
	}
	return out
}
