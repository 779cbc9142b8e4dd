// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package reader_test

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"testing"

	"github.com/warren-vm/warren/internal/review"
	"github.com/warren-vm/warren/vm"
)

// TestProject: the confined program sends the files of a directory that git would track,
// and its refusals keep their kinds.
func TestProject(t *testing.T) {
	r := newReader(t)
	_, layers := disks(t, map[string]string{
		"work/app.go": "package main\n", "work/.gitignore": "*.log\n", "work/a.log": "x", "work/.git/HEAD": "ref: refs/heads/main\n",
		"two/a/.git/HEAD": "x", "two/b/.git/HEAD": "x",
	}, "cd /work", "rm a.log")
	var out bytes.Buffer
	if err := r.Project(t.Context(), layers, review.ProjectOptions{Root: "/work", Find: true}, &out); err != nil {
		t.Fatalf("a project cannot be read: %v", err)
	}
	var names []string
	var sum vm.ProjectSummary
	for tr := tar.NewReader(&out); ; {
		h, err := tr.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if names = append(names, h.Name); h.Name == review.ProjectSummary {
			if err := json.NewDecoder(tr).Decode(&sum); err != nil {
				t.Fatal(err)
			}
		}
	}
	if !slices.Equal(names, []string{".gitignore", "app.go", review.ProjectSummary}) {
		t.Errorf("the project has %q, want the two files and the summary", names)
	}
	if !sum.Repo || sum.Branch != "main" {
		t.Errorf("the summary is %+v, want the repository's branch", sum)
	}
	err := r.Project(t.Context(), layers, review.ProjectOptions{Root: "/two", Find: true}, io.Discard)
	if vm.KindOf(err) != vm.Invalid || vm.AsError(err).Hint == "" {
		t.Errorf("a directory with two repositories gives %v, want kind %s with a hint", err, vm.Invalid)
	}
	err = r.Project(t.Context(), layers, review.ProjectOptions{Root: "/missing"}, io.Discard)
	if vm.KindOf(err) != vm.NotFound {
		t.Errorf("a missing directory gives %v, want kind %s", err, vm.NotFound)
	}
}

// BenchmarkProject reads a project of 1,000 files.
func BenchmarkProject(b *testing.B) {
	files := map[string]string{}
	for i := range 1000 {
		files[fmt.Sprintf("work/d%d/f%d.txt", i%20, i)] = fmt.Sprintf("file %d with some text\n", i)
	}
	_, layers := disks(b, files)
	r := newReader(b)
	for b.Loop() {
		if err := r.Project(b.Context(), layers, review.ProjectOptions{Root: "/work"}, io.Discard); err != nil {
			b.Fatal(err)
		}
	}
}
