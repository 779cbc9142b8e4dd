// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package confine

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

func TestDeviceGroups(t *testing.T) {
	path := filepath.Join(t.TempDir(), "device")
	if _, ok := DeviceGroups(path); ok {
		t.Error("a device that there is not can be opened")
	}
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for mode, want := range map[fs.FileMode]struct {
		groups int
		ok     bool
	}{0o600: {0, false}, 0o640: {0, false}, 0o604: {0, false}, 0o660: {1, true}, 0o666: {0, true}} {
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		if groups, ok := DeviceGroups(path); ok != want.ok || len(groups) != want.groups {
			t.Errorf("mode %o: %v, %t", mode, groups, ok)
		}
	}
}
