// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"errors"
	"io/fs"
	"path/filepath"
	"reflect"
	"time"

	"github.com/fsnotify/fsnotify"

	"github.com/warren-vm/warren/internal/treesync"
	"github.com/warren-vm/warren/vm"
)

const (
	syncQuiet = 300 * time.Millisecond // without a change, before the next sync
	syncLate  = 3 * time.Second        // after the first change, if they do not end
	syncRetry = 2 * time.Second        // between looks at a VM that does not run
)

// watch syncs at the start and after changes on either side, until ^C. It lasts
// while the VM is suspended. An error that the next try cannot change ends it.
func (s *syncing) watch(ctx context.Context) error {
	local, err := fsnotify.NewWatcher()
	if err != nil {
		return vm.Errorf(vm.Limit, s.dir, "cannot watch: %w", err).WithHint("raise fs.inotify.max_user_instances on this computer")
	}
	defer func() { _ = local.Close() }()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	changed := make(chan struct{}, 1)
	go s.follow(ctx, changed)
	var last synced
	for {
		if err := s.watchDirs(local); err != nil {
			return err
		}
		r, err := s.once(ctx)
		switch {
		case ctx.Err() != nil:
			return nil // ^C ends it without an error
		case maySettle(err):
			s.io.notef("the VM does not answer: %s; waiting for it", plain(err.Error()))
			if err := s.running(ctx); err != nil {
				return nil //nolint:nilerr // ^C
			}
			continue
		case err != nil:
			return err
		}
		if len(r.Changes) > 0 || !reflect.DeepEqual(r.Conflicts, last.Conflicts) || last.VM == "" {
			if err := s.tell(r); err != nil {
				return err
			}
			last = r
		}
		if err := s.settled(ctx, local, changed); err != nil {
			if ctx.Err() != nil {
				return nil //nolint:nilerr // ^C
			}
			return err
		}
	}
}

// maySettle reports whether an error may be over when the VM runs again.
func maySettle(err error) bool {
	return errors.Is(err, vm.Unavailable) || errors.Is(err, vm.Busy)
}

// running waits until the VM can be used. It does not wake it.
func (s *syncing) running(ctx context.Context) error {
	tick := time.NewTicker(syncRetry)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
		if v, err := s.c.Get(ctx, string(s.vm)); err == nil && v.State == vm.Running {
			return nil
		}
	}
}

// settled waits for a change, and then until no more come for a while.
func (s *syncing) settled(ctx context.Context, local *fsnotify.Watcher, changed <-chan struct{}) error {
	var quiet, late <-chan time.Time
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-quiet:
			return nil
		case <-late:
			return nil
		case err := <-local.Errors:
			if !errors.Is(err, fsnotify.ErrEventOverflow) {
				return vm.Errorf(vm.Invalid, s.dir, "cannot watch: %w", err)
			}
		case <-local.Events:
		case <-changed:
		}
		quiet = time.After(syncQuiet)
		if late == nil {
			late = time.After(syncLate)
		}
	}
}

// watchDirs watches all directories here; those that are watched already stay.
func (s *syncing) watchDirs(local *fsnotify.Watcher) error {
	return filepath.WalkDir(s.dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return nil //nolint:nilerr // the listing reports it
		}
		if rel, err := filepath.Rel(s.dir, name); err == nil && rel != "." && treesync.Excluded(filepath.ToSlash(rel), s.o.exclude) {
			return fs.SkipDir
		}
		if err := local.Add(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return vm.Errorf(vm.Limit, name, "cannot watch: %w", err).
				WithHint("raise fs.inotify.max_user_watches on this computer, or leave directories out with --exclude")
		}
		return nil
	})
}

// follow tells of changes in the VM until ctx ends. When the VM is suspended, or
// its server restarts, the watch ends: then it waits until the VM runs, watches
// again, and tells of a change, since it may have missed some.
func (s *syncing) follow(ctx context.Context, changed chan<- struct{}) {
	tell := func() {
		select {
		case changed <- struct{}{}:
		default: // one is waiting
		}
	}
	for again := false; ctx.Err() == nil; again = true {
		if again && s.running(ctx) != nil {
			return
		}
		w, err := s.c.WatchFiles(ctx, string(s.vm), s.o.user, s.at.path)
		if err != nil {
			tell() // the sync says what is wrong
			continue
		}
		if again {
			tell()
		}
		for {
			if _, err := w.Next(); err != nil {
				break
			}
			tell()
		}
		_ = w.Close()
	}
}
