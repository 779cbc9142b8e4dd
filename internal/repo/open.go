// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package repo

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/warren-vm/warren/internal/layout"
	"github.com/warren-vm/warren/vm"
)

// removedPrefix begins the name of a removed repository in the directory of incoming
// objects, until its files are deleted.
const removedPrefix = "removed-"

// Open reconciles the files with the records and starts the maintenance task. Call Close
// once.
func (r *Repo) Open(ctx context.Context) error {
	if path, err := exec.LookPath("git"); err == nil {
		r.git = path
	} else {
		r.cfg.Log.Warn("git is not installed: repositories cannot be used", "fix", "apt install git")
	}
	if err := r.reconcile(); err != nil {
		return vm.WithOp(vm.OpServe, "repositories", err)
	}
	life, end := context.WithCancel(context.WithoutCancel(ctx))
	r.mu.Lock()
	r.life, r.end = life, end
	r.mu.Unlock()
	r.tasks.Add(1)
	go r.maintain(life) // ends with Close
	r.hooks.start(life)
	return nil
}

// Close ends the room's tasks and git processes and waits for them until ctx ends.
func (r *Repo) Close(ctx context.Context) error {
	r.mu.Lock()
	if r.life == nil {
		r.mu.Unlock()
		return nil
	}
	r.end()
	idle := r.cats
	r.cats = map[string][]*cat{}
	r.mu.Unlock()
	for _, list := range idle {
		for _, one := range list {
			one.close()
		}
	}
	done := make(chan struct{})
	go func() { // ends with the tasks
		r.tasks.Wait()
		close(done)
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return vm.WithOp(vm.OpServe, "", vm.Errorf(vm.Timeout, "", "git processes did not end: %w", context.Cause(ctx)))
	}
}

// reconcile makes files and records agree: it finishes or undoes removals, deletes
// objects that never joined a repository, moves directories without a record aside, and
// repairs the files that Warren writes.
func (r *Repo) reconcile() error {
	for _, dir := range []string{r.cfg.Dir.Repos(), r.cfg.Dir.RepoIncoming()} {
		if err := layout.MakeDir(dir); err != nil {
			return err
		}
	}
	left, err := os.ReadDir(r.cfg.Dir.RepoIncoming())
	if err != nil {
		return layout.Error(r.cfg.Dir.RepoIncoming(), err)
	}
	for _, e := range left {
		path := filepath.Join(r.cfg.Dir.RepoIncoming(), e.Name())
		if id, removed := strings.CutPrefix(e.Name(), removedPrefix); removed {
			if _, there := r.table.Get(id); there { // the server ended before its record was dropped
				if err := os.Rename(path, r.cfg.Dir.Repo(id)); err != nil {
					return layout.Error(path, err)
				}
				continue
			}
		}
		if err := os.RemoveAll(path); err != nil {
			return layout.Error(path, err)
		}
	}
	dirs, err := os.ReadDir(r.cfg.Dir.Repos())
	if err != nil {
		return layout.Error(r.cfg.Dir.Repos(), err)
	}
	for _, e := range dirs {
		path := filepath.Join(r.cfg.Dir.Repos(), e.Name())
		if path == r.cfg.Dir.RepoIncoming() {
			continue
		}
		if _, there := r.table.Get(e.Name()); !there && !r.unreadable(e.Name()) {
			if err := r.setAside(path); err != nil {
				return err
			}
		}
	}
	for _, rec := range r.table.All() {
		if err := r.repair(rec); err != nil {
			return err
		}
	}
	return nil
}

func (r *Repo) unreadable(id string) bool {
	for _, bad := range r.table.Unreadable() {
		if bad.ID == id {
			return true
		}
	}
	return false
}

// setAside moves a directory without a record out of the way. It may be the only copy
// of somebody's work, for example after the records were restored from a backup.
func (r *Repo) setAside(path string) error {
	to := filepath.Join(r.cfg.Dir.Unrecorded(), "repos", filepath.Base(path))
	for n, base := 2, to; ; n++ {
		if _, err := os.Lstat(to); err != nil {
			break
		}
		to = fmt.Sprintf("%s.%d", base, n)
	}
	r.cfg.Log.Error("a repository has no record: moved aside", "path", path, "to", to)
	if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
		return layout.Error(to, err)
	}
	return layout.Error(path, os.Rename(path, to))
}

// repair makes the files that Warren writes in a repository agree with its record, and
// removes locks that a killed git left. A repository without files stays as a record,
// so that its owner learns that they are gone.
func (r *Repo) repair(rec vm.Repository) error {
	dir := r.cfg.Dir.Repo(rec.ID)
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		r.cfg.Log.Error("the files of a repository are gone", "repository", rec.ID, "name", rec.Name, "path", dir)
		return nil
	} else if err != nil {
		return layout.Error(dir, err)
	}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && d.Name() == "objects" {
			return fs.SkipDir
		}
		if strings.HasSuffix(path, ".lock") {
			return os.Remove(path)
		}
		return nil
	})
	if err != nil {
		return layout.Error(dir, err)
	}
	return writeOwn(dir, rec.DefaultBranch)
}

// config is the configuration file of every repository.
const config = "[core]\n\trepositoryformatversion = 0\n\tfilemode = true\n\tbare = true\n"

// writeOwn writes the files of a repository that Warren determines, where they differ.
func writeOwn(dir, branch string) error {
	for name, text := range map[string]string{"config": config, "HEAD": "ref: refs/heads/" + branch + "\n"} {
		path := filepath.Join(dir, name)
		if have, err := os.ReadFile(path); err == nil && string(have) == text {
			continue
		}
		if err := layout.WriteFile(path, []byte(text), 0o600); err != nil {
			return err
		}
	}
	return nil
}

// subdirs are the directories that git wants in every repository.
var subdirs = []string{"", "objects", "objects/pack", "objects/info", "refs", "refs/heads", "refs/tags"}

// Prepare makes what is missing in the directory of a repository that was restored: empty
// directories, and the files that Warren determines. Kind NotFound if it is missing.
func Prepare(dir, branch string) error {
	if _, err := os.Stat(dir); err != nil {
		return layout.Error(dir, err)
	}
	for _, sub := range subdirs {
		if err := os.MkdirAll(filepath.Join(dir, sub), 0o700); err != nil {
			return layout.Error(dir, err)
		}
	}
	return writeOwn(dir, branch)
}

// makeFiles makes the files of an empty repository at dir, which does not exist.
func makeFiles(dir, branch string) error {
	for _, sub := range subdirs {
		if err := os.Mkdir(filepath.Join(dir, sub), 0o700); err != nil {
			return layout.Error(dir, err)
		}
	}
	if err := writeOwn(dir, branch); err != nil {
		return err
	}
	return layout.SyncTree(dir)
}
