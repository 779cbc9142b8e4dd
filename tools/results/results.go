// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

// Package results stores the results of the tests, and the commit that they
// tested, in .work/test-results.json. It does not run or judge tests.
package results

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Name is the path of the results below the root of the repository.
const Name = ".work/test-results.json"

// Source is what was tested: a commit, and whether the work tree differed from
// it. Results of a changed tree count for no commit.
type Source struct {
	Commit string `json:"commit"`
	Dirty  bool   `json:"dirty"`
}

// Run has the results of the last run of the tests.
type Run struct {
	Source
	Tests map[string]Test `json:"tests"` // "package test", the test with its subtests' path
}

// Test is the result of one test.
type Test struct {
	Outcome string  `json:"outcome"` // pass, fail, skip
	Seconds float64 `json:"seconds"`
	Suite   string  `json:"suite"`
}

// Of returns the commit of the repository at root. Untracked files that git
// does not ignore make it dirty, too.
func Of(root string) (Source, error) {
	head, err := git(root, "rev-parse", "HEAD")
	if err != nil {
		return Source{}, err
	}
	changed, err := git(root, "status", "--porcelain")
	if err != nil {
		return Source{}, err
	}
	return Source{Commit: head, Dirty: changed != ""}, nil
}

func git(root string, args ...string) (string, error) {
	out, err := exec.Command("git", append([]string{"-C", root}, args...)...).Output()
	if err != nil {
		return "", fmt.Errorf("git %s: %w", args[0], err)
	}
	return strings.TrimSpace(string(out)), nil
}

// Load reads the results below root. If there are none, it returns an empty run without a commit.
func Load(root string) (Run, error) {
	var r Run
	data, err := os.ReadFile(filepath.Join(root, Name))
	if errors.Is(err, fs.ErrNotExist) {
		return r, nil
	}
	if err == nil {
		err = json.Unmarshal(data, &r)
	}
	return r, err
}

// Save writes r below root. Earlier results stay if they are of the same
// clean commit; all others are dropped.
func Save(root string, r Run) error {
	if old, err := Load(root); err == nil && old.Source == r.Source && !r.Dirty && old.Tests != nil {
		maps.Copy(old.Tests, r.Tests)
		r.Tests = old.Tests
	}
	data, err := json.MarshalIndent(r, "", " ")
	if err != nil {
		return err
	}
	name := filepath.Join(root, Name)
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return err
	}
	return os.WriteFile(name, data, 0o644)
}

// Add records the result of a test. A test that ran twice failed if one run
// failed, and passed if one run passed.
func (r *Run) Add(key string, t Test) {
	weight := map[string]int{"skip": 1, "pass": 2, "fail": 3}
	if r.Tests == nil {
		r.Tests = map[string]Test{}
	}
	if weight[t.Outcome] >= weight[r.Tests[key].Outcome] {
		r.Tests[key] = t
	}
}
