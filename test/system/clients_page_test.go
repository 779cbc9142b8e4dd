//go:build system

// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package system

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// programOf returns the indented block of a page that begins with a line.
func programOf(t *testing.T, page, first string) string {
	t.Helper()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	_, rest, found := strings.Cut(string(text), "\n    "+first)
	if !found {
		t.Fatalf("%s has no program that begins with %q", page, first)
	}
	var b strings.Builder
	for line := range strings.SplitSeq("    "+first+rest, "\n") {
		if line != "" && !strings.HasPrefix(line, "    ") {
			break
		}
		b.WriteString(strings.TrimPrefix(line, "    ") + "\n")
	}
	return b.String()
}

// TestClientsPage: the programs of docs/clients.md run as they are printed, and leave no machine.
func TestClientsPage(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	page := absolute("../../docs/clients.md")
	t.Run("Python", func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "page.py")
		if err := os.WriteFile(file, []byte(programOf(t, page, "import warren\n")), 0o600); err != nil {
			t.Fatal(err)
		}
		python := pythonWith(t, absolute("../../clients/python/tests/requirements.txt"))
		out := h.example(t, []string{"PYTHONPATH=" + absolute("../../clients/python/src")}, python, file)
		wantsText(t, out, "hello\n", "one\ntwo\n")
		if got := strings.Count(out, "out.json\n"); got != 3 {
			t.Errorf("%d copies have the file, want 3:\n%s", got, out)
		}
	})
	t.Run("TypeScript", func(t *testing.T) {
		dir := absolute("../../clients/typescript")
		builds(t, dir)
		page := programOf(t, page, "import { Warren }")
		own := filepath.Join(dir, "dist", "page") // in the package, so that its own name is found
		if err := os.MkdirAll(own, 0o755); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { os.RemoveAll(own) })
		if err := os.WriteFile(filepath.Join(own, "page.mts"), []byte(page), 0o600); err != nil {
			t.Fatal(err)
		}
		tsc := exec.CommandContext(t.Context(), "node_modules/.bin/tsc", "--strict", "--target", "ES2022", "--module", "NodeNext",
			"--lib", "ES2023,ESNext.Disposable,DOM,DOM.Iterable,DOM.AsyncIterable", "dist/page/page.mts")
		tsc.Dir = dir
		if text, err := tsc.CombinedOutput(); err != nil {
			t.Fatalf("the program does not compile: %v\n%s", err, text)
		}
		out := h.example(t, nil, "node", filepath.Join(own, "page.mjs"))
		wantsText(t, out, "hello\n", "one\n", "two\n")
		// The name of a host without a name is its id.
		if got := regexp.MustCompile(`(?m)^[a-z0-9]{20} [a-z0-9]{20}$`).FindAllString(out, -1); len(got) != 2 {
			t.Errorf("%d copies say their names, want 2:\n%s", len(got), out)
		}
	})
	if left := h.ok("ls", "-q"); left != "" {
		t.Errorf("the programs leave the machines %q", left)
	}
}
