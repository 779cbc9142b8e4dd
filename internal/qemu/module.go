// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package qemu

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/warren-vm/warren/internal/layout"
	"github.com/warren-vm/warren/vm"
)

// ModulePath is the memory file that the machine's module i maps privately: its
// generation's, or the empty one made when it was plugged in.
func ModulePath(s vm.MachineSpec, i int) string {
	if s.Generation != nil && i < len(s.Generation.Modules) {
		return s.Generation.Modules[i]
	}
	return layout.VMDir(s.Dir).ColdModule(s.Plugged.Modules[i].ID)
}

// backendOf names the memory of a module.
func backendOf(module string) string { return module + "-ram" }

// backend is a file that QEMU maps privately as memory of the guest.
type backend struct {
	Type  string `json:"qom-type"`
	ID    string `json:"id"`
	Size  int64  `json:"size"`
	Path  string `json:"mem-path"`
	Share bool   `json:"share"`
	Merge bool   `json:"merge"`
	Dump  bool   `json:"dump"`
}

func memoryFile(id string, mib int, path string) backend {
	return backend{Type: "memory-backend-file", ID: id, Size: int64(mib) << 20, Path: path}
}

// makeEmpty makes a sparse file and replaces an existing one.
func makeEmpty(path string, mib int) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fileError(path, err)
	}
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return fileError(path, err)
	}
	err = f.Truncate(int64(mib) << 20)
	return fileError(path, errors.Join(err, f.Close()))
}

// memoryCopy is one memory of a machine that is being copied into a file.
type memoryCopy struct {
	*memory
	ram  *ramFile
	path string
}

// memoryCopies are all memories of a machine: that of its boot and its modules.
type memoryCopies []memoryCopy

// copyMemories opens every memory of the machine and makes the file of each as a
// copy of its base: the boot memory's at path, a module's beside it.
func (p *Process) copyMemories(ctx context.Context, path string) (out memoryCopies, err error) {
	s := p.Machine()
	defer func() {
		if err != nil {
			err = errors.Join(err, out.close())
			out.remove()
		}
	}()
	base := ""
	if s.Generation != nil {
		base = s.Generation.RAM
	}
	if out, err = p.addMemory(ctx, out, RAMPath(s), base, layout.VMDir(s.Dir).SpareRAM(), path, s.Plugged.Boot(s.Size).MemoryMiB); err != nil {
		return out, err
	}
	dir := layout.GenerationDir(filepath.Dir(path))
	for i, m := range s.Plugged.Modules {
		base := ""
		if s.Generation != nil && i < len(s.Generation.Modules) {
			base = s.Generation.Modules[i]
		}
		if out, err = p.addMemory(ctx, out, ModulePath(s, i), base, "", dir.Module(m.ID), m.MiB); err != nil {
			return out, err
		}
	}
	return out, nil
}

// addMemory opens the memory that is mapped from a file.
func (p *Process) addMemory(ctx context.Context, to memoryCopies, mapped, base, spare, path string, mib int) (memoryCopies, error) {
	size := int64(mib) << 20
	mem, err := openMemory(p.Ident.PID, mapped, size)
	if err != nil {
		return to, vm.Errorf(vm.Unsupported, string(p.Spec.ID), "the machine's memory cannot be read: %w", err)
	}
	ram, ok := takeSpare(spare, path, size)
	if !ok {
		ram, err = createRAM(ctx, path, base, size)
	}
	if err != nil {
		mem.close()
		return to, err
	}
	return append(to, memoryCopy{memory: mem, ram: ram, path: path}), nil
}

// copyPrivate updates the files with the process's private pages. free, if not nil,
// is closed when more than one processor may be used.
func (c memoryCopies) copyPrivate(ctx context.Context, free <-chan struct{}) (pages int64, err error) {
	for _, m := range c {
		n, err := m.memory.copyPrivate(ctx, m.ram, free)
		if err != nil {
			return pages, fileError(m.path, err)
		}
		pages += n
	}
	return pages, nil
}

func (c memoryCopies) dataBytes() (n int64) {
	for _, m := range c {
		n += m.ram.dataBytes()
	}
	return n
}

func (c memoryCopies) close() (err error) {
	for _, m := range c {
		m.memory.close()
		err = errors.Join(err, m.ram.close())
	}
	return err
}

// remove removes the files.
func (c memoryCopies) remove() {
	for _, m := range c {
		os.Remove(m.path)
	}
}
