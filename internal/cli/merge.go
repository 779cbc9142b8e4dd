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

// merge moves what a new directory of root holds into root: a directory that is
// there keeps what it has, a file or symlink is replaced. A file in the place of
// a directory, a directory in the place of anything else, and what is neither
// file, directory nor symlink are refused before anything is moved. No symlink
// of root is followed.
func merge(root *os.Root, from string) error {
	if err := mergeEach(root, from, ".", func(string, string) error { return nil }); err != nil {
		return err
	}
	return mergeEach(root, from, ".", root.Rename)
}

// mergeEach calls move for each entry below from/dir that takes a place in dir,
// and looks into the directories that both have.
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

// mayReplace refuses what an entry of a tree must not take the place of.
func mayReplace(name string, there fs.FileInfo, byDir bool) error {
	why := ""
	switch kind := there.Mode().Type(); {
	case byDir:
		why = "is a directory in the VM and none here"
	case kind == fs.ModeDir:
		why = "is a directory here and none in the VM"
	case kind != 0 && kind != fs.ModeSymlink:
		why = "is a device, pipe or socket here"
	default:
		return nil
	}
	return vm.Errorf(vm.Exists, printable(name), "%s; nothing was copied", why).WithHint("remove it, or copy to another place")
}
