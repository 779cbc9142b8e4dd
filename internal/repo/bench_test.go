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

// measuring skips a test that only measures, unless it is asked for.
func measuring(t *testing.T) *host {
	t.Helper()
	if os.Getenv("WARREN_FIGURES") == "" {
		t.Skip("it measures for up to a minute; set WARREN_FIGURES=1 to run it")
	}
	return newHost(t)
}

// TestFigureClone measures clones of 100 MB beside those of `git http-backend` alone, in
// turn.
func TestFigureClone(t *testing.T) {
	h := measuring(t)
	owner, key := h.account("ann")
	rec := h.create(owner, repo.CreateRequest{})
	noise := randomness(t)
	files := map[string]string{}
	for i := range 100 {
		data := make([]byte, 1<<20)
		_, _ = io.ReadFull(noise, data)
		files[fmt.Sprintf("dir%d/file%d", i%10, i)] = string(data)
	}
	h.commit(owner, rec, "", "m", files)
	backend := httptest.NewServer(&cgi.Handler{
		Path: filepath.Join(newClient(t).git("--exec-path"), "git-http-backend"),
		Env:  []string{"GIT_PROJECT_ROOT=" + h.site.Dir.Repos(), "GIT_HTTP_EXPORT_ALL=1"},
	})
	t.Cleanup(backend.Close)
	var ours, theirs []time.Duration
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
	t.Logf("clone of 100 MB: %v, git http-backend %v, %.2f of its speed", median(ours), median(theirs), float64(median(theirs))/float64(median(ours)))
}

// TestFigureCommit measures commits of 100 files by the API.
func TestFigureCommit(t *testing.T) {
	h := measuring(t)
	owner, _ := h.account("ann")
	rec := h.create(owner, repo.CreateRequest{})
	var took []time.Duration
	for n := range 8 {
		files := map[string]string{}
		for i := range 100 {
			files[fmt.Sprintf("src/pkg%d/file%d.go", i%10, i)] = fmt.Sprintf("package x\n\n// %d %d\n", n, i)
		}
		begin := time.Now()
		h.commit(owner, rec, "", "m", files)
		if n > 0 {
			took = append(took, time.Since(begin))
		}
	}
	t.Logf("commit of 100 files: %v (%v)", median(took), took)
}

func median(list []time.Duration) time.Duration {
	list = slices.Clone(list)
	slices.Sort(list)
	return list[len(list)/2].Round(100 * time.Microsecond)
}
