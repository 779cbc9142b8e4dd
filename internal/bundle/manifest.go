// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package bundle

import (
	"encoding/json"
	"io/fs"
	"path"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/warren-vm/warren/vm"
)

// Version is the version of the format that this package writes, and the newest that it
// reads.
const Version = 1

// What an archive is.
const (
	OfServer = "backup" // of a whole server
	OfVM     = "vm"     // a bundle of one VM
	OfImage  = "image"  // of one image
)

// WrongKind is the error for an archive of another kind than the wanted one. It says what the
// archive at path is, and which command reads it.
func (m Manifest) WrongKind(path string) error {
	switch m.Kind {
	case OfVM:
		return vm.Errorf(vm.Invalid, path, "it is a bundle of a VM").WithHint("`warren bundle open FILE`")
	case OfImage:
		return vm.Errorf(vm.Invalid, path, "it is an image").WithHint("`warren image import file:FILE`")
	}
	return vm.Errorf(vm.Invalid, path, "it is a backup of a server").WithHint("`warren backup inspect FILE`, `warren backup restore FILE`")
}

// manifestName is the path of the last entry.
const manifestName = "manifest.json"

// Manifest says what an archive contains.
type Manifest struct {
	Version int       `json:"version"`
	Kind    string    `json:"kind"`   // OfServer, OfVM
	Server  string    `json:"server"` // id of the server that wrote it
	Warren  string    `json:"warren"` // version of the program that wrote it
	At      time.Time `json:"at"`     // the moment that the contents show
	// Facts are the part that only this kind of archive has.
	Facts   json.RawMessage `json:"facts,omitempty"`
	Entries []Entry         `json:"entries"` // in their order in the archive
}

// Entry is one file of an archive.
type Entry struct {
	Path   string `json:"path"` // relative, with slashes
	Kind   string `json:"kind"` // what it is, for people and for those who restore it
	Mode   uint32 `json:"mode"` // permission bits
	Size   int64  `json:"size"`
	SHA256 string `json:"sha256"` // in hex
}

// Bytes is the size of all entries together.
func (m Manifest) Bytes() (sum int64) {
	for _, e := range m.Entries {
		sum += e.Size
	}
	return sum
}

// Limits bound what a reader accepts. All are required.
type Limits struct {
	Entries  int
	Manifest int64 // bytes of the manifest
	Bytes    int64 // of all entries together
}

// Own are the limits for archives that an operator chose to read: large enough for any
// server.
var Own = Limits{Entries: 4 << 20, Manifest: 1 << 30, Bytes: 1 << 50}

const (
	maxPath = 1024
	maxPart = 255
)

// checkPath refuses what is no plain relative path.
func checkPath(name string) error {
	bad := func(why string) error {
		return vm.Errorf(vm.Invalid, printable(name), "the path of an entry %s", why).WithHint("do not use this archive; Warren writes no such paths")
	}
	switch {
	case name == "" || len(name) > maxPath:
		return bad("is empty or too long")
	case !fs.ValidPath(name) || name == "." || path.Clean(name) != name:
		return bad("leads out of the archive or is not in its shortest form")
	case !utf8.ValidString(name) || strings.ContainsFunc(name, func(r rune) bool { return r < ' ' || r == 0x7f || r == '\\' }):
		return bad("has control characters or backslashes")
	}
	for part := range strings.SplitSeq(name, "/") {
		if len(part) > maxPart {
			return bad("has a part that is too long")
		}
	}
	return nil
}

// printable is a name that another wrote, cut and quoted for an error.
func printable(name string) string {
	quoted, err := json.Marshal(name[:min(len(name), 80)])
	if err != nil {
		return "entry"
	}
	return string(quoted)
}

// paths checks that the paths of an archive fit one tree: no path twice, and none that
// is both a file and a directory.
type paths struct{ files, dirs map[string]bool }

func newPaths() paths { return paths{map[string]bool{}, map[string]bool{}} }

func (p paths) add(name string) error {
	if err := checkPath(name); err != nil {
		return err
	}
	twice := func() error {
		return vm.Errorf(vm.Invalid, printable(name), "two entries have this path, or one lies below the other")
	}
	if name == manifestName || p.files[name] || p.dirs[name] {
		return twice()
	}
	p.files[name] = true
	for dir := path.Dir(name); dir != "." && !p.dirs[dir]; dir = path.Dir(dir) {
		if p.files[dir] {
			return twice()
		}
		p.dirs[dir] = true
	}
	return nil
}

// check validates a manifest that was read.
func (m Manifest) check(lim Limits) error {
	if m.Kind != OfServer && m.Kind != OfVM && m.Kind != OfImage {
		return vm.Errorf(vm.Invalid, manifestName, "the archive's kind %s is not known", printable(m.Kind))
	}
	if len(m.Entries) > lim.Entries {
		return vm.Errorf(vm.Limit, manifestName, "it has %d entries, at most %d are read", len(m.Entries), lim.Entries)
	}
	seen, left := newPaths(), lim.Bytes
	for _, e := range m.Entries {
		if err := seen.add(e.Path); err != nil {
			return err
		}
		if e.Size < 0 || len(e.SHA256) != 64 {
			return vm.Errorf(vm.Invalid, printable(e.Path), "the manifest has no size or no digest of it")
		}
		if left -= e.Size; left < 0 {
			return vm.Errorf(vm.Limit, manifestName, "the entries have more than %d bytes together", lim.Bytes)
		}
	}
	return nil
}
