// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package repo

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/warren-vm/warren/internal/layout"
	"github.com/warren-vm/warren/vm"
)

// incoming holds objects that have not joined a repository. Its directory is an empty
// repository of its own, which sees the objects of the other. Remove it.
type incoming struct {
	r      *Repo
	rec    *vm.Repository
	dir    string
	space  *space // that its objects take in the account; nil = not yet counted
	joined bool
}

// incoming makes a place for new objects of a repository.
func (r *Repo) incoming(rec *vm.Repository) (*incoming, error) {
	in := &incoming{r: r, rec: rec, dir: filepath.Join(r.cfg.Dir.RepoIncoming(), vm.NewUUID())}
	for _, sub := range []string{"", "objects", "objects/pack", "objects/info", "refs"} {
		if err := os.Mkdir(filepath.Join(in.dir, sub), 0o700); err != nil {
			in.remove()
			return nil, layout.Error(in.dir, err)
		}
	}
	for name, text := range map[string]string{"HEAD": "ref: refs/heads/none\n", "config": config} {
		if err := os.WriteFile(filepath.Join(in.dir, name), []byte(text), 0o600); err != nil {
			in.remove()
			return nil, layout.Error(in.dir, err)
		}
	}
	return in, nil
}

// env makes git write objects here, and read the repository's, too.
func (in *incoming) env() []string {
	return []string{
		"GIT_OBJECT_DIRECTORY=" + filepath.Join(in.dir, "objects"), "GIT_QUARANTINE_PATH=" + filepath.Join(in.dir, "objects"),
		"GIT_ALTERNATE_OBJECT_DIRECTORIES=" + filepath.Join(in.r.cfg.Dir.Repo(in.rec.ID), "objects"),
	}
}

// remove deletes what did not join.
func (in *incoming) remove() {
	if in.space != nil {
		in.space.release(in.joined)
	}
	if err := os.RemoveAll(in.dir); err != nil {
		in.r.cfg.Log.Warn("objects that did not join a repository remain until the next start", "path", in.dir, "err", err)
	}
}

// overQuota says that an account may not store this much.
func overQuota(left int64) *vm.Error {
	return vm.Errorf(vm.Limit, "", "the account may store %d KiB more, and this is larger", left>>10).
		WithCode("GIT_REPO_LIMIT_EXCEEDED", "left", left).WithHint("delete VMs, snapshots or repositories, or ask an admin for more: `warren account quota`")
}

// reserve counts the objects for the account. Kind Limit when they are too large.
func (in *incoming) reserve(ctx context.Context) error {
	size, err := sizeOf(filepath.Join(in.dir, "objects"))
	if err != nil {
		return layout.Error(in.dir, err)
	}
	if in.space, err = in.r.newSpace(ctx, in.rec.Account); err != nil {
		return err
	}
	return in.space.take(size)
}

// join moves the objects into the repository, durably: packs before their indexes, by
// which git finds them.
func (in *incoming) join() error {
	from, to := filepath.Join(in.dir, "objects"), filepath.Join(in.r.cfg.Dir.Repo(in.rec.ID), "objects")
	var plain, indexes []string
	touched := map[string]bool{to: true}
	err := filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		name, err := filepath.Rel(from, path)
		switch {
		case err != nil:
			return err
		case strings.HasPrefix(name, "info/") || strings.HasSuffix(name, ".keep") || strings.Contains(d.Name(), "tmp_"):
		case strings.HasSuffix(name, ".idx"):
			indexes = append(indexes, name)
		default:
			plain = append(plain, name)
		}
		return nil
	})
	if err != nil {
		return layout.Error(from, err)
	}
	for _, name := range append(plain, indexes...) {
		dir := filepath.Dir(filepath.Join(to, name))
		if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
			return layout.Error(dir, err)
		}
		if _, err := os.Lstat(filepath.Join(to, name)); err == nil {
			continue // the same objects
		}
		if err := os.Rename(filepath.Join(from, name), filepath.Join(to, name)); err != nil {
			return layout.Error(dir, err)
		}
		touched[dir] = true
	}
	in.joined = true
	for dir := range touched {
		if err := layout.SyncDir(dir); err != nil {
			return err
		}
	}
	return nil
}
