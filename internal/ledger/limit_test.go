// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package ledger_test

import (
	"fmt"
	"log/slog"
	"testing"

	"github.com/warren-vm/warren/internal/ledger"
	"github.com/warren-vm/warren/internal/vmtest"
	"github.com/warren-vm/warren/vm"
)

// TestLimit: an owner may have so many records, is told what makes room, and may
// have another once one is gone, also after a restart. Other owners are not
// concerned.
func TestLimit(t *testing.T) {
	const most = 3
	b := vmtest.NewBackend()
	ctx := t.Context()
	open := func() (*ledger.Ledger, *ledger.Table[vm.KeyID, vm.APIKey]) {
		l := ledger.New(b, "here", slog.New(slog.DiscardHandler))
		keys := ledger.Add(l, ledger.Kind[vm.KeyID, vm.APIKey]{
			Name: "keys", Key: func(k *vm.APIKey) vm.KeyID { return k.ID },
			Limit: ledger.Limit[vm.APIKey]{Most: most, Owner: func(k *vm.APIKey) string { return string(k.Account) }, What: "keys", Then: "revoke one"},
		})
		if err := l.Load(ctx); err != nil {
			t.Fatal(err)
		}
		return l, keys
	}
	key := func(account, id string) vm.APIKey { return vm.APIKey{ID: vm.KeyID(id), Account: vm.AccountID(account)} }
	l, keys := open()
	for i := range most {
		if err := keys.Create(ctx, key("a", fmt.Sprint(i))); err != nil {
			t.Fatal(err)
		}
	}
	over := func() {
		t.Helper()
		e := vm.AsError(keys.Create(ctx, key("a", "more")))
		if e == nil || e.Kind != vm.Limit {
			t.Fatalf("one more: %v", e)
		}
		if e.Fields["limit"] != most {
			t.Errorf("it names the limit %v", e.Fields["limit"])
		}
		if e.Hint != "revoke one" {
			t.Errorf("its hint is %q", e.Hint)
		}
	}
	over()
	over() // a refused one does not count
	if err := keys.Create(ctx, key("b", "other")); err != nil {
		t.Errorf("another owner: %v", err)
	}
	l.Close()
	l, keys = open()
	defer l.Close()
	over()
	if err := keys.Drop(ctx, "0"); err != nil {
		t.Fatal(err)
	}
	if err := keys.Create(ctx, key("a", "again")); err != nil {
		t.Errorf("with room again: %v", err)
	}
	over()
}
