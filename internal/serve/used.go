// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"encoding/binary"
	"errors"
	"io"
	"io/fs"
	"os"
	"strings"

	"github.com/warren-vm/warren/internal/layout"
	"github.com/warren-vm/warren/vm"
)

// usedImages counts the VMs on each image by the backing files of their disks, which
// works with and without a server.
func usedImages(dir layout.Dir) (func(vm.ImageID) int, error) {
	entries, err := os.ReadDir(dir.VMs())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, vm.Errorf(vm.Internal, dir.VMs(), "%w", err)
	}
	counts := map[vm.ImageID]int{}
	for _, e := range entries {
		var spec vm.MachineSpec
		if layout.ReadJSON(layout.VMDir(dir.VM(vm.ID(e.Name()))).Machine(), &spec) == nil && spec.Pooled {
			continue
		}
		backing, err := backingFile(dir.Overlay(vm.ID(e.Name())))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		if _, rest, ok := strings.Cut(backing, "images/"); ok {
			id, _, _ := strings.Cut(rest, "/")
			counts[vm.ImageID(id)]++
		}
	}
	return func(id vm.ImageID) int { return counts[id] }, nil
}

// backingFile reads the name of the backing file from a qcow2 header: its offset is in
// bytes 8 to 15, its length in 16 to 19 (QEMU's docs/interop/qcow2.txt).
func backingFile(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	var head [20]byte
	if _, err := io.ReadFull(f, head[:]); err != nil {
		return "", vm.Errorf(vm.Corrupt, path, "not a qcow2 file: %w", err)
	}
	offset, size := binary.BigEndian.Uint64(head[8:]), binary.BigEndian.Uint32(head[16:])
	if string(head[:4]) != "QFI\xfb" || size > 1023 || offset > 1<<20 {
		return "", vm.Errorf(vm.Corrupt, path, "not a qcow2 file")
	}
	name := make([]byte, size)
	if _, err := f.ReadAt(name, int64(offset)); err != nil {
		return "", vm.Errorf(vm.Corrupt, path, "cut short: %w", err)
	}
	return string(name), nil
}
