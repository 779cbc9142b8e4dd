// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package engine_test

import (
	"strings"
	"testing"

	"github.com/warren-vm/warren/internal/engine"
	"github.com/warren-vm/warren/internal/vmtest"
	"github.com/warren-vm/warren/vm"
)

// TestShred: the key of what was sealed is gone with the VM, and what is readable
// anyway is named: what was never sealed, and what somebody needs.
func TestShred(t *testing.T) {
	s, e, c := site(t)
	for _, n := range []string{"cold", "plain"} {
		create(t, e, c, engine.CreateRequest{Name: n})
		if _, err := e.Suspend(t.Context(), c, n, engine.SuspendRequest{Cold: n == "cold"}); err != nil {
			t.Fatal(err)
		}
	}
	keys := func() (n int) {
		l, err := vmtest.Stored[vm.Generation](s.Backend, "generations")
		if err != nil {
			t.Fatal(err)
		}
		for _, g := range l {
			if len(g.SealKey) > 0 {
				n++
			}
		}
		return n
	}
	if keys() != 1 {
		t.Fatalf("%d keys before", keys())
	}
	v, out, err := e.Shred(t.Context(), c, "cold")
	if err != nil || v.Name != "cold" || len(out.Unreadable) != 1 || !strings.Contains(out.Unreadable[0], string(v.Generation)) || keys() != 0 {
		t.Errorf("%+v %v, %d keys", out, err, keys())
	}
	all := strings.Join(out.Readable, "\n")
	if !strings.Contains(all, "its disk: it was never encrypted") {
		t.Errorf("the disk is not said to stay readable: %s", all)
	}
	if strings.Contains(all, "memory of") {
		t.Errorf("the shredded memory is said to stay readable: %s", all)
	}
	create(t, e, c, engine.CreateRequest{Name: "kept"})
	snap := snapshotOf(t, e, c, "kept", "mark")
	if _, out, err = e.Shred(t.Context(), c, "kept"); err != nil || len(out.Unreadable) != 0 || !strings.Contains(strings.Join(out.Readable, "\n"), "warren snapshot rm "+string(snap)) {
		t.Errorf("with a snapshot: %+v %v", out, err)
	}
	if v, out, err = e.Shred(t.Context(), c, "plain"); err != nil || len(out.Unreadable) != 0 || !strings.Contains(strings.Join(out.Readable, "\n"), "memory of "+string(v.Generation)) {
		t.Errorf("never sealed: %+v %v", out, err)
	}
	nothingLeft(t, s)
	if _, _, err := e.Shred(t.Context(), c, "nobody"); vm.KindOf(err) != vm.NotFound {
		t.Errorf("shredding an unknown VM gives %v, want that it is not found", err)
	}
}
