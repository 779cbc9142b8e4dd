// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package house_test

import (
	"errors"
	"os"
	"slices"
	"testing"

	"github.com/warren-vm/warren/internal/engine"
	"github.com/warren-vm/warren/internal/layout"
	"github.com/warren-vm/warren/internal/vmtest"
	"github.com/warren-vm/warren/vm"
)

// TestConnectionsLeft: the connections that a monitor left when it ended without a server
// are recorded once when the server starts, also those of a VM whose removal the start
// finishes.
func TestConnectionsLeft(t *testing.T) {
	for name, interrupted := range map[string]bool{"the VM stays": false, "its removal is finished": true} {
		t.Run(name, func(t *testing.T) {
			ctx := t.Context()
			s, err := vmtest.NewSite(t.TempDir())
			must(t, err)
			h, err := s.Open(ctx)
			must(t, err)
			c, _, err := vmtest.Admin(ctx, h)
			must(t, err)
			v, err := h.Create(ctx, c, engine.CreateRequest{Name: "box"})
			must(t, err)
			must(t, h.Close(ctx))
			if interrupted {
				s.Fault = func(label string) error {
					if label == "delete:dir" {
						return engine.ErrDied
					}
					return nil
				}
				h, err = s.Open(ctx)
				must(t, err)
				if _, err := h.Delete(ctx, c, "box"); !errors.Is(err, engine.ErrDied) {
					t.Fatalf("the removal ends with %v, want that the engine died", err)
				}
				must(t, h.Close(ctx))
				s.Fault = nil
			}
			left := layout.VMDir(s.Dir.VM(v.ID)).Connections()
			must(t, layout.WriteJSON(left, []vm.ConnectionBatch{{First: 3, List: []vm.Connection{{Proto: "tcp", Dest: "192.0.2.1:443", Allowed: true}}}}, 0o600))
			for range 2 {
				h, err = s.Open(ctx)
				must(t, err)
				list, err := h.Records(ctx, vm.AuditFilter{VM: v.ID})
				must(t, err)
				list = slices.DeleteFunc(list, func(r vm.AuditRecord) bool { return r.Op != vm.OpConnection })
				if len(list) != 1 {
					t.Fatalf("there are %d records of the connection, want one", len(list))
				}
				if r := list[0]; r.Subject != "tcp 192.0.2.1:443" || r.Actor.VM != v.ID || r.Actor.Account != v.Account {
					t.Errorf("the record is %+v", r)
				}
				must(t, h.Close(ctx))
			}
			if _, err := os.Stat(left); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("the file is left: %v", err)
			}
		})
	}
}

// TestConnectionsLeftTooMany: a server starts beside a file with more reports than a monitor
// leaves, records none of them, and keeps the file.
func TestConnectionsLeftTooMany(t *testing.T) {
	ctx := t.Context()
	s, err := vmtest.NewSite(t.TempDir())
	must(t, err)
	h, err := s.Open(ctx)
	must(t, err)
	c, _, err := vmtest.Admin(ctx, h)
	must(t, err)
	v, err := h.Create(ctx, c, engine.CreateRequest{Name: "box"})
	must(t, err)
	must(t, h.Close(ctx))
	left := layout.VMDir(s.Dir.VM(v.ID)).Connections()
	one := vm.ConnectionBatch{List: []vm.Connection{{Proto: "tcp", Dest: "192.0.2.1:443"}}}
	must(t, layout.WriteJSON(left, slices.Repeat([]vm.ConnectionBatch{one}, vm.MaxLeft+1), 0o600))
	h, err = s.Open(ctx)
	must(t, err)
	list, err := h.Records(ctx, vm.AuditFilter{VM: v.ID})
	must(t, err)
	if slices.ContainsFunc(list, func(r vm.AuditRecord) bool { return r.Op == vm.OpConnection }) {
		t.Error("connections of the file are recorded")
	}
	if _, err := os.Stat(left); err != nil {
		t.Errorf("the file is gone: %v", err)
	}
	must(t, h.Close(ctx))
}
