// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package imagefile

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/warren-vm/warren/internal/bundle"
	"github.com/warren-vm/warren/internal/layout"
	"github.com/warren-vm/warren/vm"
)

// The forms of what an image's manifest says. They are part of paths, of command lines and of
// what people read.
var (
	imageID    = vm.NewPattern(`^im-[a-z0-9]{16}$`)
	snapshotID = vm.NewPattern(`^[a-z0-9-]{1,64}$`)
	imageName  = vm.NewPattern(`^[a-z][a-z0-9-]{0,40}$`)
	hexDigits  = vm.NewPattern(`^[0-9a-f]{8,64}$`)
	release    = vm.NewPattern(`^[A-Za-z0-9][A-Za-z0-9.+~_-]{0,99}$`)
	cmdline    = vm.NewPattern(`^[ -~]{0,1000}$`)
	moduleFile = vm.NewPattern(`^modules/([a-z0-9][a-z0-9_-]{0,63}\.ko|order)$`)
	hostName   = vm.NewPattern(`^[a-z0-9][a-z0-9.-]{0,252}$`)
	word       = vm.NewPattern(`^[ -~]{0,200}$`)
	words      = vm.NewPattern(`^[ -~]{0,1000}$`)
	sha256Hex  = vm.NewPattern(`^[0-9a-f]{64}$`)
)

const (
	maxDiskMiB = 1 << 24 // of an image
	maxOrder   = 64 << 10
)

// check returns what is wrong with an image's manifest, or with the files that come with it;
// "" = nothing.
func check(img vm.Image, entries []bundle.Entry) string {
	switch {
	case !imageID.MatchString(string(img.ID)):
		return "its id is not valid"
	case !imageName.MatchString(img.Name):
		return "its name is not valid"
	case !snapshotID.MatchString(string(img.Snapshot)):
		return "its snapshot id is not valid"
	case !hexDigits.MatchString(img.Recipe):
		return "the digest of its recipe is not valid"
	case !release.MatchString(img.Kernel):
		return "the release of its kernel is not valid"
	case !cmdline.MatchString(img.Cmdline):
		return "the command line of its kernel is not valid"
	case img.Workdir != "" && (!filepath.IsAbs(img.Workdir) || filepath.Clean(img.Workdir) != img.Workdir || !word.MatchString(img.Workdir)):
		return "its working directory is not valid"
	case img.DiskMiB <= 0 || img.DiskMiB > maxDiskMiB:
		return "the size of its disk is not valid"
	case img.Packages < 0 || img.BuildTook < 0 || len(img.Registries) > 100 || len(img.HostCAs) > 1000:
		return "its counts are not valid"
	}
	for _, r := range img.Registries {
		if !hostName.MatchString(r.Host) || r.Port < 1 || r.Port > 65535 || !word.MatchString(r.Manager) {
			return "one of its registries is not valid"
		}
	}
	for _, ca := range img.HostCAs {
		if !word.MatchString(ca) {
			return "the name of one of its CAs is not valid"
		}
	}
	if c := img.Container; c != nil {
		for _, text := range []string{c.Source, c.Digest, c.User, c.Service} {
			if !words.MatchString(text) {
				return "what it says of its container image is not valid"
			}
		}
	}
	return checkList(img, entries)
}

// checkList compares the files of a manifest with what the archive has.
func checkList(img vm.Image, entries []bundle.Entry) string {
	d := layout.ImageDir("")
	disk, kernel, order := filepath.Base(d.Disk()), filepath.Base(d.Kernel()), d.ModuleOrder()
	for _, name := range []string{disk, kernel, order} {
		if !slices.ContainsFunc(img.Files, func(f vm.File) bool { return f.Name == name }) {
			return "it has no " + name
		}
	}
	if img.Files[0].Name != disk || img.DiskBytes != img.Files[0].Size {
		return "its first file is not its disk"
	}
	left := map[string]vm.File{}
	for _, f := range img.Files {
		if f.Name != disk && f.Name != kernel && !moduleFile.MatchString(f.Name) {
			return "one of its files has a name that no image has"
		}
		if !sha256Hex.MatchString(f.SHA256) || len(f.CRC32C) > 0 {
			return "one of its files has no valid digest"
		}
		left[f.Name] = f
	}
	if len(left) != len(img.Files) {
		return "it names a file twice"
	}
	for _, e := range entries {
		f, ok := left[e.Path]
		switch {
		case e.Path == recipeName:
		case !ok:
			return "a file is with it that its manifest does not name"
		case f.Size != e.Size || f.SHA256 != e.SHA256:
			return "one of its files has another size or digest than its manifest says"
		}
		delete(left, e.Path)
	}
	if len(left) > 0 {
		return "a file that its manifest names is not with it"
	}
	return ""
}

// checkModules checks that the list of modules names only modules of the image.
func checkModules(dir layout.ImageDir, img vm.Image) error {
	f, err := os.Open(dir.ModuleOrder())
	if err != nil {
		return err
	}
	defer f.Close()
	list, err := io.ReadAll(io.LimitReader(f, maxOrder+1))
	if err != nil {
		return err
	}
	if len(list) > maxOrder {
		return errors.New("its list of modules is too long")
	}
	for _, name := range strings.Fields(string(list)) {
		path := filepath.Join(filepath.Base(dir.Modules()), filepath.Base(name))
		if name != filepath.Base(name) || !slices.ContainsFunc(img.Files, func(f vm.File) bool { return f.Name == path }) {
			return errors.New("its list of modules names one that it does not have")
		}
	}
	return nil
}
