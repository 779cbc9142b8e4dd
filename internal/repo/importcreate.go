// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package repo

import (
	"cmp"
	"context"
	"os"
	"path/filepath"
	"strings"

	"github.com/warren-vm/warren/internal/layout"
	"github.com/warren-vm/warren/vm"
)

// createFilled makes a repository with content. fill fills its files at dir, where
// nothing else sees them, and counts in room what comes; it may choose another default
// branch. If anything fails, no repository was made.
func (r *Repo) createFilled(ctx context.Context, c *vm.Call, req CreateRequest, from string, fill func(ctx context.Context, rec *vm.Repository, dir string, room *space) error) (rec vm.Repository, err error) {
	defer func() { err = vm.WithOp(vm.OpRepoCreate, req.Name, err) }()
	if err := ownersOnly(c, req.Name); err != nil {
		return rec, err
	}
	rec = vm.Repository{
		ID: vm.NewUUID(), Account: c.Actor.Account, Name: req.Name, Public: req.Public, DefaultBranch: cmp.Or(req.DefaultBranch, "main"),
		CreatedAt: r.cfg.Now().UTC(),
	}
	if err := cmp.Or(checkName(rec.Name), checkBranch(rec.DefaultBranch), r.nameFree(rec.Account, rec.Name, "")); err != nil {
		return rec, err
	}
	room, err := r.importRoom(ctx, rec.Account)
	if err != nil {
		return rec, err
	}
	defer func() { room.release(err == nil) }()
	receipt, err := r.cfg.Journal.Begin(ctx, c, vm.AuditEntry{Op: vm.OpRepoCreate, Subject: rec.ID, Detail: map[string]any{"name": rec.Name, "public": rec.Public, "from": from}})
	if err != nil {
		return rec, err
	}
	defer func() { receipt.End(err, nil) }()
	tmp := filepath.Join(r.cfg.Dir.RepoIncoming(), "new-"+rec.ID)
	defer os.RemoveAll(tmp) // what is left is removed by the next start
	if err := makeFiles(tmp, rec.DefaultBranch); err != nil {
		return rec, err
	}
	if err := fill(ctx, &rec, tmp, room); err != nil {
		return rec, err
	}
	if err := r.settle(ctx, &rec, tmp, room); err != nil {
		return rec, err
	}
	r.naming.Lock()
	defer r.naming.Unlock()
	if err := r.nameFree(rec.Account, rec.Name, ""); err != nil {
		return rec, err
	}
	if err := r.publish(ctx, rec, tmp); err != nil {
		return rec, err
	}
	r.emit(c, "repo.created", rec, map[string]any{"from": from})
	return rec, nil
}

// importRoom begins to count what an import of an account takes.
func (r *Repo) importRoom(ctx context.Context, account vm.AccountID) (*space, error) {
	s, err := r.newSpace(ctx, account)
	if err == nil && s.left(maxImport) == 0 {
		return nil, tooLargeImport()
	}
	return s, err
}

// settle checks what was filled in, and makes it durable.
func (r *Repo) settle(ctx context.Context, rec *vm.Repository, dir string, room *space) error {
	if err := checkBranch(rec.DefaultBranch); err != nil {
		return err
	}
	rows, err := r.refs(ctx, dir)
	if err != nil {
		return err
	}
	for _, row := range rows { // names that nobody could have pushed
		if badFullRef(row.name) != "" || strings.HasPrefix(row.name, "refs/heads/") && row.kind != "commit" {
			if err := r.setRefs(ctx, dir, [2]string{row.name}); err != nil {
				return err
			}
		}
	}
	if err := writeOwn(dir, rec.DefaultBranch); err != nil {
		return err
	}
	if rec.Bytes, err = sizeOf(dir); err != nil {
		return err
	}
	if rec.Bytes > maxImport || room.become(rec.Bytes) != nil {
		return tooLargeImport()
	}
	return layout.SyncTree(dir)
}

// publish gives files that are complete their place and stores their record.
func (r *Repo) publish(ctx context.Context, rec vm.Repository, tmp string) error {
	dir := r.cfg.Dir.Repo(rec.ID)
	if err := layout.Publish(tmp, dir); err != nil {
		return err
	}
	if err := r.table.Create(ctx, rec); err != nil {
		if undo := os.RemoveAll(dir); undo != nil {
			r.cfg.Log.Warn("the files of a repository that was not made remain", "path", dir, "err", undo)
		}
		return err
	}
	return nil
}
