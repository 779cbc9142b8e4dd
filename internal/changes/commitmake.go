// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package changes

import (
	"cmp"
	"context"
	"fmt"
	"net/mail"
	"slices"
	"strings"

	"github.com/warren-vm/warren/internal/repo"
	"github.com/warren-vm/warren/internal/review"
	"github.com/warren-vm/warren/vm"
)

// make makes the planned commit, if it is what was shown.
func (m *committing) make(ctx context.Context) (vm.CommitPlan, error) {
	if err := m.checkShown(ctx); err != nil {
		return m.out, err
	}
	if err := m.checkSecrets(); err != nil {
		return m.out, err
	}
	if len(m.edits) == 0 {
		return m.out, vm.Errorf(vm.Invalid, m.out.Path.String(), "it is equal to %s: there is nothing to commit", cmp.Or(shortID(m.out.Base), "the empty repository")).
			WithHint("compare the machine: `warren diff %s`", cmp.Or(m.rec.Name, string(m.rec.ID)))
	}
	author, err := authorOf(m.r.Author)
	if err != nil {
		return m.out, err
	}
	out := &m.out
	detail := map[string]any{"repo": out.Repo, "branch": out.Branch, "generation": string(out.Generation), "manifest": out.Manifest, "files": out.Stat.Files()}
	if len(m.r.AllowSecrets) > 0 {
		detail["allowedSecrets"] = len(m.r.AllowSecrets)
	}
	rcpt, err := m.cfg.Journal.Begin(ctx, m.c, vm.AuditEntry{Op: vm.OpCommit, VM: m.rec.ID, Subject: out.Path.String(), Detail: detail})
	if err != nil {
		return *out, err
	}
	err = m.land(ctx, author)
	rcpt.End(err, map[string]any{"commit": out.Commit})
	if err == nil {
		m.cfg.Journal.EmitVM(m.rec, "vm.committed", map[string]any{"repo": out.Repo, "branch": out.Branch, "commit": out.Commit, "generation": string(out.Generation)})
	}
	return *out, err
}

// land has the repository make the commit, and notes it in the generation's record.
func (m *committing) land(ctx context.Context, author *repo.Signature) error {
	out := &m.out
	name := cmp.Or(m.rec.Name, string(m.rec.ID))
	out.Message = cmp.Or(out.Message, fmt.Sprintf("Work of %s: %d files changed", name, out.Stat.Files()))
	call := &vm.Call{Actor: m.c.Actor, Request: m.c.Request}
	made, err := m.cfg.Repo.Commit(ctx, call, m.repo.ID, repo.CommitRequest{
		Branch: out.Branch, Message: out.Message, Author: author, Expected: cmp.Or(m.expected, noBranch), Base: out.Base, Files: m.edits,
		Trailers: []repo.Trailer{
			{Key: trailerVM, Value: name + " (" + string(m.rec.ID) + ")"},
			{Key: trailerGeneration, Value: string(out.Generation)},
			{Key: trailerManifest, Value: "sha256:" + out.Manifest},
		},
	})
	if err != nil {
		return err
	}
	out.Commit, out.Message, out.MadeAt = made.SHA, made.Message, made.Committer.Date
	return m.cfg.Engine.NoteCommit(ctx, out.Generation, out.Repo, out.Commit)
}

// checkShown refuses when the commit would not be what the caller has seen, or when the
// machine is no longer in that state.
func (m *committing) checkShown(ctx context.Context) error {
	if m.r.Manifest == "" {
		return nil
	}
	if m.r.Manifest != m.out.Manifest {
		ok, err := m.isDiff(ctx)
		if err != nil {
			return err
		}
		if !ok {
			return m.machineMoved("what would be committed is not what was shown", nil)
		}
	}
	if m.r.Generation == "" {
		return nil // it is the state now
	}
	now, release, err := m.cfg.Engine.FrozenDisk(ctx, m.c, string(m.rec.ID), "")
	if err != nil {
		return err
	}
	defer release()
	if now.Side.Generation == m.out.Generation {
		return nil
	}
	base := map[string]tracked{} // so that ignored files of the base are read, too
	for name, f := range m.project.files {
		base[name] = f.tracked
	}
	other, err := m.readProject(ctx, now.Layers, review.ProjectOptions{Root: m.out.Path}, base)
	if err != nil {
		return err
	}
	differ := m.project.same(other)
	_ = other.Close() // it was only read
	if len(differ) > 0 {
		return m.machineMoved(fmt.Sprintf("%d files changed in the VM since they were shown", len(differ)), differ)
	}
	return nil
}

func (m *committing) machineMoved(why string, differ []vm.GuestPath) error {
	name := cmp.Or(m.rec.Name, string(m.rec.ID))
	var paths []string
	for _, p := range differ[:min(len(differ), 20)] {
		paths = append(paths, p.String())
	}
	if len(paths) > 0 {
		why += ": " + strings.Join(paths[:min(len(paths), 3)], ", ")
	}
	return vm.Errorf(vm.Exists, name, "%s", why).WithCode("MACHINE_MOVED", "paths", paths).
		WithHint("look again: `warren commit %s --repo %s`; --generation %s alone commits the older state", name, m.r.Repo, m.out.Generation)
}

// isDiff reports whether the request's manifest is that of a diff which ended at the
// generation.
func (m *committing) isDiff(ctx context.Context) (bool, error) {
	for _, paths := range [][]vm.GuestPath{nil, {m.out.Path}} {
		d, err := m.Diff(ctx, m.c, string(m.rec.ID), vm.DiffRequest{From: m.r.From, To: string(m.out.Generation), Paths: paths})
		if err != nil {
			return false, err
		}
		if d.Manifest == m.r.Manifest {
			return true, nil
		}
	}
	return false, nil
}

// checkSecrets refuses files with secrets, except those that the request allows.
func (m *committing) checkSecrets() error {
	allowed := func(s vm.FoundSecret) bool {
		return slices.ContainsFunc(m.r.AllowSecrets, func(p vm.GuestPath) bool {
			return p == s.Path || string(m.out.Path)+"/"+string(p) == string(s.Path)
		})
	}
	left := slices.DeleteFunc(slices.Clone(m.out.Secrets), allowed)
	if len(left) == 0 {
		return nil
	}
	var found []string
	for _, s := range left {
		found = append(found, fmt.Sprintf("%s:%d: %s", s.Path, s.Line, s.Kind))
	}
	return vm.Errorf(vm.Denied, left[0].Path.String(), "%d secrets were found, the first is a %s in line %d", len(left), left[0].Kind, left[0].Line).
		WithCode("SECRETS_FOUND", "secrets", found).
		WithHint("remove them in the VM; or, if they are no secrets, name each file: --allow-secret %s", left[0].Path)
}

// authorOf parses "Name <address>"; nil = the caller.
func authorOf(text string) (*repo.Signature, error) {
	if text == "" {
		return nil, nil
	}
	a, err := mail.ParseAddress(text)
	if err != nil || a.Name == "" {
		return nil, vm.Errorf(vm.Invalid, text, "it is no author").WithHint("write it as \"Name <address>\"")
	}
	return &repo.Signature{Name: a.Name, Email: a.Address}, nil
}

func shortID(id string) string { return id[:min(len(id), 12)] }
