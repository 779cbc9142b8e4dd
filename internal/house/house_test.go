// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package house_test

import (
	"errors"
	"runtime"
	"testing"
	"time"

	"github.com/warren-vm/warren/internal/engine"
	"github.com/warren-vm/warren/internal/ledger"
	"github.com/warren-vm/warren/internal/vmtest"
	"github.com/warren-vm/warren/vm"
)

// TestOpenFails: a server whose store fails while it opens leaves nothing behind,
// wherever that is. Once the store works again, the server opens.
func TestOpenFails(t *testing.T) {
	broken := vm.Errorf(vm.Unavailable, "records", "the store is broken")
	for name, fail := range map[string]func(b *vmtest.Backend){
		"when the ledger loads": func(b *vmtest.Backend) {
			b.Silent = func(string) error { return broken }
		},
		"when the engine recovers": func(b *vmtest.Backend) {
			b.Fault = func(_ bool, ops []ledger.Op) error {
				if ops[0].Kind == "holds" {
					return broken
				}
				return nil
			}
		},
		"when access removes what belongs to nobody": func(b *vmtest.Backend) {
			b.Fault = func(_ bool, ops []ledger.Op) error {
				if ops[0].Kind == "tokens" {
					return broken
				}
				return nil
			}
		},
		"when names removes the mapping of a VM that is gone": func(b *vmtest.Backend) {
			b.Fault = func(_ bool, ops []ledger.Op) error {
				if ops[0].Kind == "mappings" {
					return broken
				}
				return nil
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := leftovers(t)
			before := runtime.NumGoroutine()
			fail(s.Backend)
			if _, err := s.Open(t.Context()); !errors.Is(err, vm.Unavailable) {
				t.Fatalf("it opens with %v, want an error of kind %s", err, vm.Unavailable)
			}
			for end := time.Now().Add(10 * time.Second); runtime.NumGoroutine() > before; time.Sleep(time.Millisecond) {
				if time.Now().After(end) {
					t.Fatalf("it left %d goroutines", runtime.NumGoroutine()-before)
				}
			}
			s.Backend.Silent, s.Backend.Fault = nil, nil
			h, err := s.Open(t.Context())
			if err != nil {
				t.Fatalf("once the store works: %v", err)
			}
			if err := h.Close(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestUnclaimedMapping: a second server of an etcd leaves alone a mapping without a
// host, which an older warren wrote: the VM is on the first server.
func TestUnclaimedMapping(t *testing.T) {
	s, err := vmtest.NewSite(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	_, err = s.Backend.Write(t.Context(), ledger.Op{Kind: "mappings", ID: "x.example.com", Value: []byte(`{"domain":"x.example.com","vm":"elsewhere"}`)})
	if err != nil {
		t.Fatal(err)
	}
	s.LeaveUnclaimed = true
	h, err := s.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := h.Close(t.Context()); err != nil {
		t.Error(err)
	}
	if _, err := s.Backend.Read(t.Context(), "mappings", "x.example.com"); err != nil {
		t.Errorf("the mapping of the other server: %v", err)
	}
}

// leftovers is a site with a running VM, and a hold, a token and a mapping that the
// next server removes as it opens.
func leftovers(t *testing.T) *vmtest.Site {
	t.Helper()
	s, err := vmtest.NewSite(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	h, err := s.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	c, _, err := vmtest.Admin(t.Context(), h)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := h.Create(t.Context(), c, engine.CreateRequest{Name: "box"}); err != nil {
		t.Fatal(err)
	}
	if err := h.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	for kind, value := range map[string]string{
		"holds":    `{"id":"hold-x","vm":"gone","host":"here"}`,
		"tokens":   `{"id":"tok-x","identity":"gone"}`,
		"mappings": `{"domain":"x.example.com","vm":"gone","host":"here"}`,
	} {
		id := map[string]string{"holds": "hold-x", "tokens": "tok-x", "mappings": "x.example.com"}[kind]
		if _, err := s.Backend.Write(t.Context(), ledger.Op{Kind: kind, ID: id, Value: []byte(value)}); err != nil {
			t.Fatal(err)
		}
	}
	return s
}
