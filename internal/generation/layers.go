// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package generation

import (
	"path/filepath"
	"strings"

	"github.com/warren-vm/warren/internal/qemu"
	"github.com/warren-vm/warren/vm"
)

// maxLayers bounds the files of one disk; the engine merges layers long before.
const maxLayers = 128

// Layers returns the files of a generation's disk, the top first. Each is a disk of a
// generation or a file of an image, named without links. Kind Corrupt when one names
// anything else as the disk below it.
func (s Store) Layers(id vm.GenerationID) ([]string, error) { return s.stack(s.dir(id).Disk()) }

// LayersOf is Layers for the disk of a VM.
func (s Store) LayersOf(of vm.ID) ([]string, error) { return s.stack(s.Dir.Overlay(of)) }

func (s Store) stack(path string) (list []string, err error) {
	for {
		path = resolved(path)
		if list = append(list, path); len(list) > maxLayers {
			return nil, vm.Errorf(vm.Corrupt, filepath.Base(list[0]), "it has more than %d layers", maxLayers)
		}
		backing, err := qemu.BackingName(path)
		if err != nil {
			return nil, err
		}
		if backing == "" {
			return list, nil
		}
		below := below(path, backing)
		if id, ok := s.generationOf(below); (!ok || id == "") && !s.ofImage(below) {
			return nil, tampered(list[len(list)-1])
		}
		path = below
	}
}

// below is the file that a disk names as the one below it, without links.
func below(path, backing string) string {
	if !filepath.IsAbs(backing) {
		backing = resolved(filepath.Dir(path)) + "/" + backing // not filepath.Join: ".." must apply after a link
	}
	return resolved(backing)
}

// generationOf returns the generation whose disk a file is; the file is named without
// links.
func (s Store) generationOf(file string) (vm.GenerationID, bool) {
	name, ok := strings.CutPrefix(file, resolved(s.Dir.Generations())+"/")
	if !ok {
		return "", false
	}
	id, disk, _ := strings.Cut(name, "/")
	g := vm.GenerationID(id)
	return g, disk == filepath.Base(s.dir(g).Disk())
}

func tampered(path string) error {
	return vm.Errorf(vm.Corrupt, filepath.Base(path), "it says that it lies on what is no disk of a generation or an image").
		WithHint("the disk was tampered with; go back to a generation from before: `warren tree NAME`, `warren rollback NAME`")
}
