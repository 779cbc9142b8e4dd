//go:build system

// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package system

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/warren-vm/warren/internal/vmtest"
)

// host is one data directory with a server on it, driven through the binary.
type host struct {
	t      testing.TB
	binary string
	data   string
	listen string
	gates  []string // free addresses of the SSH gateway and of previews; with them the rest is as by default
	server *exec.Cmd
	ended  chan error
	log    *bytes.Buffer
}

// result is how one command of the binary ended.
type result struct {
	args           []string
	stdout, stderr string
	code           int
	took           time.Duration
}

func env(name, fallback string) string {
	if v := os.Getenv(name); v != "" {
		return v
	}
	return fallback
}

// newHost makes a fresh data directory that shares the tests' images and
// starts a server on it with its defaults, the warm pool included, but for the
// addresses that it listens on. At the end of the test nothing of it may be left.
func newHost(t testing.TB, serveArgs ...string) *host {
	t.Helper()
	h := unstarted(t)
	h.serve(serveArgs...)
	t.Cleanup(h.close)
	return h
}

// unstarted is newHost without a server.
func unstarted(t testing.TB) *host {
	t.Helper()
	return unstartedIn(t, "")
}

// unstartedIn is unstarted with its data below a directory; "" = the system's
// for temporary files.
func unstartedIn(t testing.TB, within string) *host {
	t.Helper()
	binary, err := filepath.Abs(env("WARREN_TEST_BINARY", "../../bin/warren"))
	if err != nil {
		t.Fatal(err)
	}
	images, err := filepath.Abs(env("WARREN_TEST_IMAGES", "../../.work/data/images"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(images); err != nil {
		t.Fatalf("no test image: run scripts/test-image.sh (%v)", err)
	}
	data, err := os.MkdirTemp(within, "warren-system-")
	if err != nil {
		t.Fatal(err)
	}
	h := &host{t: t, binary: binary, data: data, listen: vmtest.FreePort(t), gates: []string{"--ssh", vmtest.FreePort(t), "--preview", vmtest.FreePort(t), "--s3", vmtest.FreePort(t)}}
	t.Cleanup(func() { os.RemoveAll(h.data) })
	h.shareImages(images)
	return h
}

// shareImages lets the data directory use the tests' images.
func (h *host) shareImages(images string) {
	h.t.Helper()
	h.ok("config", "show") // makes the data directory
	own := filepath.Join(h.data, "images")
	if err := os.Remove(own); err != nil && !errors.Is(err, os.ErrNotExist) {
		h.t.Fatal(err)
	}
	if err := os.Symlink(images, own); err != nil {
		h.t.Fatal(err)
	}
}

func (h *host) environ() []string {
	return append(os.Environ(), "WARREN_DATA="+h.data, "WARREN_API_URL=http://"+h.listen, "WARREN_API_KEY=")
}

// serveArgs is the command line of a server with its defaults, on free addresses.
func (h *host) serveArgs(args ...string) []string {
	return slices.Concat([]string{"serve", "--listen", h.listen}, h.gates, args)
}

// serve starts the server and waits until it is ready.
func (h *host) serve(args ...string) {
	h.t.Helper()
	cmd := exec.Command(h.binary, h.serveArgs(args...)...)
	cmd.Env = h.environ()
	h.log = &bytes.Buffer{}
	cmd.Stdout, cmd.Stderr = h.log, h.log
	if err := cmd.Start(); err != nil {
		h.t.Fatal(err)
	}
	h.server, h.ended = cmd, make(chan error, 1)
	go func() { h.ended <- cmd.Wait() }()
	deadline := time.Now().Add(60 * time.Second)
	for {
		if r := h.run("ls"); r.code == 0 {
			return
		}
		select {
		case err := <-h.ended:
			h.t.Fatalf("serve ended: %v\n%s", err, h.log)
		case <-time.After(50 * time.Millisecond):
		}
		if time.Now().After(deadline) {
			h.t.Fatalf("serve is not ready\n%s", h.log)
		}
	}
}

// killServer ends the server as a crash would and waits for it.
func (h *host) killServer() {
	h.t.Helper()
	if err := h.server.Process.Kill(); err != nil {
		h.t.Fatal(err)
	}
	<-h.ended
}

// stopServer ends the server as its service manager would and waits for it.
func (h *host) stopServer() {
	h.t.Helper()
	if err := h.server.Process.Signal(syscall.SIGTERM); err != nil {
		h.t.Error(err)
	}
	select {
	case <-h.ended:
	case <-time.After(20 * time.Second):
		h.t.Errorf("serve does not end on SIGTERM")
		h.killServer()
	}
}

// close removes every VM, stops the server and looks for what is left.
func (h *host) close() {
	h.t.Helper()
	for _, v := range h.list() {
		if r := h.run("rm", "-q", v.ID); r.code != 0 { // nobody reads what is lost with it
			h.t.Errorf("rm %s: %s", v.ID, r.stderr)
		}
	}
	h.stopServer()
	if h.t.Failed() {
		h.t.Logf("server log:\n%s", h.log)
	}
	h.checkLeaks()
}

// checkLeaks wants no process that mentions the data directory, no socket
// directory and no VM directory.
func (h *host) checkLeaks() {
	h.t.Helper()
	deadline := time.Now().Add(5 * time.Second)
	left := h.processes()
	for len(left) > 0 && time.Now().Before(deadline) {
		<-time.After(50 * time.Millisecond)
		left = h.processes()
	}
	for pid, cmd := range left {
		h.t.Errorf("process %d is left: %s", pid, cmd)
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
	if dirs, err := os.ReadDir(filepath.Join(h.data, "vms")); err == nil && len(dirs) > 0 {
		h.t.Errorf("%d VM directories are left, e.g. %s", len(dirs), dirs[0].Name())
	}
}

// processes lists processes of this data directory other than the server.
func (h *host) processes() map[int]string {
	out := map[int]string{}
	procs, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		h.t.Fatal(err)
	}
	for _, p := range procs {
		data, err := os.ReadFile(p)
		if err != nil || !bytes.Contains(data, []byte(h.data)) {
			continue
		}
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(p)))
		if err != nil {
			continue
		}
		out[pid] = strings.ReplaceAll(string(data), "\x00", " ")
	}
	return out
}

// run runs the binary; its exit status is part of the result.
func (h *host) run(args ...string) result { return h.runIn("", nil, args...) }

func (h *host) runIn(dir string, stdin []byte, args ...string) result {
	h.t.Helper()
	return h.runWithin(3*time.Minute, dir, stdin, args...)
}

// runWithin is runIn for a command that may take longer than others.
func (h *host) runWithin(most time.Duration, dir string, stdin []byte, args ...string) result {
	h.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), most)
	defer cancel()
	cmd := exec.CommandContext(ctx, h.binary, args...)
	cmd.Env = h.environ()
	cmd.Dir = dir
	if stdin != nil {
		cmd.Stdin = bytes.NewReader(stdin)
	}
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	start := time.Now()
	err := cmd.Run()
	r := result{args: args, stdout: out.String(), stderr: errs.String(), took: time.Since(start)}
	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit):
		r.code = exit.ExitCode()
	case err != nil:
		h.t.Fatalf("%v did not run: %v", args, err)
	}
	return r
}

// ok runs the binary and fails the test unless it succeeds; it returns stdout.
func (h *host) ok(args ...string) string {
	h.t.Helper()
	r := h.run(args...)
	if r.code != 0 {
		h.t.Fatalf("warren %s: status %d\n%s%s", strings.Join(args, " "), r.code, r.stdout, r.stderr)
	}
	return r.stdout
}

// sh runs a shell line in the guest and returns its output, trimmed.
func (h *host) sh(name, line string) string {
	h.t.Helper()
	return strings.TrimSpace(h.ok("exec", name, "--", "sh", "-c", line))
}

// listed is the part of `ls --json` that tests look at.
type listed struct {
	ID      string `json:"id"`
	Name    string `json:"name"`
	State   string `json:"state"`
	Network string `json:"network"`
	// Generation is what it sleeps on, or what its machine was started on.
	Generation string `json:"generationId"`
}

func (h *host) list() []listed {
	h.t.Helper()
	var out []listed
	r := h.run("ls", "--json")
	if r.code != 0 {
		h.t.Errorf("ls: %s", r.stderr)
		return nil
	}
	if err := json.Unmarshal([]byte(r.stdout), &out); err != nil {
		h.t.Errorf("ls --json: %v\n%s", err, r.stdout)
	}
	return out
}

// find returns the listed VM of that name.
func (h *host) find(name string) listed {
	h.t.Helper()
	for _, v := range h.list() {
		if v.Name == name {
			return v
		}
	}
	h.t.Fatalf("%s is not listed", name)
	return listed{}
}

// livePid finds a VM's process, "qemu" or "monitor"; 0 = there is none.
func (h *host) livePid(id, program string) int {
	h.t.Helper()
	word := map[string]string{"qemu": "qemu-system", "monitor": "warren-monitor"}[program]
	if word == "" {
		h.t.Fatalf("no program %q", program)
	}
	for pid, cmd := range h.processes() {
		if strings.Contains(cmd, id) && strings.Contains(cmd, word) {
			return pid
		}
	}
	return 0
}

// pidOf is livePid for a process that must be there.
func (h *host) pidOf(id, program string) int {
	h.t.Helper()
	pid := h.livePid(id, program)
	if pid == 0 {
		h.t.Fatalf("no %s process of %s", program, id)
	}
	return pid
}

// eventually waits until cond holds; execs in an emulated guest take their time.
func (h *host) eventually(what string, cond func() bool) {
	h.t.Helper()
	for deadline := time.Now().Add(60 * time.Second); !cond(); <-time.After(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			h.t.Fatalf("not within a minute: %s", what)
		}
	}
}

func (r result) String() string {
	return fmt.Sprintf("warren %s: status %d\nstdout: %s\nstderr: %s", strings.Join(r.args, " "), r.code, r.stdout, r.stderr)
}

// wants fails unless the command ended with code and its stderr has the text.
func (r result) wants(t testing.TB, code int, text string) {
	t.Helper()
	if r.code != code || !strings.Contains(strings.ToLower(r.stderr), strings.ToLower(text)) {
		t.Errorf("want status %d and %q in stderr, got %s", code, text, r)
	}
}
