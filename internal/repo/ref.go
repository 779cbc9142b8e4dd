// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package repo

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"strings"

	"github.com/warren-vm/warren/vm"
)

// refRow is one line of for-each-ref.
type refRow struct{ name, id, kind, peeled string }

// refs lists the refs below prefixes, by name.
func (r *Repo) refs(ctx context.Context, dir string, prefixes ...string) ([]refRow, error) {
	args := append([]string{"for-each-ref", "--format=%(refname)%00%(objectname)%00%(objecttype)%00%(*objectname)"}, prefixes...)
	out, err := r.run(ctx, program{dir: dir, args: args})
	if err != nil {
		return nil, err
	}
	var rows []refRow
	for line := range bytes.Lines(out) {
		if f := strings.Split(strings.TrimSuffix(string(line), "\n"), "\x00"); len(f) == 4 {
			rows = append(rows, refRow{f[0], f[1], f[2], f[3]})
		}
	}
	return rows, nil
}

// Branches lists the branches, by name. The default branch is among them also before
// its first commit.
func (r *Repo) Branches(ctx context.Context, c *vm.Call, ref string) ([]vm.Branch, error) {
	rec, _, dir, err := r.reach(c, ref, Read)
	if err != nil {
		return nil, vm.WithOp(vm.OpRepoRead, ref, err)
	}
	rows, err := r.refs(ctx, dir, "refs/heads/")
	if err != nil {
		return nil, vm.WithOp(vm.OpRepoRead, ref, err)
	}
	list := []vm.Branch{}
	for _, row := range rows {
		list = append(list, branchOf(&rec, strings.TrimPrefix(row.name, "refs/heads/"), row.id))
	}
	return list, nil
}

func branchOf(rec *vm.Repository, name, id string) vm.Branch {
	return vm.Branch{Name: name, Commit: id, Default: name == rec.DefaultBranch, Protected: rec.Protects(name)}
}

// Branch returns one branch. Kind NotFound, code BRANCH_NOT_FOUND.
func (r *Repo) Branch(ctx context.Context, c *vm.Call, ref, name string) (b vm.Branch, err error) {
	defer func() { err = vm.WithOp(vm.OpRepoRead, ref, err) }()
	rec, _, _, err := r.reach(c, ref, Read)
	if err != nil {
		return b, err
	}
	tip, err := r.tip(ctx, &rec, name)
	if err == nil && tip == "" {
		err = noBranch(name)
	}
	return branchOf(&rec, name, tip), err
}

func noBranch(name string) error {
	shown := vm.GuestPath(vm.Clip(name, maxRefName)).String()
	return vm.Errorf(vm.NotFound, shown, "no such branch").WithCode("BRANCH_NOT_FOUND", "branch", shown)
}

// tip returns the commit of a branch; "" = there is no such branch.
func (r *Repo) tip(ctx context.Context, rec *vm.Repository, branch string) (string, error) {
	if err := checkBranch(branch); err != nil {
		return "", err
	}
	o, err := r.objectsOf(ctx, rec.ID)
	if err != nil {
		return "", err
	}
	defer o.close()
	got, err := o.info("refs/heads/" + branch)
	return got.id, err
}

// CreateBranch makes a branch at a revision; "" = the tip of the default branch. Kind
// Exists, code BRANCH_ALREADY_EXISTS.
func (r *Repo) CreateBranch(ctx context.Context, c *vm.Call, ref, name, at string) (b vm.Branch, err error) {
	defer func() { err = vm.WithOp(vm.OpRef, ref, err) }()
	rec, p, dir, err := r.reach(c, ref, Write)
	if err != nil {
		return b, err
	}
	if err := checkBranch(name); err != nil {
		return b, err
	}
	if err := mayChange(&rec, p, "refs/heads/"+name, false); err != nil {
		return b, err
	}
	to, err := r.idOf(ctx, &rec, cmp.Or(at, rec.DefaultBranch), "commit")
	if err != nil {
		return b, err
	}
	if have, err := r.tip(ctx, &rec, name); err != nil {
		return b, err
	} else if have != "" {
		return b, vm.Errorf(vm.Exists, name, "the branch exists").WithCode("BRANCH_ALREADY_EXISTS", "branch", name)
	}
	err = r.record(ctx, c, vm.OpRef, &rec, []refChange{{"refs/heads/" + name, zeroID, to}}, func() error {
		return r.move(ctx, dir, "branch created by "+actorName(c.Actor), []refChange{{"refs/heads/" + name, zeroID, to}})
	})
	if errors.Is(err, errMoved) {
		err = vm.Errorf(vm.Exists, name, "the branch, or one whose name begins or continues this name, exists").WithCode("BRANCH_ALREADY_EXISTS", "branch", name)
	}
	return branchOf(&rec, name, to), err
}

// DeleteBranch deletes a branch, unless it is protected or the default.
func (r *Repo) DeleteBranch(ctx context.Context, c *vm.Call, ref, name string) (err error) {
	defer func() { err = vm.WithOp(vm.OpRef, ref, err) }()
	rec, p, dir, err := r.reach(c, ref, Write)
	if err != nil {
		return err
	}
	have, err := r.tip(ctx, &rec, name)
	if err != nil {
		return err
	}
	if have == "" {
		return noBranch(name)
	}
	full := "refs/heads/" + name
	if err := mayChange(&rec, p, full, true); err != nil {
		return err
	}
	gone := []refChange{{full, have, zeroID}}
	err = r.record(ctx, c, vm.OpRef, &rec, gone, func() error {
		return r.move(ctx, dir, "branch deleted by "+actorName(c.Actor), gone)
	})
	if errors.Is(err, errMoved) {
		err = vm.Errorf(vm.Exists, name, "the branch has moved meanwhile").WithCode("CONFLICT").WithHint("look at what is new on it, and try again")
	}
	return err
}

// refChange is the change of one ref; zeroID stands for no ref.
type refChange struct{ name, was, now string }

// errMoved says that a ref is not what it was said to be.
var errMoved = vm.Errorf(vm.Exists, "", "the ref has moved")

// move changes refs, all or none, where they are what the changes say they were;
// otherwise the error is errMoved.
func (r *Repo) move(ctx context.Context, dir, why string, changes []refChange) error {
	var in strings.Builder
	for _, ch := range changes {
		if ch.now == zeroID {
			in.WriteString("delete " + ch.name + "\x00" + ch.was + "\x00")
		} else {
			in.WriteString("update " + ch.name + "\x00" + ch.now + "\x00" + ch.was + "\x00")
		}
	}
	_, err := r.run(context.WithoutCancel(ctx), program{
		dir: dir, args: []string{"update-ref", "-m", oneLine(why), "--stdin", "-z"}, in: strings.NewReader(in.String()),
	})
	if err == nil {
		return nil
	}
	said := saidBy(err)
	for _, sign := range []string{"but expected", "reference already exists", "unable to resolve reference", "reference is missing", "cannot lock ref", "' exists; cannot create"} {
		if strings.Contains(said, sign) {
			return errMoved
		}
	}
	return err
}

// oneLine replaces characters that end a line.
func oneLine(s string) string {
	return strings.Map(func(c rune) rune {
		if c < ' ' {
			return ' '
		}
		return c
	}, s)
}

// record writes the audit record of a change to refs, makes the change, and tells
// everybody who wants to know.
func (r *Repo) record(ctx context.Context, c *vm.Call, op vm.Op, rec *vm.Repository, changes []refChange, change func() error) (err error) {
	receipt, err := r.cfg.Journal.Begin(ctx, c, vm.AuditEntry{Op: op, VM: c.Actor.VM, Subject: rec.ID, Detail: map[string]any{"refs": shownChanges(changes)}})
	if err != nil {
		return err
	}
	defer func() { receipt.End(err, nil) }()
	if err = change(); err == nil {
		r.changed(ctx, c, rec, changes)
	}
	return err
}

const shownRefs = 20 // of one push, in an audit record

func shownChanges(changes []refChange) []string {
	var out []string
	for i, ch := range changes {
		if i == shownRefs {
			return append(out, "...")
		}
		out = append(out, ch.name+" "+ch.was+" "+ch.now)
	}
	return out
}

// changed notes that refs have changed: an event for each, and the time and the size in
// the record, later.
func (r *Repo) changed(ctx context.Context, c *vm.Call, rec *vm.Repository, changes []refChange) {
	for _, ch := range changes {
		r.emit(c, "repo.pushed", *rec, map[string]any{"ref": ch.name, "old": ch.was, "new": ch.now})
	}
	if notify := r.cfg.Pushed; notify != nil {
		for _, ch := range changes {
			notify(*rec, Pushed{Ref: ch.name, Old: ch.was, New: ch.now, Actor: c.Actor})
		}
	}
	r.pushed(ctx, *rec, c.Actor, changes)
	r.later(rec.ID)
}

var (
	revision = vm.NewPattern(`^[^~^]+([~^][0-9]*)*$`)
	shortID  = vm.NewPattern(`^[0-9a-f]{4,40}$`)
)

// idOf returns the id of what a revision names: an id or the beginning of one, a
// branch, a tag, or a full ref, each perhaps with ~N or ^N. kind is commit or tree: tags
// and, for tree, commits are followed to one; "" = any object. The default branch
// without a commit gives NotFound, code NO_DEFAULT_BRANCH.
func (r *Repo) idOf(ctx context.Context, rec *vm.Repository, rev, kind string) (string, error) {
	o, err := r.objectsOf(ctx, rec.ID)
	if err != nil {
		return "", err
	}
	defer o.close()
	got, err := o.resolve(rec, rev, kind)
	return got.id, err
}

func (o *objects) resolve(rec *vm.Repository, rev, kind string) (object, error) {
	shown := vm.GuestPath(vm.Clip(rev, maxRefName)).String()
	name, suffix := rev, ""
	if i := strings.IndexAny(rev, "~^"); i > 0 {
		name, suffix = rev[:i], rev[i:]
	}
	if !revision.MatchString(rev) || len(suffix) > 50 || badRef(strings.TrimPrefix(name, "refs/")) != "" && !objectID.MatchString(name) && name != "HEAD" {
		return object{}, vm.Errorf(vm.Invalid, shown, "is not a revision").WithCode("INVALID_REVISION", "revision", shown, "rev", shown).
			WithHint("use a branch, a tag, or the id of a commit")
	}
	if kind != "" {
		suffix += "^{" + kind + "}"
	}
	names := []string{"refs/heads/" + name, "refs/tags/" + name}
	switch {
	case objectID.MatchString(name):
		names = []string{name}
	case strings.HasPrefix(name, "refs/"):
		names = []string{name}
	case name == "HEAD":
		names = []string{"refs/heads/" + rec.DefaultBranch}
	case shortID.MatchString(name):
		names = append(names, name)
	}
	for _, one := range names {
		got, err := o.info(one + suffix)
		if errors.Is(err, errAmbiguous) {
			return got, vm.Errorf(vm.Invalid, shown, "several objects begin with this").WithCode("AMBIGUOUS", "rev", shown).WithHint("write more of the id")
		}
		if err != nil || got.kind != "" {
			return got, err
		}
	}
	switch {
	case objectID.MatchString(name) && kind == "commit":
		return object{}, vm.Errorf(vm.NotFound, shown, "no such commit").WithCode("COMMIT_NOT_FOUND", "sha", shown)
	case rev == rec.DefaultBranch || name == "HEAD" && rev == name:
		return object{}, vm.Errorf(vm.NotFound, rec.DefaultBranch, "the default branch has no commit yet").WithCode("NO_DEFAULT_BRANCH").
			WithHint("commit or push to it")
	}
	return object{}, vm.Errorf(vm.NotFound, shown, "no branch, tag or commit has this name").WithCode("REFERENCE_NOT_FOUND", "reference", shown)
}

// Resolve returns the id of the commit that a revision names: a branch, a tag, or an id
// or the beginning of one, each perhaps with ~N or ^N; "" = the default branch.
func (r *Repo) Resolve(ctx context.Context, c *vm.Call, ref, rev string) (string, error) {
	rec, _, _, err := r.reach(c, ref, Read)
	if err != nil {
		return "", vm.WithOp(vm.OpRepoRead, ref, err)
	}
	id, err := r.idOf(ctx, &rec, cmp.Or(rev, rec.DefaultBranch), "commit")
	return id, vm.WithOp(vm.OpRepoRead, ref, err)
}
