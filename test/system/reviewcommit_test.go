//go:build system

// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package system

import (
	"encoding/json"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/warren-vm/warren/api"
	"github.com/warren-vm/warren/vm"
)

// gitHere runs the git of this computer without its user's configuration.
func gitHere(t testing.TB, dir string, args ...string) string {
	t.Helper()
	cmd := exec.Command("git", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null", "GIT_TERMINAL_PROMPT=0",
		"GIT_AUTHOR_NAME=Ann", "GIT_AUTHOR_EMAIL=ann@example.com", "GIT_COMMITTER_NAME=Ann", "GIT_COMMITTER_EMAIL=ann@example.com")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("git %v: %v\n%s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

// hosted makes a repository of the server and returns its address for git, with the
// admin's key in it.
func (h *host) hosted(name string) (id, address string) {
	h.t.Helper()
	key, err := os.ReadFile(filepath.Join(h.data, "admin.key"))
	if err != nil {
		h.t.Fatal(err)
	}
	secret := strings.TrimSpace(string(key))
	req, err := http.NewRequest(http.MethodPost, "http://"+h.listen+"/git/v1/repo", strings.NewReader(`{"name":"`+name+`"}`))
	if err != nil {
		h.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+secret)
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		h.t.Fatal(err)
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	var made struct {
		RepoID string `json:"repoId"`
	}
	if err != nil || json.Unmarshal(data, &made) != nil || made.RepoID == "" {
		h.t.Fatalf("a repository cannot be made: %d %s (%v)", resp.StatusCode, data, err)
	}
	return made.RepoID, "http://x-access-token:" + secret + "@" + h.listen + "/" + made.RepoID
}

// committed runs `warren commit` and reads its JSON.
func (h *host) committed(args ...string) vm.CommitPlan {
	h.t.Helper()
	var plan vm.CommitPlan
	if err := json.Unmarshal([]byte(h.ok(append([]string{"commit", "app", "/work/shop", "--repo", "shop", "--json"}, args...)...)), &plan); err != nil {
		h.t.Fatal(err)
	}
	return plan
}

// TestReviewCommit: work in a VM becomes a commit that holds exactly what was shown.
//
// 000-16, 000-26, 001-51
func TestReviewCommit(t *testing.T) {
	h := newHost(t)
	_, address := h.hosted("shop")
	work := t.TempDir()
	gitHere(t, work, "init", "-q", "-b", "main")
	for name, text := range map[string]string{"app.py": "print('one')\n", ".gitignore": "*.log\n", "gone.txt": "g\n"} {
		if err := os.WriteFile(filepath.Join(work, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	gitHere(t, work, "add", "-A")
	gitHere(t, work, "commit", "-q", "-m", "first")
	gitHere(t, work, "push", "-q", address, "main")
	h.ok("up", "--name", "app")
	h.sh("app", "mkdir -p /work")
	h.ok("cp", "-r", work, "app:/work/shop")
	h.sh("app", `cd /work/shop && echo "print('two')" > app.py && mkdir -p sub && echo new > sub/new.txt && rm gone.txt && echo noise > a.log && ln -s app.py link
		printf '[core]\n\tfsmonitor = touch /tmp/ran\n' >> .git/config && sync`)

	plan := h.committed("--dry-run")
	if plan.Commit != "" || plan.Stat.Added != 2 || plan.Stat.Modified != 1 || plan.Stat.Deleted != 1 {
		t.Errorf("the plan is %+v, want two added, one modified and one deleted file", plan.Stat)
	}
	made := h.committed("--generation", string(plan.Generation), "--manifest", plan.Manifest, "-m", "Fix it")
	if made.Branch != "agent/app/main" {
		t.Errorf("the default branch is %s, want agent/app/main", made.Branch)
	}
	clone := filepath.Join(t.TempDir(), "clone")
	gitHere(t, "", "clone", "-q", "-b", made.Branch, address, clone)
	files := strings.Fields(gitHere(t, clone, "ls-files"))
	slices.Sort(files)
	if want := []string{".gitignore", "app.py", "link", "sub/new.txt"}; !slices.Equal(files, want) {
		t.Errorf("a clone of the branch has %q, want %q", files, want)
	}
	if got := gitHere(t, clone, "show", "HEAD:app.py"); got != "print('two')" {
		t.Errorf("the commit has %q in app.py, want the VM's", got)
	}
	message := gitHere(t, clone, "log", "-1", "--format=%B")
	if !strings.Contains(message, "Warren-Generation: "+string(plan.Generation)) || !strings.Contains(message, "Warren-Manifest: sha256:"+plan.Manifest) {
		t.Errorf("the message is %q, want the generation and the manifest in trailers", message)
	}
	if got := gitHere(t, clone, "rev-parse", "HEAD~1"); got != gitHere(t, work, "rev-parse", "HEAD") {
		t.Errorf("the commit stands on %s, want the commit that the VM had", got)
	}
	if !strings.Contains(h.ok("tree", "app"), "committed as "+made.Commit[:12]) {
		t.Error("the tree of generations does not name the commit")
	}
	commitPushedOn(t, h)
	commitRefusals(t, h, address)
	commitApplied(t, h, work)
	commitOfMany(t, h)
}

// commitPushedOn: this computer's git takes the commit to another server, and what cannot be
// reached there is said.
func commitPushedOn(t *testing.T, h *host) {
	dir := t.TempDir()
	gitHere(t, dir, "init", "-q", "--bare", "theirs.git")
	commit := func(remote string) result {
		return h.runIn(dir, nil, "commit", "app", "/work/shop", "--repo", "shop", "--branch", "agent/app/theirs", "--yes", "--json", "--remote", remote)
	}
	r := commit("theirs.git")
	var made vm.CommitPlan
	if err := json.Unmarshal([]byte(r.stdout), &made); err != nil || r.code != 0 {
		t.Fatalf("commit --remote: %v, %s", err, r)
	}
	if got := gitHere(t, dir, "--git-dir", "theirs.git", "rev-parse", "agent/app/theirs"); got != made.Commit {
		t.Errorf("the other server has %s, want the commit %s", got, made.Commit)
	}
	h.sh("app", "echo pushed > /work/shop/pushed.txt; sync")
	commit("nothing.git").wants(t, 10, "is in the repository")
	h.sh("app", "rm /work/shop/pushed.txt; sync")
}

// commitRefusals: what is not as it was shown, or must not leave, is not committed.
func commitRefusals(t *testing.T, h *host, address string) {
	plan := h.committed("--dry-run", "--branch", "work")
	h.sh("app", "echo later >> /work/shop/app.py")
	r := h.run("commit", "app", "/work/shop", "--repo", "shop", "--branch", "work", "--generation", string(plan.Generation), "--manifest", plan.Manifest)
	r.wants(t, 5, "changed in the VM since they were shown")
	h.sh("app", "echo 'aws_secret_access_key = wJalrXUtnFEMIK7MDENGbPxRfiCYzzQ8u1pL3aaB' > /work/shop/key.txt; echo 'AKIAQYLPMN5HFIQR7XYA' >> /work/shop/key.txt")
	r = h.run("commit", "app", "/work/shop", "--repo", "shop", "--yes")
	r.wants(t, 4, "--allow-secret /work/shop/key.txt")
	if strings.Contains(r.stderr, "wJalr") {
		t.Error("the refusal prints the secret")
	}
	allowed := h.committed("--yes", "--allow-secret", "/work/shop/key.txt")
	if allowed.Commit == "" {
		t.Error("an allowed file was not committed")
	}
	other := t.TempDir()
	gitHere(t, "", "clone", "-q", address, other)
	gitHere(t, other, "commit", "-q", "--allow-empty", "-m", "by somebody else")
	gitHere(t, other, "push", "-q", address, "HEAD:main")
	r = h.run("commit", "app", "/work/shop", "--repo", "shop", "--branch", "agent/app/fresh", "--yes")
	r.wants(t, 5, "it moved")
}

// commitApplied: the change comes into a working tree of this computer, and a planted
// link leads nowhere.
func commitApplied(t *testing.T, h *host, work string) {
	dir := filepath.Join(t.TempDir(), "tree")
	gitHere(t, "", "clone", "-q", work, dir)
	r := h.run("apply", "app:/work/shop", dir, "--from", "image", "--dry-run")
	if r.code != 0 || strings.Contains(gitHere(t, dir, "status", "--porcelain"), "app.py") {
		t.Errorf("a dry run ends with %d and %s, want no change", r.code, r.stderr)
	}
	outside := t.TempDir()
	if err := os.Symlink(outside, filepath.Join(dir, "sub")); err != nil {
		t.Fatal(err)
	}
	h.run("apply", "app:/work/shop", dir, "--from", "image").wants(t, 5, "cannot be applied")
	if list, err := os.ReadDir(outside); err != nil || len(list) > 0 {
		t.Errorf("through a planted link apply wrote %v (%v)", list, err)
	}
	if err := os.Remove(filepath.Join(dir, "sub")); err != nil {
		t.Fatal(err)
	}
	h.ok("apply", "app:/work/shop", dir, "--from", "image")
	data, err := os.ReadFile(filepath.Join(dir, "sub/new.txt"))
	if err != nil || string(data) != "new\n" {
		t.Errorf("after apply sub/new.txt is %q (%v), want the VM's", data, err)
	}
	if config, err := os.ReadFile(filepath.Join(dir, ".git/config")); err != nil || strings.Contains(string(config), "fsmonitor") {
		t.Errorf("apply brought the VM's git configuration here (%v)", err)
	}
}

// commitOfMany logs the figure of a commit of 1,000 files.
func commitOfMany(t *testing.T, h *host) {
	h.sh("app", "mkdir -p /work/shop/many && cd /work/shop/many && for i in $(seq 1000); do echo \"file $i with some text\" > f$i.txt; done; sync")
	plan := h.committed("--dry-run", "--branch", "agent/app/main", "--allow-secret", "/work/shop/key.txt")
	r := h.run("commit", "app", "/work/shop", "--repo", "shop", "--generation", string(plan.Generation), "--manifest", plan.Manifest, "--allow-secret", "/work/shop/key.txt", "--json")
	if r.code != 0 {
		t.Fatalf("a commit of 1,000 files fails: %s", r.stderr)
	}
	t.Logf("commit of %d changed files after they were shown: %v", plan.Stat.Files(), r.took)
}

// TestReviewMemory: an agent's notes have history and rollback, over a suspend and in
// forks.
//
// 001-55
func TestReviewMemory(t *testing.T) {
	h := newHost(t)
	h.ok("up", "--name", "app")
	h.ok("memory", "enable", "app")
	commits := func(name string) (list []vm.Commit) {
		if err := json.Unmarshal([]byte(h.ok("memory", "log", name, "--json")), &list); err != nil {
			t.Fatal(err)
		}
		return list
	}
	h.sh("app", "echo one > /memory/plan.md")
	h.eventually("the notes are committed by themselves", func() bool { return len(commits("app")) == 1 })
	first := commits("app")[0].SHA
	h.sh("app", "echo two > /memory/plan.md")
	h.ok("suspend", "app")
	h.eventually("what was written before the suspend is committed", func() bool { return len(commits("app")) == 2 })
	if got := h.find("app").State; got != "suspended" {
		t.Errorf("committing the notes made the VM %s, want it suspended", got)
	}
	h.ok("start", "app")
	h.ok("fork", "app", "--name", "try")
	h.sh("try-1", "echo mine > /memory/fork.md")
	h.eventually("the fork's notes are committed", func() bool { return len(commits("try-1")) == 3 })
	if n := len(commits("app")); n != 2 {
		t.Errorf("the parent has %d commits after its fork wrote, want 2", n)
	}
	h.ok("memory", "rollback", "app", first)
	if got := h.sh("app", "cat /memory/plan.md"); got != "one" {
		t.Errorf("after the rollback the note is %q, want one", got)
	}
	h.ok("rm", "app", "try-1")
	var kept []api.GitCommit
	if err := json.Unmarshal([]byte(h.ok("repo", "log", "app-memory", "--json")), &kept); err != nil || len(kept) != 3 {
		t.Errorf("the repository of the deleted VM's memory has %d commits, want 3 (%v)", len(kept), err)
	}
}
