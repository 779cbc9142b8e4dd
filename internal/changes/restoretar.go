// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package changes

import (
	"archive/tar"
	"errors"
	"io"
	"maps"
	"path"
	"strings"

	"github.com/warren-vm/warren/vm"
)

// restoreEntry is the name of what a restore brings back in the archive that the guest's
// agent gets; see agent.RestoreEntry.
const restoreEntry = "entry"

// renameEntries copies a tar of one path of a disk, with other names: name becomes
// "entry". It takes only files, directories and links, below name, and hard links to files
// below name. What it reads comes from a program that read a hostile disk.
func renameEntries(name string, r io.Reader, w io.Writer) error {
	in, out := tar.NewReader(r), tar.NewWriter(w)
	seen := map[string]bool{} // files so far, to which hard links may lead
	for first := true; ; first = false {
		h, err := in.Next()
		if errors.Is(err, io.EOF) && !first {
			return out.Close()
		}
		if err != nil {
			return vm.Errorf(vm.Corrupt, "/"+name, "its archive cannot be read: %w", err)
		}
		to, err := renamed(name, h.Name)
		if err != nil {
			return err
		}
		clean := &tar.Header{
			Typeflag: h.Typeflag, Name: to, Mode: h.Mode & 0o7777, Uid: h.Uid, Gid: h.Gid, ModTime: h.ModTime,
			Format: tar.FormatPAX, PAXRecords: xattrs(h.PAXRecords),
		}
		switch h.Typeflag {
		case tar.TypeDir:
			clean.Name += "/"
		case tar.TypeSymlink:
			clean.Linkname = h.Linkname
		case tar.TypeReg:
			clean.Size = h.Size
			seen[to] = true
		case tar.TypeLink:
			if clean.Linkname, err = renamed(name, h.Linkname); err == nil && !seen[clean.Linkname] {
				err = badEntry(h.Linkname)
			}
			if err != nil {
				return err
			}
		default:
			return badEntry(h.Name)
		}
		if err := out.WriteHeader(clean); err != nil {
			return err
		}
		if _, err := io.Copy(out, in); err != nil {
			return err
		}
	}
}

// renamed is the new name of an entry, which must be name or below it.
func renamed(name, entry string) (string, error) {
	entry = strings.TrimSuffix(entry, "/")
	rest, ok := strings.CutPrefix(entry, name)
	if !ok || rest != "" && rest[0] != '/' || path.Clean("/"+entry) != "/"+entry || strings.ContainsRune(entry, 0) {
		return "", badEntry(entry)
	}
	return restoreEntry + rest, nil
}

func badEntry(name string) error {
	return vm.Errorf(vm.Corrupt, vm.GuestPath(name).String(), "the reader of the disk sent an entry that was not asked for")
}

// xattrs are the extended attributes among PAX records.
func xattrs(records map[string]string) map[string]string {
	out := maps.Clone(records)
	maps.DeleteFunc(out, func(key, _ string) bool { return !strings.HasPrefix(key, "SCHILY.xattr.") })
	return out
}
