// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package engine_test

import (
	"bytes"
	"os"
	"slices"
	"testing"

	"github.com/warren-vm/warren/internal/engine"
	"github.com/warren-vm/warren/internal/layout"
	"github.com/warren-vm/warren/vm"
)

// TestUnreadableRecord: an undecodable record of a VM or generation does not keep the
// server and other VMs from starting. The VM is shown to its owner, or to an admin if the
// owner cannot be read either. Its machine and files stay, and it is back once its record
// is.
func TestUnreadableRecord(t *testing.T) {
	for how, damage := range map[string]func([]byte) []byte{
		"cut":     func(data []byte) []byte { return data[:len(data)/2] },
		"garbage": func([]byte) []byte { return []byte("\x00\x01") },
		"type": func(data []byte) []byte {
			return bytes.Replace(data, []byte(`"imageName":"`), []byte(`"imageName":7,"x":"`), 1)
		},
	} {
		t.Run(how, func(t *testing.T) {
			s, e, c := site(t)
			ctx := t.Context()
			v := create(t, e, c, engine.CreateRequest{Name: "box"})
			create(t, e, c, engine.CreateRequest{Name: "well"})
			g, err := e.Snapshot(ctx, c, "box", engine.SnapshotRequest{Name: "first"})
			if err != nil {
				t.Fatal(err)
			}
			closeEngine(t, e)
			var record, snapshot []byte
			s.Backend.Damage("vms", string(v.ID), func(data []byte) []byte { record = data; return damage(data) })
			s.Backend.Damage("generations", string(g.ID), func(data []byte) []byte { snapshot = data; return data[:9] })

			e, c = open(t, s)
			if out, _ := sh(t, e, c, "well", "echo ok"); out != "ok\n" {
				t.Errorf("another one: %q", out)
			}
			if got, err := e.Get(ctx, c, string(v.ID)); err != nil || got.State != vm.Lost || got.Reason != engine.Unreadable {
				t.Errorf("it is shown as %s (%s), %v", got.State, got.Reason, err)
			}
			collected(t, s, e, c)
			closeEngine(t, e)
			if !slices.Contains(s.World.Running(), v.ID) {
				t.Error("its machine was ended")
			}
			for _, path := range []string{s.Dir.Overlay(v.ID), layout.GenerationDir(s.Dir.Generation(g.ID)).RAM(), layout.GenerationDir(s.Dir.Generation(g.ID)).Disk()} {
				if _, err := os.Stat(path); err != nil {
					t.Error(err)
				}
			}

			s.Backend.Damage("vms", string(v.ID), func([]byte) []byte { return record })
			s.Backend.Damage("generations", string(g.ID), func([]byte) []byte { return snapshot })
			e, c = open(t, s)
			if _, err := e.Rollback(ctx, c, "box", engine.RollbackRequest{To: "first"}); err != nil {
				t.Error(err)
			}
			consistent(t, s)
			closeEngine(t, e)
			s.Backend.Damage("vms", string(v.ID), damage)
			e, c = open(t, s)
			if _, err := e.Delete(ctx, c, string(v.ID)); err != nil {
				t.Errorf("given up: %v", err)
			}
			if slices.Contains(s.World.Running(), v.ID) {
				t.Error("its machine runs on")
			}
		})
	}
}
