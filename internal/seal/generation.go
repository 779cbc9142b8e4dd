// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package seal

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/warren-vm/warren/internal/layout"
	"github.com/warren-vm/warren/vm"
)

// A generation's memory and device state each exist plain, sealed or both. A sealed
// file under its own name is durable. A plain one may be the remains of an
// interrupted Open, so if both exist it counts only if its sums are right. There is
// always one good form of each file, whenever the process ends: each step keeps the
// other form until the new one is durable and was read back.

// Generation seals memory and device state and removes their plain files. The key
// must be stored before. A second call finishes what a crash interrupted, and does
// nothing when all is done. The caller makes sure that nothing else uses the
// directory meanwhile and that nothing is started on the generation. Machines that
// run on it keep their open files, and so the space. Kinds: NotFound, Corrupt when
// the files are not what the manifest m says (the plain ones stay), NoSpace,
// Cancelled.
func Generation(ctx context.Context, dir layout.GenerationDir, key Key, m vm.Manifest) error {
	return steps{}.seal(ctx, dir, key, m)
}

// Open makes the plain files of a sealed generation, so that a machine can be
// started on them. They need not survive a crash of the host: the sealed files
// stay until DropSealed. It does nothing when the plain files are there and right.
// Kinds: NotFound, Corrupt, NoSpace, Cancelled.
func Open(ctx context.Context, dir layout.GenerationDir, key Key, m vm.Manifest) error {
	return steps{}.open(ctx, dir, key, m)
}

// DropSealed makes the plain files that Open made durable and removes the sealed
// ones. Until it has succeeded the generation counts as sealed. It may run while
// machines are started on it. Kinds: Corrupt when a plain file is damaged; the
// next Open makes it again.
func DropSealed(ctx context.Context, dir layout.GenerationDir, m vm.Manifest) error {
	return steps{}.dropSealed(ctx, dir, m)
}

// steps does the work of the three. fault, nil outside tests, is called before each
// step and may simulate a failure or the end of the process.
type steps struct{ fault func(label string) error }

func (s steps) at(label string) error {
	if s.fault == nil {
		return nil
	}
	return s.fault(label)
}

// both is a file in its two forms.
type both struct {
	what          string
	plain, sealed string
	want          vm.File
}

// pairs are the files of a generation that are sealed; one captured from a stopped
// machine has none.
func pairs(dir layout.GenerationDir, m vm.Manifest) []both {
	if m.RAM.Size == 0 {
		return nil
	}
	out := []both{{"ram", dir.RAM(), dir.SealedRAM(), m.RAM}, {"device", dir.Device(), dir.SealedDevice(), m.Device}}
	for i, f := range m.Modules {
		id := m.Plugged.Modules[i].ID
		out = append(out, both{id, dir.Module(id), dir.SealedModule(id), f})
	}
	return out
}

func (s steps) seal(ctx context.Context, dir layout.GenerationDir, key Key, m vm.Manifest) error {
	if err := sweep(dir); err != nil {
		return err
	}
	for _, b := range pairs(dir, m) {
		if err := s.sealOne(ctx, b, key); err != nil {
			return err
		}
	}
	for _, b := range pairs(dir, m) {
		if err := s.remove("seal:remove-"+b.what, b.plain); err != nil {
			return err
		}
	}
	return s.at("seal:done")
}

// sealOne seals b; the sealed file opens to the recorded sums.
func (s steps) sealOne(ctx context.Context, b both, key Key) error {
	if err := s.at("seal:" + b.what); err != nil {
		return err
	}
	plain, err := exists(b.plain)
	if err != nil {
		return err
	}
	err = checkFile(ctx, b.sealed, key, b.want)
	if err == nil || !plain {
		return err
	}
	written := func(got vm.File) error {
		if got.Size != b.want.Size || !slices.Equal(got.CRC32C, b.want.CRC32C) {
			return damaged(b.plain, "it is not what was written")
		}
		return s.at("seal:write-" + b.what)
	}
	if err := sealFile(ctx, b.plain, b.sealed, key, written); err != nil {
		return err
	}
	if err := s.at("seal:check-" + b.what); err != nil {
		return err
	}
	return checkFile(ctx, b.sealed, key, b.want)
}

func (s steps) open(ctx context.Context, dir layout.GenerationDir, key Key, m vm.Manifest) error {
	if err := sweep(dir); err != nil {
		return err
	}
	for _, b := range pairs(dir, m) {
		if err := s.openOne(ctx, b, key); err != nil {
			return err
		}
	}
	return s.at("open:done")
}

// openOne makes b's plain file. If b has no sealed form, it is not checked, because
// every start checks it.
func (s steps) openOne(ctx context.Context, b both, key Key) error {
	if err := s.at("open:" + b.what); err != nil {
		return err
	}
	sealed, err := exists(b.sealed)
	if err != nil {
		return err
	}
	plain, err := exists(b.plain)
	if err != nil {
		return err
	}
	if plain && (!sealed || checkPlain(ctx, b.plain, b.want) == nil) {
		return nil
	}
	return openFile(ctx, b.sealed, b.plain, key, b.want, func(*os.File) error { return s.at("open:write-" + b.what) })
}

func (s steps) dropSealed(ctx context.Context, dir layout.GenerationDir, m vm.Manifest) error {
	for _, b := range pairs(dir, m) {
		if err := s.dropSealedFile(ctx, b); err != nil {
			return err
		}
	}
	return s.at("drop:done")
}

func (s steps) dropSealedFile(ctx context.Context, b both) error {
	if err := s.at("drop:" + b.what); err != nil {
		return err
	}
	sealed, err := exists(b.sealed)
	if err != nil || !sealed {
		return err
	}
	if err := checkPlain(ctx, b.plain, b.want); err != nil {
		return err
	}
	if err := layout.SyncFile(b.plain); err != nil {
		return err
	}
	if err := layout.SyncDir(filepath.Dir(b.plain)); err != nil {
		return err
	}
	return s.remove("drop:remove-"+b.what, b.sealed)
}

// remove removes a form that is no longer needed; an absent one is no error.
func (s steps) remove(label, path string) error {
	if err := s.at(label); err != nil {
		return err
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return layout.Error(path, err)
	}
	return layout.SyncDir(filepath.Dir(path))
}

func exists(path string) (bool, error) {
	_, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, layout.Error(path, err)
}

// sweep removes the remains of a crash.
func sweep(dir layout.GenerationDir) error {
	entries, err := os.ReadDir(string(dir))
	if err != nil {
		return layout.Error(string(dir), err)
	}
	for _, e := range entries {
		if !layout.IsTemp(e.Name()) {
			continue
		}
		path := filepath.Join(string(dir), e.Name())
		if err := os.RemoveAll(path); err != nil {
			return layout.Error(path, err)
		}
	}
	return nil
}
