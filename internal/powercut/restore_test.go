// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package powercut_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/warren-vm/warren/internal/audit"
	"github.com/warren-vm/warren/internal/backup"
	"github.com/warren-vm/warren/internal/layout"
	"github.com/warren-vm/warren/internal/ledger"
	"github.com/warren-vm/warren/internal/objects"
	"github.com/warren-vm/warren/internal/repo"
	"github.com/warren-vm/warren/internal/store"
	"github.com/warren-vm/warren/internal/vmtest"
	"github.com/warren-vm/warren/vm"
)

// restoring is a restore of a backup. A cut at any of its steps leaves the directory empty,
// refused as half restored, or whole.
var restoring = operation{
	name: "a backup is restored",
	do: func(dir layout.Dir) error {
		tmp, err := os.MkdirTemp("", "wpc")
		if err != nil {
			return err
		}
		defer os.RemoveAll(tmp)
		path, err := copied(tmp)
		if err != nil {
			return err
		}
		_, err = backup.Restore(context.Background(), backup.Source{Path: path, Now: time.Now, Log: slog.New(slog.DiscardHandler)}, target(dir))
		return err
	},
	check:   func(dir layout.Dir) error { return another("POWERCUT_RESTORED=" + target(dir)) },
	whole:   restoredOrRefused,
	renames: true,
	coarse:  true, // most of the syncs are those of the record store
}

// target is where the backup is restored.
func target(dir layout.Dir) string { return filepath.Join(string(dir), "data") }

// copied makes a backup of a server with a repository and two versions of an object, and
// returns its path.
func copied(tmp string) (path string, err error) {
	ctx := context.Background()
	s, err := vmtest.NewSite(tmp)
	if err != nil {
		return "", err
	}
	h, err := s.Open(ctx)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, h.Close(ctx)) }()
	admin, _, err := vmtest.Admin(ctx, h)
	if err != nil {
		return "", err
	}
	code, err := h.Repo.Create(ctx, admin, repo.CreateRequest{Name: "code"})
	if err == nil {
		_, err = h.Repo.Commit(ctx, admin, code.ID, repo.CommitRequest{
			Branch: "main", Message: "one", Files: []repo.FileEdit{{Path: "a.txt", Size: 4, Open: repo.Bytes([]byte("kept"))}},
		})
	}
	if err == nil {
		_, err = h.Rooms.Objects.CreateBucket(ctx, admin, "reports")
	}
	for _, body := range []string{"small", strings.Repeat("large", 20_000)} {
		if err == nil {
			_, err = h.Rooms.Objects.Put(ctx, admin, objects.PutRequest{Bucket: "reports", Key: "june", Size: int64(len(body))}, strings.NewReader(body))
		}
	}
	if err != nil {
		return "", err
	}
	f, err := os.Create(filepath.Join(tmp, "copy.tar.zst"))
	if err != nil {
		return "", err
	}
	_, err = h.Rooms.Backup.Create(ctx, admin, f, func() error { return nil })
	return f.Name(), errors.Join(err, f.Close())
}

// restoredOrRefused wants a directory that is empty, refused, or whole.
func restoredOrRefused(dir layout.Dir) error {
	entries, err := os.ReadDir(target(dir))
	if errors.Is(err, fs.ErrNotExist) || err == nil && (len(entries) == 0 || len(entries) == 1 && entries[0].Name() == "lock") {
		return nil
	}
	if err != nil {
		return err
	}
	_, err = layout.Open(target(dir))
	if err == nil {
		return another("POWERCUT_RESTORED=" + target(dir))
	}
	if !errors.Is(err, vm.Invalid) || !strings.Contains(err.Error(), "the restore of a backup into this directory did not end") {
		return fmt.Errorf("refused without saying why: %w", err)
	}
	return nil
}

// restored wants all of what the backup has in a data directory: files, records, and an
// audit chain that ends with the restore.
func restored(path layout.Dir) error {
	dir, err := layout.Open(string(path))
	if err != nil {
		return err
	}
	if err := there(dir.HostKey(), dir.BundleKey()); err != nil {
		return err
	}
	chain, err := audit.Verify(dir.Audit(), "", audit.Head{})
	if err != nil || chain.Problem != "" || chain.Records < 2 {
		return fmt.Errorf("the audit chain has %d records and the problem %q: %w", chain.Records, chain.Problem, err)
	}
	if n, faults, err := objects.Check(context.Background(), dir); n != 2 || len(faults) > 0 || err != nil {
		return fmt.Errorf("there are %d versions of objects with the faults %v: %w", n, faults, err)
	}
	repos, err := os.ReadDir(dir.Repos())
	if err != nil {
		return err
	}
	for _, e := range repos {
		if err := repo.Fsck(context.Background(), filepath.Join(dir.Repos(), e.Name())); err != nil {
			return err
		}
	}
	sockets, err := os.MkdirTemp("", "wpc")
	if err != nil {
		return err
	}
	defer os.RemoveAll(sockets)
	s, err := store.Open(context.Background(), store.Options{Dir: dir.Etcd(), SocketDir: sockets, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		return err
	}
	count := map[string]int{}
	_, err = store.Backend{Store: s}.Dump(context.Background(), func(e ledger.Entry) error {
		count[e.Kind]++
		return nil
	})
	if len(repos) != 1 || count["repositories"] != 1 || count["buckets"] != 1 || count["accounts"] == 0 {
		err = errors.Join(err, fmt.Errorf("there are %d repositories, and the records %v", len(repos), count))
	}
	return errors.Join(err, s.Close())
}
