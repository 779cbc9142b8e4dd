// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package vault_test

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/warren-vm/warren/internal/ledger"
	"github.com/warren-vm/warren/internal/vault"
	"github.com/warren-vm/warren/vm"
)

// TestVolumeAccounts: another account's volume does not exist.
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

// An account has a limited number of volumes, and the refusal says what makes room.
func TestVolumeLimit(t *testing.T) {
	s := newSite(t)
	e, c := open(t, s)
	for range 1000 {
		rec := vm.Volume{ID: vm.NewVolumeID(), Account: c.Actor.Account, Project: vm.DefaultProject, Name: string(vm.NewVolumeID())}
		value, err := json.Marshal(rec)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Backend.Write(t.Context(), ledger.Op{Kind: "volumes", ID: string(rec.ID), Value: value}); err != nil {
			t.Fatal(err)
		}
	}
	shut(t, e)
	e, c = open(t, s)
	_, err := e.CreateVolume(t.Context(), c, vault.VolumeRequest{Name: "more"})
	refused(t, err, vm.Limit, "VOLUME_LIMIT_EXCEEDED")
	if hint := vm.AsError(err).Hint; !strings.Contains(hint, "warren volume rm") {
		t.Errorf("hint %q", hint)
	}
}

// A volume whose record cannot be read keeps its files and does not keep the server from
// starting; it is back once its record is.
func TestUnreadableVolume(t *testing.T) {
	s := newSite(t)
	e, c := open(t, s)
	v := newVolume(t, e, c, "vol")
	if err := os.MkdirAll(s.Dir.Volume(v.ID), 0o700); err != nil {
		t.Fatal(err)
	}
	shut(t, e)
	var record []byte
	s.Backend.Damage("volumes", string(v.ID), func(data []byte) []byte { record = data; return data[:9] })
	e, c = open(t, s)
	_, err := e.VolumeOf(t.Context(), c, ref("vol"))
	refused(t, err, vm.NotFound, "VOLUME_NOT_FOUND")
	if _, err := os.Stat(s.Dir.Volume(v.ID)); err != nil {
		t.Errorf("its files were put aside: %v", err)
	}
	shut(t, e)
	s.Backend.Damage("volumes", string(v.ID), func([]byte) []byte { return record })
	e, c = open(t, s)
	unlock(t, e, c, "vol")
}

// When it is closed, the server forgets every key and accepts no other.
func TestCloseForgetsKeys(t *testing.T) {
	_, e, c := site(t)
	newVolume(t, e, c, "vol")
	unlock(t, e, c, "vol")
	v, err := e.FindVolume(c, ref("vol"))
	if err != nil {
		t.Fatal(err)
	}
	shut(t, e)
	if _, err := v.Key(); vm.AsError(err).Code != "VOLUME_LOCKED" {
		t.Errorf("after the end of the server the key is there: %v", err)
	}
	_, _, err = e.UnlockVolume(t.Context(), c, ref("vol"), vault.UnlockRequest{})
	if vm.KindOf(err) != vm.Unavailable {
		t.Errorf("unlock after the end: %v", err)
	}
}
