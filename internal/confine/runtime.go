// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package confine

import (
	"path/filepath"
	"strings"
)

// Runtime lists what a program needs to read to run: the system's libraries, and
// its own installation elsewhere, such as /opt/qemu.
func Runtime(binary string) []string {
	list := []string{"/usr", "/lib", "/lib32", "/lib64", "/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d"}
	if prefix, ok := ownPrefix(binary); ok {
		list = append(list, prefix)
	}
	return list
}

// ownPrefix returns the directory that a program was installed in, such as
// /opt/qemu, when it is neither the system's nor too much.
func ownPrefix(binary string) (string, bool) {
	path, err := filepath.EvalSymlinks(binary)
	if err != nil || strings.HasPrefix(path, "/usr/") || filepath.Base(filepath.Dir(path)) != "bin" {
		return "", false
	}
	prefix := filepath.Dir(filepath.Dir(path))
	return prefix, strings.Count(prefix, "/") >= 2
}
