// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/warren-vm/warren/vm"
)

// sampleTruth is a truth with some of everything. Its paths and texts are a hostile guest's.
func sampleTruth() vm.Truth {
	at := time.Date(2026, 11, 23, 10, 0, 0, 0, time.UTC)
	machine := vm.DataCopy{Place: vm.PlaceMachine, VM: "rk9eit8u5hss9xuw8e69", VMName: "app", Generation: "sl-0000000000000002"}
	hosted := vm.DataCopy{Place: vm.PlaceRepository, Repo: "5f0c9b1e-2222-4444-8888-123456789abc", RepoName: "shop", Branch: "main", Commit: strings.Repeat("1a2b3c4d5e", 4)}
	lost := vm.OnlyHere{
		Files: 7, Bytes: 2048, Examples: []vm.GuestPath{"/work/x/a.go", "/work/x/b\nad\x1b", "/work/x/c.go"}, Commits: 3, MoreCommits: true,
		Newest: &vm.ClonedCommit{ID: strings.Repeat("ab", 20), Subject: "Fix \x1b[31mlogin", Time: at}, Claimed: 12, ClaimedBytes: 4096, Ignored: 41210, IgnoredBytes: 300 << 20,
	}
	t := vm.Truth{
		VM: "rk9eit8u5hss9xuw8e69", VMName: "app", State: vm.Running, Workdir: "/work/app", Generation: "sl-0000000000000002", At: at,
		Trees: []vm.TruthTree{
			{Kind: vm.TreeWorkdir, Path: "/work/app", Authority: hosted, Copies: []vm.DataCopy{machine}, Clone: &vm.Clone{Branch: "main", Head: hosted.Commit, Hosted: true}, Stays: true},
			{
				Kind: vm.TreeRepository, Path: "/work/x", Authority: machine, Copies: []vm.DataCopy{hosted}, Clone: &vm.Clone{Branch: "fix"}, Only: lost,
				Differs: vm.DiffStat{Added: 4, Modified: 3, Deleted: 1}, Notes: []string{"it says that origin (https://example.com/a/app.git) has commits that no repository here has: that was not checked"},
			},
			{Kind: vm.TreeHome, Path: "/root", Authority: machine},
			{Kind: vm.TreeVolume, Path: "/data", Authority: vm.DataCopy{Place: vm.PlaceVolume, Volume: "vl-1", Name: "default/data"}, Stays: true, Notes: []string{"what the VM writes there is written to it"}},
			{Kind: vm.TreePreview, Path: ":3000", Authority: vm.DataCopy{Place: vm.PlaceProcess, VMName: "app", Note: "node server.js"}, Copies: []vm.DataCopy{hosted}, Notes: []string{"it shows what node server.js answers"}},
		},
		Kept:       []vm.DataCopy{{Place: vm.PlaceMachine, VMName: "app", Generation: "sl-0000000000000001", Snapshot: "sc-1", Note: "snapshot before"}},
		NotChecked: []string{"what programs hold in memory and have not written"},
	}
	t.Only = lost
	return t
}

// The copy that counts stands first, then what would be lost. No escape of a guest reaches
// the terminal, and no line is wider than 80 columns.
func TestTruth(t *testing.T) {
	local := time.Local
	time.Local = time.UTC
	t.Cleanup(func() { time.Local = local })
	f := newFake(t)
	f.on("GET /v1/vms/app/truth", sampleTruth())
	r := run(t, f, Local{}, "", "truth", "app")
	r.wants(t, 0, "")
	golden(t, "truth.txt", r.out)
	for line := range strings.Lines(r.out) {
		if strings.ContainsRune(line, 0x1b) || utf8.RuneCountInString(strings.TrimSuffix(line, "\n")) > 80 {
			t.Errorf("a line is %q", line)
		}
	}
	f.on("GET /v1/vms/safe/truth", vm.Truth{VMName: "safe", State: vm.Stopped})
	if r := run(t, f, Local{}, "", "truth", "safe"); !strings.Contains(r.out, "nothing was found that exists only in safe") {
		t.Errorf("of a VM that holds nothing of its own, the output is %q", r.out)
	}
	if r := run(t, f, Local{}, "", "truth", "app", "--json"); !strings.Contains(r.out, `"place": "repository"`) {
		t.Errorf("--json prints %q", r.out)
	}
}
