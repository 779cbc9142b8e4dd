// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
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
// same files, and commits of 100 files by the API, on a server of its own without VMs.
func (b *bench) git(ctx context.Context) (err error) {
	s, err := startServer(ctx, b.binary, filepath.Join(b.dir, "git"), "", 0)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.stop()) }()
	big, err := s.repository(ctx)
	if err != nil {
		return err
	}
	own := strings.Replace(s.url, "http://", "http://x-access-token:"+s.key+"@", 1)
	if err := b.fill(ctx, own+"/"+big); err != nil {
		return err
	}
	path, err := exec.CommandContext(ctx, "git", "--exec-path").Output()
	if err != nil {
		return err
	}
	backend := httptest.NewServer(&cgi.Handler{
		Path: filepath.Join(strings.TrimSpace(string(path)), "git-http-backend"),
		Env:  []string{"GIT_PROJECT_ROOT=" + s.dir.Repos(), "GIT_HTTP_EXPORT_ALL=1", "HOME=" + b.dir},
	})
	defer backend.Close()
	ours := b.rep.series("clone of 100 MB", "ms", bound{})
	theirs := b.rep.series("clone of 100 MB, git http-backend alone", "ms", bound{})
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
	small, err := s.repository(ctx)
	if err != nil {
		return err
	}
	commits := b.rep.series("commit of 100 files by the API", "ms", bound{Max: 60})
	for i := range gitSamples + 1 {
		n := 0
		began := time.Now()
		if err := s.commit(ctx, small, 100, func() []byte {
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
func (s *server) repository(ctx context.Context) (string, error) {
	var out struct {
		RepoID string `json:"repoId"`
	}
	err := s.call(ctx, "POST", "/git/v1/repo", map[string]any{}, &out)
	return out.RepoID, err
}

// commit makes a commit of n files.
func (s *server) commit(ctx context.Context, repo string, n int, content func() []byte) error {
	type file struct {
		Path     string `json:"path"`
		Content  string `json:"content"`
		Encoding string `json:"encoding"`
	}
	var files []file
	for i := range n {
		files = append(files, file{fmt.Sprintf("dir%d/file%d", i%10, i), base64.StdEncoding.EncodeToString(content()), "base64"})
	}
	return s.call(ctx, "POST", "/git/v1/repo/"+repo+"/commits", map[string]any{"message": "files", "files": files}, nil)
}

// fill pushes 100 files of 1 MiB to an empty repository.
func (b *bench) fill(ctx context.Context, url string) error {
	dir := filepath.Join(b.dir, "filled")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	for i := range 100 {
		data := make([]byte, 1<<20)
		_, _ = rand.Read(data)
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("file%d", i)), data, 0o600); err != nil {
			return err
		}
	}
	for _, args := range [][]string{
		{"init", "-q"}, {"add", "-A"}, {"-c", "user.name=bench", "-c", "user.email=bench@localhost", "commit", "-q", "-m", "files"}, {"push", "-q", url, "HEAD:main"},
	} {
		if err := b.runGit(ctx, dir, args...); err != nil {
			return err
		}
	}
	return os.RemoveAll(dir)
}

// runGit runs the host's git in a directory.
func (b *bench) runGit(ctx context.Context, dir string, args ...string) error {
	cmd := exec.CommandContext(ctx, "git", args...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "HOME="+b.dir, "GIT_CONFIG_NOSYSTEM=1", "GIT_TERMINAL_PROMPT=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("git %s: %w: %s", args[0], err, out)
	}
	return nil
}

// clone clones a repository with the host's git, and removes the clone.
func (b *bench) clone(ctx context.Context, url string) (time.Duration, error) {
	dir := filepath.Join(b.dir, "clone")
	began := time.Now()
	err := b.runGit(ctx, b.dir, "clone", "-q", "--bare", url, dir)
	took := time.Since(began)
	if err != nil {
		return 0, err
	}
	return took, os.RemoveAll(dir)
}
