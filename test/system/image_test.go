//go:build system

// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package system

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// tools are what dev promises: a command line and what it prints.
var tools = [][2]string{
	{"node -p process.release.lts", "Krypton"},
	{"node --version", "v24."},
	{"npm --version", "11."},
	{"npx --version", "11."},
	{"pnpm --version", "12."},
	{"python3 --version", "Python 3."},
	{"pip --version", "pip "},
	{"python3 -m venv --help", "usage: venv"},
	{"uv --version", "uv 0."},
	{"pytest --version", "pytest "},
	{"gcc --version", "gcc "},
	{"g++ --version", "g++ "},
	{"make --version", "GNU Make"},
	{"git --version", "git version"},
	{"gh --version", "gh version"},
	{"jq --version", "jq-"},
	{"rsync --version", "rsync "},
	{"rg --version", "ripgrep"},
	{"tmux -V", "tmux "},
	{"sudo --version", "Sudo version"},
	// A user of the group sudo needs no password.
	{"sh -c 'useradd -G sudo ann && su ann -c \"sudo id -un\"'", "root"},
	// Node's own headers are there, so that a package in C++ needs no network for them.
	{"ls /usr/local/include/node/node.h", "node.h"},
}

// TestImages builds an image of one's own and dev, and uses what is in them.
func TestImages(t *testing.T) {
	h := ownImages(t)
	dir := t.TempDir()
	text := "name: layered\npackages: [redis-server, jq]\n"
	if err := os.WriteFile(filepath.Join(dir, "warren.yaml"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if saved, err := filepath.Glob(filepath.Join(h.data, "cache", "layers", "base-*.tar")); err != nil || len(saved) == 0 {
		h.build("base") // an image of an earlier version: it saved no layer
	}
	wall, two := h.build(dir)
	t.Logf("two packages on base: %.1f s, %.1f s of processor time", wall.Seconds(), two.Seconds())
	wall, many := h.build("dev")
	t.Logf("dev: %.1f s, %.1f s of processor time", wall.Seconds(), many.Seconds())
	// Both begin with the layer that base has saved. Beside other tests each takes longer, and the same builds
	// without that layer take as long as each other.
	if two > many*3/4 {
		t.Errorf("two packages on base take %v of processor time, and all of dev %v", two, many)
	}

	h.serve()
	t.Cleanup(h.close)
	h.ok("up", "layered", "--name", "mine")
	h.uses("mine", [][2]string{
		{"redis-server --version", "Redis server"},
		{"jq --version", "jq-"},
		{"rsync --version", "rsync "},
		{"systemctl is-active redis-server", "active"},
		{"start-stop-daemon --version", "start-stop-daemon "}, // and not what keeps daemons from starting in the build
		{"dpkg --audit", ""},
		{"sh -c 'apt-get check && ls /.warren /boot'", "No such file"},
	})
	h.ok("rm", "mine")
	h.ok("up", "dev", "--name", "work")
	h.uses("work", tools)
}

// ownImages is a host whose images are its own. Layers and downloads of the
// tests' data directory are at hand, as they are for a user who built before.
func ownImages(t *testing.T) *host {
	t.Helper()
	h := unstarted(t)
	own := filepath.Join(h.data, "images")
	shared, err := os.Readlink(own)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.Remove(own), os.Mkdir(own, 0o700)); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"layers", "downloads"} {
		from := filepath.Join(filepath.Dir(shared), "cache", name)
		if err := os.MkdirAll(from, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(from, filepath.Join(h.data, "cache", name)); err != nil && !errors.Is(err, fs.ErrExist) {
			t.Fatal(err)
		}
	}
	return h
}

// build builds an image and says how long it took, and of how much processor
// time that was.
func (h *host) build(recipe string) (wall, cpu time.Duration) {
	h.t.Helper()
	if strings.ContainsAny(recipe, "/.") {
		h.ok("trust", "add", recipe)
	}
	cmd := exec.Command(h.binary, "image", "build", recipe)
	cmd.Env = h.environ()
	began := time.Now()
	if out, err := cmd.CombinedOutput(); err != nil {
		h.t.Fatalf("warren image build %s: %v\n%s", recipe, err, out)
	}
	return time.Since(began), cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
}

// uses runs command lines in a VM; each prints its text.
func (h *host) uses(name string, lines [][2]string) {
	h.t.Helper()
	for _, l := range lines {
		begin := time.Now()
		r := h.run("exec", name, "--", "sh", "-c", l[0])
		out := strings.TrimSpace(r.stdout + r.stderr)
		if !strings.Contains(out, l[1]) || l[1] == "" && out != "" {
			h.t.Errorf("%s: %s\nstatus %d, prints %q, want %q in it", name, l[0], r.code, out, l[1])
			continue
		}
		first, _, _ := strings.Cut(out, "\n")
		h.t.Logf("%4.1f s  %-44s %s", time.Since(begin).Seconds(), l[0], first)
	}
}
