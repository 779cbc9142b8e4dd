// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"sync"

	"github.com/warren-vm/warren/internal/ledger"
	"github.com/warren-vm/warren/internal/store"
	"github.com/warren-vm/warren/vm"
)

// recordLimit is how many records of one kind an account may have, whatever its
// quota says: the record store is one for all.
type recordLimit struct {
	most       int
	what, then string // in words, and what makes room
	code       string // "" = LIMIT_EXCEEDED
}

// The limits are far above what anybody needs, and so low that one account
// cannot fill the store. What is not here is bounded by what it belongs to:
// holds by VMs, usage and jobs by what is kept of them, domains and mappings by
// their own limits.
var (
	limitVMs         = limit[vm.VM]{10_000, "VMs", "delete some (`warren rm NAME`)", "TOTAL_VM_LIMIT_EXCEEDED"}
	limitGenerations = limit[vm.Generation]{20_000, "generations", "delete snapshots (`warren snapshot rm NAME`) or VMs", "SNAPSHOT_LIMIT_EXCEEDED"}
	limitBuilds      = limit[vm.Build]{2000, "builds of the last 30 days", "wait until older ones are forgotten", ""}
	limitResults     = limit[Result]{500, "background requests of the last hour", "wait for the answer instead", ""}
)

// limit is a recordLimit of a table's records.
type limit[T any] recordLimit

func (l limit[T]) of(account func(*T) vm.AccountID) ledger.Limit[T] {
	return ledger.Limit[T]{Most: l.most, What: l.what, Then: l.then, Code: l.code, Owner: func(rec *T) string { return string(account(rec)) }}
}

// bounded returns the records with a limit for each account.
func (r Records) bounded() Records {
	return r
}

// tallied is a collection that knows whose its records are.
type tallied[T any] struct {
	Collection[T]
	limit recordLimit
	of    func(*T) (id string, account vm.AccountID)

	mu    sync.Mutex
	whose map[string]vm.AccountID // by id; nil = not known yet
	count map[vm.AccountID]int
}

func tally[T any](c Collection[T], l recordLimit, of func(*T) (string, vm.AccountID)) Collection[T] {
	return &tallied[T]{Collection: c, limit: l, of: of}
}

// List is the collection's; the first one counts. Records that cannot be decoded
// are nobody's.
func (c *tallied[T]) List(ctx context.Context) ([]T, error) {
	list, err := c.Collection.List(ctx)
	var bad *store.Unreadable
	if err != nil && !errors.As(err, &bad) {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.whose == nil {
		c.whose, c.count = make(map[string]vm.AccountID, len(list)), map[vm.AccountID]int{}
		for i := range list {
			c.addLocked(&list[i])
		}
	}
	return list, err
}

// Create is the collection's; kind Limit when the account has as many records
// as it may. One whose outcome is not known counts until it is deleted.
func (c *tallied[T]) Create(ctx context.Context, rec T) (int64, error) {
	if err := c.known(ctx); err != nil {
		return 0, err
	}
	id, account := c.of(&rec)
	c.mu.Lock()
	_, there := c.whose[id]
	have := c.count[account]
	if !there && have < c.limit.most {
		c.addLocked(&rec)
	}
	c.mu.Unlock()
	if !there && have >= c.limit.most {
		return 0, vm.Errorf(vm.Limit, "", "the account may have %d %s and has %d", c.limit.most, c.limit.what, have).
			WithCode(cmp.Or(c.limit.code, "LIMIT_EXCEEDED"), "limit", c.limit.most, "current", have).WithHint("%s", c.limit.then)
	}
	rev, err := c.Collection.Create(ctx, rec)
	if err != nil && !there && refused(err) {
		c.remove(id)
	}
	return rev, err
}

// refused reports whether a failed change was certainly not made.
func refused(err error) bool {
	switch vm.KindOf(err) {
	case vm.Exists, vm.Limit, vm.NoSpace, vm.Busy, vm.NotFound:
		return true
	}
	return false
}

// Delete is the collection's.
func (c *tallied[T]) Delete(ctx context.Context, rec T) error {
	err := c.Collection.Delete(ctx, rec)
	if id, _ := c.of(&rec); err == nil || vm.KindOf(err) == vm.NotFound {
		c.remove(id)
	}
	return err
}

// known counts what there is, unless that was done.
func (c *tallied[T]) known(ctx context.Context) error {
	c.mu.Lock()
	known := c.whose != nil
	c.mu.Unlock()
	if known {
		return nil
	}
	_, err := c.List(ctx)
	var bad *store.Unreadable
	if errors.As(err, &bad) {
		return nil
	}
	return err
}

func (c *tallied[T]) addLocked(rec *T) {
	id, account := c.of(rec)
	c.whose[id] = account
	c.count[account]++
}

func (c *tallied[T]) remove(id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	account, ok := c.whose[id]
	if !ok {
		return
	}
	delete(c.whose, id)
	if c.count[account]--; c.count[account] == 0 {
		delete(c.count, account)
	}
}

// Bounds of what a guest says that is kept in a record.
const (
	maxTerminalText  = 256 // bytes of a command or a title
	maxTerminalBytes = 24 << 10
)

// keepTerminals notes in a VM's record the terminals that its guest has, and how
// many of them were left out. A guest can say anything.
func keepTerminals(rec *vm.VM, list []vm.TerminalSession) {
	rec.Terminals, rec.TerminalsOmitted = nil, 0
	bytes := 0
	for _, t := range list {
		t.User, t.Command, t.Title = short(t.User), short(t.Command), short(t.Title)
		bytes += len(t.ID) + len(t.User) + len(t.Command) + len(t.Title)
		if vm.CheckTerminalID(t.ID) != nil || len(rec.Terminals) == vm.MaxTerminals || bytes > maxTerminalBytes {
			rec.TerminalsOmitted++
			continue
		}
		rec.Terminals = append(rec.Terminals, t)
	}
}

// fitTerminals is keepTerminals for a record that an earlier version wrote.
func fitTerminals(rec *vm.VM) {
	omitted := rec.TerminalsOmitted
	keepTerminals(rec, rec.Terminals)
	rec.TerminalsOmitted += omitted
}

func short(s string) string { return cutText(s, maxTerminalText) }

// Bounds of the record of a job.
const (
	maxJobBytes = 48 << 10
	maxJobList  = 100  // of folders, volumes, snapshots, forks and copies each
	maxJobNames = 8    // times as many receipts, and snapshots that are kept
	maxJobText  = 256  // bytes of a path
	maxJobWhy   = 1000 // bytes of a reason
)

// boundJob shortens what a job's record lists until it is no larger than it may
// be, and says how much of which list was left out.
func boundJob(job vm.Job) vm.Job {
	for n := maxJobList; ; n /= 2 {
		out := shortenJob(job, n)
		if data, err := json.Marshal(out); err != nil || len(data) <= maxJobBytes || n == 0 {
			return out
		}
	}
}

func shortenJob(job vm.Job, n int) vm.Job {
	left, omitted := &job.Remains, map[string]int{}
	left.Folders = firstOf(left.Folders, n, omitted, "folders")
	for i := range left.Folders {
		left.Folders[i].Host, left.Folders[i].Path = cutText(left.Folders[i].Host, maxJobText), cutText(left.Folders[i].Path, maxJobText)
	}
	left.Volumes = firstOf(left.Volumes, n, omitted, "volumes")
	for i := range left.Volumes {
		left.Volumes[i].Path = cutText(left.Volumes[i].Path, maxJobText)
		left.Volumes[i].UsedBy = firstOf(left.Volumes[i].UsedBy, n, omitted, "usedBy")
	}
	left.Snapshots = firstOf(left.Snapshots, n, omitted, "snapshots")
	left.Forks = firstOf(left.Forks, n, omitted, "forks")
	left.Copies = firstOf(left.Copies, n, omitted, "copies")
	for i := range left.Copies {
		left.Copies[i].Path, left.Copies[i].To = cutText(left.Copies[i].Path, maxJobText), cutText(left.Copies[i].To, maxJobText)
	}
	left.Receipts = firstOf(left.Receipts, n*maxJobNames, omitted, "receipts")
	job.KeptSnapshots = firstOf(job.KeptSnapshots, n*maxJobNames, omitted, "keptSnapshots")
	job.Steps = slices.Clone(job.Steps)
	for i := range job.Steps {
		job.Steps[i].Why = cutText(job.Steps[i].Why, maxJobWhy)
	}
	if left.Omitted = omitted; len(omitted) == 0 {
		left.Omitted = nil
	}
	return job
}

// firstOf returns a copy of the first n of a list, and adds up under a name how
// many it leaves out.
func firstOf[T any](list []T, n int, omitted map[string]int, name string) []T {
	n = min(n, len(list))
	if more := len(list) - n; more > 0 {
		omitted[name] += more
	}
	return append(list[:0:0], list[:n]...)
}
