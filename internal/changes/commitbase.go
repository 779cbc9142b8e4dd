// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package changes

import (
	"cmp"
	"context"
	"io"
	"slices"
	"strings"

	"github.com/warren-vm/warren/internal/review"
	"github.com/warren-vm/warren/vm"
)

// findBase decides on which commit the new one stands. It refuses when that is no longer
// the commit from which the machine's files came, as far as this is known.
func (m *committing) findBase(ctx context.Context, hints vm.ProjectSummary) error {
	out := &m.out
	out.BaseBranch = cmp.Or(m.r.BaseBranch, m.repo.DefaultBranch, "main")
	out.Branch = cmp.Or(m.r.Branch, "agent/"+branchPart(cmp.Or(m.rec.Name, string(m.rec.ID)))+"/"+out.BaseBranch)
	tip, err := m.tip(ctx, out.Branch)
	if err != nil {
		return err
	}
	if m.expected = tip; tip != "" {
		out.Base = tip
		return m.checkTip(ctx, out.Branch, tip, hints)
	}
	out.NewBranch = true
	if tip, err = m.tip(ctx, out.BaseBranch); err != nil {
		return err
	}
	if m.r.Base != "" {
		at, err := m.cfg.Repo.CommitAt(ctx, m.c, m.repo.ID, m.r.Base)
		out.Base = at.SHA
		return err
	}
	if out.Base = tip; tip == "" {
		return nil
	}
	return m.checkTip(ctx, out.BaseBranch, tip, hints)
}

// tip returns the commit of a branch; "" = there is no such branch.
func (m *committing) tip(ctx context.Context, branch string) (string, error) {
	b, err := m.cfg.Repo.Branch(ctx, m.c, m.repo.ID, branch)
	if vm.KindOf(err) == vm.NotFound {
		return "", nil
	}
	return b.Commit, err
}

// checkTip refuses a tip that the machine's files do not come from.
func (m *committing) checkTip(ctx context.Context, branch, tip string, hints vm.ProjectSummary) error {
	if m.r.Base != "" {
		at, err := m.cfg.Repo.CommitAt(ctx, m.c, m.repo.ID, m.r.Base)
		if err != nil {
			return err
		}
		if at.SHA != tip {
			return moved(branch, at.SHA, tip)
		}
		return nil
	}
	known := append([]string{hints.Head}, hints.Origins...)
	if slices.Contains(known, tip) || m.cfg.Engine.CommittedFrom(m.rec.ID, m.repo.ID, tip) {
		return nil
	}
	for _, id := range known {
		if id == "" {
			continue
		}
		at, err := m.cfg.Repo.CommitAt(ctx, m.c, m.repo.ID, id)
		switch {
		case err == nil:
			return moved(branch, at.SHA, tip)
		case vm.KindOf(err) != vm.NotFound:
			return err
		}
	}
	if m.expected != "" && branch == m.out.Branch && m.r.Branch == "" { // others pushed to the VM's own branch
		return moved(branch, "", tip)
	}
	return nil // the machine has nothing of this repository
}

// moved is the refusal of a base that is not the one from which the machine's files came.
func moved(branch, expected, actual string) error {
	e := vm.Errorf(vm.Exists, branch, "it moved: the machine's files come from another commit than %.12s", actual).
		WithCode("CONFLICTING_PARENT", "expected", expected, "actual", actual)
	if expected == "" {
		return e.WithHint("look at it first (`warren repo log`); --base %.12s commits on top of it anyway, --branch NAME makes another branch", actual)
	}
	return e.WithHint("pull in the VM and commit again; or start a branch at the machine's commit: --branch NAME --base %.12s", expected)
}

// branchPart is a VM's name as a part of a branch's.
func branchPart(name string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' || r == '_' {
			return r
		}
		return '-'
	}, name)
}

// lines counts the lines that come and go in a file. Files of more than mostScanned
// bytes count as binary.
func (m *committing) lines(ctx context.Context, was tracked, f *projectFile) (added, removed int, binary bool, err error) {
	var before, after []byte
	if was.blob != "" {
		size, content, err := m.cfg.Repo.Blob(ctx, m.c, m.repo.ID, was.blob)
		if err != nil {
			return 0, 0, false, err
		}
		defer content.Close()
		if size > mostScanned {
			return 0, 0, true, nil
		}
		if before, err = io.ReadAll(content); err != nil {
			return 0, 0, false, vm.Errorf(vm.Internal, "", "the repository cannot be read: %w", err)
		}
		m.out.Stat.BytesRemoved += size
	}
	if f != nil {
		m.out.Stat.BytesAdded += f.size
		if f.size > mostScanned {
			return 0, 0, true, nil
		}
		after = make([]byte, f.size)
		if _, err := m.project.spool.ReadAt(after, f.off); err != nil && f.size > 0 {
			return 0, 0, false, vm.Errorf(vm.Internal, "", "the contents cannot be read back: %w", err)
		}
	}
	added, removed, binary = review.LineStat(before, after)
	return added, removed, binary, nil
}
