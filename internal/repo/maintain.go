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
	"time"

	"github.com/warren-vm/warren/vm"
)

const (
	packsAllowed  = 20                    // packs of a repository, before some are joined
	packedEvery   = 7 * 24 * time.Hour    // a changed repository is packed as a whole, and what nothing needs is dropped
	unneededKept  = "--prune=2.weeks.ago" // objects that no ref reaches
	maintainEvery = 10 * time.Second      // idle readers are looked at
)

// later has a changed repository measured and, when needed, packed.
func (r *Repo) later(id string) {
	r.mu.Lock()
	r.due[id] = true
	r.mu.Unlock()
	select {
	case r.nudge <- struct{}{}:
	default:
	}
}

// maintain measures and packs repositories that have changed, one at a time.
func (r *Repo) maintain(life context.Context) {
	defer r.tasks.Done()
	tick := time.NewTicker(maintainEvery)
	defer tick.Stop()
	for {
		select {
		case <-life.Done():
			return
		case <-tick.C:
			r.closeIdle()
			continue
		case <-r.nudge:
		}
		for life.Err() == nil {
			id, ok := r.nextDue()
			if !ok {
				break
			}
			if err := r.tend(life, id); err != nil && life.Err() == nil {
				r.cfg.Log.Warn("a repository was not maintained", "repository", id, "err", err)
			}
		}
	}
}

func (r *Repo) nextDue() (id string, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for id = range r.due {
		delete(r.due, id)
		return id, true
	}
	return "", false
}

// tend packs a repository where that is needed, and stores what its files take.
func (r *Repo) tend(ctx context.Context, id string) error {
	rec, ok := r.table.Get(id)
	if !ok {
		return nil
	}
	packed, err := r.pack(ctx, rec)
	if err != nil {
		r.cfg.Log.Warn("a repository was not packed", "repository", id, "err", err)
	}
	size, err := sizeOf(r.cfg.Dir.Repo(id))
	if err != nil {
		return err
	}
	now := r.cfg.Now().UTC()
	_, err = r.table.Change(ctx, id, func(rec *vm.Repository) error {
		rec.Bytes, rec.PushedAt = size, now
		if packed || rec.MaintainedAt.IsZero() {
			rec.MaintainedAt = now
		}
		return nil
	})
	if vm.KindOf(err) == vm.NotFound {
		return nil
	}
	return err
}

// pack joins packs when there are many, and packs a repository as a whole when that was done
// long ago. It reports the latter.
func (r *Repo) pack(ctx context.Context, rec vm.Repository) (whole bool, err error) {
	r.packing.Lock()
	defer r.packing.Unlock()
	dir := r.cfg.Dir.Repo(rec.ID)
	if !rec.MaintainedAt.IsZero() && r.cfg.Now().Sub(rec.MaintainedAt) > packedEvery {
		_, err := r.run(ctx, program{dir: dir, args: []string{"gc", "--quiet", unneededKept}})
		return err == nil, err
	}
	entries, err := os.ReadDir(filepath.Join(dir, "objects", "pack"))
	if err != nil {
		return false, err
	}
	packs := 0
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), ".pack") {
			packs++
		}
	}
	if packs <= packsAllowed {
		return false, nil
	}
	if _, err := r.run(ctx, program{dir: dir, args: []string{"repack", "--quiet", "-d", "--geometric=2"}}); err != nil {
		return false, err
	}
	_, err = r.run(ctx, program{dir: dir, args: []string{"pack-refs", "--all"}})
	return false, err
}

// Still calls f with the directory of a repository. Until f returns no object is removed
// from it and no ref moves between files; pushes may add objects and change refs.
func (r *Repo) Still(id string, f func(dir string) error) error {
	r.packing.Lock()
	defer r.packing.Unlock()
	return f(r.cfg.Dir.Repo(id))
}

// sizeOf is what the files below a directory take, in bytes.
func sizeOf(dir string) (total int64, err error) {
	err = filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		info, err := d.Info()
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err == nil && !d.IsDir() {
			total += info.Size()
		}
		return err
	})
	return total, err
}
