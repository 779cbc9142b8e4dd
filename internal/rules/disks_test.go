// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// TestDiskPrograms: programs that read or make disks and file systems on the host
// are named in one place, which confines them. Elsewhere they are looked for,
// make the image that no machine has run on yet, or run in a guest.
func TestDiskPrograms(t *testing.T) {
	programs := []string{
		"qemu-img", "qemu-io", "qemu-nbd", "qemu-storage-daemon", "mke2fs", "mkfs.ext4", "e2fsck", "fsck", "fsck.ext4", "tune2fs", "dumpe2fs",
		"resize2fs", "cryptsetup", "losetup", "guestfish", "guestmount", "virt-resize",
	}
	may := map[string]string{
		"internal/qcow":   "qemu-img",            // the door
		"internal/image":  "qemu-img",            // of what the build made, before any machine ran
		"internal/doctor": "qemu-img mke2fs",     // are they there?
		"internal/repo":   "fsck",                // git's, of a repository
		"internal/engine": "mkfs.ext4 resize2fs", // in the guest
		"internal/vmtest": "mkfs.ext4 resize2fs", // a simulated guest's
	}
	used := map[string]bool{}
	sources(t, func(name string, data []byte) {
		dir := filepath.ToSlash(filepath.Dir(name))
		if strings.HasSuffix(name, "_test.go") || strings.HasPrefix(dir, "test/") || dir == "internal/rules" {
			return
		}
		f, err := parser.ParseFile(token.NewFileSet(), name, data, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(f, func(n ast.Node) bool {
			lit, ok := n.(*ast.BasicLit)
			if !ok || lit.Kind != token.STRING {
				return true
			}
			text, err := strconv.Unquote(lit.Value)
			if err != nil {
				t.Fatal(err)
			}
			program := filepath.Base(text)
			if !slices.Contains(programs, program) {
				return true
			}
			if slices.Contains(strings.Fields(may[dir]), program) {
				used[dir+" "+program] = true
			} else {
				t.Errorf("%s names %s: disks that a machine may have written are opened by internal/qcow alone", name, program)
			}
			return true
		})
	})
	for dir, list := range may {
		for _, program := range strings.Fields(list) {
			if !used[dir+" "+program] {
				t.Errorf("%s does not name %s: the exception is to go", dir, program)
			}
		}
	}
}
