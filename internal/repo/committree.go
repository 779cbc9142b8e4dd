// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package repo

import (
	"context"
	"strings"

	"github.com/warren-vm/warren/vm"
)

// TreeCommitRequest describes a commit of an existing tree. No ref is moved.
type TreeCommitRequest struct {
	Message           string
	Tree              string
	Parents           []string
	Author, Committer *Signature // nil = the caller, the author
}

const maxParents = 100

// CommitTree makes a commit object of an existing tree. Kind NotFound, codes
// TREE_NOT_FOUND and PARENT_NOT_FOUND.
func (r *Repo) CommitTree(ctx context.Context, c *vm.Call, ref string, req TreeCommitRequest) (out vm.Commit, err error) {
	defer func() { err = vm.WithOp(vm.OpCommit, ref, err) }()
	rec, _, _, err := r.reach(c, ref, Write)
	if err != nil {
		return out, err
	}
	if len(req.Parents) > maxParents {
		return out, vm.Errorf(vm.Limit, "", "a commit has at most %d parents", maxParents).WithCode("GIT_INVALID_REQUEST")
	}
	text, err := message(req.Message, nil)
	if err != nil {
		return out, err
	}
	author, committer, err := r.people(c, req.Author, req.Committer)
	if err != nil {
		return out, err
	}
	o, err := r.objectsOf(ctx, rec.ID)
	if err != nil {
		return out, err
	}
	defer o.close()
	if err := o.need(req.Tree, "tree", "TREE_NOT_FOUND", "hash"); err != nil {
		return out, err
	}
	data := "tree " + req.Tree + "\n"
	for _, p := range req.Parents {
		if err := o.need(p, "commit", "PARENT_NOT_FOUND", "sha"); err != nil {
			return out, err
		}
		data += "parent " + p + "\n"
	}
	data += "author " + author + "\ncommitter " + committer + "\n\n" + text
	receipt, err := r.cfg.Journal.Begin(ctx, c, vm.AuditEntry{Op: vm.OpCommit, VM: c.Actor.VM, Subject: rec.ID, Detail: map[string]any{"tree": req.Tree}})
	if err != nil {
		return out, err
	}
	defer func() { receipt.End(err, map[string]any{"commit": out.SHA}) }()
	in, err := r.incoming(&rec)
	if err != nil {
		return out, err
	}
	defer in.remove()
	id, err := r.run(ctx, program{dir: in.dir, env: in.env(), args: []string{"hash-object", "-t", "commit", "-w", "--stdin"}, in: strings.NewReader(data)})
	if err == nil {
		err = in.reserve(ctx)
	}
	if err == nil {
		err = in.join()
	}
	if err != nil {
		return out, err
	}
	r.later(rec.ID)
	return parseCommit(strings.TrimSpace(string(id)), []byte(data)), nil
}

// need refuses an id that is not that of an object of a kind.
func (o *objects) need(id, kind, code, field string) error {
	if err := checkID(id); err != nil {
		return err
	}
	got, err := o.info(id)
	if err == nil && got.kind != kind {
		err = vm.Errorf(vm.NotFound, id, "no such %s", kind).WithCode(code, field, id)
	}
	return err
}
