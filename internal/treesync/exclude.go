// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package treesync

import (
	"path"
	"strings"

	"github.com/warren-vm/warren/vm"
)

// CheckExclude refuses a pattern that can match nothing.
func CheckExclude(patterns []string) error {
	for _, p := range patterns {
		if _, err := path.Match(p, ""); err != nil || strings.Trim(p, "/") == "" {
			return vm.Errorf(vm.Invalid, p, "is no pattern").WithHint("write a name or a path, with * and ?: --exclude node_modules --exclude 'build/*.o'")
		}
	}
	return nil
}

// Excluded reports whether a path is left out: .git at any place, and what a
// pattern matches. A pattern without a slash matches names at any place, one with
// a slash matches paths from the top. All below it is left out with it.
func Excluded(p string, patterns []string) bool {
	name := path.Base(p)
	if strings.EqualFold(name, ".git") {
		return true
	}
	for _, pattern := range patterns {
		what := name
		if pattern = strings.TrimSuffix(pattern, "/"); strings.Contains(pattern, "/") {
			pattern, what = strings.TrimPrefix(pattern, "/"), p
		}
		if ok, _ := path.Match(pattern, what); ok { // CheckExclude has seen it
			return true
		}
	}
	return false
}

// excludedBelow is Excluded for a path whose directories were not looked at.
func excludedBelow(p string, patterns []string) bool {
	for ; p != "."; p = path.Dir(p) {
		if Excluded(p, patterns) {
			return true
		}
	}
	return false
}
