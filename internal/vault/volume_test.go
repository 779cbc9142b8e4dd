// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package vault_test

import (
	"testing"

	"github.com/warren-vm/warren/internal/vault"
	"github.com/warren-vm/warren/vm"
)

// TestVolumeAccounts: another account's volume is not there.
func TestVolumeAccounts(t *testing.T) {
	_, e, c := site(t)
	ctx := t.Context()
	v := newVolume(t, e, c, "work")
	_, _, secret, err := e.CreateAccount(ctx, c, "other")
	if err != nil {
		t.Fatal(err)
	}
	actor, err := e.Authenticate(ctx, secret)
	if err != nil {
		t.Fatal(err)
	}
	other := &vm.Call{Actor: actor}
	for _, name := range []string{"work", string(v.ID)} {
		_, _, err := e.UnlockVolume(ctx, other, ref(name), vault.UnlockRequest{})
		refused(t, err, vm.NotFound, "VOLUME_NOT_FOUND")
		_, err = e.RemoveVolume(ctx, other, ref(name))
		refused(t, err, vm.NotFound, "VOLUME_NOT_FOUND")
	}
	if l, err := e.Volumes(ctx, other, "", ""); err != nil || len(l) != 0 {
		t.Errorf("it lists %v, %v", l, err)
	}
}
