// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

//go:build system

package system

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// mcpFacts are what each client finds true.
var mcpFacts = map[string][]string{
	"client.mjs": {
		"tools are listed", "two copies run", "the broken copy fails its check", "the other one passes", "only the good copy is left",
		"it has the name of the original", "the diff names the lost file", "undo brings it back", "progress has the last line of output",
		"a cancelled command has ended", "a failure says what to do", "a terminal shows what was typed", "its screen is a resource",
	},
	"client.py": {
		"a command runs with 2025-11-25", "a file is a resource with 2025-11-25", "a cancelled command has ended with 2025-11-25",
		"a command runs with 2026-07-28", "a file is a resource with 2026-07-28", "a cancelled command has ended with 2026-07-28",
		"an identity sees what it was granted", "it works in its machine", "exec is refused elsewhere", "change_machine is refused elsewhere", "files of another machine are refused",
	},
}

// TestMCP: the official clients of the Model Context Protocol, unmodified, use a server: the
// TypeScript one by `warren mcp`, the Python one and the inspector's command line at /mcp.
func TestMCP(t *testing.T) {
	dir, err := filepath.Abs("testdata/mcp")
	if err != nil {
		t.Fatal(err)
	}
	python := installMCP(t, dir)
	h := newHost(t)
	h.ok("up", "--name", "app", "-d")
	h.mcpClient(dir, nil, "node", "client.mjs")
	key, err := os.ReadFile(filepath.Join(h.data, "admin.key"))
	if err != nil {
		t.Fatal(err)
	}
	secret := strings.TrimSpace(string(key))
	h.ok("up", "--name", "other", "-d")
	h.mcpClient(dir, []string{"WARREN_API_KEY=" + secret, "IDENTITY_TOKEN=" + h.tokenFor("app")}, python, "client.py")
	h.inspect(dir, secret)
	h.vanish()
}

// tokenFor makes an identity that may use one VM, and returns a token of it.
func (h *host) tokenFor(name string) string {
	h.t.Helper()
	var id struct{ ID string }
	var tok struct{ Token string }
	for _, step := range []struct {
		into any
		args []string
	}{{&id, []string{"identity", "create", "helper", "--json"}}, {nil, []string{"identity", "grant", "helper", name}}, {&tok, []string{"token", "create", "helper", "--json"}}} {
		out := h.ok(step.args...)
		if step.into == nil {
			continue
		}
		if err := json.Unmarshal([]byte(out), step.into); err != nil {
			h.t.Fatalf("%v prints %s: %v", step.args, out, err)
		}
	}
	return tok.Token
}

// installMCP installs the clients, once, and returns the Python that has one.
func installMCP(t *testing.T, dir string) (python string) {
	t.Helper()
	if _, err := os.Stat(filepath.Join(dir, "node_modules/@modelcontextprotocol")); err != nil {
		install := exec.Command("npm", "ci", "--no-audit", "--no-fund", "--ignore-scripts")
		install.Dir = dir
		if out, err := install.CombinedOutput(); err != nil {
			t.Fatalf("npm ci: %v\n%s", err, out)
		}
	}
	venv := filepath.Join(userCache(), "warren-test-mcp-2.3.0")
	python = filepath.Join(venv, "bin", "python")
	if _, err := os.Stat(filepath.Join(venv, "done")); err == nil {
		return python
	}
	for _, argv := range [][]string{{"python3", "-m", "venv", "--clear", venv}, {python, "-m", "pip", "install", "-q", "-r", filepath.Join(dir, "requirements.txt")}, {"touch", filepath.Join(venv, "done")}} {
		if out, err := exec.Command(argv[0], argv[1:]...).CombinedOutput(); err != nil {
			t.Fatalf("%v failed: %v\n%s", argv, err, out)
		}
	}
	return python
}

// mcpClient runs a client's script and wants its facts.
func (h *host) mcpClient(dir string, env []string, argv ...string) {
	h.t.Helper()
	ctx, stop := context.WithTimeout(h.t.Context(), 2*time.Minute)
	defer stop()
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Dir = dir
	cmd.Env = append(append(h.environ(), "WARREN_BINARY="+h.binary), env...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		h.t.Errorf("%v failed: %v\n%s", argv, err, out)
	}
	for _, fact := range mcpFacts[argv[1]] {
		if !strings.Contains(string(out), fact+": true\n") {
			h.t.Errorf("with %s it is not true that %s\n%s", argv[1], fact, out)
		}
	}
}

// inspect uses the command line of the protocol's inspector.
func (h *host) inspect(dir, secret string) {
	h.t.Helper()
	for _, c := range []struct {
		want string
		args []string
	}{
		{`"name": "exec"`, []string{"--method", "tools/list"}},
		{`"stdout": "by the inspector\n"`, []string{"--method", "tools/call", "--tool-name", "exec", "--tool-arg", "machine=app", "command=echo by the inspector"}},
		{`"uri": "warren://machines"`, []string{"--method", "resources/list"}},
		{`root:x:0:0`, []string{"--method", "resources/read", "--uri", "warren://machines/app/files/etc/passwd"}},
	} {
		cmd := exec.CommandContext(h.t.Context(), filepath.Join(dir, "node_modules/.bin/mcp-inspector"), append([]string{"--cli", "http://" + h.listen + "/mcp", "--transport", "http", "--header", "Authorization: Bearer " + secret}, c.args...)...)
		cmd.Env = append(h.environ(), "MCP_CATALOG_PATH="+filepath.Join(h.t.TempDir(), "mcp.json"))
		out, err := cmd.CombinedOutput()
		if err != nil || !strings.Contains(string(out), c.want) {
			h.t.Errorf("the inspector with %v: %v, want %s in\n%s", c.args, err, c.want, out)
		}
	}
}

// vanish kills a `warren mcp` whose command runs. Nothing of it may be left.
func (h *host) vanish() {
	h.t.Helper()
	cmd := exec.Command(h.binary, "mcp")
	cmd.Env = h.environ()
	var said bytes.Buffer
	cmd.Stdout = &said
	in, err := cmd.StdinPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		h.t.Fatal(err)
	}
	for _, m := range []string{
		`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"raw","version":"1"}}}`,
		`{"jsonrpc":"2.0","method":"notifications/initialized"}`,
		`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"exec","arguments":{"machine":"app","command":"exec sleep 4711"}}}`,
	} {
		if _, err := fmt.Fprintln(in, m); err != nil {
			h.t.Fatal(err)
		}
	}
	runs := func() bool { return strings.TrimSpace(h.sh("app", "pgrep -xf 'sleep 4711' || true")) != "" }
	h.eventually("the command runs", runs)
	if err := cmd.Process.Kill(); err != nil {
		h.t.Fatal(err)
	}
	_ = cmd.Wait() // it was killed
	h.eventually("the command of the killed client has ended", func() bool { return !runs() })
}
