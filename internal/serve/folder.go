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

// folders implements engine.Folders with this host's kernel.
type folders struct {
	backing doctor.Backing
	own     []string // Warren's directories, which hold its keys and every VM's disk
}

var _ engine.Folders = folders{}

// kernels are the kernel's own file systems.
var kernels = []string{"/proc", "/sys", "/dev"}

// Check identifies the directory at a path and reports whether it is encrypted at rest.
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
		return id, false, "", refuse("it is one of the kernel's own file systems", "give a directory with files")
	}
	for _, own := range f.own {
		if real, err := filepath.EvalSymlinks(own); err == nil && (within(path, real) || within(real, path)) {
			return id, false, "", refuse("it contains Warren's own keys and disks, or is one of its directories", "give a directory that holds only what the VM needs")
		}
	}
	if id, err = folder.Identity(dir); err != nil {
		return id, false, "", err
	}
	verdict, why := f.backing.Encrypted(path)
	if again, err := folder.Reopen(path, id); err != nil { // the result is about this directory
		return id, false, "", err
	} else {
		again.Close()
	}
	return id, verdict == doctor.Encrypted, why, nil
}

// within reports whether a path is dir or below it.
func within(path, dir string) bool {
	return path == dir || strings.HasPrefix(path, strings.TrimSuffix(dir, "/")+"/")
}
