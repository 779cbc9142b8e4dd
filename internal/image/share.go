// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package image

import (
	"os"
	"path/filepath"
	"slices"

	"github.com/warren-vm/warren/internal/layout"
	"github.com/warren-vm/warren/vm"
)

// ShareFiles replaces the files of an image that is about to be published, in tmp, by further
// names of the same files of other images: most images have one kernel and the same modules. No
// file of an image is ever written again. A file is the same if its name, size and SHA-256 are.
func ShareFiles(dir layout.Dir, tmp string, img vm.Image) error {
	others, err := List(dir)
	if err != nil && len(others) == 0 {
		return nil // an unreadable image does not keep another from being made
	}
	for _, f := range img.Files {
		for _, o := range others {
			if o.ID == img.ID || !slices.ContainsFunc(o.Files, func(have vm.File) bool {
				return have.Name == f.Name && have.Size == f.Size && have.SHA256 == f.SHA256 && f.SHA256 != ""
			}) {
				continue
			}
			if err := shareFile(filepath.Join(dir.Image(o.ID), f.Name), filepath.Join(tmp, f.Name), f); err != nil {
				return err
			}
			break
		}
	}
	return nil
}

// shareFile gives a file a further name in place of its copy. The file is read first: what
// its manifest says may no longer be true of it. Where links are impossible, the copy stays.
func shareFile(have, instead string, f vm.File) error {
	got, err := digestFile(filepath.Dir(have), filepath.Base(have))
	if err != nil || got.SHA256 != f.SHA256 {
		return nil // damaged or removed: not to be shared
	}
	link := instead + ".shared"
	if os.Link(have, link) != nil {
		return nil
	}
	if err := os.Rename(link, instead); err != nil {
		return fileError(instead, err)
	}
	return nil
}
