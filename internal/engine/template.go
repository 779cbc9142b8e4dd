// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"

	"github.com/warren-vm/warren/vm"
)

// TagTemplate gives the snapshot of a template's build other tags, and a name that says them.
// If another snapshot has the name, the tags change and the name stays.
func (e *Engine) TagTemplate(ctx context.Context, c *vm.Call, ref, name string, tags []vm.TemplateTag) (g vm.Generation, err error) {
	defer func() { err = fail(vm.OpSnapshotRename, ref, err) }()
	if g, err = e.liveSnapshot(c, ref); err != nil {
		return g, err
	}
	if g.Template == nil || g.Template.Name == "" {
		return g, vm.Errorf(vm.NotFound, ref, "the snapshot is not a build of a template")
	}
	names := make([]string, 0, len(tags))
	for _, t := range tags {
		names = append(names, t.Name)
	}
	r, err := e.record(ctx, c, vm.AuditEntry{Op: vm.OpSnapshotRename, VM: g.VM, Subject: string(g.Snapshot), Detail: map[string]any{"from": g.Name, "to": name, "tags": names}})
	if err != nil {
		return g, err
	}
	free := true
	g, err = e.renameGeneration(ctx, g.ID, func() error {
		free = e.snapshotNameFree(c.Actor.Account, name, g.ID) == nil
		return nil
	}, func(g *vm.Generation) {
		if free {
			g.Name = name
		}
		g.Template = g.Template.Clone()
		g.Template.Tags = tags
	})
	r.End(err, nil)
	return g, err
}
