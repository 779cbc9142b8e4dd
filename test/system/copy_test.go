//go:build system

// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package system

import (
	"bufio"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestWorkdir: exec, shell, pty, ssh, scp, sftp, cp, fs and watch-files begin in
// one directory of a VM: its image's, or its spec's.
func TestWorkdir(t *testing.T) {
	t.Parallel()
	s := newOpenSSH(t)
	h := s.h
	h.ok("up", "--name", "box")
	req, err := http.NewRequestWithContext(t.Context(), "POST", "http://"+h.listen+"/v1/vms", strings.NewReader(`{"name":"app","spec":{"workdir":"/work"}}`))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+s.key)
	resp, err := http.DefaultClient.Do(req)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("the download does not begin: %v, %v", resp, err)
	}
	resp.Body.Close()
	for name, want := range map[string]string{"box": "/workspace", "app": "/work"} {
		t.Run(name, func(t *testing.T) { s.begins(t, name, want) })
	}

	// Without its directory a VM says how to get it back, and that works.
	h.ok("fs", "rm", "-r", "app:/work")
	const way = "`warren fs mkdir -p app:/work`"
	h.run("exec", "app", "--", "true").wants(t, 125, way)
	if r := s.run("ssh", "-F", s.config, "app.warren", "true"); r.code == 0 || !strings.Contains(r.stderr, way) {
		t.Errorf("ssh: %s", r)
	}
	h.ok("exec", "app", "--cwd", "/", "--", "true")
	h.ok("fs", "mkdir", "-p", "app:/work")
	h.ok("exec", "app", "--", "true")
}

// begins compares where each way into a VM begins with one directory.
func (s *openssh) begins(t *testing.T, name, want string) {
	h, dir, there := s.h, t.TempDir(), name+".warren"
	h.ok("pty", name, "--session", "work", "-d")
	for what, got := range map[string]string{
		"exec":           h.ok("exec", name, "--", "pwd"),
		"exec as nobody": h.ok("exec", name, "--user", "nobody", "--", "pwd"),
		"shell":          h.runIn("", []byte("pwd\n"), "shell", name).stdout,
		"ssh":            s.must("ssh", "-F", s.config, there, "pwd"),
		"ssh as nobody":  s.must("ssh", "-F", s.config, "nobody@"+there, "pwd"),
		"ssh -t":         s.must("ssh", "-q", "-tt", "-F", s.config, there, "pwd"),
	} {
		if strings.TrimSpace(got) != want {
			t.Errorf("%s begins in %q, not in %s", what, got, want)
		}
	}
	if got := h.ok("pty", "send", name, "work", "--wait", "1", "echo in $(pwd)."); !strings.Contains(got, "in "+want+".") {
		t.Errorf("a terminal begins elsewhere than in %s: %q", want, got)
	}
	batch := filepath.Join(dir, "batch")
	local := filepath.Join(dir, "file")
	if err := errors.Join(os.WriteFile(batch, []byte("pwd\n"), 0o600), os.WriteFile(local, []byte("x"), 0o644)); err != nil {
		t.Fatal(err)
	}
	if got := s.must("sftp", "-q", "-F", s.config, "-b", batch, there); !strings.Contains(got, "directory: "+want+"\n") {
		t.Errorf("sftp begins elsewhere than in %s: %q", want, got)
	}

	// Relative paths lead to the same files.
	s.must("scp", "-q", "-F", s.config, local, there+":by-scp")
	h.ok("cp", local, name+":by-cp")
	h.ok("cp", local, name+":")
	h.ok("fs", "mkdir", name+":by-fs")
	for _, made := range []string{"by-scp", "by-cp", "file", "by-fs"} {
		if r := h.run("exec", name, "--", "test", "-e", want+"/"+made); r.code != 0 {
			t.Errorf("%s is not in %s", made, want)
		}
	}
	h.ok("cp", name+":by-scp", filepath.Join(dir, "back"))
	h.watches(t, name, want+"/by-exec", "sh", "-c", "date >by-exec")
	h.watches(t, name, want+"/by-fs/f", "sh", "-c", "date >by-fs/f", "by-fs", "/etc")
}

// watches starts watch-files on paths, runs a command until a change is seen, and
// wants that to be of a path.
func (h *host) watches(t *testing.T, name, want, program, flag, line string, paths ...string) {
	t.Helper()
	cmd := exec.Command(h.binary, append([]string{"watch-files", name, "--json"}, paths...)...)
	cmd.Env = h.environ()
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	seen := make(chan string, 1)
	go func() { // ends with the command
		defer close(seen)
		var e struct{ Filename string }
		if lines := bufio.NewScanner(out); lines.Scan() && json.Unmarshal(lines.Bytes(), &e) == nil {
			seen <- e.Filename
		}
	}()
	defer func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }()
	// Nothing says when it has begun: changes are made until one is seen.
	for end := time.Now().Add(30 * time.Second); time.Now().Before(end); {
		h.ok("exec", name, "--", program, flag, line)
		select {
		case got := <-seen:
			if got != want {
				t.Errorf("watch-files %q saw %q, want %s", paths, got, want)
			}
			return
		case <-time.After(100 * time.Millisecond):
		}
	}
	t.Errorf("watch-files %q saw nothing", paths)
}

// TestCopyTree: trees are merged both ways, without what leads outside, and
// nothing beside them changes.
func TestCopyTree(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	h.ok("up", "--name", "box")
	dir := t.TempDir()
	h.sh("box", "mkdir -p venv/bin && ln -s /usr/bin/python3 venv/bin/python && ln -s python venv/bin/python3 && echo 1 >venv/cfg && mkfifo venv/pipe && ln -s ../venv/cfg venv/up")
	r := h.runIn(dir, nil, "cp", "-r", "box:venv", ".")
	if r.code != 0 || !strings.Contains(r.stderr, "left out: bin/python, a link that leads outside, to /usr/bin/python3\n") || !strings.Contains(r.stderr, "left out: up, ") {
		t.Errorf("out: %s", r)
	}
	if err := errors.Join(os.WriteFile(dir+"/venv/own", []byte("own"), 0o644), os.Symlink("/etc/hostname", dir+"/venv/host")); err != nil {
		t.Fatal(err)
	}
	h.sh("box", "echo 2 >venv/cfg; echo new >venv/new")
	h.runIn(dir, nil, "cp", "-r", "box:venv", ".").wants(t, 0, "")
	h.runIn(dir, nil, "cp", "-r", "box:venv/.", "venv").wants(t, 0, "")
	got := map[string]string{}
	for _, name := range []string{"cfg", "new", "own"} {
		data, _ := os.ReadFile(dir + "/venv/" + name) // "" where it is missing
		got[name] = string(data)
	}
	if want := map[string]string{"cfg": "2\n", "new": "new\n", "own": "own"}; !maps.Equal(got, want) {
		t.Errorf("merged out: %q", got)
	}
	r = h.runIn(dir, nil, "cp", "-r", "venv", "box:")
	r.wants(t, 0, "")
	if !strings.Contains(r.stderr, "left out: host, a link that leads outside, to /etc/hostname\n") {
		t.Errorf("in: %s", r)
	}
	if got := h.sh("box", "cat venv/own venv/new; readlink venv/bin/python; ls -d venv/venv venv/host 2>&1 | grep -c such"); got != "ownnew\n/usr/bin/python3\n2" {
		t.Errorf("merged in: %q", got)
	}
	left, err := filepath.Glob(dir + "/.warren-*")
	if more, merr := filepath.Glob(dir + "/venv/.warren-*"); errors.Join(err, merr) != nil || len(left)+len(more) > 0 {
		t.Errorf("left: %v %v", left, more)
	}
}

// TestRunOutput: what a run has made is brought back before its VM is thrown
// away, whatever became of the command.
func TestRunOutput(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	for name, tc := range map[string]struct {
		args []string
		code int
		want map[string]string // files here
		says string
	}{
		"succeeded": {
			[]string{"--output", "out", "--output", "/tmp/f:g", "--", "sh", "-c", "mkdir out; pwd >out/at; echo f >/tmp/f"},
			0,
			map[string]string{"out/at": "/workspace\n", "g": "f\n"},
			"",
		},
		"failed": {
			[]string{"--output", "log", "--output", "none", "--", "sh", "-c", "echo why >log; exit 7"},
			7,
			map[string]string{"log": "why\n"},
			"none: --output: the command has left no such file or directory",
		},
		"too slow": {
			[]string{"--timeout", "3", "--output", "log", "--", "sh", "-c", "echo begun >log; sleep 600"},
			124,
			map[string]string{"log": "begun\n"},
			"",
		},
		"missing": {[]string{"--output", "none", "--", "true"}, 125, nil, "none: --output: the command has left no such file or directory"},
	} {
		dir := t.TempDir()
		r := h.runIn(dir, nil, append([]string{"run"}, tc.args...)...)
		if r.code != tc.code || !strings.Contains(r.stderr, tc.says) {
			t.Errorf("%s: want status %d and %q, got %s", name, tc.code, tc.says, r)
		}
		for file, want := range tc.want {
			if got, err := os.ReadFile(filepath.Join(dir, file)); err != nil || string(got) != want {
				t.Errorf("%s: %s is %q, %v", name, file, got, err)
			}
		}
		if l, err := os.ReadDir(dir); err != nil || len(l) != len(tc.want) {
			t.Errorf("%s: here are %v, %v", name, l, err)
		}
	}
	if l := h.list(); len(l) != 0 {
		t.Errorf("left: %+v", l)
	}
}
