// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package httpd

import (
	"testing"

	"github.com/warren-vm/warren/vm"
)

// TestCommitAsIdentity: an identity commits from a VM by its rights: those of root in the
// VM, and to write to the branch. One right without the other is not enough.
func TestCommitAsIdentity(t *testing.T) {
	b := newBench(t)
	id := b.create(`{"name":"box","workdir":"/work"}`)
	b.do("PUT", "/v1/vms/box/raw//work/new", []byte("new")).ok(t)
	repo := b.do("POST", "/git/v1/repo", `{"name":"shop"}`).answers(t, 200).json["repoId"].(string)
	const grantVM, grantRepo = "/permissions/vm/", "/permissions/git/"
	ask := func(secret string, r vm.CommitRequest) answer {
		t.Helper()
		r.Repo, r.Path = repo, "/work"
		return b.as(secret, "POST", "/v1/vms/"+id+"/commit", r)
	}
	member := func(name, inVM, onRepo string) (secret string) {
		t.Helper()
		a := b.identity(name)
		if inVM != "" {
			a.must("POST", grantVM+id, inVM)
		}
		if onRepo != "" {
			a.must("POST", grantRepo+repo, onRepo)
		}
		_, secret = a.token(nil)
		return secret
	}
	const write, read, root = `{"permission":"write"}`, `{"permission":"read"}`, `{}`
	ask(member("stranger", "", write), vm.CommitRequest{}).wants(t, 403, "VM_ACCESS_DENIED")
	ask(member("guest", root, ""), vm.CommitRequest{}).wants(t, 403, "REPOSITORY_ACCESS_DENIED")
	ask(member("user", `{"allowedUsers":["alice"]}`, write), vm.CommitRequest{}).wants(t, 403, "VM_ACCESS_DENIED")
	reader := member("reader", root, read)
	ask(reader, vm.CommitRequest{DryRun: true}).ok(t)
	ask(reader, vm.CommitRequest{}).wants(t, 403, "REPOSITORY_ACCESS_DENIED")

	writer := member("writer", root, write)
	var shown, made vm.CommitPlan
	ask(writer, vm.CommitRequest{DryRun: true}).into(t, &shown)
	ask(writer, vm.CommitRequest{Branch: "main"}).wants(t, 403, "REPOSITORY_ACCESS_DENIED")
	ask(writer, vm.CommitRequest{Generation: shown.Generation, Manifest: shown.Manifest}).into(t, &made)
	if made.Commit == "" || made.Branch != "agent/box/main" || made.Stat.Added != 1 {
		t.Errorf("an identity's commit is %+v, want one new file on agent/box/main", made)
	}
	b.do("GET", "/git/v1/repo/"+repo+"/git/commits/"+made.Commit, nil).answers(t, 200)
	b.do("GET", "/git/v1/repo/"+repo+"/git/refs/heads/main", nil).answers(t, 404)
}
