// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"net/url"
	"os/exec"
	"strings"
	"time"
)

const searchedFiles = 10_000

// gitSearch measures searches in a repository of 10,000 files, 56 MB, by the API, beside
// `git grep` alone.
func (b *bench) gitSearch(ctx context.Context) error {
	files := map[string]string{}
	for i := range searchedFiles {
		var text strings.Builder
		for line := range 120 {
			fmt.Fprintf(&text, "func handle%d(request string) error { return %d }\n", i, line)
		}
		files[fmt.Sprintf("dir%d/file%d.go", i%100, i)] = text.String()
	}
	var made struct {
		RepoID string `json:"repoId"`
	}
	err := b.server.call(ctx, "POST", "/git/v1/repo", map[string]any{"import": map[string]any{"type": "files", "files": files, "commitMessage": "files"}}, &made)
	if err != nil {
		return err
	}
	for _, c := range []struct {
		what  string
		query url.Values
	}{
		{"search for a text in 10,000 files", url.Values{"query": {"handle7777("}}},
		{"search for an expression in 10,000 files", url.Values{"query": {`handle777\d\(`}, "isRegex": {"true"}}},
	} {
		took := b.rep.series(c.what, "ms", bound{Max: 1000})
		for i := range gitSamples + 1 {
			var out struct {
				TotalFiles int `json:"totalFiles"`
			}
			began := time.Now()
			if err := b.server.call(ctx, "GET", "/git/v1/repo/"+made.RepoID+"/search?"+c.query.Encode(), nil, &out); err != nil {
				return err
			}
			if i > 0 { // the first one reads the files into memory
				took.took(time.Since(began))
			}
			if out.TotalFiles == 0 {
				return fmt.Errorf("%s found nothing", c.what)
			}
		}
	}
	alone := b.rep.series("git grep in 10,000 files, alone", "ms", bound{})
	for range gitSamples {
		began := time.Now()
		cmd := exec.CommandContext(ctx, "git", "--git-dir="+b.server.dir.Repo(made.RepoID), "grep", "-F", "-i", "-c", "handle7777(", "main")
		if err := cmd.Run(); err != nil {
			return fmt.Errorf("git grep: %w", err)
		}
		alone.took(time.Since(began))
	}
	return nil
}
