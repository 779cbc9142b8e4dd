// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestOneSuiteEach holds each test of test/system to one step of one suite.
func TestOneSuiteEach(t *testing.T) {
	files, err := filepath.Glob("../../test/system/*_test.go")
	if err != nil || len(files) == 0 {
		t.Fatalf("no tests: %v", err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile(`(?m)^func (Test\w+)\(`).FindAllStringSubmatch(string(data), -1) {
			if in := stepsOf(m[1]); len(in) != 1 {
				t.Errorf("%s is run by %d steps: %q", m[1], len(in), in)
			}
		}
	}
}

// stepsOf names the steps that run a test of test/system.
func stepsOf(test string) (names []string) {
	for _, s := range suites() {
		for _, st := range s.steps {
			if !slices.Contains(st.argv, "./test/system/...") {
				continue
			}
			runs := true
			for _, arg := range st.argv {
				if only, ok := strings.CutPrefix(arg, "-run="); ok {
					runs = runs && regexp.MustCompile(only).MatchString(test)
				}
				if not, ok := strings.CutPrefix(arg, "-skip="); ok {
					runs = runs && !regexp.MustCompile(not).MatchString(test)
				}
			}
			if runs {
				names = append(names, s.name+": "+st.name)
			}
		}
	}
	return names
}

// A step that waits lets others run from where its test pauses, and counts at its
// end.
func TestBeside(t *testing.T) {
	fifo := filepath.Join(t.TempDir(), "go-on")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	r := &runner{out: &out}
	end := r.beside(t.Context(), suite{name: "s"}, step{name: "waits", gotest: true, argv: []string{"sh", "-c", `
		echo '{"Action":"pause","Package":"p","Test":"TestX"}'
		read -r line <"$0"
		echo '{"Action":"fail","Package":"p","Test":"TestX"}'`, fifo}})
	if r.failed != 0 || !strings.Contains(out.String(), "the next steps run meanwhile") {
		t.Errorf("while it waits: %d failed, printed %q", r.failed, out.String())
	}
	if err := os.WriteFile(fifo, []byte("\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	end()
	if r.failed != 1 || r.results.Tests["p TestX"].Outcome != "fail" {
		t.Errorf("at its end: %d failed, results %+v", r.failed, r.results.Tests)
	}
	end = r.beside(t.Context(), suite{name: "s"}, step{name: "ends", gotest: true, argv: []string{"true"}})
	if end(); r.failed != 1 {
		t.Errorf("one that never pauses: %d failed", r.failed)
	}
}

// A test that its package's time-out ends has no result; what it printed is shown with the package.
func TestUnended(t *testing.T) {
	var out bytes.Buffer
	r := &runner{out: &out}
	r.read(suite{name: "s"}, strings.NewReader(`{"Action":"output","Package":"p","Test":"TestHangs","Output":"goroutine 7\n"}
{"Action":"output","Package":"q","Test":"TestOther","Output":"of another package\n"}
{"Action":"fail","Package":"p"}
`))
	if got := out.String(); !strings.HasSuffix(got, "goroutine 7\n") {
		t.Errorf("the failed package prints %q, want what its test printed", got)
	}
}

// TestSaid: the end of a run repeats what a failed test said, and not what the programs it ran printed.
func TestSaid(t *testing.T) {
	r := &runner{out: &bytes.Buffer{}}
	r.read(suite{name: "s"}, strings.NewReader(`{"Action":"output","Package":"p","Test":"TestX","Output":"=== RUN   TestX\n"}
{"Action":"output","Package":"p","Test":"TestX","Output":"    x_test.go:7: it says no\n"}
{"Action":"output","Package":"p","Test":"TestX","Output":"        a line of a log\n"}
{"Action":"fail","Package":"p","Test":"TestX"}`))
	if want := []string{"p TestX", "    x_test.go:7: it says no"}; !slices.Equal(r.failures, want) {
		t.Errorf("repeated: %q, want %q", r.failures, want)
	}
}

// TestSaidLast: of a test that logs much, the end of a run repeats what it said first and last.
func TestSaidLast(t *testing.T) {
	var output []string
	for i := range 9 {
		output = append(output, fmt.Sprintf("    x_test.go:7: line %d\n", i))
	}
	want := []string{"    x_test.go:7: line 0", "    x_test.go:7: line 1", "    x_test.go:7: line 2", "    (3 lines left out)", "    x_test.go:7: line 6", "    x_test.go:7: line 7", "    x_test.go:7: line 8"}
	if got := said(output); !slices.Equal(got, want) {
		t.Errorf("repeated: %q, want %q", got, want)
	}
}

// The suites that run in pairs are the last.
func TestPairsLast(t *testing.T) {
	pairs := false
	for _, s := range suites() {
		if pairs && !s.pairs {
			t.Errorf("%s follows suites that run in pairs", s.name)
		}
		pairs = s.pairs
	}
}

// Two suites run at the same time, and a third one when one of them has ended. All are printed and counted.
func TestTwo(t *testing.T) {
	fifo := filepath.Join(t.TempDir(), "other")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	meet := func(name, script string) suite { // each end of a pipe waits for the other one
		return suite{name: name, budget: time.Minute, steps: []step{{name: "meets", argv: []string{"sh", "-c", script, fifo}}}}
	}
	var out bytes.Buffer
	r := &runner{out: &out}
	r.two(t.Context(), []suite{meet("reader", `read -r line <"$0"`), meet("writer", `echo x >"$0"`), meet("third", "false")})
	if r.passed != 2 || r.failed != 1 {
		t.Errorf("%d passed, %d failed, printed %q", r.passed, r.failed, out.String())
	}
	if len(r.lines) != 3 {
		t.Errorf("lines %q", r.lines)
	}
}
