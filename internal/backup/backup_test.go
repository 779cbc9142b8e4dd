// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package backup_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/warren-vm/warren/internal/audit"
	"github.com/warren-vm/warren/internal/backup"
	"github.com/warren-vm/warren/internal/events"
	"github.com/warren-vm/warren/internal/layout"
	"github.com/warren-vm/warren/internal/ledger"
	"github.com/warren-vm/warren/internal/objects"
	"github.com/warren-vm/warren/internal/repo"
	"github.com/warren-vm/warren/internal/store"
	"github.com/warren-vm/warren/internal/vmtest"
	"github.com/warren-vm/warren/vm"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// server is a site with a repository, an audit chain and an event log.
type server struct {
	*vmtest.Site
	*vmtest.House
	admin *vm.Call
	code  vm.Repository
}

func newServer(t *testing.T) *server {
	t.Helper()
	s, err := vmtest.NewSite(t.TempDir())
	must(t, err)
	log, err := audit.Open(t.Context(), s.Dir.Audit(), audit.Options{})
	must(t, err)
	id, err := log.Begin(t.Context(), audit.Entry{Op: vm.OpServe, Subject: "test"})
	must(t, err)
	must(t, log.End(id, nil, nil))
	must(t, log.Close())
	ev, err := events.Open(s.Dir.Events())
	must(t, err)
	_, err = ev.Append(vm.Event{Type: "test"})
	must(t, err)
	must(t, ev.Close())
	must(t, os.WriteFile(s.Dir.Host(), []byte(`{"id":"here"}`), 0o644))
	h, err := s.Open(t.Context())
	must(t, err)
	t.Cleanup(func() { must(t, h.Close(context.WithoutCancel(t.Context()))) })
	admin, _, err := vmtest.Admin(t.Context(), h)
	must(t, err)
	code, err := h.Repo.Create(t.Context(), admin, repo.CreateRequest{Name: "code"})
	must(t, err)
	_, err = h.Repo.Commit(t.Context(), admin, code.ID, repo.CommitRequest{
		Branch: "main", Message: "one", Files: []repo.FileEdit{{Path: "a.txt", Size: 4, Open: repo.Bytes([]byte("kept"))}},
	})
	must(t, err)
	_, err = h.Rooms.Objects.CreateBucket(t.Context(), admin, "reports")
	must(t, err)
	for _, body := range []string{"small", strings.Repeat("large", 20_000)} {
		_, err = h.Rooms.Objects.Put(t.Context(), admin, objects.PutRequest{Bucket: "reports", Key: "june", Size: int64(len(body))}, strings.NewReader(body))
		must(t, err)
	}
	return &server{s, h, admin, code}
}

// copied makes a copy of the server's state in a file.
func (s *server) copied(t *testing.T) backup.Source {
	t.Helper()
	path := filepath.Join(t.TempDir(), "copy.tar.zst")
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY, 0o600)
	must(t, err)
	_, err = s.Rooms.Backup.Create(t.Context(), s.admin, f, func() error { return nil })
	must(t, err)
	must(t, f.Close())
	return source(path)
}

func source(path string) backup.Source {
	return backup.Source{Path: path, Now: time.Now, Log: slog.New(slog.DiscardHandler)}
}

// restoredRecords are the records of a restored directory.
func restoredRecords(t *testing.T, dir layout.Dir) (list []ledger.Entry) {
	t.Helper()
	sockets, err := os.MkdirTemp("", "w-")
	must(t, err)
	defer os.RemoveAll(sockets)
	st, err := store.Open(t.Context(), store.Options{Dir: dir.Etcd(), SocketDir: sockets, Log: slog.New(slog.DiscardHandler)})
	must(t, err)
	_, err = store.Backend{Store: st}.Dump(t.Context(), func(e ledger.Entry) error {
		list = append(list, e)
		return nil
	})
	must(t, err)
	must(t, st.Close())
	return list
}

// TestRestore: a copy verifies, and a directory that is restored from it has every record
// byte for byte, the repository with its history, the objects, the keys, and an audit chain that ends
// with the restore.
//
// 001-22
func TestRestore(t *testing.T) {
	s := newServer(t)
	src := s.copied(t)
	r, err := backup.Verify(t.Context(), src, t.TempDir())
	must(t, err)
	if !r.OK {
		t.Fatalf("the verification reports %+v", r.Checks)
	}
	var want []ledger.Entry
	_, err = s.Backend.Dump(t.Context(), func(e ledger.Entry) error {
		want = append(want, e)
		return nil
	})
	must(t, err)

	path := filepath.Join(t.TempDir(), "restored")
	out, err := backup.Restore(t.Context(), src, path)
	must(t, err)
	if out.Signer != r.Signer || out.Facts.Repositories != 1 {
		t.Errorf("the restore reports the signer %s and %d repositories, want %s and 1", out.Signer, out.Facts.Repositories, r.Signer)
	}
	dir, err := layout.Open(path)
	must(t, err)
	have := restoredRecords(t, dir)
	same := slices.EqualFunc(have, want, func(a, b ledger.Entry) bool { return a.Kind == b.Kind && a.ID == b.ID && bytes.Equal(a.Value, b.Value) })
	if !same {
		t.Errorf("%d records were restored, and they are not the %d that the server had", len(have), len(want))
	}
	must(t, repo.Fsck(t.Context(), dir.Repo(s.code.ID)))
	if n, faults, err := objects.Check(t.Context(), dir); n != 2 || len(faults) != 0 || err != nil {
		t.Errorf("%d versions of objects were restored, with the faults %v, %v; want 2 and none", n, faults, err)
	}
	for _, name := range []string{layout.Dir("").HostKey(), layout.Dir("").BundleKey(), layout.Dir("").Host()} {
		a, err := os.ReadFile(filepath.Join(string(s.Dir), name))
		must(t, err)
		b, err := os.ReadFile(filepath.Join(path, name))
		must(t, err)
		if !bytes.Equal(a, b) {
			t.Errorf("%s is another file after the restore", name)
		}
	}
	chain, err := audit.Verify(dir.Audit(), "", audit.Head{})
	must(t, err)
	if chain.Problem != "" || chain.Records < 4 {
		t.Errorf("the restored audit chain has %d records and the problem %q, want at least 4 and none", chain.Records, chain.Problem)
	}
	if _, err := os.Stat(dir.Restoring()); !os.IsNotExist(err) {
		t.Errorf("the directory in which the files were put together is left: %v", err)
	}
}

// names lists a directory, except the lock.
func names(t *testing.T, path string) (list []string) {
	t.Helper()
	entries, err := os.ReadDir(path)
	must(t, err)
	for _, e := range entries {
		if e.Name() != "lock" {
			list = append(list, e.Name())
		}
	}
	return list
}

// TestRestoreNotEmpty: a restore into a directory that has anything, a server's data above
// all, is refused with kind Exists and changes nothing.
func TestRestoreNotEmpty(t *testing.T) {
	s := newServer(t)
	src := s.copied(t)
	before := names(t, string(s.Dir))
	if _, err := backup.Restore(t.Context(), src, string(s.Dir)); !errors.Is(err, vm.Exists) || vm.AsError(err).Hint == "" {
		t.Errorf("onto a server's directory: %v, want kind %s and a hint", err, vm.Exists)
	}
	if after := names(t, string(s.Dir)); !slices.Equal(before, after) {
		t.Errorf("the refused restore left %v, before were %v", after, before)
	}
	other := t.TempDir()
	must(t, os.WriteFile(filepath.Join(other, "thesis.tex"), nil, 0o600))
	if _, err := backup.Restore(t.Context(), src, other); !errors.Is(err, vm.Exists) {
		t.Errorf("onto somebody's directory: %v, want kind %s", err, vm.Exists)
	}
	if after := names(t, other); !slices.Equal(after, []string{"thesis.tex"}) {
		t.Errorf("the refused restore left %v", after)
	}
}

// TestRestoreDamaged: a backup in which a bit was flipped, or that was cut off, restores
// nothing: the directory is empty afterwards.
func TestRestoreDamaged(t *testing.T) {
	s := newServer(t)
	src := s.copied(t)
	data, err := os.ReadFile(src.Path)
	must(t, err)
	for _, at := range []int{0, 10, len(data) / 3, len(data) / 2, len(data) - 300, len(data) - 1} {
		bad := slices.Clone(data)
		bad[at] ^= 0x10
		for what, data := range map[string][]byte{"a flipped bit": bad, "the end cut off": data[:at]} {
			path := filepath.Join(t.TempDir(), "bad")
			must(t, os.WriteFile(path, data, 0o600))
			to := t.TempDir()
			if _, err := backup.Restore(t.Context(), source(path), to); !errors.Is(err, vm.Corrupt) {
				t.Errorf("%s at byte %d of %d: %v, want kind %s", what, at, len(bad), err, vm.Corrupt)
			}
			if left := names(t, to); len(left) != 0 {
				t.Errorf("%s at byte %d left %v", what, at, left)
			}
			if r, err := backup.Verify(t.Context(), source(path), t.TempDir()); err == nil && r.OK {
				t.Errorf("%s at byte %d: the verification calls it a backup", what, at)
			}
		}
	}
}

// TestRestoreInterrupted: what a crash leaves of a restore is no data directory, and the
// next restore starts again.
func TestRestoreInterrupted(t *testing.T) {
	s := newServer(t)
	src := s.copied(t)
	path := t.TempDir()
	dir := layout.Dir(path)
	must(t, os.MkdirAll(filepath.Join(dir.Restoring(), "repos"), 0o700))
	must(t, os.WriteFile(filepath.Join(dir.Restoring(), "format"), []byte("1\n"), 0o600))
	must(t, os.WriteFile(dir.AdminKey(), []byte("half"), 0o600))
	if _, err := layout.Open(path); !errors.Is(err, vm.Invalid) {
		t.Errorf("a server opens the interrupted restore: %v, want kind %s", err, vm.Invalid)
	}
	_, err := backup.Restore(t.Context(), src, path)
	must(t, err)
	if _, err := layout.Open(path); err != nil {
		t.Errorf("after the second restore: %v", err)
	}
	if key, err := os.ReadFile(dir.AdminKey()); err == nil && string(key) == "half" {
		t.Error("a file of the interrupted restore is left")
	}
}

// TestTrust: --trust refuses a backup that another key signed.
func TestTrust(t *testing.T) {
	s := newServer(t)
	src := s.copied(t)
	_, signer, err := backup.Inspect(src)
	must(t, err)
	src.Trust = "SHA256:" + strings.Repeat("A", 43)
	if _, err := backup.Restore(t.Context(), src, t.TempDir()); !errors.Is(err, vm.Denied) {
		t.Errorf("another signer: %v, want kind %s", err, vm.Denied)
	}
	src.Trust = signer
	if _, err := backup.Restore(t.Context(), src, t.TempDir()); err != nil {
		t.Errorf("the trusted signer: %v", err)
	}
}

// TestVerifyFinds: a copy of a server whose repository is damaged can be restored, but the
// verification says what is wrong, and nothing calls it a backup.
//
// 001-22
func TestVerifyFinds(t *testing.T) {
	s := newServer(t)
	packs, err := filepath.Glob(filepath.Join(s.Dir.Repo(s.code.ID), "objects", "pack", "*.pack"))
	must(t, err)
	if len(packs) == 0 {
		t.Fatal("the repository has no pack")
	}
	data, err := os.ReadFile(packs[0])
	must(t, err)
	data[len(data)/2] ^= 1
	must(t, os.Chmod(packs[0], 0o600))
	must(t, os.WriteFile(packs[0], data, 0o600))
	src := s.copied(t)
	r, err := backup.Verify(t.Context(), src, t.TempDir())
	must(t, err)
	if r.OK {
		t.Errorf("the verification finds nothing: %+v", r.Checks)
	}
	must(t, r.Keep(src.Path))
	if !backup.VerifiedAt(src.Path).IsZero() {
		t.Error("the copy is called verified")
	}
	good := newServer(t).copied(t)
	r, err = backup.Verify(t.Context(), good, t.TempDir())
	must(t, err)
	must(t, r.Keep(good.Path))
	if backup.VerifiedAt(good.Path).IsZero() {
		t.Error("a whole copy is not called verified")
	}
	f, err := os.OpenFile(good.Path, os.O_APPEND|os.O_WRONLY, 0)
	must(t, err)
	_, err = f.WriteString("x")
	must(t, errors.Join(err, f.Close()))
	if !backup.VerifiedAt(good.Path).IsZero() {
		t.Error("a copy that was changed after its verification is called verified")
	}
}

// TestCreateRefused: only an admin copies a server, and one copy is made at a time.
func TestCreateRefused(t *testing.T) {
	s := newServer(t)
	_, _, secret, err := s.CreateAccount(t.Context(), s.admin, "other")
	must(t, err)
	actor, err := s.Authenticate(t.Context(), secret)
	must(t, err)
	if _, err := s.Rooms.Backup.Create(t.Context(), &vm.Call{Actor: actor}, io.Discard, func() error { return nil }); !errors.Is(err, vm.Denied) {
		t.Errorf("another account: %v, want kind %s", err, vm.Denied)
	}
	_, err = s.Rooms.Backup.Create(t.Context(), s.admin, io.Discard, func() error {
		if _, err := s.Rooms.Backup.Create(t.Context(), s.admin, io.Discard, func() error { return nil }); !errors.Is(err, vm.Busy) {
			t.Errorf("a second copy at the same time: %v, want kind %s", err, vm.Busy)
		}
		return nil
	})
	must(t, err)
}
