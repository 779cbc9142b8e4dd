// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package review

import (
	"bytes"
	"unicode/utf8"

	"github.com/warren-vm/warren/vm"
)

// Secrets returns what looks like a secret in a file. p is its path, which may be
// relative. Values are never in the result.
func Secrets(p string, text []byte) (list []vm.FoundSecret) {
	found, _ := findSecrets(p, text)
	for _, f := range found {
		list = append(list, vm.FoundSecret{Kind: f.kind, Path: vm.GuestPath(p), Line: f.line})
	}
	return list
}

// LineStat counts the lines that come and go between two texts. It counts none in
// binary content.
func LineStat(was, now []byte) (added, removed int, binary bool) {
	for _, text := range [][]byte{was, now} {
		if bytes.IndexByte(text, 0) >= 0 || !utf8.Valid(text) {
			return 0, 0, true
		}
	}
	d := diffLines(was, now)
	return d.added, d.removed, false
}
