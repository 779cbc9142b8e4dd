// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package changes

import (
	"archive/tar"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"path"
	"slices"
	"time"

	"github.com/warren-vm/warren/internal/engine"
	"github.com/warren-vm/warren/internal/repo"
	"github.com/warren-vm/warren/vm"
)

// remembered reads the files of a commit of a memory.
func (m *Memories) remembered(ctx context.Context, c *vm.Call, repository, commit string) (map[string][]byte, error) {
	files := map[string][]byte{}
	if commit == "" {
		return files, nil
	}
	_, entries, err := m.cfg.Repo.Tree(ctx, c, repository, commit, true)
	if err != nil {
		return nil, err
	}
	total := int64(0)
	for _, e := range entries {
		if e.Type != "blob" || e.Mode == repo.ModeLink {
			continue
		}
		if total += e.Size; len(files) >= vm.MaxMemoryFiles || e.Size > vm.MaxMemoryFile || total > vm.MaxMemoryBytes {
			return nil, vm.Errorf(vm.Limit, e.Path, "the repository has more than a memory may: %d files, %d MiB", vm.MaxMemoryFiles, vm.MaxMemoryBytes>>20)
		}
		_, r, err := m.cfg.Repo.Blob(ctx, c, repository, e.SHA)
		if err != nil {
			return nil, err
		}
		data, err := io.ReadAll(io.LimitReader(r, vm.MaxMemoryFile+1))
		if err = errors.Join(err, r.Close()); err != nil {
			return nil, vm.Errorf(vm.Internal, e.Path, "the repository cannot be read: %w", err)
		}
		files[e.Path] = data
	}
	return files, nil
}

// enter opens a visit that changes a guest's memory. It starts a VM that does not run.
func (m *Memories) enter(ctx context.Context, c *vm.Call, id vm.ID) (*engine.Visit, error) {
	return m.cfg.Engine.Visit(ctx, &vm.Call{Actor: c.Actor, Request: c.Request}, string(id), vm.OpWrite, "")
}

// fill puts the files of a memory's branch into the guest. Files that are there already
// stay; if one differs, nothing is written.
func (m *Memories) fill(ctx context.Context, c *vm.Call, rec vm.Memory) error {
	visit, err := m.enter(ctx, c, rec.VM)
	if err != nil {
		return err
	}
	defer visit.End(nil, nil)
	g := visit.Guest()
	if _, err := g.Stat(visit.Context(), "", vm.MemoryPath); vm.KindOf(err) == vm.NotFound {
		err = g.Mkdir(visit.Context(), "", vm.MemoryPath, 0o777, true)
		if err == nil {
			err = g.Chmod(visit.Context(), "", vm.MemoryPath, 0o777) // mkdir obeys the umask
		}
		if err != nil {
			return visit.Fail(ctx, err)
		}
	} else if err != nil {
		return visit.Fail(ctx, err)
	}
	tip, base, err := m.tip(ctx, c, rec)
	if err != nil {
		return err
	}
	want, err := m.remembered(ctx, c, rec.Repo, cmp.Or(tip, base))
	if err != nil {
		return err
	}
	there, err := m.read(ctx, c, rec.VM)
	if err != nil {
		return err
	}
	for name, data := range there.files {
		old, ok := want[name]
		if ok && !bytes.Equal(old, data) {
			return vm.Errorf(vm.Exists, path.Join(vm.MemoryPath, name), "it differs from the file of this name in the repository").
				WithHint("move it away in the VM, then enable the memory again")
		}
		delete(want, name)
	}
	return visit.Fail(ctx, send(visit, want))
}

// send writes files below the memory's directory.
func send(visit *engine.Visit, files map[string][]byte) error {
	if len(files) == 0 {
		return nil
	}
	var out bytes.Buffer // at most vm.MaxMemoryBytes and headers
	tw := tar.NewWriter(&out)
	made := map[string]bool{".": true}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if err := dirs(tw, made, path.Dir(name)); err != nil {
			return err
		}
		if err := tw.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o666, Size: int64(len(files[name])), ModTime: time.Unix(0, 0), Format: tar.FormatPAX}); err != nil {
			return err
		}
		if _, err := tw.Write(files[name]); err != nil {
			return err
		}
	}
	if err := tw.Close(); err != nil {
		return err
	}
	return visit.Guest().TarUp(visit.Context(), "", vm.MemoryPath, &out)
}

// dirs writes the directories of a tar once.
func dirs(tw *tar.Writer, made map[string]bool, dir string) error {
	if made[dir] {
		return nil
	}
	if err := dirs(tw, made, path.Dir(dir)); err != nil {
		return err
	}
	made[dir] = true
	return tw.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: dir + "/", Mode: 0o777, ModTime: time.Unix(0, 0), Format: tar.FormatPAX})
}

// RollbackMemory puts the files of an earlier commit back into the VM, and commits that.
// What was there is committed first, so that a rollback can be undone by another one.
// Files that are not of the memory stay. It starts a VM that does not run.
func (m *Memories) RollbackMemory(ctx context.Context, c *vm.Call, ref, commit string) (rec vm.Memory, err error) {
	defer func() { err = vm.WithOp(vm.OpMemory, ref, err) }()
	if rec, err = m.find(c, ref); err != nil {
		return rec, err
	}
	to, err := m.cfg.Repo.CommitAt(ctx, c, rec.Repo, commit)
	if err != nil {
		return rec, err
	}
	want, err := m.remembered(ctx, c, rec.Repo, to.SHA)
	if err != nil {
		return rec, err
	}
	rcpt, err := m.cfg.Journal.Begin(ctx, c, vm.AuditEntry{Op: vm.OpMemory, VM: rec.VM, Subject: vm.MemoryPath, Detail: map[string]any{"rollback": to.SHA}})
	if err != nil {
		return rec, err
	}
	defer func() { rcpt.End(err, map[string]any{"commit": rec.Commit}) }()
	visit, err := m.enter(ctx, c, rec.VM)
	if err != nil {
		return rec, err
	}
	defer visit.End(nil, nil)
	if rec, err = m.commit(ctx, c, rec, ""); err != nil { // what is there now
		return rec, err
	}
	there, err := m.read(ctx, c, rec.VM)
	if err != nil {
		return rec, err
	}
	for _, name := range slices.Sorted(maps.Keys(there.files)) {
		if old, ok := want[name]; ok && bytes.Equal(old, there.files[name]) {
			delete(want, name)
			continue
		}
		if err := visit.Guest().Remove(visit.Context(), "", path.Join(vm.MemoryPath, name), false); err != nil && vm.KindOf(err) != vm.NotFound {
			return rec, visit.Fail(ctx, err)
		}
	}
	if err := send(visit, want); err != nil {
		return rec, visit.Fail(ctx, err)
	}
	rec, err = m.commit(ctx, c, rec, fmt.Sprintf("Roll back to %.12s", to.SHA))
	return m.shown(rec), err
}

// Show writes what a commit of a VM's memory changed, or, with a path, the file as it was
// then.
func (m *Memories) Show(ctx context.Context, c *vm.Call, ref, commit, file string, w io.Writer) (err error) {
	defer func() { err = vm.WithOp(vm.OpMemory, ref, err) }()
	rec, err := m.find(c, ref)
	if err != nil {
		return err
	}
	at, err := m.cfg.Repo.CommitAt(ctx, c, rec.Repo, commit)
	if err != nil {
		return err
	}
	if file == "" {
		return m.cfg.Repo.Patch(ctx, c, rec.Repo, "", at.SHA, w)
	}
	content, err := m.cfg.Repo.Contents(ctx, c, rec.Repo, at.SHA, file, false)
	if err == nil && content.Type != "file" {
		err = vm.Errorf(vm.Invalid, file, "it is a directory")
	}
	if err == nil {
		_, err = w.Write(content.Data)
	}
	return err
}
