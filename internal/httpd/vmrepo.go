// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package httpd

import (
	"context"
	"fmt"
	"net/http"
	"strings"

	"github.com/warren-vm/warren/api"
	"github.com/warren-vm/warren/vm"
)

func (s *server) vmRepoRoutes() []route {
	return []route{
		{"GET", "/v1/vms/{vm}/repositories", key, s.vmRepos, "The repositories that a VM's programs may use as the VM itself.", nil, api.VMRepos{}, false, ""},
		{"PUT", "/v1/vms/{vm}/repositories/{repo}", key, s.grantVMRepo, "Let a VM use a repository, or change what it may do with it.", api.GrantVMRepo{Access: vm.GitWrite}, api.VMRepo{}, false, ""},
		{"DELETE", "/v1/vms/{vm}/repositories/{repo}", key, s.revokeVMRepo, "End a VM's use of a repository, and its fetches and pushes in progress.", nil, struct{}{}, false, ""},
	}
}

func (s *server) vmRepos(q *request) error {
	v, err := s.Engine.Get(q.Context(), q.call, q.ref())
	if err != nil {
		return err
	}
	out := api.VMRepos{Repositories: []api.VMRepo{}}
	for _, g := range v.Repos {
		out.Repositories = append(out.Repositories, s.vmRepo(q.Context(), v, g.Repo))
	}
	return q.ok(out)
}

// vmRepo describes what a VM may do with a repository.
func (s *server) vmRepo(ctx context.Context, v vm.VM, repo string) api.VMRepo {
	g, _ := v.RepoGrant(repo)
	out := api.VMRepo{ID: repo, Access: g.Access, Branches: g.Branches, GrantedAt: g.GrantedAt, URL: "https://" + vm.GitHost + "/" + repo}
	if g.Access != vm.GitWrite {
		out.Branches = []string{}
	}
	if r, err := s.Repo.Repository(ctx, repo); err == nil && r.Name != "" {
		out.Name, out.URL = r.Name, "https://"+vm.GitHost+"/"+r.Name
	}
	return out
}

func (s *server) grantVMRepo(q *request) error {
	if _, err := s.Engine.Get(q.Context(), q.call, q.ref()); err != nil {
		return err
	}
	var in api.GrantVMRepo
	if err := q.decode(&in, maxBody); err != nil {
		return err
	}
	r, err := s.Repo.Get(q.Context(), q.call, q.values["repo"])
	if err != nil {
		return err
	}
	v, err := s.Access.GrantVMRepo(q.Context(), q.call, q.ref(), r.ID, in.Access, in.Branches)
	if err != nil {
		return err
	}
	return q.ok(s.vmRepo(q.Context(), v, r.ID))
}

func (s *server) revokeVMRepo(q *request) error {
	if _, err := s.Engine.Get(q.Context(), q.call, q.ref()); err != nil {
		return err
	}
	id := q.values["repo"]
	if r, err := s.Repo.Get(q.Context(), q.call, id); err == nil { // a repository that is gone is named by its id
		id = r.ID
	}
	if _, err := s.Access.RevokeVMRepo(q.Context(), q.call, q.ref(), id); err != nil {
		return err
	}
	return q.ok(struct{}{})
}

// ServeVM answers a request of the programs inside a VM, who act as the VM itself. It
// offers git's smart HTTP protocol at /REPOSITORY and nothing else.
func (h Handler) ServeVM(w http.ResponseWriter, r *http.Request, id vm.ID) {
	s := h.server
	refuse := func(status int, err error) {
		e := vm.AsError(s.Journal.Conceal(err))
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		w.WriteHeader(status)
		_, _ = fmt.Fprintln(w, "warren: "+e.Error())
		if e.Hint != "" {
			_, _ = fmt.Fprintln(w, e.Hint)
		}
	}
	v, ok := s.Engine.VMOf(id)
	if !ok {
		refuse(http.StatusForbidden, vm.Errorf(vm.NotFound, string(id), "this VM is not known"))
		return
	}
	ref, path, ok := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	if !ok || path != "info/refs" && path != "git-upload-pack" && path != "git-receive-pack" {
		refuse(http.StatusNotFound, vm.Errorf(vm.NotFound, r.URL.Path, "there are only git repositories here").WithHint("git clone https://%s/REPOSITORY", vm.GitHost))
		return
	}
	ref = strings.TrimSuffix(ref, ".git")
	c := &vm.Call{Actor: vm.Actor{Account: v.Account, VM: v.ID}, Request: vm.NewRequestID()}
	if err := s.Pace.Take(c.Actor); err != nil {
		refuse(api.Status(err), err)
		return
	}
	if err := s.Repo.ServeGit(w, r, c, ref, path); err != nil {
		s.Log.Debug("a VM's request to a repository failed", "vm", v.ID, "path", r.URL.Path, "err", err)
	}
}
