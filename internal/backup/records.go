// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package backup

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/warren-vm/warren/internal/audit"
	"github.com/warren-vm/warren/internal/bundle"
	"github.com/warren-vm/warren/internal/generation"
	"github.com/warren-vm/warren/internal/layout"
	"github.com/warren-vm/warren/internal/ledger"
	"github.com/warren-vm/warren/internal/repo"
	"github.com/warren-vm/warren/internal/store"
	"github.com/warren-vm/warren/vm"
)

func decodeFacts(m bundle.Manifest, facts *Facts) error {
	if err := json.Unmarshal(m.Facts, facts); err != nil {
		return vm.Errorf(vm.Corrupt, "manifest.json", "its facts cannot be read: %w", err)
	}
	return nil
}

// FactsOf returns the part of a manifest that only backups have.
func FactsOf(m bundle.Manifest) (f Facts, err error) { return f, decodeFacts(m, &f) }

// Records are written in batches of so many, or of so many bytes.
const (
	batchRecords = 500
	batchBytes   = 4 << 20
	maxName      = 100 // bytes of an id in a record
)

// restoreRecords makes an embedded record store in dir of the records in two files, the
// second above the first, gives each VM its disk, and records the restore.
func restoreRecords(ctx context.Context, s Source, a *bundle.Archive, dir layout.Dir, path, laterPath string) (err error) {
	sockets, err := os.MkdirTemp("", "warren-")
	if err != nil {
		return layout.Error(os.TempDir(), err)
	}
	defer os.RemoveAll(sockets)
	st, err := store.Open(ctx, store.Options{Dir: dir.Etcd(), SocketDir: sockets, Log: s.Log})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, st.Close()) }()
	w := &loading{s: s, dir: dir, a: a, to: store.Backend{Store: st}, later: map[[2]string]record{}}
	if err := eachRecord(laterPath, func(r record) error {
		w.later[[2]string{r.Kind, r.ID}] = r
		return nil
	}); err != nil {
		return err
	}
	if err := eachRecord(path, func(r record) error { return w.add(ctx, r) }); err != nil {
		return err
	}
	if err := w.flush(ctx); err != nil {
		return err
	}
	return w.note(ctx)
}

func eachRecord(path string, f func(record) error) error {
	file, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return layout.Error(path, err)
	}
	defer file.Close()
	dec := json.NewDecoder(bufio.NewReaderSize(file, 1<<20))
	for {
		var r record
		if err := dec.Decode(&r); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return vm.Errorf(vm.Corrupt, filepath.Base(path), "a record cannot be read: %w", err)
		}
		if err := f(r); err != nil {
			return err
		}
	}
}

// loading writes records into an empty store.
type loading struct {
	s     Source
	dir   layout.Dir
	a     *bundle.Archive
	to    ledger.Backend
	later map[[2]string]record
	batch []ledger.Op
	bytes int
}

func (w *loading) add(ctx context.Context, r record) error {
	if newer, ok := w.later[[2]string{r.Kind, r.ID}]; ok {
		r = newer
	}
	if r.Deleted {
		return nil
	}
	if err := checkNames(r); err != nil {
		return err
	}
	switch r.Kind {
	case "vms":
		var err error
		if r.Value, err = w.machine(r.Value); err != nil {
			return err
		}
	case "repositories":
		var rec vm.Repository
		if json.Unmarshal(r.Value, &rec) == nil {
			if err := repo.Prepare(w.dir.Repo(rec.ID), rec.DefaultBranch); err != nil && vm.KindOf(err) != vm.NotFound {
				return err
			}
		}
	}
	if w.bytes+len(r.Value) > batchBytes || len(w.batch) == batchRecords {
		if err := w.flush(ctx); err != nil {
			return err
		}
	}
	w.batch, w.bytes = append(w.batch, ledger.Op{Kind: r.Kind, ID: r.ID, Value: r.Value}), w.bytes+len(r.Value)
	return nil
}

// checkNames refuses a record that names a file outside the directory that is restored: the
// ids of records are names of directories there.
func checkNames(r record) error {
	var names []string
	switch r.Kind { // as those decode them who use them; what cannot be decoded makes no file
	case "vms":
		var is vm.VM
		if json.Unmarshal(r.Value, &is) == nil {
			names = []string{string(is.ID), string(is.DiskOn), string(is.Generation), string(is.Image)}
		}
	case "generations":
		var is vm.Generation
		if json.Unmarshal(r.Value, &is) == nil {
			names = []string{string(is.ID), string(is.Image)}
		}
	case "repositories":
		var is vm.Repository
		if json.Unmarshal(r.Value, &is) == nil {
			names = []string{is.ID}
		}
	case "volumes":
		names = []string{r.ID}
	}
	for _, name := range names {
		if strings.ContainsAny(name, "/\\\x00") || strings.HasPrefix(name, ".") || len(name) > maxName {
			return vm.Errorf(vm.Invalid, vm.GuestPath(vm.Clip(r.Kind+" "+r.ID, 100)).String(), "a record of the backup names a file elsewhere").
				WithHint("do not use this backup; Warren writes no such records")
		}
	}
	return nil
}

func (w *loading) flush(ctx context.Context) error {
	if len(w.batch) == 0 {
		return nil
	}
	_, err := w.to.Write(ctx, w.batch...)
	w.batch, w.bytes = nil, 0
	return err
}

// machine gives a VM a new, empty disk above the generation that has its contents. The
// memory of a VM that was running is not in the backup: it is stopped. A record that
// cannot be read stays as it is.
func (w *loading) machine(value []byte) ([]byte, error) {
	var rec vm.VM
	if json.Unmarshal(value, &rec) != nil {
		return value, nil
	}
	var members map[string]json.RawMessage // those that this program does not know stay, too
	if err := json.Unmarshal(value, &members); err != nil {
		return value, nil
	}
	on := rec.DiskOn
	if rec.State == vm.Suspended && rec.Generation != "" {
		on = rec.Generation
	}
	if rec.State == vm.Running || rec.State == vm.Suspending {
		exit := vm.MachineExit{Reason: Reason, Detail: "it ran when the backup was made: memory and running processes are not in it", Time: w.s.Now().UTC()}
		for name, v := range map[string]any{"state": vm.Stopped, "reason": Reason, "exit": exit} {
			data, err := json.Marshal(v)
			if err != nil {
				return nil, vm.Errorf(vm.Internal, string(rec.ID), "%w", err)
			}
			members[name] = data
		}
		for _, name := range []string{"op", "machine", "generation", "volumesSeen", "cut", "folders"} {
			delete(members, name)
		}
		var err error
		if value, err = json.Marshal(members); err != nil {
			return nil, vm.Errorf(vm.Internal, string(rec.ID), "%w", err)
		}
	}
	if on == "" {
		return value, nil // its disk is not in the backup: the server shows it as lost
	}
	if _, err := os.Stat(layout.GenerationDir(w.dir.Generation(on)).Disk()); err != nil {
		return value, nil
	}
	if err := os.MkdirAll(w.dir.VM(rec.ID), 0o700); err != nil {
		return nil, layout.Error(w.dir.VM(rec.ID), err)
	}
	return value, generation.Store{Dir: w.dir}.Disk(on, rec.ID, rec.Size.DiskMiB)
}

// Reason is why a VM is stopped that ran when the backup was made.
const Reason = "restored-from-backup"

// note records the restore in the audit chain, and the chain's new end in the store.
func (w *loading) note(ctx context.Context) (err error) {
	log, err := audit.Open(ctx, w.dir.Audit(), audit.Options{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, log.Close()) }()
	id, err := log.Begin(ctx, audit.Entry{
		Op: vm.OpBackupRestore, Subject: w.a.Manifest.At.Format("2006-01-02T15:04:05Z07:00"), Actor: vm.Actor{System: "restore"},
		Detail: map[string]any{"server": w.a.Manifest.Server, "signer": w.a.Signer, "entries": len(w.a.Manifest.Entries)},
	})
	if err != nil {
		return err
	}
	return log.End(id, nil, nil)
}
