// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package ledger_test

import (
	"cmp"
	"fmt"
	"log/slog"
	"strings"
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

// TestLimitsOfKinds: these are the limits of the records that a server keeps. A kind
// without a number is bounded by what its records belong to, or by its room.
func TestLimitsOfKinds(t *testing.T) {
	limits := map[string]int{
		"accounts":        1000,
		"asks":            0, // 100 pending for each VM and identity, 1000 for each account: see asks
		"buckets":         1000,
		"builds":          2000,
		"domains":         0, // 100 for each account: see names
		"generations":     20_000,
		"git-permissions": 10_000,
		"holds":           0, // vm.MaxHolds for each VM
		"identities":      1000,
		"jobs":            0, // as many as are kept for the account
		"keys":            1000,
		"memories":        2000,
		"mappings":        0, // below verified domains, one for each name
		"object-grants":   10_000,
		"policies":        0, // 100 for each account: see policy
		"repo-deliveries": 0, // 150 for each trigger
		"repo-triggers":   1000,
		"repositories":    10_000,
		"results":         500,
		"s3-keys":         1000,
		"secrets":         1000,
		"shown-names":     0, // 1000 for each account: see names
		"ssh-keys":        1000,
		"tokens":          1000,
		"usage":           0, // one for each VM, and totals for each day
		"vm-permissions":  10_000,
		"vms":             10_000,
		"volumes":         1000,
	}
	if ledger.MaxRecord != 64<<10 {
		t.Errorf("a record may have %d bytes, want 64 KiB", ledger.MaxRecord)
	}
	p := simulator()
	for _, s := range productKinds(t) {
		want, ok := limits[s.Kind()]
		if !ok {
			t.Errorf("no limit is stated here for %s", s.Kind())
		}
		delete(limits, s.Kind())
		most, what, then, code := s.Limit()
		if most != want {
			t.Errorf("an owner may have %d of %s, want %d", most, s.Kind(), want)
		}
		if most == 0 {
			continue
		}
		v := p.open(t, s, "here")
		rec := p.next(s)
		v.table.SetOwned(rec, most-1)
		v.must("the last of "+s.Kind(), v.create(rec))
		e := vm.AsError(v.create(rec))
		if e == nil || e.Kind != vm.Limit {
			t.Fatalf("one more of %s: %v, want an error of kind %s", s.Kind(), e, vm.Limit)
		}
		if e.Code != cmp.Or(code, "LIMIT_EXCEEDED") {
			t.Errorf("one more of %s: the code is %s", s.Kind(), e.Code)
		}
		if e.Fields["limit"] != most {
			t.Errorf("one more of %s: the error names the limit %v, want %d", s.Kind(), e.Fields["limit"], most)
		}
		if !strings.Contains(e.Msg, what) {
			t.Errorf("one more of %s: the error does not name %q: %s", s.Kind(), what, e.Msg)
		}
		if e.Hint != then || then == "" {
			t.Errorf("one more of %s: the hint is %q, want %q", s.Kind(), e.Hint, then)
		}
	}
	for kind := range limits {
		t.Errorf("no table has the kind %s", kind)
	}
}
