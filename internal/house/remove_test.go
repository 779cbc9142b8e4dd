// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package house_test

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"testing"
	"time"

	"github.com/warren-vm/warren/internal/access"
	"github.com/warren-vm/warren/internal/answers"
	"github.com/warren-vm/warren/internal/engine"
	"github.com/warren-vm/warren/internal/job"
	"github.com/warren-vm/warren/internal/repo"
	"github.com/warren-vm/warren/internal/vault"
	"github.com/warren-vm/warren/internal/vmtest"
	"github.com/warren-vm/warren/vm"
)

// ofAccount are the kinds of record that go with their account.
var ofAccount = []string{
	"accounts", "keys", "identities", "tokens", "vm-permissions", "vms", "holds", "volumes", "domains", "mappings", "usage", "jobs", "results",
	"repositories", "git-permissions",
}

// countRecords counts the records of a kind that name an account.
func countRecords(t *testing.T, s *vmtest.Site, kind string, account vm.AccountID) (n int) {
	t.Helper()
	list, err := vmtest.Stored[json.RawMessage](s.Backend, kind)
	if err != nil {
		t.Fatal(err)
	}
	for _, rec := range list {
		if bytes.Contains(rec, []byte(account)) {
			n++
		}
	}
	return n
}

// furnish makes an account with a record of each of those kinds.
func furnish(t *testing.T, h *vmtest.House, dns *vmtest.DNS, admin *vm.Call, name string) *vm.Call {
	t.Helper()
	ctx := t.Context()
	_, _, secret, err := h.CreateAccount(ctx, admin, name)
	must(t, err)
	actor, err := h.Authenticate(ctx, secret)
	must(t, err)
	c := &vm.Call{Actor: actor}
	_, err = h.Create(ctx, c, engine.CreateRequest{Name: "old"})
	must(t, err)
	_, err = h.Delete(ctx, c, "old") // its usage is stored
	must(t, err)
	_, err = h.Create(ctx, c, engine.CreateRequest{Name: "box"})
	must(t, err)
	_, err = h.Hold(ctx, c, "box", engine.HoldRequest{})
	must(t, err)
	_, err = h.CreateVolume(ctx, c, vault.VolumeRequest{Name: "data"})
	must(t, err)
	i, err := h.CreateIdentity(ctx, c, "ci")
	must(t, err)
	_, err = h.GrantVM(ctx, c, string(i.ID), "box", nil)
	must(t, err)
	_, _, err = h.CreateToken(ctx, c, string(i.ID), access.TokenRequest{})
	must(t, err)
	code, err := h.Repo.Create(ctx, c, repo.CreateRequest{Name: "code"})
	must(t, err)
	must(t, h.GrantRepo(ctx, c, "ci", code.ID, vm.GitRead, false))
	d, err := h.VerifyDomain(ctx, c, name+".example")
	must(t, err)
	dns.SetTXT(vm.VerificationName(d.Name), d.Code)
	_, err = h.CheckDomain(ctx, c, d.Name)
	must(t, err)
	_, err = h.MapDomain(ctx, c, "www."+d.Name, "box", 80)
	must(t, err)
	must(t, h.SaveResult(ctx, c, answers.Result{Request: vm.NewRequestID(), Done: true, Body: []byte("{}")}))
	_, err = h.Done(ctx, c, "box", job.DoneRequest{Label: name})
	must(t, err)
	return c
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestRemoveAccount: no room keeps a record of an account that was removed, and
// another account keeps all of its records.
func TestRemoveAccount(t *testing.T) {
	dns, err := vmtest.NewDNS()
	must(t, err)
	t.Cleanup(func() { _ = dns.Close() })
	s, err := vmtest.NewSite(t.TempDir())
	must(t, err)
	s.Resolver = dns.Resolver()
	h, err := s.Open(t.Context())
	must(t, err)
	t.Cleanup(func() {
		ctx, stop := context.WithTimeout(context.Background(), 10*time.Second)
		defer stop()
		if err := h.Close(ctx); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	admin, _, err := vmtest.Admin(t.Context(), h)
	must(t, err)
	gone, kept := furnish(t, h, dns, admin, "gone"), furnish(t, h, dns, admin, "kept")
	before := map[string]int{}
	for _, kind := range ofAccount {
		before[kind] = countRecords(t, s, kind, kept.Actor.Account)
		if before[kind] == 0 || countRecords(t, s, kind, gone.Actor.Account) == 0 {
			t.Errorf("an account has no record in %s before the removal", kind)
		}
	}
	must(t, h.RemoveAccount(t.Context(), admin, gone.Actor.Account, true))
	for _, kind := range ofAccount {
		if n := countRecords(t, s, kind, gone.Actor.Account); n != 0 {
			t.Errorf("%d records in %s name the removed account", n, kind)
		}
		if n := countRecords(t, s, kind, kept.Actor.Account); n != before[kind] {
			t.Errorf("%d records in %s name the other account, %d before", n, kind, before[kind])
		}
	}
	list, err := h.Jobs(t.Context(), gone)
	must(t, err)
	if len(list) != 0 {
		t.Errorf("jobs of the removed account are listed: %v", list)
	}
	sums, vms, err := h.Usage(t.Context(), admin, true)
	must(t, err)
	for _, u := range append(sums, vms...) {
		if u.Account == gone.Actor.Account {
			t.Errorf("the usage of the removed account is listed: %+v", u)
		}
	}
	if dirs, err := os.ReadDir(s.Dir.Repos()); err != nil || len(dirs) != 2 {
		t.Errorf("%d directories of repositories are left, want the other account's one and that of incoming objects: %v", len(dirs), err)
	}
	files, err := os.ReadDir(s.Dir.Answers())
	must(t, err)
	if len(files) != 1 {
		t.Errorf("%d files of answers are left, want the other account's one", len(files))
	}
	if _, err := h.VerifyDomain(t.Context(), kept, "gone.example"); err != nil {
		t.Errorf("another account cannot have the domain: %v", err)
	}
}
