// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

// Package job ends the jobs that VMs were made for: it carries out what was decided
// about a VM and what belongs to it, says which steps are still open, and keeps the
// record. It changes VMs, tokens and volumes through the verbs of the other rooms.
package job

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/warren-vm/warren/internal/access"
	"github.com/warren-vm/warren/internal/engine"
	"github.com/warren-vm/warren/internal/journal"
	"github.com/warren-vm/warren/internal/ledger"
	"github.com/warren-vm/warren/internal/meter"
	"github.com/warren-vm/warren/internal/vault"
	"github.com/warren-vm/warren/vm"
)

// jobsKept is the number of records that are kept for one account, the newest.
const jobsKept = 200

// Config is what the room works with. Every field is required, but Ship and Object.
type Config struct {
	Engine  *engine.Engine
	Access  *access.Access
	Vault   *vault.Vault
	Meter   *meter.Meter
	Journal *journal.Journal
	Secrets Secrets
	Now     func() time.Time
	Ship    Shipper // nil = nothing can be stored as objects
	// Object finds a stored version that the caller may read, without its bytes; nil = this
	// server has no object storage. Kinds NotFound, Denied.
	Object func(ctx context.Context, c *vm.Call, ref vm.ObjectRef) (vm.Object, error)
}

// Secrets is what the room asks of the room of secrets.
type Secrets interface {
	// Lookup finds a secret, and the VMs that may use it; false = it was removed.
	Lookup(a vm.AccountID, in vm.Rotation) (rec vm.Secret, users []vm.VM, ok bool)
	// Rotate gives a secret a new value at its service. It blocks for the service.
	Rotate(ctx context.Context, c *vm.Call, in vm.Rotation) (vm.Secret, error)
}

// Job is the room. All methods may be called at once from many goroutines.
type Job struct {
	cfg   Config
	table *ledger.Table[vm.ID, vm.Job]
}

const byAccount = "account" // an index of the table

// Kind is the table of jobs.
var Kind = ledger.Kind[vm.ID, vm.Job]{
	Name: "jobs",
	Key:  func(j *vm.Job) vm.ID { return j.VM },
	Host: func(j *vm.Job) *string { return &j.Host },
	Index: map[string]func(*vm.Job) []string{
		byAccount: func(j *vm.Job) []string { return []string{string(j.Account)} },
	},
}

// New returns the room with its table in the ledger. Load the ledger next, and open
// the engine; then the room is ready.
func New(l *ledger.Ledger, cfg Config) *Job {
	return &Job{cfg: cfg, table: ledger.Add(l, Kind)}
}

// Jobs lists the jobs of the caller's account that were said to be done, newest first.
// Kind Denied for an identity.
func (j *Job) Jobs(_ context.Context, c *vm.Call) ([]vm.Job, error) {
	if err := c.Actor.OwnerOnly(""); err != nil {
		return nil, vm.WithOp(vm.OpList, "", err)
	}
	return j.of(c.Actor.Account), nil
}

// of returns the jobs of an account, newest first.
func (j *Job) of(account vm.AccountID) []vm.Job {
	list := j.table.By(byAccount, string(account))
	slices.SortFunc(list, func(a, b vm.Job) int { return cmp.Or(b.Ended.Compare(a.Ended), cmp.Compare(a.VM, b.VM)) })
	return list
}

// Forget removes the records of an account that is deleted.
func (j *Job) Forget(ctx context.Context, account vm.AccountID) error {
	return j.dropOld(ctx, account, 0)
}

// save writes the record of a job, shortened where it is too large, and removes the
// oldest records of an account that has too many.
func (j *Job) save(ctx context.Context, job vm.Job) (vm.Job, error) {
	job = bound(job)
	_, err := j.table.Change(ctx, job.VM, func(rec *vm.Job) error { *rec = job; return nil })
	if vm.KindOf(err) == vm.NotFound {
		err = j.table.Create(ctx, job)
	}
	if err != nil {
		return job, err
	}
	return job, j.dropOld(ctx, job.Account, jobsKept)
}

// dropOld removes the records of an account's jobs except the newest keep.
func (j *Job) dropOld(ctx context.Context, account vm.AccountID, keep int) error {
	list := j.of(account)
	for _, old := range list[min(keep, len(list)):] {
		if err := j.table.Drop(ctx, old.VM); err != nil {
			return err
		}
	}
	return nil
}
