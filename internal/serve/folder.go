// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"path/filepath"
	"slices"
	"strings"

	"github.com/warren-vm/warren/internal/doctor"
	"github.com/warren-vm/warren/internal/engine"
	"github.com/warren-vm/warren/internal/folder"
	"github.com/warren-vm/warren/vm"
)

// folders is engine.Folders by this host's kernel.
type folders struct {
	backing doctor.Backing
	own     []string // Warren's directories, which hold its keys and every VM's disk
}

var _ engine.Folders = folders{}

// kernels are places where the kernel shows itself.
var kernels = []string{"/proc", "/sys", "/dev"}

// Check says which directory is at a path, and whether it is encrypted at rest.
func (f folders) Check(path string) (id vm.FolderID, sealed bool, why string, err error) {
	dir, err := folder.Open(path)
	if err != nil {
		return id, false, "", err
	}
	defer dir.Close()
	refuse := func(why, hint string) error {
		return vm.Errorf(vm.Denied, path, "%s", why).WithCode("HOST_PATH_INVALID", "path", path).WithHint("%s", hint)
	}
	if slices.ContainsFunc(kernels, func(k string) bool { return within(path, k) }) {
		return id, false, "", refuse("what is there is the kernel's", "give a directory with files")
	}
	for _, own := range f.own {
		if real, err := filepath.EvalSymlinks(own); err == nil && (within(path, real) || within(real, path)) {
			return id, false, "", refuse("it holds Warren's own keys and disks, or lies among them", "give a directory that has only what the VM needs")
		}
	}
	if id, err = folder.Identity(dir); err != nil {
		return id, false, "", err
	}
	verdict, why := f.backing.Encrypted(path)
	if again, err := folder.Reopen(path, id); err != nil { // the verdict is about this directory
		return id, false, "", err
	} else {
		again.Close()
	}
	return id, verdict == doctor.Encrypted, why, nil
}

// within reports whether a path is another one or lies beneath it.
func within(path, dir string) bool {
	return path == dir || strings.HasPrefix(path, strings.TrimSuffix(dir, "/")+"/")
}
