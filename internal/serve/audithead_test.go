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
	"github.com/warren-vm/warren/internal/ledger"
	"github.com/warren-vm/warren/internal/store"
	"github.com/warren-vm/warren/internal/vmtest"
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
	head := func() *auditHead { return &auditHead{store.Backend{Store: s}, "here", true} }
	session := func(n int) vm.AuditReport {
		t.Helper()
		h := head()
		l, err := audit.Open(ctx, dir, audit.Options{Keeper: h})
		if err != nil {
			t.Fatal(err)
		}
		a := auditor{l, dir, h}
		for range n {
			if _, err := a.Begin(ctx, vm.AuditEntry{Op: vm.OpExec}); err != nil {
				t.Fatal(err)
			}
		}
		r, err := a.Verify(ctx, nil)
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
			t.Errorf("a sound log verifies as %+v, want ok", r)
		}
	}
	end, err := head().Load(ctx)
	if err != nil || end.Seq != 10 || end.Hash == "" {
		t.Errorf("the head in the store is %+v (%v), want sequence 10 with a hash", end, err)
	}
	l, err := audit.Open(ctx, dir, audit.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	h := head()
	if err := h.Save(ctx, audit.Head{Seq: 12, Hash: "of a record that was cut off"}); err != nil {
		t.Fatal(err)
	}
	if r, err := (auditor{l, dir, h}).Verify(ctx, nil); err != nil || r.OK || !strings.Contains(r.Problem, "the tail is cut") {
		t.Errorf("a log that ends before its head verifies as %+v (%v), want a cut tail", r, err)
	}
}

// TestAuditHeadOfHosts: each host has an end of its own, and the one that an older
// warren kept, which knew one host only, is seen by one of them.
func TestAuditHeadOfHosts(t *testing.T) {
	ctx := t.Context()
	b := vmtest.NewBackend()
	if _, err := b.Write(ctx, ledger.Op{Kind: auditKind, ID: oldAuditEnd, Value: []byte(`{"id":"end","seq":7,"hash":"h"}`)}); err != nil {
		t.Fatal(err)
	}
	one, two := &auditHead{b, "one", true}, &auditHead{b, "two", false}
	seq := func(h *auditHead, want int64) {
		t.Helper()
		if end, err := h.Load(ctx); err != nil {
			t.Error(err)
		} else if end.Seq != want {
			t.Errorf("the audit log of %s ends with %d, want %d", h.host, end.Seq, want)
		}
	}
	seq(one, 7)
	seq(two, 0)
	for n := range int64(2) {
		if err := one.Save(ctx, audit.Head{Seq: 8 + n}); err != nil {
			t.Fatal(err)
		}
	}
	if err := two.Save(ctx, audit.Head{Seq: 1}); err != nil {
		t.Fatal(err)
	}
	seq(one, 9)
	seq(two, 1)
}
