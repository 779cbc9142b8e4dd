//go:build system

// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package system

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/warren-vm/warren/internal/treesync"
)

// synced is the part of `sync --json` that the tests look at.
type synced struct {
	treesync.Report
	Backup string `json:"backup"`
	Ms     int64  `json:"ms"`
}

// syncPair is a directory here and /work/site in a VM.
type syncPair struct {
	*testing.T
	h   *host
	dir string
}

func (p *syncPair) sync(code int, flags ...string) (out synced) {
	p.Helper()
	r := p.h.run(append([]string{"sync", p.dir, "app:/work/site", "--json"}, flags...)...)
	if r.code != code || json.Unmarshal([]byte(r.stdout), &out) != nil {
		p.Fatalf("sync %v ended with status %d, want %d: %s%s", flags, r.code, code, r.stdout, r.stderr)
	}
	return out
}

func (p *syncPair) guest(script string) string {
	p.Helper()
	return strings.TrimSpace(p.h.ok("exec", "app", "--cwd", "/work/site", "--", "sh", "-c", script))
}

func (p *syncPair) write(name, content string) {
	p.Helper()
	at := filepath.Join(p.dir, name)
	if err := errors.Join(os.MkdirAll(filepath.Dir(at), 0o755), os.WriteFile(at, []byte(content), 0o644)); err != nil {
		p.Fatal(err)
	}
}

func (p *syncPair) here(name, want string) {
	p.Helper()
	if b, err := os.ReadFile(filepath.Join(p.dir, name)); err != nil || string(b) != want {
		p.Errorf("%s here holds %q (%v), want %q", name, b, err, want)
	}
}

// within waits until a condition holds.
func (p *syncPair) within(limit time.Duration, what string, holds func() bool) {
	p.Helper()
	for end := time.Now().Add(limit); !holds(); <-time.After(100 * time.Millisecond) {
		if time.Now().After(end) {
			p.Fatalf("after %s: %s", limit, what)
		}
	}
}

// 001-56
// TestSync: a directory here and one of a real VM become alike in both directions;
// a conflict is listed and neither side is touched; 5,000 small files are quick; a
// rollback of the VM overwrites nothing here.
func TestSync(t *testing.T) {
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	p := &syncPair{t, newHost(t, "--s3", "off"), filepath.Join(t.TempDir(), "site")}
	p.h.ok("up", "--name", "app")
	p.write("main.go", "package main\n")
	p.write(".git/config", "not for the VM")
	p.sync(0)
	if got := p.guest("cat main.go; ls -A"); got != "package main\nmain.go" {
		t.Errorf("after the first sync the VM has %q, want main.go alone", got)
	}
	p.guest(`mkdir out; echo report > out/r.txt; ln -s r.txt out/latest; ln -s /etc/passwd outside; mkfifo pipe; printf x > "$(printf 'odd\nname')"; chmod +x main.go`)
	r := p.sync(0)
	p.here("out/r.txt", "report\n")
	p.here("out/latest", "report\n")
	p.here("odd\nname", "x")
	if len(r.LeftOut) != 2 {
		t.Errorf("left out: %v, want the link that leads outside and the pipe", r.LeftOut)
	}
	if st, err := os.Stat(filepath.Join(p.dir, "main.go")); err != nil || st.Mode()&0o100 == 0 {
		t.Errorf("main.go here has mode %v (%v), want it executable as in the VM", st.Mode(), err)
	}
	p.write("main.go", "mine")
	p.write("other", "1")
	p.guest("echo yours > main.go; rm out/r.txt")
	r = p.sync(1)
	if len(r.Conflicts) != 1 || r.Conflicts[0].Path != "main.go" {
		t.Errorf("the conflicts are %v, want main.go", r.Conflicts)
	}
	p.here("main.go", "mine")
	if got := p.guest("cat main.go other"); got != "yours\n1" {
		t.Errorf("the VM has %q, want its own main.go and the other file", got)
	}
	if b, err := os.ReadFile(filepath.Join(r.Backup, "out/r.txt")); string(b) != "report\n" {
		t.Errorf("the backup holds %q (%v), want what was deleted here", b, err)
	}
	p.sync(0, "--prefer", "local")
	if got := p.guest("cat main.go"); got != "mine" {
		t.Errorf("with --prefer local the VM has %q, want the file from here", got)
	}

	p.h.ok("snapshot", "create", "app", "--name", "before")
	p.write("main.go", "newer")
	p.sync(0)
	p.h.ok("rollback", "app", "before")
	if r := p.h.run("sync", p.dir, "app:/work/site"); r.code == 0 || !strings.Contains(r.stderr, "rolled back") || !strings.Contains(r.stderr, "--forget") {
		t.Errorf("after a rollback: %s, want a refusal that names it", r)
	}
	p.here("main.go", "newer")
	p.sync(0, "--forget", "--prefer", "local")
	if got := p.guest("cat main.go"); got != "newer" {
		t.Errorf("with --forget --prefer local the VM has %q, want the newer file from here", got)
	}
	p.many()
}

// many syncs 5,000 small files to the VM and back.
func (p *syncPair) many() {
	p.Helper()
	for i := range 5000 {
		p.write(fmt.Sprintf("many/d%02d/f%d", i%50, i), fmt.Sprintf("%d %s", i, strings.Repeat("x", i%700)))
	}
	up := p.sync(0)
	peer := p.h.run("cp", "-r", filepath.Join(p.dir, "many"), "app:/work/peer")
	p.Logf("5,000 new files to the VM: %d ms; by cp -r, which checks nothing: %d ms", up.Ms, peer.took.Milliseconds())
	again := p.sync(0)
	p.Logf("the same again, nothing to do: %d ms", again.Ms)
	if up.Files < 5000 || len(again.Changes) != 0 {
		p.Errorf("%d files are alike and the next sync makes %d changes, want 5,000 and none", up.Files, len(again.Changes))
	}
	p.guest("for f in many/*/*; do echo y >> $f; done")
	down := p.sync(0)
	p.Logf("5,000 changed files from the VM: %d ms", down.Ms)
	p.here("many/d07/f7", "7 xxxxxxxy\n")
	if cp := peer.took.Milliseconds(); peer.code != 0 || up.Ms > 3*cp+2000 {
		p.Errorf("5,000 files took %d ms, and cp -r %d ms (status %d); want at most three times as long and two seconds", up.Ms, cp, peer.code)
	}
	p.guest("rm -rf many")
	if r := p.h.run("sync", p.dir, "app:/work/site"); r.code == 0 || !strings.Contains(r.stderr, "--allow-deletes") {
		p.Errorf("after rm -rf of 5,000 files in the VM: %s, want a refusal", r)
	}
	p.here("many/d07/f7", "7 xxxxxxxy\n")
}

// TestSyncWatch: with --watch, changes on either side come to the other one; it
// lasts over a suspend, and ends at a rollback with nothing overwritten. A sync
// that is killed in the middle leaves whole files only.
func TestSyncWatch(t *testing.T) {
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	p := &syncPair{t, newHost(t, "--s3", "off"), filepath.Join(t.TempDir(), "site")}
	p.h.ok("up", "--name", "app")
	big := strings.Repeat("0123456789abcdef", 4<<20) // 64 MiB
	p.write("big", big)
	cmd := exec.Command(p.h.binary, "sync", p.dir, "app:/work/site")
	cmd.Env = p.h.environ()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p.within(60*time.Second, "no file appears in the VM", func() bool {
		return p.h.run("exec", "app", "--", "sh", "-c", "ls -A /work/site | grep -q .").code == 0
	})
	if err := errors.Join(cmd.Process.Kill(), ignoreExit(cmd.Wait())); err != nil {
		t.Fatal(err)
	}
	p.within(20*time.Second, "a partial file stays in the VM", func() bool {
		got := p.guest("ls -A; stat -c %s big 2>/dev/null || true")
		return got == "" || got == fmt.Sprintf("big\n%d", len(big))
	})
	p.sync(0)
	if got := p.guest("stat -c %s big"); got != fmt.Sprint(len(big)) {
		t.Errorf("after the next sync the large file has %s bytes in the VM, want %d", got, len(big))
	}

	w := p.watch()
	p.write("a", "1")
	p.within(20*time.Second, "a new file does not come to the VM", func() bool { return p.guest("cat a 2>/dev/null || true") == "1" })
	p.guest("mkdir d && echo 2 > d/b")
	arrives := func(name, want string) func() bool {
		return func() bool { b, err := os.ReadFile(filepath.Join(p.dir, name)); return err == nil && string(b) == want }
	}
	p.within(20*time.Second, "a file of the VM does not come here", arrives("d/b", "2\n"))
	p.h.ok("snapshot", "create", "app", "--name", "before")
	p.h.ok("suspend", "app")
	p.h.ok("start", "app")
	p.guest("echo 3 > after-suspend")
	p.within(30*time.Second, "after a suspend, a file of the VM does not come here", arrives("after-suspend", "3\n"))
	p.write("a", "11")
	p.within(20*time.Second, "a changed file does not come to the VM", func() bool { return p.guest("cat a") == "11" })
	p.h.ok("rollback", "app", "before")
	select {
	case err := <-w.ended:
		var exit *exec.ExitError
		if !errors.As(err, &exit) || !strings.Contains(w.errs.String(), "rolled back") {
			t.Errorf("the watch ended with %v after a rollback, want a refusal that names it: %s", err, w.errs.String())
		}
	case <-time.After(30 * time.Second):
		t.Error("the watch does not end after a rollback")
		w.stop()
	}
	p.here("a", "11")
	p.here("after-suspend", "3\n")
}

func ignoreExit(err error) error {
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return nil
	}
	return err
}

// watching is a running `sync --watch`.
type watching struct {
	cmd   *exec.Cmd
	errs  *strings.Builder
	ended chan error
}

func (w *watching) stop() { _ = w.cmd.Process.Signal(syscall.SIGINT); <-w.ended }

func (p *syncPair) watch() *watching {
	p.Helper()
	w := &watching{cmd: exec.Command(p.h.binary, "sync", p.dir, "app:/work/site", "--watch"), errs: &strings.Builder{}, ended: make(chan error, 1)}
	w.cmd.Env, w.cmd.Stderr, w.cmd.Stdout = p.h.environ(), w.errs, io.Discard
	if err := w.cmd.Start(); err != nil {
		p.Fatal(err)
	}
	go func() { w.ended <- w.cmd.Wait() }()
	p.Cleanup(func() { _ = w.cmd.Process.Kill() })
	return w
}
