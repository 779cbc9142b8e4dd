// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
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
