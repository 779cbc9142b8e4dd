// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package policy_test

import (
	"context"
	"testing"
	"time"

	"github.com/warren-vm/warren/internal/engine"
	"github.com/warren-vm/warren/internal/vmtest"
	"github.com/warren-vm/warren/vm"
)

// site opens a simulated host and the rooms of one server on it.
func site(t *testing.T) (*vmtest.Site, *vmtest.House, *vm.Call) {
	t.Helper()
	s, err := vmtest.NewSite(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	e, err := s.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, stop := context.WithTimeout(context.Background(), 10*time.Second)
		defer stop()
		if err := e.Close(ctx); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	c, _, err := vmtest.Admin(t.Context(), e)
	if err != nil {
		t.Fatal(err)
	}
	return s, e, c
}

// user returns a call of another account that is no admin.
func user(t *testing.T, e *vmtest.House, c *vm.Call) *vm.Call {
	t.Helper()
	a, _, _, err := e.CreateAccount(t.Context(), c, "user")
	if err != nil {
		t.Fatal(err)
	}
	return &vm.Call{Actor: vm.Actor{Account: a.ID}, Request: vm.NewRequestID()}
}

func create(t *testing.T, e *vmtest.House, c *vm.Call, name string, network vm.NetworkSpec) vm.VM {
	t.Helper()
	v, err := e.Create(t.Context(), c, engine.CreateRequest{Name: name, Network: network})
	if err != nil {
		t.Fatalf("create %s with %q: %v", name, network, err)
	}
	return v
}

// texts are the rules of a policy as people write them, with what they do.
func texts(p vm.NetworkPolicy) []string {
	out := []string{}
	for _, r := range p.Rules {
		out = append(out, string(r.Action)+" "+r.Text())
	}
	return out
}

// wants checks a refusal.
func wants(t *testing.T, what string, err error, kind vm.Kind, code string) {
	t.Helper()
	if e := vm.AsError(err); err == nil || vm.KindOf(err) != kind || e.Code != code || e.Hint == "" {
		t.Errorf("%s: error %v (code %q, hint %q), want kind %q, code %q and a hint", what, err, e.Code, e.Hint, kind, code)
	}
}

func allow(to string) []vm.NetRule { return []vm.NetRule{{To: to}} }
