// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package engine_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/warren-vm/warren/internal/engine"
	"github.com/warren-vm/warren/internal/ledger"
	"github.com/warren-vm/warren/internal/vmtest"
	"github.com/warren-vm/warren/vm"
)

// size is how large the largest record is.
func size[T any](t *testing.T, s *vmtest.Site, kind string) (most int) {
	t.Helper()
	list, err := vmtest.Stored[T](s.Backend, kind)
	if err != nil {
		t.Fatal(err)
	}
	for _, rec := range list {
		data, err := json.Marshal(rec)
		if err != nil {
			t.Fatal(err)
		}
		most = max(most, len(data))
	}
	return most
}

// TestManyTerminals: however many terminals a guest names, and however long their names,
// its VM falls asleep with a record of ordinary size that says how many were left out.
func TestManyTerminals(t *testing.T) {
	s, e, c := site(t)
	create(t, e, c, engine.CreateRequest{Name: "box"})
	const all = 300
	for i := range all {
		term, err := e.OpenTerminal(t.Context(), c, "box", vm.TerminalSpec{ID: fmt.Sprint("s", i), Command: "true " + strings.Repeat("x", 3<<10), Cols: 80, Rows: 24})
		if err != nil {
			t.Fatal(err)
		}
		eventually(t, "it has ended", func() bool { return !term.Session().Running() })
		_ = term.Detach()
	}
	if _, err := e.Suspend(t.Context(), c, "box", engine.SuspendRequest{}); err != nil {
		t.Fatal(err)
	}
	if n := size[vm.VM](t, s, "vms"); n > ledger.MaxRecord {
		t.Errorf("the record has %d bytes", n)
	}
	v, err := e.Get(t.Context(), c, "box")
	if err != nil || len(v.Terminals) == 0 || len(v.Terminals) > vm.MaxTerminals || v.TerminalsOmitted != all-len(v.Terminals) {
		t.Errorf("%d kept, %d not, %v", len(v.Terminals), v.TerminalsOmitted, err)
	}
	st, err := e.State(t.Context(), c, "box")
	if err != nil || !strings.Contains(strings.Join(st.Problems, "\n"), "more that the guest named") {
		t.Errorf("the state's problems are %q (%v), want that there are more terminals", st.Problems, err)
	}
}
