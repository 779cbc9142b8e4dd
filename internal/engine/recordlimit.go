// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"encoding/json"
	"slices"

	"github.com/warren-vm/warren/internal/ledger"
	"github.com/warren-vm/warren/vm"
)

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

// limit is how many records of one kind an account may have, whatever its quota
// says: the record store is one for all.
type limit[T any] struct {
	most       int
	what, then string // in words, and what makes room
	code       string // "" = LIMIT_EXCEEDED
}

func (l limit[T]) of(account func(*T) vm.AccountID) ledger.Limit[T] {
	return ledger.Limit[T]{Most: l.most, What: l.what, Then: l.then, Code: l.code, Owner: func(rec *T) string { return string(account(rec)) }}
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
