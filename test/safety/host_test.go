//go:build system

// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package safety

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/warren-vm/warren/client"
	"github.com/warren-vm/warren/internal/vmtest"
)

// host is a server with real VMs, driven through the binary and its client.
type host struct {
	*testing.T
	binary, data, listen string
	gates                []string
	server               *exec.Cmd
	log                  bytes.Buffer
	forks                int
	plain                string // the first screen of a review of the base, on one line
	c                    *client.Client
}

// answer is how one command of the binary ended.
type answer struct {
	out, errs string
	code      int
}

func env(name, fallback string) string {
	if v := os.Getenv(name); v != "" {
		return v
	}
	return fallback
}

func (h *host) must(what string, err error) {
	h.Helper()
	if err != nil {
		h.Fatalf("%s failed: %v", what, err)
	}
}

func newHost(t *testing.T) *host {
	t.Helper()
	h := &host{T: t}
	port := func() string { return vmtest.FreePort(t) }
	var err error
	h.binary, err = filepath.Abs(env("WARREN_TEST_BINARY", "../../bin/warren"))
	h.must("finding the binary", err)
	images, err := filepath.Abs(env("WARREN_TEST_IMAGES", "../../.work/data/images"))
	h.must("finding the images", err)
	h.data, err = os.MkdirTemp("", "warren-safety-")
	h.must("making the data directory", err)
	t.Cleanup(func() { _ = os.RemoveAll(h.data) })
	h.listen, h.gates = port(), []string{"--ssh", port(), "--preview", port(), "--s3", port()}
	h.ok("config", "show") // makes the data directory
	_ = os.Remove(filepath.Join(h.data, "images"))
	h.must("sharing the images", os.Symlink(images, filepath.Join(h.data, "images")))
	h.serve()
	t.Cleanup(h.close)
	h.c, err = client.FromEnv(func(name string) string {
		return map[string]string{"WARREN_DATA": h.data, "WARREN_API_URL": "http://" + h.listen}[name]
	})
	h.must("connecting", err)
	return h
}

// serve starts the server and waits until it answers.
func (h *host) serve() {
	h.Helper()
	args := []string{"serve", "--listen", h.listen, "--pool", "0"} // no pool: only two machines are created, all others are forks
	h.server = exec.Command(h.binary, append(args, h.gates...)...)
	h.server.Env, h.server.Stdout, h.server.Stderr = h.environ(), &h.log, &h.log
	h.must("starting the server", h.server.Start())
	for end := time.Now().Add(60 * time.Second); h.run("ls").code != 0; <-time.After(100 * time.Millisecond) {
		if time.Now().After(end) {
			h.Fatalf("the server is not ready: %s", h.log.String())
		}
	}
}

func (h *host) close() {
	for _, name := range strings.Fields(h.run("ls", "-q").out) {
		h.run("rm", name)
	}
	_ = h.server.Process.Signal(syscall.SIGTERM)
	_ = h.server.Wait()
	if h.Failed() {
		h.Logf("the server's log:\n%s", h.log.String())
	}
}

func (h *host) environ() []string {
	return append(os.Environ(), "WARREN_DATA="+h.data, "WARREN_API_URL=http://"+h.listen, "WARREN_API_KEY=")
}

// run runs the binary.
func (h *host) run(args ...string) answer { return h.runIn("", args...) }

func (h *host) runIn(stdin string, args ...string) answer {
	h.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, h.binary, args...)
	var out, errs bytes.Buffer
	cmd.Env, cmd.Stdin, cmd.Stdout, cmd.Stderr = h.environ(), strings.NewReader(stdin), &out, &errs
	err := cmd.Run()
	a := answer{out: out.String(), errs: errs.String()}
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		a.code = exit.ExitCode()
	} else if err != nil {
		a.code, a.errs = -1, err.Error()
	}
	return a
}

// ok runs the binary, which must succeed, and returns its output.
func (h *host) ok(args ...string) string {
	h.Helper()
	a := h.run(args...)
	if a.code != 0 {
		h.Fatalf("warren %s ended with status %d: %s", strings.Join(args, " "), a.code, a.errs)
	}
	return a.out
}

// sh runs a script in a VM, in the project.
func (h *host) sh(vm, script string) answer {
	return h.run("exec", vm, "--timeout", "60", "--cwd", "/workspace/app", "--", "sh", "-c", script)
}
