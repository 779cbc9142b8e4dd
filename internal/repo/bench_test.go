// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package repo_test

import (
	"fmt"
	"io"
	"net/http/cgi"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/warren-vm/warren/internal/repo"
)

// TestFigures measures a clone of 100 MB beside `git http-backend` alone, and commits of
// 100 files by the API, seven times each and in turn. Set WARREN_FIGURES to run it.
func TestFigures(t *testing.T) {
	if os.Getenv("WARREN_FIGURES") == "" {
		t.Skip("it measures for about a minute; set WARREN_FIGURES=1 to run it")
	}
	h := newHost(t)
	owner, key := h.account("ann")
	rec := h.create(owner, repo.CreateRequest{})
	noise := randomness(t)
	for range 10 {
		files := map[string]string{}
		for i := range 100 {
			data := make([]byte, 100<<10)
			_, _ = io.ReadFull(noise, data)
			files[fmt.Sprintf("dir%d/file%d", i%10, i)] = string(data)
		}
		h.commit(owner, rec, "", "m", files)
	}
	backend := httptest.NewServer(&cgi.Handler{
		Path: filepath.Join(gitDir(t), "git-http-backend"),
		Env:  []string{"GIT_PROJECT_ROOT=" + h.site.Dir.Repos(), "GIT_HTTP_EXPORT_ALL=1"},
	})
	t.Cleanup(backend.Close)
	var ours, theirs, commits []time.Duration
	clone := func(url string) time.Duration {
		dir := t.TempDir()
		begin := time.Now()
		(&client{t, dir}).git("clone", "-q", "--bare", url, "x")
		took := time.Since(begin)
		_ = os.RemoveAll(dir)
		return took
	}
	for range 7 {
		ours = append(ours, clone(h.remote(rec, key)))
		theirs = append(theirs, clone(backend.URL+"/"+rec.ID))
	}
	many := h.create(owner, repo.CreateRequest{})
	for n := range 8 {
		files := map[string]string{}
		for i := range 100 {
			files[fmt.Sprintf("src/pkg%d/file%d.go", i%10, i)] = fmt.Sprintf("package x\n\n// %d %d\n", n, i)
		}
		begin := time.Now()
		h.commit(owner, many, "", "m", files)
		if n > 0 {
			commits = append(commits, time.Since(begin))
		}
	}
	size, _ := h.room.Get(t.Context(), owner, rec.ID)
	t.Logf("clone of %d MB: %v, git http-backend %v, %.2f of its speed", size.Bytes/1e6, median(ours), median(theirs), float64(median(theirs))/float64(median(ours)))
	t.Logf("commit of 100 files: %v (%v)", median(commits), commits)
}

func median(list []time.Duration) time.Duration {
	list = slices.Clone(list)
	slices.Sort(list)
	return list[len(list)/2].Round(100 * time.Microsecond)
}

func gitDir(t *testing.T) string {
	t.Helper()
	return newClient(t).git("--exec-path")
}
