// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package results

import (
	"os"
	"path/filepath"
	"testing"
)

// TestSave: earlier results stay only if they are of the same commit.
func TestSave(t *testing.T) {
	root := t.TempDir()
	save := func(commit string, dirty bool, key string) Run {
		t.Helper()
		r := Run{Source: Source{Commit: commit, Dirty: dirty}}
		r.Add(key, Test{Outcome: "pass"})
		if err := Save(root, r); err != nil {
			t.Fatal(err)
		}
		r, err := Load(root)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	if r, err := Load(root); err != nil || r.Commit != "" || len(r.Tests) != 0 {
		t.Errorf("before any run: %+v, %v", r, err)
	}
	for i, c := range []struct {
		commit string
		dirty  bool
		want   int
	}{{"a", false, 1}, {"a", false, 2}, {"b", false, 1}, {"b", true, 1}, {"b", true, 1}, {"b", false, 1}} {
		if r := save(c.commit, c.dirty, string(rune('p'+i))); len(r.Tests) != c.want || r.Commit != c.commit || r.Dirty != c.dirty {
			t.Errorf("run %d: %+v, want %d results", i, r, c.want)
		}
	}
	// Results of an older program have no commit.
	if err := os.WriteFile(filepath.Join(root, Name), []byte(`{"m/a TestA":{"outcome":"pass"}}`), 0o644); err != nil {
		t.Fatal(err)
	}
	if r, err := Load(root); err != nil || r.Commit != "" || len(r.Tests) != 0 {
		t.Errorf("of an older program: %+v, %v", r, err)
	}
}

// TestAdd: for a test that ran twice the worse result counts, except for a skip.
func TestAdd(t *testing.T) {
	for _, c := range []struct{ first, second, want string }{
		{"pass", "fail", "fail"}, {"fail", "pass", "fail"}, {"pass", "skip", "pass"}, {"skip", "pass", "pass"}, {"skip", "fail", "fail"},
	} {
		var r Run
		r.Add("k", Test{Outcome: c.first})
		r.Add("k", Test{Outcome: c.second})
		if got := r.Tests["k"].Outcome; got != c.want {
			t.Errorf("%s, then %s: %s", c.first, c.second, got)
		}
	}
}
