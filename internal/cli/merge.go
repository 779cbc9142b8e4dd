// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"errors"
	"io/fs"
	"os"
	"path"

	"github.com/warren-vm/warren/vm"
)

// merge moves the contents of a new directory of root into root. An existing
// directory keeps its other contents; an existing file or symlink is replaced. A
// file never replaces a directory, and a directory replaces nothing else; these
// conflicts, and special files, are refused before anything is moved. No symlink
// of root is followed.
func merge(root *os.Root, from string) error {
	if err := mergeEach(root, from, ".", func(string, string) error { return nil }); err != nil {
		return err
	}
	return mergeEach(root, from, ".", root.Rename)
}

// mergeEach calls move for each entry below from/dir that goes into dir, and
// descends into directories that both have.
func mergeEach(root *os.Root, from, dir string, move func(from, to string) error) error {
	d, err := root.Open(path.Join(from, dir))
	if err != nil {
		return localError(dir, err)
	}
	list, err := d.ReadDir(-1)
	if err = errors.Join(err, d.Close()); err != nil {
		return localError(dir, err)
	}
	for _, e := range list {
		name := path.Join(dir, e.Name())
		there, err := root.Lstat(name)
		switch {
		case err != nil && !errors.Is(err, fs.ErrNotExist):
			return localError(name, err)
		case err == nil && e.IsDir() && there.IsDir():
			if err := mergeEach(root, from, name, move); err != nil {
				return err
			}
			continue
		case err == nil:
			if err := mayReplace(name, there, e.IsDir()); err != nil {
				return err
			}
		}
		if err := move(path.Join(from, name), name); err != nil {
			return localError(name, err)
		}
	}
	return nil
}

// mayReplace returns an error for a path that an entry of a tree must not
// replace.
func mayReplace(name string, there fs.FileInfo, byDir bool) error {
	why := ""
	switch kind := there.Mode().Type(); {
	case byDir:
		why = "is a directory in the VM and not here"
	case kind == fs.ModeDir:
		why = "is a directory here and not in the VM"
	case kind != 0 && kind != fs.ModeSymlink:
		why = "is a device, pipe or socket here"
	default:
		return nil
	}
	return vm.Errorf(vm.Exists, printable(name), "%s; nothing was copied", why).WithHint("remove it, or copy to another path")
}
