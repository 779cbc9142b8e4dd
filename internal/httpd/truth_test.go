// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package httpd

import (
	"testing"

	"github.com/warren-vm/warren/vm"
)

// The truth of a VM names its trees by their places and ids; a token gets it only for a VM
// that it may read as root.
func TestTruthOverHTTP(t *testing.T) {
	b := newBench(t)
	b.create(`{"name":"box","workdir":"/work"}`)
	b.do("PUT", "/v1/vms/box/raw//work/new", []byte("new")).ok(t)
	var got vm.Truth
	b.do("GET", "/v1/vms/box/truth", nil).lacks(t, ":null").into(t, &got)
	if len(got.Trees) == 0 || got.Trees[0].Kind != vm.TreeWorkdir || got.Trees[0].Authority.Place != vm.PlaceMachine || got.Trees[0].Authority.Generation != got.Generation {
		t.Errorf("the trees are %+v, want first the working directory, which is the machine's at %s", got.Trees, got.Generation)
	}
	if got.Only.Files != 1 {
		t.Errorf("only here are %+v, want the new file", got.Only)
	}
	b.do("GET", "/v1/vms/none/truth", nil).wants(t, 404, "VM_NOT_FOUND")
	a := b.identity("ci")
	_, secret := a.token(nil)
	b.as(secret, "GET", "/v1/vms/box/truth", nil).wants(t, 403, "VM_ACCESS_DENIED")
	a.must("POST", "/permissions/vm/"+string(got.VM), map[string]any{"allowedUsers": []string{"agent"}})
	b.as(secret, "GET", "/v1/vms/box/truth", nil).wants(t, 403, "VM_ACCESS_DENIED")
	a.must("PUT", "/permissions/vm/"+string(got.VM), map[string]any{"allowedUsers": []string{"root"}})
	b.as(secret, "GET", "/v1/vms/"+string(got.VM)+"/truth", nil).ok(t)
}
