// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package qemu

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/warren-vm/warren/internal/layout"
	"github.com/warren-vm/warren/vm"
)

// TestCommandLineOfTheKernel: the guest gets its first key with the kernel's
// command line, and no user of the host sees it.
func TestCommandLineOfTheKernel(t *testing.T) {
	s := newSpec(t)
	kernel := []byte{0xf4, 0xeb, 0xfd} // hlt; jmp to it
	const at, magic, flat = 0x100000, 0x1badb002, 1 << 16
	var header []byte // of Multiboot, which QEMU takes, too
	sum := uint32(0)
	sum -= magic + flat
	for _, word := range []uint32{magic, flat, sum, at, at, 0, 0, at + 32} {
		header = binary.LittleEndian.AppendUint32(header, word)
	}
	s.Boot = vm.BootSource{Kernel: filepath.Join(s.Dir, "kernel"), Initramfs: filepath.Join(s.Dir, "initramfs"), Cmdline: "console=ttyS0 quiet"}
	for path, data := range map[string][]byte{s.Boot.Kernel: append(header, kernel...), s.Boot.Initramfs: make([]byte, 4096)} {
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s.GuestKey = bytes.Repeat([]byte{0x5a, 0xc3}, 16)
	secret := hex.EncodeToString(s.GuestKey)
	p := spawn(t.Context(), t, s)
	var line string
	if err := p.QMP.Execute(t.Context(), "qom-get", map[string]any{"path": "/machine", "property": "append"}, &line); err != nil {
		t.Fatal(err)
	}
	if line != "console=ttyS0 quiet warren.key="+secret {
		t.Errorf("the kernel is told %q", line)
	}
	for _, name := range []string{"cmdline", "environ"} {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", p.Ident.PID, name))
		if err != nil || len(b) == 0 {
			t.Fatalf("%s of QEMU could not be read, or is empty: %v", name, err)
		}
		if bytes.Contains(b, []byte(secret)) {
			t.Errorf("the key is in QEMU's %s", name)
		}
	}
	if left, err := os.ReadDir(layout.VMDir(s.Dir).Lent()); err != nil || len(left) > 0 {
		t.Errorf("left where QEMU reads: %v, %v", left, err)
	}
	for what, bad := range map[string]string{"quotes": `a="b"`, "a line's end": "a\nkernel = \"/x", "too long": strings.Repeat("x", 1000)} {
		s := s
		s.Boot.Cmdline = bad
		if _, err := bootConfig(s); vm.KindOf(err) != vm.Unsupported {
			t.Errorf("a command line with %s: %v, want unsupported", what, err)
		}
	}
}
