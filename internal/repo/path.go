// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package repo

import (
	"strings"
	"unicode/utf8"

	"golang.org/x/text/cases"
	"golang.org/x/text/unicode/norm"

	"github.com/warren-vm/warren/vm"
)

const (
	maxPath = 4096 // bytes of a path in a commit
	maxPart = 255  // and of one name in it
)

// CheckPath refuses a path that may not be in a commit: absolute, leaving the root, or
// one that a file system could take for git's own directory. Kind Invalid, code
// INVALID_FILE_PATH.
func CheckPath(p string) error {
	why := ""
	switch {
	case p == "":
		why = "the path is empty"
	case len(p) > maxPath:
		why = "the path is too long"
	case strings.HasPrefix(p, "/"):
		why = "the path is absolute"
	case strings.ContainsRune(p, 0):
		why = "the path has a NUL byte"
	}
	for part := range strings.SplitSeq(p, "/") {
		if why != "" {
			break
		}
		switch {
		case part == "":
			why = "a part of the path is empty"
		case part == "." || part == "..":
			why = "the path leaves its directory"
		case len(part) > maxPart:
			why = "a part of the path is too long"
		case dotGit(part):
			why = "a part of the path can be taken for .git"
		}
	}
	if why == "" {
		return nil
	}
	return badPath(p, "%s", why)
}

func badPath(p, format string, args ...any) *vm.Error {
	shown := vm.GuestPath(vm.Clip(p, 1000)).String()
	return vm.Errorf(vm.Invalid, shown, format, args...).WithCode("INVALID_FILE_PATH", "path", shown)
}

var shortName = vm.NewPattern(`^(?i:git)~[0-9]+$`)

// dotGit reports whether some file system takes a name for .git: in other case, as the
// short name of Windows, with characters that HFS ignores, or with the dots, spaces and
// stream names that NTFS ignores.
func dotGit(name string) bool {
	for _, one := range strings.Split(name, `\`) { // Windows takes it for a slash
		one, _, _ = strings.Cut(one, ":")
		one = strings.TrimRight(one, ". ")
		if shortName.MatchString(one) || fold(one) == ".git" {
			return true
		}
	}
	return false
}

// modules reports whether some file system takes a name for .gitmodules.
func modules(name string) bool {
	one, _, _ := strings.Cut(name, ":")
	one = strings.ToLower(fold(strings.TrimRight(one, ". ")))
	return one == ".gitmodules" || strings.HasPrefix(one, "gitmod~") || strings.HasPrefix(one, "gi7eba~") || strings.HasPrefix(one, "gi7eb~")
}

var folding = cases.Fold()

// fold returns a name as a file system sees it that ignores case, compositions, and the
// characters that HFS leaves out. Names that are no UTF-8 differ by their bytes.
func fold(name string) string {
	ascii := true
	for i := range len(name) {
		ascii = ascii && name[i] < utf8.RuneSelf
	}
	if ascii {
		return strings.ToLower(name)
	}
	if !utf8.ValidString(name) {
		return name
	}
	name = strings.Map(func(c rune) rune {
		switch {
		case c >= 0x200c && c <= 0x200f, c >= 0x202a && c <= 0x202e, c >= 0x206a && c <= 0x206f, c == 0xfeff:
			return -1
		}
		return c
	}, name)
	return norm.NFC.String(folding.String(norm.NFD.String(name)))
}
