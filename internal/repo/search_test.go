// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package repo_test

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/warren-vm/warren/internal/repo"
	"github.com/warren-vm/warren/vm"
)

// imported makes a repository with files.
func (r *room) imported(files map[string]string) vm.Repository {
	r.t.Helper()
	rec, err := r.CreateImport(r.t.Context(), r.call, repo.CreateRequest{}, repo.Import{Type: "files", Files: files, Message: "Start"})
	if err != nil {
		r.t.Fatal(err)
	}
	return rec
}

// TestSearchTextBothWays: a plain text, which git grep counts, and the same text as an
// expression, which is searched in Go, give the same answer.
func TestSearchTextBothWays(t *testing.T) {
	r := newRoom(t)
	files := map[string]string{"bin": "needle\x00", "deep/er/a.go": "x\nneedle Needle\ny\nneedles\n", "b.txt": "NEEDLE\r\nno\r\n", "-n": "needle", "new\nline": "needle\n"}
	rec := r.imported(files)
	for _, q := range []repo.SearchQuery{{Query: "needle"}, {Query: "needle", CaseSensitive: true}, {Query: "needle", WholeWord: true}, {Query: "needle", Include: "*.go"}, {Query: "needle", Exclude: "deep/**"}, {Query: "needle", Limit: 1, Offset: 1}, {Query: "-n"}} {
		plain, err := r.SearchText(t.Context(), r.call, rec.ID, q)
		if err != nil {
			t.Fatalf("the search %+v fails: %v", q, err)
		}
		q.Regex = true
		expression, err := r.SearchText(t.Context(), r.call, rec.ID, q)
		if err != nil {
			t.Fatalf("the search %+v fails: %v", q, err)
		}
		if a, b := fmt.Sprintf("%+v", plain.Files), fmt.Sprintf("%+v", expression.Files); plain.TotalFiles != expression.TotalFiles || plain.TotalMatches != expression.TotalMatches || len(a) != len(b) {
			t.Errorf("%+v finds\n%d %d %s\nas an expression and\n%d %d %s\nas a text", q, expression.TotalFiles, expression.TotalMatches, b, plain.TotalFiles, plain.TotalMatches, a)
		}
	}
	got, err := r.SearchText(t.Context(), r.call, rec.ID, repo.SearchQuery{Query: "needle"})
	if err != nil || got.TotalFiles != 4 || got.TotalMatches != 5 {
		t.Errorf("a search finds %d lines in %d files, %v, want 5 in 4: binary files are left out", got.TotalMatches, got.TotalFiles, err)
	}
}

// TestSearchTenThousandFiles: a search in 10,000 files takes no longer than a second, by
// more than what other work on this computer may add.
func TestSearchTenThousandFiles(t *testing.T) {
	r := newRoom(t)
	files := map[string]string{}
	for i := range 10_000 {
		files[fmt.Sprintf("d%d/f%d.go", i%100, i)] = strings.Repeat(fmt.Sprintf("func handle%d() error { return nil }\n", i), 20)
	}
	rec := r.imported(files)
	for _, q := range []repo.SearchQuery{{Query: "handle777("}, {Query: `handle77\d\(`, Regex: true}} {
		took := time.Hour
		for range 3 {
			began := time.Now()
			got, err := r.SearchText(t.Context(), r.call, rec.ID, q)
			if err != nil || got.TotalFiles == 0 {
				t.Fatalf("the search finds %d files, %v", got.TotalFiles, err)
			}
			took = min(took, time.Since(began))
		}
		t.Logf("%q took %s", q.Query, took)
		if took > 5*time.Second {
			t.Errorf("the search for %q took %s", q.Query, took)
		}
	}
}

// TestArchiveIgnoresAttributes: an archive holds what was committed, whatever the
// attributes in the repository ask for.
func TestArchiveIgnoresAttributes(t *testing.T) {
	r := newRoom(t)
	files := map[string]string{".gitattributes": "* export-subst text eol=crlf ident\nsecret export-ignore\n", "a": "$Format:%H$ $Id$\n", "secret": "kept\n", "d/ü": "x"}
	rec := r.imported(files)
	var data bytes.Buffer
	if err := r.Archive(t.Context(), r.call, rec.ID, "", "tar", &data); err != nil {
		t.Fatal(err)
	}
	found := map[string]string{}
	for in := tar.NewReader(&data); ; {
		h, err := in.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatalf("the tar cannot be read: %v", err)
		}
		if h.Typeflag == tar.TypeReg {
			text, _ := io.ReadAll(in)
			found[h.Name] = string(text)
		}
	}
	if fmt.Sprint(found) != fmt.Sprint(files) {
		t.Errorf("the tar holds %q, want %q", found, files)
	}
	data.Reset()
	if err := r.Archive(t.Context(), r.call, rec.ID, "", "zip", &data); err != nil {
		t.Fatal(err)
	}
	z, err := zip.NewReader(bytes.NewReader(data.Bytes()), int64(data.Len()))
	if err != nil || len(z.File) != 5 {
		t.Errorf("the zip has %d entries, %v, want four files and a directory", len(z.File), err)
	}
}
