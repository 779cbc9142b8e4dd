// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"bytes"
	"errors"
	"os"
	"strings"
	"syscall"
	"unicode/utf8"

	"golang.org/x/sys/unix"
)

// userAttrs is what the names of extended attributes begin with that users' programs may set (xattr(7)).
const userAttrs = "user."

// maxAttrs bounds the names and values of one file's attributes.
const maxAttrs = 8 << 10

// attrs returns the extended attributes of users' programs, without that beginning; nil if
// there are none, or if the file system has no such attributes. It follows no link.
func attrs(path string) map[string]string {
	buf := make([]byte, 256)
	n, err := unix.Llistxattr(path, buf)
	if errors.Is(err, syscall.ERANGE) {
		buf = make([]byte, 64<<10) // XATTR_LIST_MAX of the kernel
		n, err = unix.Llistxattr(path, buf)
	}
	if err != nil || n <= 0 {
		return nil
	}
	var out map[string]string
	room := maxAttrs
	var value []byte
	for full := range bytes.SplitSeq(bytes.TrimSuffix(buf[:n], []byte{0}), []byte{0}) {
		name, ok := strings.CutPrefix(string(full), userAttrs)
		if !ok {
			continue
		}
		if value == nil {
			value = make([]byte, maxAttrs)
		}
		n, err := unix.Lgetxattr(path, string(full), value)
		if err != nil || len(name)+n > room || !utf8.Valid(value[:n]) || !utf8.ValidString(name) {
			continue // it was removed in the meantime, or it is too long or no text
		}
		room -= len(name) + n
		if out == nil {
			out = map[string]string{}
		}
		out[name] = string(value[:n])
	}
	return out
}

// maxListAttrs bounds the names and values in one list of a directory.
const maxListAttrs = 1 << 20

// fuseMagic is the type of file systems in user space (statfs(2)): folders of the host, where each look
// at an attribute asks the host.
const fuseMagic = 0x65735546

// notes reads the attributes of the entries of a directory, as far as there is room.
type notes struct{ room int }

func newNotes(dir string) *notes {
	var st unix.Statfs_t
	if unix.Statfs(dir, &st) != nil || st.Type == fuseMagic {
		return &notes{}
	}
	return &notes{room: maxListAttrs}
}

// of returns the attributes of an entry; nil when there are none, or no room.
func (n *notes) of(path string) map[string]string {
	if n.room <= 0 {
		return nil
	}
	out := attrs(path)
	for name, value := range out {
		n.room -= len(name) + len(value)
	}
	if n.room < 0 {
		return nil
	}
	return out
}

// setAttrs sets attributes, each of which is name=value.
func setAttrs(path string, list []string) error {
	for _, one := range list {
		name, value, ok := strings.Cut(one, "=")
		if !ok || name == "" {
			return badPath(path, "an extended attribute has no name")
		}
		if err := unix.Lsetxattr(path, userAttrs+name, []byte(value), 0); err != nil {
			return &os.PathError{Op: "setxattr " + name, Path: path, Err: err}
		}
	}
	return nil
}
