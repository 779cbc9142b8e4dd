// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

//go:build system

package system

import (
	"context"
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// sandboxFacts are what every SDK of E2B finds true.
var sandboxFacts = []string{
	"a sandbox is created", "a command has output, variables and a user", "a command runs as root in a directory",
	"a failed command throws its exit status", "a missing directory is refused", "a command ends at its time-out",
	"a command in the background takes input", "a command is listed and killed", "a terminal types, resizes and ends",
	"a file is written and read", "many files are written at once", "large files keep their bytes", "a file outside of the home belongs to the user",
	"directories are made, listed, moved and removed", "a link tells its target", "changes of files are watched", "signed links read and write without a key",
	"a sandbox is described and listed", "a time-out is set", "metrics are measured", "a pause keeps processes", "a snapshot makes sandboxes",
	"another client connects", "what Warren lacks is refused", "a sandbox is killed",
}

// newerFacts are about what older SDKs do not have.
var newerFacts = []string{"a fork is another sandbox", "the network is changed"}

// sandboxHost is a server with a key in the form of E2B's SDKs.
type sandboxHost struct {
	*host
	dir string
	env []string
}

func newSandboxHost(t *testing.T) *sandboxHost {
	t.Helper()
	h := &sandboxHost{host: newHost(t)}
	h.dir = must(t, "the directory of the drivers", absolute("../contract/e2b"), nil)
	h.env = h.sandboxVariables(t)
	return h
}

// sandboxVariables makes a key and returns the variables with which SDKs of E2B reach this server.
func (h *host) sandboxVariables(t *testing.T) (env []string) {
	t.Helper()
	var made map[string]string
	if err := json.Unmarshal([]byte(h.ok("key", "create", "--e2b", "--json")), &made); err != nil {
		t.Fatalf("key create --e2b prints no JSON: %v", err)
	}
	for _, name := range []string{"E2B_API_KEY", "E2B_API_URL", "E2B_SANDBOX_URL"} {
		env = append(env, name+"="+made[name])
	}
	return env
}

func absolute(path string) string {
	abs, err := filepath.Abs(path)
	if err != nil {
		return path
	}
	return abs
}

// rows runs a driver and wants its facts to be true.
func (h *sandboxHost) rows(t *testing.T, facts, env []string, argv ...string) {
	t.Helper()
	ctx, stop := context.WithTimeout(t.Context(), 4*time.Minute)
	defer stop()
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Dir, cmd.Env = h.dir, append(os.Environ(), env...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("%v failed: %v\n%s", argv, err, out)
	}
	for _, fact := range facts {
		if !strings.Contains(string(out), fact+": true\n") {
			t.Errorf("with %v it is not true that %s\n%s", argv, fact, out)
		}
	}
}

// installing is held by the one test that installs packages, which the others use too.
var installing sync.Mutex

// install makes sure that the npm packages are there.
func (h *sandboxHost) install(t *testing.T) {
	t.Helper()
	installing.Lock()
	defer installing.Unlock()
	if _, err := os.Stat(filepath.Join(h.dir, "node_modules/@e2b")); err == nil {
		return
	}
	cmd := exec.Command("npm", "ci", "--no-audit", "--no-fund")
	cmd.Dir = h.dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("npm ci: %v\n%s", err, out)
	}
}

// venv returns the Python of an environment with the packages of a list.
func (h *sandboxHost) venv(t *testing.T, list string) string {
	t.Helper()
	installing.Lock()
	defer installing.Unlock()
	pinned, err := os.ReadFile(filepath.Join(h.dir, list))
	if err != nil {
		t.Fatalf("the list of packages: %v", err)
	}
	dir := filepath.Join(must(t, "cache directory", userCache(), nil), "warren-test-"+strings.NewReplacer("==", "-", "\n", "-").Replace(strings.TrimSpace(string(pinned))))
	python := filepath.Join(dir, "bin", "python")
	if _, err := os.Stat(filepath.Join(dir, "done")); err == nil {
		return python
	}
	for _, argv := range [][]string{{"python3", "-m", "venv", "--clear", dir}, {python, "-m", "pip", "install", "-q", "-r", filepath.Join(h.dir, list)}, {"touch", filepath.Join(dir, "done")}} {
		if out, err := exec.Command(argv[0], argv[1:]...).CombinedOutput(); err != nil {
			t.Fatalf("%v failed: %v\n%s", argv, err, out)
		}
	}
	return python
}

// TestE2B: programs with the SDKs of E2B, unmodified, run against Warren with three variables
// set. With WARREN_SOAK older SDKs of both languages do, too.
func TestE2B(t *testing.T) {
	t.Parallel()
	h := newSandboxHost(t)
	all := append(sandboxFacts[:len(sandboxFacts):len(sandboxFacts)], newerFacts...)
	t.Run("JavaScript", func(t *testing.T) {
		h.install(t)
		h.rows(t, all, h.env, "node", "rows.mjs")
	})
	t.Run("Python", func(t *testing.T) {
		h.rows(t, all, h.env, h.venv(t, "requirements.txt"), "rows.py")
	})
	t.Run("a known image", func(t *testing.T) {
		made := map[string]string{}
		for _, kv := range h.env {
			name, value, _ := strings.Cut(kv, "=")
			made[name] = value
		}
		r, err := http.NewRequestWithContext(t.Context(), "POST", made["E2B_API_URL"]+"/v2/sandboxes", strings.NewReader(`{"templateID":"base","timeout":60}`))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("X-API-KEY", made["E2B_API_KEY"])
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		var sandbox struct{ SandboxID string }
		if err := json.NewDecoder(resp.Body).Decode(&sandbox); err != nil || sandbox.SandboxID == "" {
			t.Fatalf("no sandbox: status %d, %v", resp.StatusCode, err)
		}
		if ran := strings.TrimSpace(h.ok("audit", "ls", "--json", "--vm", sandbox.SandboxID, "--verb", "exec")); ran != "[]" {
			t.Errorf("a create of an image that was used before runs a script: %s", ran)
		}
	})
	if os.Getenv("WARREN_SOAK") == "" {
		return
	}
	t.Run("older JavaScript", func(t *testing.T) {
		h.rows(t, sandboxFacts, append(h.env, "E2B_PACKAGE=e2b-older"), "node", "rows.mjs")
	})
	t.Run("older Python", func(t *testing.T) {
		h.rows(t, all, h.env, h.venv(t, "requirements-older.txt"), "rows.py")
	})
}

// TestE2BDomain: with E2B_DOMAIN alone the SDK reaches sandboxes by the preview gateway, over
// TLS, and so does everybody who has the token of a port.
func TestE2BDomain(t *testing.T) {
	t.Parallel()
	h := newSandboxHost(t)
	h.install(t)
	_, port, _ := strings.Cut(h.gates[3], ":")
	facts := []string{"a sandbox is created", "commands and files work", "a port wants the token", "a closed port is told", "a killed sandbox is told"}
	h.rows(t, facts, []string{h.env[0], "E2B_DOMAIN=warren.localhost:" + port, "NODE_EXTRA_CA_CERTS=" + filepath.Join(h.data, "preview-ca.pem")}, "node", "domain.mjs")
}

// TestE2BCode: the code interpreter's SDKs run Python in contexts.
func TestE2BCode(t *testing.T) {
	t.Parallel()
	h := newSandboxHost(t)
	h.install(t)
	h.rows(t, []string{"code runs and keeps its variables", "the asynchronous SDK drives a sandbox"}, h.env, h.venv(t, "requirements.txt"), "code.py")
	h.rows(t, []string{
		"code has a result, output and a memory", "an exception is told", "a result has the formats of its value", "variables, shell lines and await work",
		"contexts are apart, restart and end", "code that runs too long is interrupted", "the port wants a token",
		"a server that ended is started again, and told the variables",
	}, h.env, "node", "code.mjs")
}

// TestE2BCharts: in the image of the recipe python-interpreter code draws figures and shows tables.
func TestE2BCharts(t *testing.T) {
	if os.Getenv("WARREN_SOAK") == "" {
		t.Skip("WARREN_SOAK is not set: the build of the image takes minutes; `make soak` runs it")
	}
	o := ownImages(t)
	o.build("python-interpreter")
	o.serve()
	t.Cleanup(o.close)
	h := &sandboxHost{host: o, dir: must(t, "the directory of the drivers", absolute("../contract/e2b"), nil)}
	h.env = h.sandboxVariables(t)
	h.install(t)
	h.rows(t, []string{
		"a sandbox is created", "the interpreter is a service", "the first code needs no start", "a figure is a picture", "a table is HTML",
		"a server that ended is started again, and told the variables", "the sandbox is killed",
	}, h.env, "node", "charts.mjs")
}

// TestE2BTimeouts: a sandbox ends or pauses at its time-out, also if the server was killed and
// started again before it.
func TestE2BTimeouts(t *testing.T) {
	t.Parallel()
	h := newSandboxHost(t)
	h.install(t)
	made := exec.Command("node", "--input-type=module", "-e", `import { Sandbox } from "e2b";
		const pause = await Sandbox.create({ timeoutMs: 25000, lifecycle: { onTimeout: "pause" } });
		const kill = await Sandbox.create({ timeoutMs: 20000 });
		console.log(pause.sandboxId, kill.sandboxId);`)
	made.Dir, made.Env = h.dir, append(os.Environ(), h.env...)
	out, err := made.CombinedOutput()
	ids := strings.Fields(string(out))
	if err != nil || len(ids) != 2 {
		t.Fatalf("the sandboxes are not made: %v\n%s", err, out)
	}
	h.killServer()
	h.serve()
	state := func(id string) string {
		for _, v := range h.list() {
			if v.ID == id {
				return v.State
			}
		}
		return "gone"
	}
	if got := state(ids[0]); got != "running" {
		t.Errorf("before its time-out the sandbox is %s after a restart of the server, want running", got)
	}
	h.eventually("the sandbox is killed at its time-out", func() bool { return state(ids[1]) == "gone" })
	h.eventually("the sandbox is paused at its time-out", func() bool { return state(ids[0]) == "suspended" })
}
