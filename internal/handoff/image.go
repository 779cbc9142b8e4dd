// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package handoff

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"

	"github.com/warren-vm/warren/internal/layout"
	"github.com/warren-vm/warren/internal/qcow"
	"github.com/warren-vm/warren/vm"
)

var imageID = regexp.MustCompile(`^im-[a-z0-9]{16}$`)

// checkImage refuses an image whose files are not exactly those of its manifest, or whose
// disk names a file below it.
func (u *unpacking) checkImage() error {
	img, root := u.is.Image, u.path(imageDir)
	bad := func(why string) error { return vm.Errorf(vm.Invalid, "image", "the image in the bundle %s", why) }
	if !imageID.MatchString(string(img.ID)) || diskDigest(img) == "" {
		return bad("has no valid id, or no disk")
	}
	var own vm.Image
	if err := layout.ReadJSON(layout.ImageDir(root).Manifest(), &own); err != nil || own.ID != img.ID {
		return bad("has no manifest of its own")
	}
	left := map[string]string{"manifest.json": ""}
	for _, f := range own.Files {
		left[f.Name] = f.SHA256
	}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		name, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		want, known := left[filepath.ToSlash(name)]
		if !known {
			return bad("has a file that its manifest does not name")
		}
		delete(left, filepath.ToSlash(name))
		if want == "" {
			return nil
		}
		have, err := digest(path)
		if err == nil && have != want {
			err = bad("has a file with another digest than its manifest says")
		}
		return err
	})
	if err != nil {
		return layout.Error(root, err)
	}
	if len(left) > 0 {
		return bad("lacks a file that its manifest names")
	}
	if h, err := qcow.Check(layout.ImageDir(root).Disk(), qcow.Layer); err != nil || h.Backing != "" {
		return errors.Join(bad("has a disk that is not one of Warren's"), err)
	}
	return nil
}

func diskDigest(img vm.Image) string {
	for _, f := range img.Files {
		if f.Name == filepath.Base(layout.ImageDir("").Disk()) {
			return f.SHA256
		}
	}
	return ""
}

func digest(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	sum := sha256.New()
	if _, err := io.Copy(sum, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}
