// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package review

import (
	"bytes"
	"encoding/binary"

	"github.com/warren-vm/warren/vm"
)

const (
	maxIndex      = 64 << 20 // bytes of a repository's index
	maxIndexNames = 1 << 20

	indexEntry    = 62 // bytes of an entry before its name
	indexID       = 40 // where an entry has the id of the content
	indexExtended = 0x4000
)

// indexNames calls each for every path that a git index names, relative to the
// repository and with slashes, and the 20 bytes of its content's id. It reads versions 2 to 4 and keeps nothing, so that a
// large index costs no memory; a decoder of another's would keep every entry.
// Kind Corrupt or Unsupported.
func indexNames(index []byte, each func(name, id []byte)) error {
	be := binary.BigEndian
	if len(index) < 12 || string(index[:4]) != "DIRC" {
		return vm.Errorf(vm.Corrupt, "", "the index of a repository is damaged: it has no header")
	}
	version, count := be.Uint32(index[4:]), be.Uint32(index[8:])
	if version < 2 || version > 4 {
		return vm.Errorf(vm.Unsupported, "", "the index of a repository has version %d", version)
	}
	if count > maxIndexNames {
		return vm.Errorf(vm.Limit, "", "the index of a repository names %d files", count)
	}
	var name []byte // the one before: version 4 shortens names by it
	at := 12
	for i := range count {
		if len(index)-at < indexEntry+2 {
			return vm.Errorf(vm.Corrupt, "", "the index of a repository is damaged: it ends in entry %d of %d", i, count)
		}
		start := at
		flags := be.Uint16(index[at+60:])
		at += indexEntry
		if flags&indexExtended != 0 {
			if version < 3 {
				return vm.Errorf(vm.Corrupt, "", "the index of a repository is damaged: entry %d has flags of a later version", i)
			}
			at += 2
		}
		if version == 4 {
			drop, n := offsetVarint(index[at:])
			if n == 0 || drop > uint64(len(name)) {
				return vm.Errorf(vm.Corrupt, "", "the index of a repository is damaged: entry %d shortens its name by %d", i, drop)
			}
			name, at = name[:uint64(len(name))-drop], at+n
		} else {
			name = name[:0]
		}
		end := bytes.IndexByte(index[at:], 0)
		if end < 0 || len(name)+end > maxPath {
			return vm.Errorf(vm.Corrupt, "", "the index of a repository is damaged: the name of entry %d has no end", i)
		}
		name = append(name, index[at:at+end]...)
		at += end + 1
		if version < 4 { // entries are padded to 8 bytes
			at = start + (at-1-start+8)&^7
		}
		each(name, index[start+indexID:start+indexID+20])
	}
	return nil
}

// offsetVarint reads a number as git writes offsets; n = 0: it has no end.
func offsetVarint(p []byte) (v uint64, n int) {
	for i, c := range p {
		if i == 8 {
			return 0, 0
		}
		if i > 0 {
			v++
		}
		v = v<<7 | uint64(c&0x7f)
		if c&0x80 == 0 {
			return v, i + 1
		}
	}
	return 0, 0
}
