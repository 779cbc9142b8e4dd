// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package qemu

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/warren-vm/warren/internal/layout"
	"github.com/warren-vm/warren/vm"
)

// TestOutputIsBounded: whatever a QEMU prints, its log keeps the end of it and
// no more; nothing that it prints makes it wait, also while nobody reads; and
// who comes later reads on.
func TestOutputIsBounded(t *testing.T) {
	spec := vm.MachineSpec{Dir: t.TempDir(), RunDir: t.TempDir()}
	path := layout.VMDir(spec.Dir).QEMULog()
	o, w, err := newOutput(spec)
	if err != nil {
		t.Fatal(err)
	}
	// As QEMU gets it: through exec, which likes to make descriptors block.
	cmd := exec.Command("true")
	cmd.Stdout = w
	if err := cmd.Run(); err != nil {
		t.Fatal(err)
	}
	qemu, err := unix.Dup(int(w.Fd()))
	if err != nil {
		t.Fatal(err)
	}
	w.Close()
	line := bytes.Repeat([]byte("x"), 4095)
	line = append(line, '\n')
	for wrote := 0; wrote < 4<<20; {
		n, err := unix.Write(qemu, line)
		if err != nil && !errors.Is(err, unix.EAGAIN) {
			t.Fatal(err)
		}
		wrote += max(n, 0)
	}
	o.close()
	for _, p := range []string{path, path + ".1"} {
		if st, err := os.Stat(p); err != nil || st.Size() > logLimit || st.Size() == 0 {
			t.Errorf("%s is %v (%v), want 1 to %d bytes", p, st, err, logLimit)
		}
	}
	for {
		if _, err := unix.Write(qemu, line); errors.Is(err, unix.EAGAIN) {
			break // it would have to wait for ever
		} else if err != nil {
			t.Fatalf("without a reader: %v", err)
		}
	}
	if o, err = readOutput(spec); err != nil {
		t.Fatal(err)
	}
	for _, err := unix.Write(qemu, []byte("last words\n")); err != nil; _, err = unix.Write(qemu, []byte("last words\n")) {
		if !errors.Is(err, unix.EAGAIN) {
			t.Fatal(err)
		}
	}
	unix.Close(qemu)
	o.finish()
	if said := lastLines(spec, 1); !strings.HasSuffix(said, "last words") {
		t.Errorf("the last line is %.100q", said)
	}
	if _, err := readOutput(vm.MachineSpec{Dir: spec.Dir, RunDir: t.TempDir()}); vm.KindOf(err) != vm.NotFound {
		t.Errorf("a QEMU without a pipe: %v", err)
	}
}
