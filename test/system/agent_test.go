// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

//go:build system

package system

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// standInAgent works on the repository as a coding agent does, and says what it finds.
const standInAgent = `#!/bin/sh
echo "asked: $1"
echo "key: $MY_KEY"
echo "ignored: $(cat .env 2>/dev/null)"
echo "changed: $(cat app.txt)"
echo "made by the agent" > app.txt
git config user.name agent; git config user.email agent@example.com
git add -A; git commit -qm "Work of the agent"
exit 3
`

// agentEnd is what warren agent --json prints.
type agentEnd struct {
	VM, Repo, Branch, Start, Stdout, Stderr string
	Turn, ExitCode                          int
	Stat                                    struct{ Added, Modified int }
	Next                                    []string
}

// cleanClone makes a git repository with a commit, a change that is in none, and an ignored file.
func cleanClone(t *testing.T) (dir string, git func(args ...string) string) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "shop")
	git = func(args ...string) string {
		t.Helper()
		cmd := exec.Command("git", append([]string{"-C", dir}, args...)...)
		cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_AUTHOR_NAME=me", "GIT_AUTHOR_EMAIL=me@example.com", "GIT_COMMITTER_NAME=me", "GIT_COMMITTER_EMAIL=me@example.com")
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("git %v: %v\n%s", args, err, out)
		}
		return strings.TrimSpace(string(out))
	}
	write := func(name, text string, mode os.FileMode) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), mode); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	git("init", "-q", "-b", "main")
	write(".gitignore", ".env\n", 0o644)
	write("agent.sh", standInAgent, 0o755)
	write("app.txt", "committed\n", 0o644)
	git("add", "-A")
	git("commit", "-qm", "start")
	write("app.txt", "changed here\n", 0o644)
	write(".env", "a secret of this computer\n", 0o600)
	return dir, git
}

// TestAgent: from a clone on this computer to a commit that was reviewed, with a program that
// stands in for a coding agent.
func TestAgent(t *testing.T) {
	dir, git := cleanClone(t)
	head := git("rev-parse", "HEAD")
	h := newHost(t)
	const value = "THE-VALUE-no-guest-ever-holds"
	if r := h.runIn("", []byte(value), "secret", "set", "MY_KEY", "--host", "api.example.com", "--header", "Authorization"); r.code != 0 {
		t.Fatalf("secret set: %v", r)
	}
	call := []string{"agent", "--cmd", "./agent.sh", "--image", "base", "--secret", "MY_KEY", "--net", "api.example.com", "--json", dir, "--", "do it"}
	r := h.run(call...)
	r.wants(t, 3, "")
	var end agentEnd
	if err := json.Unmarshal([]byte(r.stdout), &end); err != nil {
		t.Fatalf("the answer is no JSON: %v: %v", err, r)
	}
	if end.ExitCode != 3 || end.VM != "agent-sh-shop" || end.Branch != "main" {
		t.Errorf("it ended with %+v, want status 3 in agent-sh-shop on main", end)
	}
	for _, want := range []string{"asked: do it\n", "changed: changed here\n", "ignored: \n"} {
		if !strings.Contains(end.Stdout, want) {
			t.Errorf("the agent said %q, want %q in it", end.Stdout, want)
		}
	}
	if strings.Contains(end.Stdout, value) || strings.Contains(end.Stdout, "key: \n") {
		t.Errorf("the agent said %q, want a placeholder of the key", end.Stdout)
	}
	if git("status", "--porcelain") != "M app.txt" || git("rev-parse", "HEAD") != head {
		t.Errorf("the call changed the user's repository: %s", git("status", "--porcelain"))
	}
	reachAgent(t, h, end, git)
	undone(t, h, end, dir, call)
}

// reachAgent fetches what the agent committed, and commits it on the server.
func reachAgent(t *testing.T, h *host, end agentEnd, git func(...string) string) {
	t.Helper()
	git("fetch", "-q", end.VM)
	if got := git("log", "-1", "--format=%s", end.VM+"/main"); got != "Work of the agent" {
		t.Errorf("the fetched branch ends with %q, want the agent's commit", got)
	}
	if got := git("show", end.VM+"/main:app.txt"); got != "made by the agent" {
		t.Errorf("the fetched file is %q, want the agent's", got)
	}
	diff := h.ok("diff", end.VM, "--from", strconv.Itoa(end.Turn))
	if !strings.Contains(diff, "app.txt") {
		t.Errorf("the diff does not name app.txt:\n%s", diff)
	}
	h.ok("commit", end.VM, "/work/"+end.VM, "--repo", end.Repo, "--base-branch", "main", "-m", "Reviewed", "--yes")
	if log := h.ok("repo", "log", end.Repo, "agent/"+end.VM+"/main"); !strings.Contains(log, "Reviewed") {
		t.Errorf("the repository has no reviewed commit:\n%s", log)
	}
}

// undone goes back to the state before the agent, and calls it again with another change.
func undone(t *testing.T, h *host, end agentEnd, dir string, call []string) {
	t.Helper()
	h.ok("undo", end.VM, strconv.Itoa(end.Turn))
	if got := h.sh(end.VM, "cat /work/"+end.VM+"/app.txt"); got != "changed here" {
		t.Errorf("after the undo app.txt is %q, want the state before the agent", got)
	}
	h.ok("suspend", end.VM)
	if err := os.WriteFile(filepath.Join(dir, "app.txt"), []byte("changed again\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	r := h.run(call...)
	if r.wants(t, 3, ""); !strings.Contains(r.stdout, `changed: changed again\n`) || strings.Contains(r.stderr, "merge") {
		t.Errorf("the second call found another tree: %v", r)
	}
	if n := len(h.list()); n != 1 {
		t.Errorf("there are %d VMs after the second call, want 1", n)
	}
	other, _ := cleanClone(t)
	h.run("agent", "--cmd", "./agent.sh", other, "--name", end.VM).wants(t, 125, "was not made for")
}

// knownAgent is an agent that `warren agent` knows, and how the model of its provider makes it work.
type knownAgent struct {
	name, provider string
	host           string // of the provider
	call           modelCall
	words          []string // that the user gives it
}

func knownAgents() []knownAgent {
	const command = "echo made by the model > app.txt"
	shell := map[string]any{"command": command, "description": "write"}
	return []knownAgent{
		{"claude", "anthropic", "api.anthropic.com", modelCall{"Bash", shell}, []string{"-p", "do it", "--dangerously-skip-permissions"}},
		{"codex", "openai", "api.openai.com", modelCall{"exec_command", map[string]any{"cmd": command}}, []string{"exec", "--model", "gpt-5", "--dangerously-bypass-approvals-and-sandbox", "do it"}},
		{"gemini", "google", "generativelanguage.googleapis.com", modelCall{"run_shell_command", shell}, []string{"-p", "do it", "--yolo"}},
		{"opencode", "anthropic", "api.anthropic.com", modelCall{"bash", shell}, []string{"run", "do it"}},
	}
}

// TestAgentKnown: each agent that `warren agent` knows, as the image agents has it, works on a clone of this computer,
// with a stand-in of its provider, to a reviewed commit. `make soak` runs it.
func TestAgentKnown(t *testing.T) {
	if os.Getenv("WARREN_SOAK") == "" {
		t.Skip("WARREN_SOAK is not set: an emulated guest takes minutes for each agent; `make soak` runs it")
	}
	for _, a := range knownAgents() {
		t.Run(a.name, a.works)
	}
}

func (a knownAgent) works(t *testing.T) {
	model := modelAPIs()[a.provider]
	model.t, model.host, model.call, model.asked = t, a.host, &a.call, new(atomic.Int32)
	w := newNetWorld(t)
	w.handle(model.host, model)
	w.name(model.host)
	h := w.host()
	dir, _ := cleanClone(t)
	t.Setenv(model.secret, model.value)
	r := h.runWithin(10*time.Minute, "", nil, append([]string{"agent", a.name, dir, "--json", "--"}, a.words...)...)
	t.Logf("it took %v", r.took)
	r.wants(t, 0, "")
	if !strings.Contains(r.stdout, modelSays) || model.asked.Load() == 0 {
		t.Errorf("the model was asked %d times for its command, and the agent said %v", model.asked.Load(), r)
	}
	if strings.Contains(r.stdout, model.value) {
		t.Errorf("the agent shows the key: %v", r)
	}
	name := a.name + "-shop"
	if got := h.sh(name, "cat /work/"+name+"/app.txt; env"); !strings.HasPrefix(got, "made by the model") || strings.Contains(got, model.value) {
		t.Errorf("the file and the environment are %q, want the work of the model, and no key", got)
	}
	h.ok("commit", name, "/work/"+name, "--repo", name, "--base-branch", "main", "-m", "Reviewed", "--yes")
	if log := h.ok("repo", "log", name, "agent/"+name+"/main"); !strings.Contains(log, "Reviewed") {
		t.Errorf("the repository has no reviewed commit: %s", log)
	}
}
