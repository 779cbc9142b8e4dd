// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"

	"github.com/warren-vm/warren/vm"
)

// commitsKept is the number of a VM's generations, the newest, whose disks are kept
// because commits were made or objects were published from them.
const commitsKept = 20

// NoteCommit records that a commit was made from a generation's disk. The disk is then
// kept as long as the VM exists, unless many newer ones were committed. Kind NotFound.
func (e *Engine) NoteCommit(ctx context.Context, id vm.GenerationID, repo, commit string) error {
	_, err := e.changeGeneration(ctx, id, func(g *vm.Generation) { g.CommitRepo, g.Commit = repo, commit })
	return fail(vm.OpCommit, string(id), err)
}

// CommittedFrom reports whether a commit of a repository was made from a state of a VM,
// as far as its generations have records.
func (e *Engine) CommittedFrom(of vm.ID, repo, commit string) bool {
	return len(e.generations(func(g *vm.Generation) bool {
		return g.VM == of && g.CommitRepo == repo && g.Commit == commit && commit != ""
	})) > 0
}

// publishedKept is the number of objects that a generation's record names.
const publishedKept = 20

// NotePublish records that an object was published from a generation's disk. The disk is
// then kept as after NoteCommit. Kind NotFound.
func (e *Engine) NotePublish(ctx context.Context, id vm.GenerationID, as vm.PublishedAs) error {
	_, err := e.changeGeneration(ctx, id, func(g *vm.Generation) {
		g.Published = append(g.Published[:len(g.Published):len(g.Published)], as)
		g.Published = g.Published[max(0, len(g.Published)-publishedKept):]
	})
	return fail(vm.OpPublish, string(id), err)
}

// committedLocked returns the generations whose disks are kept for their commits and
// published objects.
func (e *Engine) committedLocked() (ids []vm.GenerationID) {
	by := map[vm.ID][]vm.Generation{}
	for _, g := range e.gens {
		if (g.info.Commit != "" || len(g.info.Published) > 0) && !g.info.Gone && g.info.State == vm.GenReady && e.vms[g.info.VM] != nil {
			by[g.info.VM] = append(by[g.info.VM], g.info)
		}
	}
	for _, list := range by {
		sortNewest(list)
		for _, g := range list[:min(commitsKept, len(list))] {
			ids = append(ids, g.ID)
		}
	}
	return ids
}
