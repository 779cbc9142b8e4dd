// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package image

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/warren-vm/warren/vm"
)

// wantedModules are the modules that the initial file system must load, in this order, so that
// the guest finds its disk, its link and its network. Modules that they need come before them.
var wantedModules = []string{"virtio_pci", "virtio_mmio", "virtio_blk", "virtio_console", "virtio_net", "virtio-rng"}

// moduleOrder lists the modules to load, dependencies first, as paths relative to
// lib/modules/RELEASE. dep and builtin are the texts of modules.dep and modules.builtin. A module
// that is built into the kernel is left out; a missing one is an error unless it is optional.
func moduleOrder(dep, builtin string, wanted []string) ([]string, error) {
	files := map[string]string{}   // module name → path
	needs := map[string][]string{} // path → paths, from modules.dep
	for _, line := range strings.Split(dep, "\n") {
		file, deps, ok := strings.Cut(line, ":")
		if !ok {
			continue
		}
		files[moduleName(file)] = file
		needs[file] = strings.Fields(deps)
	}
	inKernel := map[string]bool{}
	for _, line := range strings.Fields(builtin) {
		inKernel[moduleName(line)] = true
	}
	var order []string
	for _, w := range wanted {
		name := moduleName(w)
		file, ok := files[name]
		switch {
		case inKernel[name]:
			continue
		case !ok && optionalModules[name]:
			continue
		case !ok:
			return nil, vm.Errorf(vm.Unsupported, w, "the kernel has no such module")
		}
		if err := addModule(&order, needs, file, nil); err != nil {
			return nil, err
		}
	}
	return order, nil
}

// optionalModules are loaded only if they exist.
var optionalModules = map[string]bool{"virtio_mmio": true, "virtio_rng": true}

func addModule(order *[]string, needs map[string][]string, file string, above []string) error {
	if slices.Contains(*order, file) {
		return nil
	}
	if slices.Contains(above, file) {
		return vm.Errorf(vm.Corrupt, file, "modules.dep has a cycle")
	}
	deps, ok := needs[file]
	if !ok {
		return vm.Errorf(vm.Corrupt, file, "is needed by a module and not in modules.dep")
	}
	for _, d := range slices.Backward(deps) { // modules.dep lists the nearest first
		if err := addModule(order, needs, d, append(above, file)); err != nil {
			return err
		}
	}
	*order = append(*order, file)
	return nil
}

// moduleName returns the kernel's name of a module.
func moduleName(file string) string {
	base, _, _ := strings.Cut(path.Base(file), ".")
	return strings.ReplaceAll(base, "-", "_")
}

// koName returns the file name of an unpacked module.
func koName(file string) string {
	base := path.Base(file)
	for _, ext := range []string{".xz", ".zst", ".gz"} {
		base = strings.TrimSuffix(base, ext)
	}
	return base
}

// orderFile renders the list that the guest's init reads.
func orderFile(order []string) string {
	var b strings.Builder
	for _, f := range order {
		fmt.Fprintln(&b, koName(f))
	}
	return b.String()
}
