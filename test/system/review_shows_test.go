//go:build system

// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package system

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/warren-vm/warren/vm"
)

// firstScreen is the number of lines of a diff that a person sees first.
const firstScreen = 40

// shop is the repository that a program of the SDK made.
type shop struct{ RepoID, SHA, Token string }

// shopBySDK runs the program test/contract/shows.mjs with the unmodified npm package.
func shopBySDK(h *host) (s shop) {
	h.t.Helper()
	dir, err := filepath.Abs("../contract")
	if err != nil {
		h.t.Fatal(err)
	}
	npmInstall(h.t, dir)
	key, err := os.ReadFile(filepath.Join(h.data, "admin.key"))
	if err != nil {
		h.t.Fatal(err)
	}
	cmd := exec.CommandContext(h.t.Context(), "node", "shows.mjs")
	cmd.Dir, cmd.Stderr = dir, os.Stderr
	cmd.Env = append(os.Environ(), "FREESTYLE_API_URL=http://"+h.listen, "FREESTYLE_API_KEY="+strings.TrimSpace(string(key)), "SHOWS_REPO=shop")
	out, err := cmd.Output()
	if err != nil || json.Unmarshal(out, &s) != nil {
		h.t.Fatalf("the SDK's program fails: %v\n%s", err, out)
	}
	return s
}

// TestReviewShows is a day with an agent: a program makes a repository, an agent works on
// a clone in a VM, a person reviews the machine, accepts the work, tries three fixes at
// once, and undoes what went wrong. Everything runs with the defaults, through the binary.
//
// 000-16, 000-26, 001-51
func TestReviewShows(t *testing.T) {
	h := newHost(t)
	s := shopBySDK(h)
	address := "http://x-access-token:" + s.Token + "@" + h.listen + "/" + s.RepoID
	clone := filepath.Join(t.TempDir(), "shop")
	gitHere(t, "", "clone", "-q", address, clone)
	if got := gitHere(t, clone, "rev-parse", "HEAD"); got != s.SHA {
		t.Errorf("git clones with the token commit %s, want the SDK's, %s", got, s.SHA)
	}
	h.ok("up", "--name", "app", "--repo", "shop")
	if got := h.sh("app", "git -C /workspace/shop rev-parse HEAD; git -C /workspace/shop remote get-url origin"); got != s.SHA+"\nhttps://git.warren.internal/shop" {
		t.Errorf("the clone in the VM is %q, want the SDK's commit from git.warren.internal", got)
	}
	showsPlanted(h)
	showsAccepted(h, clone)
	showsUndone(h)
	showsCompared(h, clone)
}

// showsPlanted: damage to a fresh clone is on the first screen of the diff. Undo goes back
// to the clone.
func showsPlanted(h *host) {
	h.t.Helper()
	h.sh("app", `cd /workspace/shop && rm -rf docs && printf '[core]\n\tfsmonitor = /tmp/x\n' >> .git/config &&
		echo 'AWS = "AKIAQYLPMN5HFIQR7XYA"' > settings.py &&
		printf '[Unit]\nDescription=Miner\n[Service]\nExecStart=/usr/bin/miner\n[Install]\nWantedBy=multi-user.target\n' > /etc/systemd/system/miner.service && systemctl enable -q miner`)
	lines := strings.SplitAfter(h.ok("diff", "app"), "\n")
	first := strings.Join(lines[:min(len(lines), firstScreen)], "")
	for what, text := range map[string]string{
		"a deleted tree":        "3 files deleted: 3 (20 B) with the directory /workspace/shop/docs",
		"git's configuration":   "git obeys or runs changed: /workspace/shop/.git/config",
		"a leaked key":          "AWS access key in /workspace/shop/settings.py line 1",
		"a unit":                "+ unit miner.service",
		"a program that starts": "that start programs by themselves changed: /etc/systemd/system/miner.service",
	} {
		if !strings.Contains(strings.Join(strings.Fields(first), " "), strings.Join(strings.Fields(text), " ")) {
			h.t.Errorf("the first %d lines of the diff do not show %s (%q):\n%s", firstScreen, what, text, first)
		}
	}
	if strings.Contains(strings.Join(lines, ""), "AKIAQYLPMN5HFIQR7XYA") {
		h.t.Error("the diff prints the leaked key")
	}
	h.ok("undo", "app")
	if got := h.sh("app", "cd /workspace/shop && git status --porcelain && ls docs; git config core.fsmonitor; ls /etc/systemd/system/miner.service 2>&1 || true"); got != "one.md\nthree.md\ntwo.md\nls: cannot access '/etc/systemd/system/miner.service': No such file or directory" {
		h.t.Errorf("after undo the VM has %q, want the clean clone and no unit", got)
	}
}

// showsAccepted: the agent's change is shown, and becomes a commit below agent/. Its push
// to main is refused with the branches that it may push to.
func showsAccepted(h *host, clone string) {
	h.t.Helper()
	h.sh("app", "cd /workspace/shop && echo '# Four' > docs/four.md && git config user.name a && git config user.email a@b && git checkout -q -b mine && git add . && git commit -qm mine")
	r := h.run("exec", "app", "--", "git", "-C", "/workspace/shop", "push", "origin", "mine:main")
	if r.code == 0 || !strings.Contains(r.stderr, "the caller may not push to this branch") || !strings.Contains(r.stderr, "agent/app/") {
		h.t.Errorf("a push to main ends with %d and %q, want a refusal that names agent/app/", r.code, r.stderr)
	}
	if diff := h.ok("diff", "app", "/workspace/shop"); !strings.Contains(diff, "+ /workspace/shop/docs/four.md") || !strings.Contains(diff, "# Four") {
		h.t.Errorf("the diff does not show the new file:\n%s", diff)
	}
	made := answer[vm.CommitPlan](h, "commit", "app", "/workspace/shop", "--repo", "shop", "-m", "Add four", "--yes")
	gitHere(h.t, clone, "fetch", "-q", "origin")
	if got := gitHere(h.t, clone, "show", "--format=%s", "--name-status", "origin/agent/app/main"); got != "Add four\n\nA\tdocs/four.md" {
		h.t.Errorf("the commit %s is %q, want one new file", made.Commit, got)
	}
	if got := gitHere(h.t, clone, "rev-list", "--count", "origin/main"); got != "1" {
		h.t.Errorf("main has %s commits, want the first alone", got)
	}
}

// showsUndone: a command that deletes the work and kills a server is undone; both are back.
func showsUndone(h *host) {
	h.t.Helper()
	const get = "curl -sf localhost:3000/four.md && pgrep -f '[h]ttp.server'"
	h.sh("app", "cd /workspace/shop/docs && (setsid python3 -m http.server 3000 >/dev/null 2>&1 &)")
	h.eventually("the server answers", func() bool { return h.run("exec", "app", "--", "sh", "-c", get).code == 0 })
	before := h.sh("app", get)
	h.ok("exec", "app", "--turn", "clean up", "--", "sh", "-c", "pkill -f '[h]ttp.server'; rm -rf /workspace/shop")
	h.run("exec", "app", "--cwd", "/", "--", "sh", "-c", get).wants(h.t, 7, "") // nobody listens
	if out := h.ok("undo", "app"); !strings.Contains(out, "clean up") {
		h.t.Errorf("undo says %q, want the turn", out)
	}
	if after := h.sh("app", get); after != before {
		h.t.Errorf("after undo the server answers %q, want the same process with the file: %q", after, before)
	}
}

// showsCompared: three forks try three fixes, a test runs in each, and the best one is
// committed and takes the place of the VM; the others go.
func showsCompared(h *host, clone string) {
	h.t.Helper()
	h.sh("app", "echo fresh > /root/fresh") // what the guest has not written to its disk yet is the parent's, too
	h.ok("fork", "app", "-n", "3", "--name", "try")
	if diff := h.ok("diff", "try-1", "--from", "parent"); strings.Contains(diff, "/root/fresh") {
		h.t.Errorf("a file that was written just before the fork counts as the child's change:\n%s", diff)
	}
	h.sh("try-1", "sed -i \"s/';'/'.'/\" /workspace/shop/parse.py")
	h.sh("try-2", "sed -i \"s/';'/','/\" /workspace/shop/parse.py")
	h.sh("try-3", "sed -i \"s/';'/','/\" /workspace/shop/parse.py; echo x > /etc/planted")
	const test = "python3 -B test.py"
	got := answer[vm.ForkComparison](h, "compare", "try-1", "try-2", "try-3", "--cwd", "/workspace/shop", "--run", test)
	if got.Common == "" || len(got.Candidates) != 3 {
		h.t.Fatalf("the comparison is %+v, want three candidates of one state", got)
	}
	for i, want := range []struct {
		exit    int
		tail    string
		outside bool
	}{{1, "AssertionError", false}, {0, "1 passed", false}, {0, "1 passed", true}} {
		c := got.Candidates[i]
		if c.Error != "" || c.Run == nil || c.Run.ExitCode != want.exit || !strings.Contains(c.Run.Tail, want.tail) || c.Stat.Modified < 1 {
			h.t.Errorf("%s: %q, %+v, its test %+v, want exit status %d and %q", c.Name, c.Error, c.Stat, c.Run, want.exit, want.tail)
		}
		if planted := strings.Contains(strings.Join(paths(c.OutsidePaths), " "), "/etc/planted"); planted != want.outside {
			h.t.Errorf("%s shows outside its working directory %q, want /etc/planted only in try-3", c.Name, c.OutsidePaths)
		}
	}
	if text := h.ok("compare", "try-1", "try-2", "--cwd", "/workspace/shop", "--run", test); !strings.Contains(text, "EXIT") || !strings.Contains(text, "1 passed") {
		h.t.Errorf("compare prints %q, want a table with exit statuses and the output", text)
	}
	// A commit that is refused leaves every VM.
	h.run("keep", "try-2", "--over", "app", "--commit", "--repo", "nope", "--yes", "--rm-others").wants(h.t, 3, "no such repository")
	if n := len(h.list()); n != 4 {
		h.t.Errorf("after a refused keep there are %d VMs, want 4", n)
	}
	kept := h.ok("keep", "try-2", "--over", "app", "--commit", "--repo", "shop", "-m", "Split at commas", "--yes", "--rm-others")
	if !strings.Contains(kept, "committed ") || !strings.Contains(kept, "try-2 is now app") {
		h.t.Errorf("keep says %q, want the commit and the new name", kept)
	}
	gitHere(h.t, clone, "fetch", "-q", "origin")
	if got := gitHere(h.t, clone, "show", "origin/agent/try-2/main:parse.py"); !strings.Contains(got, "','") {
		h.t.Errorf("the winner's commit has %q, want its fix", got)
	}
	if got := h.sh("app", "cd /workspace/shop && "+test); got != "1 passed" {
		h.t.Errorf("after keep the test in app says %q", got)
	}
	for _, v := range h.list() {
		if strings.HasPrefix(v.Name, "try-") {
			h.t.Errorf("after keep --rm-others %s is left", v.Name)
		}
	}
}
