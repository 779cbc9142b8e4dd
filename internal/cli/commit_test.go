// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"encoding/json"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/warren-vm/warren/api"
	"github.com/warren-vm/warren/vm"
)

// samplePlan is what a commit of one file would be.
func samplePlan() vm.CommitPlan {
	return vm.CommitPlan{
		Repo: "id-1", RepoName: "shop", VMName: "app", Path: "/work/shop", Branch: "agent/app/main", Generation: "sl-0000000000000001",
		Manifest: strings.Repeat("ab", 32), Stat: vm.DiffStat{Modified: 1}, Total: 1,
		Files: []vm.PlannedFile{{Path: "a\x1b[2J.py", Verb: vm.FileModified, Additions: 1, Deletions: 2}},
	}
}

// commits answers commits of app, and returns the requests in their order.
func (f *fake) commits() *[]vm.CommitRequest {
	var asked []vm.CommitRequest
	f.mux.HandleFunc("POST /v1/vms/app/commit", func(w http.ResponseWriter, r *http.Request) {
		var in vm.CommitRequest
		if err := json.NewDecoder(r.Body).Decode(&in); err != nil {
			f.t.Error(err)
		}
		asked = append(asked, in)
		plan := samplePlan()
		if !in.DryRun {
			plan.Commit = strings.Repeat("c", 40)
		}
		reply(w, plan)
	})
	return &asked
}

// On a terminal a commit shows its files and asks; with a yes it commits exactly what it
// showed, and with anything else nothing.
func TestCommitAsks(t *testing.T) {
	for typed, code := range map[string]int{"y\n": 0, "Yes\n": 0, "\n": api.RowOf("cancelled").Exit, "n\n": api.RowOf("cancelled").Exit, "\x04": api.RowOf("cancelled").Exit} {
		f := newFake(t)
		asked := f.commits()
		got, shown, stderr := atTerminal(t, f, func(master *os.File) {
			if text := shows(t, master, "manifest  "+strings.Repeat("ab", 32)); strings.Contains(text, "\x1b[2J") || !strings.Contains(text, "M +1 -2") {
				t.Errorf("before the question the terminal shows %q, want the file, safely", text)
			}
			if _, err := master.WriteString(typed); err != nil {
				t.Error(err)
			}
		}, "commit", "app", "/work/shop", "--repo", "shop")
		if got != code || !strings.Contains(stderr, "commit this to agent/app/main? [y/N]") {
			t.Errorf("answered %q, the commit ends with %d and asks %q, want %d and the branch", typed, got, stderr, code)
		}
		if code != 0 {
			if len(*asked) != 1 || !(*asked)[0].DryRun {
				t.Errorf("answered %q, the server is asked for %+v, want only what would be committed", typed, *asked)
			}
			continue
		}
		plan := samplePlan()
		if len(*asked) != 2 || (*asked)[1].DryRun || (*asked)[1].Manifest != plan.Manifest || (*asked)[1].Generation != plan.Generation || (*asked)[1].Branch != plan.Branch {
			t.Errorf("after a yes the server is asked for %+v, want exactly what was shown", *asked)
		}
		if !strings.Contains(shown, "committed cccccccccccc") {
			t.Errorf("after a yes the terminal shows %q, want the commit", shown)
		}
	}
}

// Without a terminal nobody can be asked; without a yes, neither commit nor keep does
// anything.
func TestCommitCannotAsk(t *testing.T) {
	f := newFake(t)
	asked := f.commits()
	run(t, f, Local{}, "", "commit", "app", "--repo", "shop").wants(t, api.RowOf("invalid").Exit, "nobody can be asked")
	run(t, f, Local{}, "", "keep", "app", "--over", "box", "--commit", "--repo", "shop").wants(t, api.RowOf("invalid").Exit, "nobody can be asked")
	run(t, f, Local{}, "", "keep", "app", "--over", "box", "--commit").wants(t, api.RowOf("invalid").Exit, "which repository?")
	run(t, f, Local{}, "", "commit", "app", "--repo", "shop", "--yes", "--remote", "ext::sh -c id").wants(t, api.RowOf("invalid").Exit, "no address of a repository")
	for _, r := range f.requests() {
		if strings.Contains(r, "/keep") {
			t.Errorf("the server was asked for %s", r)
		}
	}
	if len(*asked) > 0 {
		t.Errorf("the server was asked for the commits %+v, want none", *asked)
	}
}
