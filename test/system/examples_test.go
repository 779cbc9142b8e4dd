//go:build system

// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package system

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// example runs a program of examples/ as a user does, and returns what it prints.
func (h *host) example(t testing.TB, env []string, argv ...string) string {
	t.Helper()
	return h.exampleWithin(t, 2*time.Minute, env, argv...)
}

// exampleWithin is example for a program that may take longer.
func (h *host) exampleWithin(t testing.TB, most time.Duration, env []string, argv ...string) string {
	t.Helper()
	ctx, stop := context.WithTimeout(t.Context(), most)
	defer stop()
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Dir, cmd.Env = "../..", append(h.environ(), append(env, "PATH="+filepath.Dir(h.binary)+":"+os.Getenv("PATH"))...)
	var failed bytes.Buffer
	cmd.Stderr = &failed
	began := time.Now()
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v fails: %v\n%s%s", argv, err, out, failed.String())
	}
	t.Logf("%5.1f s  %s", time.Since(began).Seconds(), strings.Join(argv[1:], " "))
	return string(out)
}

// TestExamples runs the examples that only need the base image, and reads what they print.
func TestExamples(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	python := pythonWith(t, absolute("../../clients/python/tests/requirements.txt"))
	client := []string{"PYTHONPATH=" + absolute("../../clients/python/src")}

	t.Run("agent-loop", func(t *testing.T) {
		const want = "sort in place: 1 of 4 tests pass\nsort a copy: 3 of 4 tests pass\nstandard library: 4 of 4 tests pass\nkept: standard library\nnotes: what the agent learned so far\n"
		if got := h.example(t, client, python, "examples/agent-loop/loop.py"); got != want {
			t.Errorf("the loop prints\n%s, want\n%s", got, want)
		}
		text, err := os.ReadFile("../../examples/agent-loop/README.md")
		if err != nil || !strings.Contains(string(text), "    "+strings.ReplaceAll(strings.TrimSpace(want), "\n", "\n    ")) {
			t.Errorf("its README shows another output (%v)", err)
		}
	})
	t.Run("evaluation", func(t *testing.T) {
		got := h.example(t, client, python, "examples/evaluation/evaluate.py")
		var solved []string
		for line := range strings.Lines(got) {
			if name, _, ok := strings.Cut(line, "solved"); ok {
				solved = append(solved, strings.TrimSpace(name))
			}
		}
		if len(solved) != 1 || solved[0] != "buys until it is refused" {
			t.Errorf("the evaluation says that %q solve the task:\n%s", solved, got)
		}
	})
	t.Run("branch-previews", func(t *testing.T) { in(h, t).branchPreviews() })
	t.Run("batch-job", func(t *testing.T) {
		h.ok("bucket", "create", "reports")
		h.runWithin(time.Minute, "", []byte("a\nb\n"), "artifact", "put", "-", "s3://reports/in/letters").wants(t, 0, "")
		if got := h.example(t, nil, "examples/batch-job/job.sh", "reports"); got != "letters: 2 lines\n" {
			t.Errorf("the job prints %q", got)
		}
	})
	if left := h.ok("ls", "-q"); left != "" {
		t.Errorf("the examples leave the machines %q", left)
	}
}

// branchPreviews runs the example on a repository whose branches change.
func (h *host) branchPreviews() {
	h.t.Helper()
	dir := h.t.TempDir()
	git := func(args ...string) {
		h.t.Helper()
		cmd := exec.Command("git", append([]string{"-C", dir, "-c", "user.name=a", "-c", "user.email=a@example.com"}, args...)...)
		if out, err := cmd.CombinedOutput(); err != nil {
			h.t.Fatalf("git %v: %v\n%s", args, err, out)
		}
	}
	page := func(text string) {
		h.t.Helper()
		if err := os.WriteFile(filepath.Join(dir, "index.html"), []byte(text), 0o644); err != nil {
			h.t.Fatalf("no page: %v", err)
		}
		git("add", ".")
		git("commit", "-qm", text)
	}
	git("init", "-qb", "main")
	page("the first")
	git("checkout", "-qb", "feature/red")
	page("red")
	served := func(branch string) string {
		h.t.Helper()
		return h.sh(strings.TrimSpace(h.ok("ls", "-q", "--label", "branch="+branch)), "curl -s localhost:8000")
	}
	if got := h.example(h.t, nil, "examples/branch-previews/preview.sh", dir); strings.Count(got, "?warren-link=") != 2 {
		h.t.Fatalf("two branches have the previews\n%s", got)
	}
	if got := served("feature-red"); got != "red" {
		h.t.Errorf("the machine of the branch serves %q", got)
	}
	git("checkout", "-q", "main")
	git("branch", "-qD", "feature/red")
	page("the second")
	if got := h.example(h.t, nil, "examples/branch-previews/preview.sh", dir); !strings.Contains(got, "feature-red: removed\n") || strings.Count(got, "?warren-link=") != 1 {
		h.t.Errorf("after a change and a deletion it prints\n%s", got)
	}
	if got := served("main"); got != "the second" {
		h.t.Errorf("the changed branch's machine serves %q", got)
	}
	h.ok("rm", "--yes", "-q", strings.TrimSpace(h.ok("ls", "-q")))
}
