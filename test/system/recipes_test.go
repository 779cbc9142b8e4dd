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
	"time"
)

// listedImage is the part of `image ls --json` that the tests look at.
type listedImage struct {
	ID     string `json:"id"`
	Name   string `json:"name"`
	Digest string `json:"digest"`
	Own    int64  `json:"ownBytes"`
	Shared int64  `json:"sharedBytes"`
}

// image returns the listed image of that name.
func (h *host) image(name string) listedImage {
	h.t.Helper()
	var all []listedImage
	if err := json.Unmarshal([]byte(h.ok("image", "ls", "--json")), &all); err != nil {
		h.t.Fatalf("image ls --json: %v", err)
	}
	for _, i := range all {
		if i.Name == name {
			return i
		}
	}
	h.t.Fatalf("the image %s is not listed among %d", name, len(all))
	return listedImage{}
}

// in runs a shell line in the VM, for as long as it takes within a limit.
func (h *host) in(name string, limit time.Duration, line string) string {
	h.t.Helper()
	began := time.Now()
	cmd := exec.Command(h.binary, "exec", "--timeout", limit.String(), name, "--", "bash", "-c", line)
	cmd.Env = h.environ()
	out, err := cmd.CombinedOutput()
	if err != nil {
		h.t.Fatalf("in %s, %s: %v\n%s", name, line, err, out)
	}
	h.t.Logf("%5.1f s  %s", time.Since(began).Seconds(), line)
	return strings.TrimSpace(string(out))
}

// TestRecipePython: an image of the recipe python, built on one server and moved to another as
// a file, is the same there. The machine runs the project of examples/python.
func TestRecipePython(t *testing.T) {
	if os.Getenv("WARREN_SOAK") == "" {
		t.Skip("WARREN_SOAK is not set: two servers build and boot an image, which takes minutes; `make soak` sets it")
	}
	from, to := ownImages(t), ownImages(t)
	began := time.Now()
	from.ok("image", "build", "--no-warm", "python")
	t.Logf("%5.1f s  the build, without a boot", time.Since(began).Seconds())
	file := filepath.Join(t.TempDir(), "python.tar.zst")
	out := from.run("image", "export", "python", file, "--json")
	var exported struct{ Digest, Signer string }
	if err := json.Unmarshal([]byte(out.stdout), &exported); err != nil {
		t.Fatalf("image export: %v: %s", err, out)
	}
	t.Logf("%5.1f s  the export", out.took.Seconds())

	if r := to.run("image", "import", "file:"+file); r.code == 0 || !strings.Contains(r.stderr, exported.Signer) {
		t.Errorf("the file of a server that nobody trusts: %s, want it refused with its signer", r)
	}
	damaged := damagedCopy(t, file)
	if r := to.run("image", "import", "file:"+damaged, "--trust", exported.Signer); r.code == 0 || !strings.Contains(r.stderr, damaged) {
		t.Errorf("a damaged file: %s, want it refused by name", r)
	}
	if left, err := os.ReadDir(filepath.Join(to.data, "images")); err != nil || len(left) > 0 {
		t.Errorf("refused files leave %v (%v), want nothing", left, err)
	}
	in := to.run("image", "import", "file:"+file, "--trust", exported.Signer)
	if in.code != 0 {
		t.Fatalf("image import: %s", in)
	}
	t.Logf("%5.1f s  the import, with its boot", in.took.Seconds())
	if a, b := from.image("python"), to.image("python"); a.ID != b.ID || a.Digest != b.Digest || a.Digest != exported.Digest {
		t.Errorf("the image %+v became %+v, the file says %s, want one id and digest", a, b, exported.Digest)
	}

	to.serve()
	t.Cleanup(to.close)
	to.ok("up", "python", "--name", "py")
	to.ok("cp", "-r", "../../examples/python", "py:/workspace/notes")
	if got := to.in("py", 3*time.Minute, "cd /workspace/notes && pytest -q && ruff check . && uv --version && python3 -m venv --without-pip v && v/bin/python -c 'print(6 * 7)'"); !strings.Contains(got, "2 passed") || !strings.HasSuffix(got, "\n42") {
		t.Errorf("the project says %q, want 2 tests passed and 42 from its venv", got)
	}
	to.ok("exec", "-d", "py", "--", "sh", "-c", "cd /workspace/notes && exec python3 app.py")
	to.eventually("the app answers", func() bool {
		return to.run("exec", "py", "--", "curl", "-sf", "-d", "milk", "localhost:8000").code == 0
	})
	if got := to.sh("py", "curl -s localhost:8000"); got != `[{"id": 1, "text": "milk"}]` {
		t.Errorf("the app answers %q, want the note", got)
	}
}

// damagedCopy is a copy of a file in which one byte differs.
func damagedCopy(t *testing.T, file string) string {
	t.Helper()
	body, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	body[len(body)/2] ^= 1
	damaged := filepath.Join(t.TempDir(), "damaged")
	if err := os.WriteFile(damaged, body, 0o600); err != nil {
		t.Fatal(err)
	}
	return damaged
}

// TestRecipesAll builds every recipe and uses its example. In the machine of the recipe python
// it installs what a project needs late, and forks it while all of it runs. `make soak` runs it.
func TestRecipesAll(t *testing.T) {
	if os.Getenv("WARREN_SOAK") == "" {
		t.Skip("WARREN_SOAK is not set: the builds and installations take half an hour; `make soak` runs it")
	}
	h := ownImages(t)
	for _, recipe := range []string{"python", "node", "go", "agents"} {
		wall, cpu := h.build(recipe)
		t.Logf("%s: %.1f s, %.1f s of processor time", recipe, wall.Seconds(), cpu.Seconds())
	}
	h.serve()
	t.Cleanup(h.close)
	for _, c := range []struct{ recipe, example, line, want string }{
		{"node", "node", "npm test", "pass 1"},
		{"go", "go", "go vet ./... && go test ./...", "ok"},
		{"agents", "agents", "rg --version | head -n 1; git --version", "ripgrep"},
	} {
		h.ok("up", c.recipe, "--name", c.recipe, "--mem", "2G", "--cpu", "2")
		h.ok("cp", "-r", "../../examples/"+c.example, c.recipe+":/workspace/project")
		if got := h.in(c.recipe, 10*time.Minute, "cd /workspace/project && "+c.line); !strings.Contains(got, c.want) {
			t.Errorf("%s: %q, want %q in it", c.recipe, got, c.want)
		}
	}
	for agent, want := range map[string]string{"claude": "2.1.332", "codex": "0.171.0", "gemini": "0.61.0", "opencode": "1.18.33"} {
		if got := h.in("agents", 10*time.Minute, agent+" --version"); !strings.Contains(got, want) {
			t.Errorf("%s says %q, want its version %s", agent, got, want)
		}
	}
	for _, name := range []string{"node", "go", "agents"} {
		h.ok("rm", "-q", name)
	}
	h.needsLate(t)
}

// needsLate: what turns out to be needed is installed while the machine works: a database, a
// browser, fonts, compilers, a worker. All of it is alive at the same time, and in a fork, too.
func (h *host) needsLate(t *testing.T) {
	t.Helper()
	h.ok("up", "python", "--name", "late", "--mem", "2G", "--cpu", "2", "--net", "packages")
	h.ok("cp", "-r", "../../examples/python", "late:/workspace/notes")
	h.in("late", 40*time.Minute, `export DEBIAN_FRONTEND=noninteractive; apt-get update -qq && for p in postgresql fonts-dejavu-core "gcc libc6-dev python3-dev" inotify-tools chromium; do
		apt-get install -y -qq --no-install-recommends $p >/tmp/apt.log 2>&1 || { tail -n 20 /tmp/apt.log; exit 1; }; done`)
	h.ok("net", "set", "late", "closed")
	h.in("late", 5*time.Minute, "systemctl start postgresql && su postgres -c 'createdb notes' && echo 'int main(){return 42;}' >/tmp/a.c && gcc -o /tmp/a /tmp/a.c; /tmp/a; test $? = 42 && fc-list 2>/dev/null | grep -q DejaVu || ls /usr/share/fonts/truetype/dejavu")
	for _, line := range []string{
		"cd /workspace/notes && exec python3 app.py",
		"exec inotifywait -m -e create --format %f -o /tmp/seen /workspace/notes",
		"while :; do su postgres -c 'psql -qtc \"select 1\" notes' >/tmp/worker && date >>/tmp/worker; sleep 2; done",
		"exec chromium --headless --no-sandbox --disable-gpu --remote-debugging-port=9222 --user-data-dir=/tmp/browser http://localhost:8000",
	} {
		h.ok("exec", "-d", "late", "--", "bash", "-c", line)
	}
	alive := func(name string) bool {
		r := h.run("exec", name, "--", "bash", "-c", `cd /workspace/notes && curl -sf localhost:8000 >/dev/null && curl -sf localhost:9222/json | grep -q localhost:8000 &&
			pgrep -x inotifywait >/dev/null && su postgres -c 'psql -qtc "select 1" notes' | grep -q 1 && pytest -q 2>&1 | grep '2 passed' && touch new-$RANDOM && sleep 1 && grep -q new- /tmp/seen`)
		return r.code == 0
	}
	began := time.Now()
	for !alive("late") {
		if time.Since(began) > 10*time.Minute {
			t.Fatalf("browser, database, watcher, server and tests are not alive together: %s", h.run("exec", "late", "--", "bash", "-c", "ps ax | tail -n 40"))
		}
		<-time.After(2 * time.Second)
	}
	h.ok("fork", "late", "--name", "twin")
	if !alive("twin-1") {
		t.Errorf("in the fork not everything is alive: %s", h.run("exec", "twin-1", "--", "bash", "-c", "ps ax | tail -n 40"))
	}
	// The two differ: what a user puts into one is not in the other.
	h.in("twin-1", time.Minute, "curl -sf -d bread localhost:8000")
	if got := h.in("late", time.Minute, "curl -sf localhost:8000"); strings.Contains(got, "bread") {
		t.Errorf("a note that was made in the fork is in the original: %s", got)
	}
}
