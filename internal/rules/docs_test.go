// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// page is a page of the repository as one line of text.
func page(t *testing.T, name string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(root(t), name))
	if err != nil {
		t.Fatal(err)
	}
	return strings.Join(strings.Fields(string(data)), " ")
}

// section is the part of a page below one heading.
func section(t *testing.T, name, heading string) string {
	t.Helper()
	_, rest, found := strings.Cut(page(t, name), "## "+heading+" ")
	if !found {
		t.Fatalf("%s has no section %q", name, heading)
	}
	text, _, _ := strings.Cut(rest, " ## ")
	return text
}

// says wants words in a text, in this order.
func says(t *testing.T, where, text string, words ...string) {
	t.Helper()
	for _, w := range words {
		_, rest, found := strings.Cut(text, w)
		if !found {
			t.Errorf("%s does not say %q where it should", where, w)
			return
		}
		text = rest
	}
}

// TestVolumesAreFiles wants the page of volumes to say that a volume alone
// brings no terminal and no process back, and what does.
//
// 000-22
func TestVolumesAreFiles(t *testing.T) {
	says(t, "docs/volumes.md", page(t, "docs/volumes.md"), "holds files and nothing else: no process, no memory, no terminal; those are a snapshot's.")
}

// TestSmallestFirst wants the copy of one file to be what the README and the
// page of volumes name first, before a volume, and that before a snapshot.
//
// 003-02
func TestSmallestFirst(t *testing.T) {
	says(t, "README.md", section(t, "README.md", "One shot or workspace?"), "Copying one file in or out (`warren cp`) is the smallest mechanism: reach for it first.")
	says(t, "docs/volumes.md", page(t, "docs/volumes.md"), "Take the smallest thing that does: to bring one file in or out, `warren cp`;", "a volume;", "a snapshot.")
}

// TestNamedTestsExist wants every test that a page names to exist: the page of
// threats claims only what these tests hold.
func TestNamedTestsExist(t *testing.T) {
	tests := map[string]bool{}
	declared := regexp.MustCompile(`(?m)^func (Test\w+)\(`)
	walk(t, func(name string) bool { return strings.HasSuffix(name, "_test.go") }, func(_ string, data []byte) {
		for _, m := range declared.FindAllStringSubmatch(string(data), -1) {
			tests[m[1]] = true
		}
	})
	named := regexp.MustCompile("`(Test[A-Z]\\w*)`")
	walk(t, func(name string) bool { return strings.HasSuffix(name, ".md") }, func(name string, data []byte) {
		for _, m := range named.FindAllStringSubmatch(string(data), -1) {
			if !tests[m[1]] {
				t.Errorf("%s names %s, which no file declares", name, m[1])
			}
		}
	})
}

// TestAgentPagesShowTheirPrograms wants each page about agents of a framework to show the program
// that the tests run: all of it, below the two lines of its licence.
func TestAgentPagesShowTheirPrograms(t *testing.T) {
	programs := 0
	walk(t, func(name string) bool {
		return strings.HasPrefix(name, "examples/frameworks/") && (strings.HasSuffix(name, ".py") || strings.HasSuffix(name, ".mjs"))
	}, func(name string, data []byte) {
		programs++
		lines := strings.Split(strings.TrimSpace(string(data)), "\n")[2:]
		for i, line := range lines {
			lines[i] = strings.TrimRight("    "+line, " ")
		}
		shown := "docs/agents/" + filepath.Base(filepath.Dir(name)) + ".md"
		text, err := os.ReadFile(filepath.Join(root(t), shown))
		if err != nil || !strings.Contains(string(text), strings.Join(lines, "\n")+"\n") {
			t.Errorf("%s does not show %s as it is: %v", shown, name, err)
		}
		if n := strings.Count(string(text), "\n"); n > 80 {
			t.Errorf("%s has %d lines, want at most 80", shown, n)
		}
	})
	if programs < 5 {
		t.Errorf("there are %d programs of frameworks, want at least 5", programs)
	}
}
