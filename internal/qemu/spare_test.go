// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package qemu

import (
	"os"
	"testing"

	"github.com/warren-vm/warren/internal/layout"
	"github.com/warren-vm/warren/vm"
)

// TestSpare: a capture takes the copy that was made for it, and writes what the
// machine has changed over it; the file is as without. A spare of another size
// is not taken.
func TestSpare(t *testing.T) {
	ctx := deadline(t)
	first := newSpec(t)
	gen, n := counting(ctx, t, spawn(ctx, t, first), 0)
	spec := newSpec(t)
	spec.Generation = &gen
	p := spawn(ctx, t, spec)
	spare := layout.VMDir(spec.Dir).SpareRAM()
	if err := p.MakeSpare(ctx); err != nil {
		t.Fatal(err)
	}
	made, err := os.Stat(spare)
	if err != nil {
		t.Fatal(err)
	}
	out, _, err := capture(ctx, t, p, vm.CaptureSpec{})
	if err != nil {
		t.Fatal(err)
	}
	taken, err := os.Stat(out.RAM)
	if err != nil || !os.SameFile(made, taken) {
		t.Errorf("the capture made a file of its own (%v)", err)
	}
	if _, err := os.Stat(spare); err == nil {
		t.Error("the spare is still there")
	}
	if got := count(t, out.RAM); got < n {
		t.Errorf("it counts %d, the machine was started at %d", got, n)
	}
	if _, base := counting(ctx, t, p, count(t, out.RAM)); base == 0 {
		t.Error("the machine did not go on")
	}

	if err := os.WriteFile(spare, []byte("not it"), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, _, err = capture(ctx, t, p, vm.CaptureSpec{}); err != nil || count(t, out.RAM) == 0 {
		t.Errorf("with a spare that is none: %v", err)
	}
	p.DropSpare()
	if _, err := os.Stat(spare); err == nil {
		t.Error("the spare was not dropped")
	}
}
