// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/warren-vm/warren/internal/audit"
	"github.com/warren-vm/warren/internal/store"
	"github.com/warren-vm/warren/vm"
)

// TestAuditHead: the end of the audit log is in the record store, and a
// verification compares with it.
func TestAuditHead(t *testing.T) {
	ctx := t.Context()
	base, err := os.MkdirTemp("", "wah") // short: it holds sockets
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(base) })
	dir := filepath.Join(base, "audit")
	s, err := store.Open(ctx, store.Options{Dir: filepath.Join(base, "etcd"), SocketDir: filepath.Join(base, "s"), Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	session := func(n int) vm.AuditReport {
		t.Helper()
		l, err := audit.Open(dir)
		if err != nil {
			t.Fatal(err)
		}
		a := auditor{l, dir, newAuditHead(s)}
		if err := l.Keep(ctx, a.head, slog.New(slog.DiscardHandler)); err != nil {
			t.Fatal(err)
		}
		for range n {
			if _, err := a.Begin(ctx, vm.AuditEntry{Op: vm.OpExec}); err != nil {
				t.Fatal(err)
			}
		}
		r, err := a.Verify(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		return r
	}
	for range 2 {
		if r := session(5); !r.OK {
			t.Errorf("%+v", r)
		}
	}
	head, err := newAuditHead(s).Load(ctx)
	if err != nil || head.Seq != 10 || head.Hash == "" {
		t.Errorf("%+v, %v", head, err)
	}
	l, err := audit.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	h := newAuditHead(s)
	if err := h.Save(ctx, audit.Head{Seq: 12, Hash: "of a record that was cut off"}); err != nil {
		t.Fatal(err)
	}
	if r, err := (auditor{l, dir, h}).Verify(ctx); err != nil || r.OK || !strings.Contains(r.Problem, "the tail is cut") {
		t.Errorf("%+v, %v", r, err)
	}
}
