// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/warren-vm/warren/vm"
)

// sampleDiff is a diff with some of everything.
func sampleDiff() vm.Diff {
	at := time.Date(2026, 11, 23, 10, 0, 0, 0, time.UTC)
	state := func(mode uint32, size int64) *vm.FileState { return &vm.FileState{Mode: mode, Size: size, Links: 1} }
	return vm.Diff{
		From:    vm.DiffSide{VMName: "app", Generation: "sl-0000000000000001", Image: "debian", Why: vm.WhyFork, At: at},
		To:      vm.DiffSide{VMName: "app", Generation: "sl-0000000000000002", Image: "debian", Why: vm.WhyReview, At: at.Add(time.Hour)},
		Workdir: "/work",
		Stat:    vm.DiffStat{Added: 2, Modified: 3, Deleted: 42, Renamed: 1, LinesAdded: 4, LinesRemoved: 401, BytesAdded: 2048, BytesRemoved: 1 << 20},
		Groups: []vm.DiffGroup{
			{Group: vm.GroupProject, Stat: vm.DiffStat{Added: 1, Modified: 3, Deleted: 42, Renamed: 1, LinesAdded: 4, LinesRemoved: 401, BytesAdded: 2000, BytesRemoved: 1 << 20}},
			{Group: vm.GroupSystem, Stat: vm.DiffStat{Added: 1, BytesAdded: 48}},
		},
		Alerts: []vm.Alert{{Kind: "deleted-tree", Text: "41 files deleted: 41 (1024 KiB) with the directory /work/src and nothing else of the project"}},
		System: []vm.SystemChange{
			{Kind: "unit", Verb: vm.FileAdded, Name: "evil.service", Now: "ExecStart=/opt/evil"},
			{Kind: "port", Verb: vm.FileAdded, Name: "tcp 0.0.0.0 port 4444", Now: "nc", Guest: true},
		},
		Repos:       []vm.NestedRepo{{Path: "/work", HeadWas: "main 1111", HeadNow: "main 2222", Untracked: 2, Notes: []string{"its configuration changed"}}},
		Hidden:      []vm.HiddenDir{{Path: "/work/node_modules", Group: vm.GroupCaches, Stat: vm.DiffStat{Added: 41210}, Reason: "files below node_modules"}},
		NotCompared: []string{"secrets in the 41,210 files that are only counted"},
		Changes: []vm.FileChange{
			{Verb: vm.FileModified, Path: "/work/a.go", Group: vm.GroupProject, Type: "file", Changed: []string{"content", "mode"}, Was: state(0o644, 10), Now: state(0o755, 12), LinesAdded: 1, LinesRemoved: 1, Hunks: "@@ -1 +1 @@\n-old\n+new \x1b[31mred\n"},
			{Verb: vm.FileModified, Path: "/work/pic", Group: vm.GroupProject, Type: "file", Changed: []string{"content"}, Binary: "PNG image", Was: state(0o644, 10), Now: state(0o644, 2048)},
			{Verb: vm.FileModified, Path: "/work/.env", Group: vm.GroupProject, Type: "file", Changed: []string{"content"}, Was: state(0o644, 1), Now: state(0o644, 2), LinesAdded: 1, Hunks: "@@ -0,0 +1 @@\n+K=[masked: AWS access key]\n", Concerns: []string{"seems to hold a secret"}, Secrets: []vm.FoundSecret{{Kind: "AWS access key", Path: "/work/.env", Line: 1}}},
			{Verb: vm.FileRenamed, Path: "/work/new", From: "/work/old", Group: vm.GroupProject, Type: "file", Was: state(0o644, 1), Now: state(0o644, 1)},
			{Verb: vm.FileDeleted, Path: "/work/src", Group: vm.GroupProject, Type: "dir", Was: state(0o755, 0)},
			{Verb: vm.FileDeleted, Path: "/work/src/x.go", Group: vm.GroupProject, Type: "file", Was: state(0o644, 9), LinesRemoved: 400, Hunks: "@@ -1 +0,0 @@\n-gone\n"},
			{Verb: vm.FileAdded, Path: "/work/b\nad\x1b", Group: vm.GroupProject, Type: "file", Now: state(0o755, 2), LinesAdded: 2, Git: "untracked"},
			{Verb: vm.FileAdded, Path: "/etc/systemd/system/evil.service", Group: vm.GroupSystem, Type: "file", Now: state(0o644, 48), LinesAdded: 1, Concerns: []string{"starts programs by itself"}},
		},
	}
}

// golden compares an output with a file of testdata; UPDATE=1 writes it.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if os.Getenv("UPDATE") != "" {
		if err := os.MkdirAll("testdata", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("the output is not that of %s:\n%s", path, got)
	}
}

// The first screen says what a reviewer should know, then come the files. No escape of a
// guest reaches the terminal, and no line is wider than 80 columns.
func TestDiff(t *testing.T) {
	local := time.Local
	time.Local = time.UTC
	t.Cleanup(func() { time.Local = local })
	f := newFake(t)
	f.on("POST /v1/vms/app/diff", sampleDiff())
	r := run(t, f, Local{}, "", "diff", "app", "--no-pager")
	r.wants(t, 0, "")
	golden(t, "diff.txt", r.out)
	for line := range strings.Lines(r.out) {
		if strings.ContainsRune(line, 0x1b) || utf8.RuneCountInString(strings.TrimSuffix(line, "\n")) > 80 {
			t.Errorf("a line is %q", line)
		}
	}
}

// --exit-code makes a difference the exit status 1.
func TestDiffExitCode(t *testing.T) {
	f := newFake(t)
	f.on("POST /v1/vms/app/diff", sampleDiff())
	f.on("POST /v1/vms/same/diff", vm.Diff{})
	run(t, f, Local{}, "", "diff", "app", "--stat", "--exit-code").wants(t, 1, "")
	run(t, f, Local{}, "", "diff", "app", "--stat").wants(t, 0, "")
	same := run(t, f, Local{}, "", "diff", "same", "--exit-code")
	same.wants(t, 0, "")
	if !strings.Contains(same.out, "no file differs") {
		t.Errorf("of equal states the output is %q", same.out)
	}
	run(t, f, Local{}, "", "diff", "app", "--patch", "--json").wants(t, 2, "leave out --json")
}

// --patch prints the patches of the changes and what they leave out.
func TestDiffPatch(t *testing.T) {
	d := sampleDiff()
	d.PatchBase = "/work"
	d.Changes[0].Patch = []byte("diff --git a/a.go b/a.go\n")
	d.Changes[2].Cut = "it seems to hold a secret"
	f := newFake(t)
	f.on("POST /v1/vms/app/diff", d)
	r := run(t, f, Local{}, "", "diff", "app", "--patch")
	r.wants(t, 0, "")
	if !strings.HasSuffix(r.out, "diff --git a/a.go b/a.go\n") || !strings.Contains(r.out, "# left out: /work/.env: it seems to hold a secret\n") {
		t.Errorf("the patch is %q", r.out)
	}
}

// On a terminal a diff goes through the user's pager, with colours and no other escape. A
// pager that is not there loses nothing.
func TestDiffPager(t *testing.T) {
	f := newFake(t)
	f.on("POST /v1/vms/app/diff", sampleDiff())
	with := func(pager string, args ...string) string {
		return onTerminalWith(t, f, map[string]string{"PAGER": pager}, 80, append([]string{"diff", "app"}, args...)...)
	}
	const first = "! 41 files deleted"
	paged := with("sed 's/^/paged: /'")
	if !strings.Contains(paged, "paged: \x1b[1;31m"+first) {
		t.Errorf("the pager does not get the coloured diff: %q", paged)
	}
	if rest := regexp.MustCompile("\x1b\\[[0-9;]*m").ReplaceAllString(paged, ""); strings.ContainsRune(rest, 0x1b) {
		t.Errorf("the pager gets escapes that are no colours: %q", rest)
	}
	for pager, args := range map[string][]string{"sed s/^/paged:/": {"--no-pager"}, "cat": nil, "/no/such/pager": nil} {
		if got := with(pager, args...); strings.Contains(got, "paged:") || !strings.Contains(got, first) {
			t.Errorf("with PAGER=%s and %q the terminal shows %q", pager, args, got)
		}
	}
	if leaves := with("head -n 1"); strings.Contains(leaves, first) {
		t.Errorf("a pager that shows one line shows %q", leaves)
	}
	piped := runEnv(t, map[string]string{"WARREN_API_KEY": "secret", "WARREN_API_URL": f.server.URL, "PAGER": "sed s/^/paged:/"}, Local{}, "", "diff", "app")
	if strings.Contains(piped.out, "paged:") {
		t.Errorf("a diff that goes to a program is paged: %q", piped.out)
	}
}
