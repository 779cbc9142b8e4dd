// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"strings"
	"testing"

	"github.com/warren-vm/warren/api"
)

// TestRepoCredential: git gets the key for the address of this server, and for no other.
func TestRepoCredential(t *testing.T) {
	f := newFake(t)
	host := strings.TrimPrefix(f.server.URL, "http://")
	ask := func(protocol, host, verb string) string {
		return run(t, f, Local{}, "protocol="+protocol+"\nhost="+host+"\n\n", "repo", "credential", verb).out
	}
	if got := ask("http", host, "get"); got != "username=x-access-token\npassword=secret\n" {
		t.Errorf("git is answered %q for this server", got)
	}
	for _, other := range [][2]string{{"https", host}, {"http", "example.com"}, {"http", host + ".example.com"}, {"http", ""}} {
		if got := ask(other[0], other[1], "get"); got != "" {
			t.Errorf("git is answered %q for %s://%s", got, other[0], other[1])
		}
	}
	if got := ask("http", host, "store"); got != "" {
		t.Errorf("store answers %q, want nothing", got)
	}
}

// TestRepoOutput: names and messages of a repository are shown safely.
func TestRepoOutput(t *testing.T) {
	f := newFake(t)
	f.on("GET /git/v1/repo/shop/git/commits", api.CommitList{Commits: []api.GitCommit{{SHA: strings.Repeat("a", 40), Message: "evil \x1b[2J\nbody"}}})
	r := run(t, f, Local{}, "", "repo", "log", "shop")
	if r.code != 0 || strings.Contains(r.out, "\x1b") || !strings.Contains(r.out, "aaaaaaaaaaaa") || strings.Contains(r.out, "body") {
		t.Errorf("repo log ends with %d and prints %q", r.code, r.out)
	}
	f.on("GET /git/v1/repo", api.RepoList{Repositories: []api.ListedRepo{{GitRepo: api.GitRepo{ID: "id-1", Name: "shop", Visibility: "private"}}}})
	if r := run(t, f, Local{}, "", "repo", "ls"); r.code != 0 || !strings.Contains(r.out, "shop") {
		t.Errorf("repo ls ends with %d and prints %q", r.code, r.out)
	}
	run(t, f, Local{}, "", "repo", "grant", "shop").wants(t, api.RowOf("invalid").Exit, "name a VM, or an identity")
	run(t, f, Local{}, "", "repo", "import", "https://example.com/x", "--dir", "a").wants(t, api.RowOf("invalid").Exit, "--dir needs --as")
}
