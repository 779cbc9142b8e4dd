// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"net/http/cgi"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

const gitSamples = 7

// git measures a clone of a repository of 100 MB beside `git http-backend` alone on the
// same files, and commits of 100 files by the API.
func (b *bench) git(ctx context.Context) error {
	big, err := b.repository(ctx)
	if err != nil {
		return err
	}
	for i := range 10 { // of several commits, since a request has a limit
		if err := b.commit(ctx, big, fmt.Sprintf("part%d/", i), 10, func() []byte {
			data := make([]byte, 1<<20)
			_, _ = rand.Read(data)
			return data
		}); err != nil {
			return err
		}
	}
	path, err := exec.CommandContext(ctx, "git", "--exec-path").Output()
	if err != nil {
		return err
	}
	backend := httptest.NewServer(&cgi.Handler{
		Path: filepath.Join(strings.TrimSpace(string(path)), "git-http-backend"),
		Env:  []string{"GIT_PROJECT_ROOT=" + b.server.dir.Repos(), "GIT_HTTP_EXPORT_ALL=1", "HOME=" + b.dir},
	})
	defer backend.Close()
	ours := b.rep.series("clone of 100 MB", "ms", bound{})
	theirs := b.rep.series("clone of 100 MB, git http-backend alone", "ms", bound{})
	own := strings.Replace(b.server.url, "http://", "http://x-access-token:"+b.server.key+"@", 1)
	for i := range gitSamples + 1 {
		for url, to := range map[string]*series{own + "/" + big: ours, backend.URL + "/" + big: theirs} {
			took, err := b.clone(ctx, url)
			if err != nil {
				return err
			}
			if i > 0 { // the first one reads the files into memory
				to.took(took)
			}
		}
	}
	b.rep.ratio("speed of a clone, of git http-backend's", theirs, ours, bound{Min: 0.8})
	small, err := b.repository(ctx)
	if err != nil {
		return err
	}
	commits := b.rep.series("commit of 100 files by the API", "ms", bound{Max: 60})
	for i := range gitSamples + 1 {
		n := 0
		began := time.Now()
		if err := b.commit(ctx, small, "", 100, func() []byte {
			n++
			return fmt.Appendf(nil, "package x\n\n// %d %d\n", i, n)
		}); err != nil {
			return err
		}
		if i > 0 {
			commits.took(time.Since(began))
		}
	}
	return nil
}

// repository makes a repository and returns its id.
func (b *bench) repository(ctx context.Context) (string, error) {
	var out struct {
		RepoID string `json:"repoId"`
	}
	err := b.server.call(ctx, "POST", "/git/v1/repo", map[string]any{}, &out)
	return out.RepoID, err
}

// commit makes a commit of n files below a directory.
func (b *bench) commit(ctx context.Context, repo, dir string, n int, content func() []byte) error {
	type file struct {
		Path     string `json:"path"`
		Content  string `json:"content"`
		Encoding string `json:"encoding"`
	}
	var files []file
	for i := range n {
		files = append(files, file{fmt.Sprintf("%sdir%d/file%d", dir, i%10, i), base64.StdEncoding.EncodeToString(content()), "base64"})
	}
	return b.server.call(ctx, "POST", "/git/v1/repo/"+repo+"/commits", map[string]any{"message": "files", "files": files}, nil)
}

// clone clones a repository with the host's git, and removes the clone.
func (b *bench) clone(ctx context.Context, url string) (time.Duration, error) {
	dir := filepath.Join(b.dir, "clone")
	cmd := exec.CommandContext(ctx, "git", "clone", "-q", "--bare", url, dir)
	cmd.Env = append(os.Environ(), "HOME="+b.dir, "GIT_CONFIG_NOSYSTEM=1", "GIT_TERMINAL_PROMPT=0")
	began := time.Now()
	out, err := cmd.CombinedOutput()
	took := time.Since(began)
	if err != nil {
		return 0, fmt.Errorf("git clone: %w: %s", err, out)
	}
	return took, os.RemoveAll(dir)
}
