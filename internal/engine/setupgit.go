// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"cmp"
	"context"
	"path"
	"slices"

	"github.com/warren-vm/warren/internal/spec"
	"github.com/warren-vm/warren/vm"
)

// reposOf grants a new VM the repositories of this server that its layers clone: to read
// and to write, or to read where the repository belongs to another account. It finds them
// before anything is built.
func (e *Engine) reposOf(ctx context.Context, c *vm.Call, layers []spec.Layer) (out []vm.RepoGrant, err error) {
	for _, l := range layers {
		for _, r := range l.Repos {
			ref, ours := r.Hosted()
			if !ours {
				continue
			}
			if e.cfg.Hosted == nil {
				return nil, vm.Errorf(vm.NotFound, ref, "no such repository").WithCode("CREATE_VM_BAD_REQUEST", "message", "no such repository: "+ref)
			}
			found, err := e.cfg.Hosted(ctx, c, ref)
			if err != nil {
				refused := vm.AsError(err)
				return nil, refused.WithCode("CREATE_VM_BAD_REQUEST", "message", refused.Error())
			}
			g := vm.RepoGrant{Repo: found.ID, Access: vm.GitWrite, GrantedAt: e.now()}
			if found.Account != c.Actor.Account {
				g.Access = vm.GitRead
			}
			if !slices.ContainsFunc(out, func(o vm.RepoGrant) bool { return o.Repo == g.Repo }) {
				out = append(out, g)
			}
		}
	}
	return out, nil
}

// clone clones one repository in the guest, by the guest's own git. A repository of this
// server needs no secret and no open network: the VM's own network answers.
func (s setup) clone(ctx context.Context, r spec.Repo) error {
	from, name := r.URL, path.Base(r.URL)
	what := "git clone " + withoutSecret(from)
	if ref, ours := r.Hosted(); ours {
		from, name = "https://"+vm.GitHost+"/"+ref, ref
	} else if err := s.reachable(what, from); err != nil {
		return err
	}
	to := r.Path
	if to == "" {
		to = path.Join(cmp.Or(s.rec.Workdir, "/root"), name)
	}
	env := map[string]string{"GIT_TERMINAL_PROMPT": "0"}
	if err := s.run(ctx, what, vm.ExecSpec{Argv: []string{"git", "clone", "--quiet", "--", from, to}, Env: env}); err != nil {
		return err
	}
	if r.Rev == "" {
		return nil
	}
	return s.run(ctx, what, vm.ExecSpec{Argv: []string{"git", "-C", to, "checkout", "--quiet", r.Rev, "--"}, Env: env})
}
