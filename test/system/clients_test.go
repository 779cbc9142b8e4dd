// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

//go:build system

package system

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// ownFacts are what the clients find true, by their scripts.
var ownFacts = map[string][]string{
	"sync_client.py": {
		"a machine runs a command", "input, variables and the exit code arrive", "output streams", "a failed command raises with check",
		"a command ends at its timeout", "a file keeps its bytes", "a directory is listed", "a file is moved", "a missing file raises the error class",
		"forks are a list of running copies", "a list of forks deletes them at its end", "a process in the background ends by a signal",
		"a terminal shows what a program prints", "a machine is deleted at the end of its block",
	},
	"async_client.py": {
		"commands run at the same time", "closing a stream ends the command", "a terminal is attached again", "a terminal answers what was typed",
		"a closed terminal raises the error class", "a suspended machine says so", "a resumed machine runs", "a rollback restores files",
		"a preview has an address", "a preview link has a token", "an operation is called by its id",
	},
	"client.mjs": {
		"a machine runs a command", "input, variables and the exit code arrive", "output streams", "leaving the loop ends the command",
		"a failed command throws with check", "a command ends at its timeout", "a file keeps its bytes", "a directory is listed", "a file is moved",
		"a missing file throws the error class", "a wrong key throws the error class with a hint", "forks are a list of running copies",
		"a process in the background ends by a signal", "a terminal shows what a program prints", "a terminal that is not there throws the error class",
		"an operation is called by its id", "a machine is deleted at the end of its block",
	},
}

// TestClients: the clients of clients/, from their sources, use a server with real machines. What
// they send again is tested against stand-ins.
func TestClients(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	t.Run("Python", func(t *testing.T) {
		dir := absolute("../../clients/python")
		python := pythonWith(t, filepath.Join(dir, "tests/requirements.txt"))
		env := []string{"PYTHONPATH=" + filepath.Join(dir, "src"), "PYTHONDONTWRITEBYTECODE=1"}
		for _, script := range []string{"test_retry.py", "sync_client.py", "async_client.py"} {
			h.clientFinds(t, filepath.Join(dir, "tests"), env, python, script)
		}
	})
	t.Run("TypeScript", func(t *testing.T) {
		dir := absolute("../../clients/typescript")
		builds(t, dir)
		h.clientFinds(t, filepath.Join(dir, "tests"), nil, "node", "client.mjs")
		h.clientFinds(t, filepath.Join(dir, "tests"), nil, "node", "retry.mjs")
	})
}

// TestClientsDescription: a public validator finds no error in the description of the API that the clients are made from.
func TestClientsDescription(t *testing.T) {
	t.Parallel()
	python := pythonWith(t, absolute("testdata/openapi/validator.txt"))
	if out, err := exec.CommandContext(t.Context(), python, "-m", "openapi_spec_validator", absolute("../../api/openapi.json")).CombinedOutput(); err != nil {
		t.Errorf("the description is not valid: %v\n%s", err, out)
	}
}

// notFuzzed are operations that end the server's work, the fuzzer's key or the fuzzer's time: a stream without an end.
var notFuzzed = []string{
	"drainHost", "revokeKey", "rotateKey", "removeAccount", "createBackup", "streamEvents", "streamMCP", "createVM", "buildSnapshot",
}

// TestClientsFuzz: whatever a fuzzer makes of the API's description, no answer is a 500, and each is as described.
func TestClientsFuzz(t *testing.T) {
	if os.Getenv("WARREN_SOAK") == "" {
		t.Skip("WARREN_SOAK is not set: it sends thousands of requests for minutes; `make soak` runs it")
	}
	h := newHost(t)
	python := pythonWith(t, absolute("testdata/openapi/fuzzer.txt"))
	key, err := os.ReadFile(filepath.Join(h.data, "admin.key"))
	if err != nil {
		t.Fatal(err)
	}
	argv := []string{
		filepath.Join(filepath.Dir(python), "schemathesis"), "run", "http://" + h.listen + "/openapi.json", "-H", "Authorization: Bearer " + strings.TrimSpace(string(key)),
		"--phases", "coverage,fuzzing", "-n", "10", "--max-time", "1200", "--request-timeout", "30", "--continue-on-failure", "--warnings", "off",
		"--checks", "not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance",
	}
	for _, id := range notFuzzed {
		argv = append(argv, "--exclude-operation-id", id)
	}
	ctx, stop := context.WithTimeout(t.Context(), 30*time.Minute)
	defer stop()
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Dir = t.TempDir() // where it keeps what it found
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("the fuzzer failed: %v\n%s", err, out)
	}
}

// building is held while the TypeScript client is compiled: two tests use it.
var building sync.Mutex

// builds compiles the TypeScript client.
func builds(t *testing.T, dir string) {
	t.Helper()
	building.Lock()
	defer building.Unlock()
	for _, argv := range [][]string{{"npm", "ci", "--no-audit", "--no-fund", "--ignore-scripts"}, {"node_modules/.bin/tsc"}} {
		if _, err := os.Stat(filepath.Join(dir, "node_modules/typescript")); err == nil && argv[0] == "npm" {
			continue
		}
		cmd := exec.CommandContext(t.Context(), argv[0], argv[1:]...)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v failed: %v\n%s", argv, err, out)
		}
	}
}

// pythonWith returns the Python of an environment with the packages of a list.
func pythonWith(t *testing.T, list string) string {
	t.Helper()
	pinned, err := os.ReadFile(list)
	if err != nil {
		t.Fatalf("the list of packages: %v", err)
	}
	dir := filepath.Join(userCache(), "warren-test-"+strings.NewReplacer("==", "-", "\n", "-").Replace(strings.TrimSpace(string(pinned))))
	python := filepath.Join(dir, "bin", "python")
	if _, err := os.Stat(filepath.Join(dir, "done")); err == nil {
		return python
	}
	for _, argv := range [][]string{{"python3", "-m", "venv", "--clear", dir}, {python, "-m", "pip", "install", "-q", "-r", list}, {"touch", filepath.Join(dir, "done")}} {
		if out, err := exec.Command(argv[0], argv[1:]...).CombinedOutput(); err != nil {
			t.Fatalf("%v failed: %v\n%s", argv, err, out)
		}
	}
	return python
}

// clientFinds runs a client's script and wants its facts to be true.
func (h *host) clientFinds(t *testing.T, dir string, env []string, argv ...string) {
	t.Helper()
	ctx, stop := context.WithTimeout(t.Context(), 2*time.Minute)
	defer stop()
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Dir, cmd.Env = dir, append(h.environ(), env...)
	began := time.Now()
	out, err := cmd.CombinedOutput()
	t.Logf("%s took %s", argv[1], time.Since(began).Round(time.Millisecond))
	if err != nil {
		t.Errorf("%v failed: %v\n%s", argv, err, out)
	}
	for _, fact := range ownFacts[argv[1]] {
		if !strings.Contains(string(out), fact+": true\n") {
			t.Errorf("with %s it is not true that %s\n%s", argv[1], fact, out)
		}
	}
}
