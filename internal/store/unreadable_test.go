// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"errors"
	"testing"

	"github.com/warren-vm/warren/vm"
)

// TestUnreadable lists the records that can be decoded, and names those that
// cannot, which can still be removed.
func TestUnreadable(t *testing.T) {
	ctx, s := t.Context(), open(t, shortDir(t))
	defer s.Close()
	c := vms(s)
	if _, err := c.Create(ctx, vm.VM{ID: "well"}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.client.Put(ctx, c.path("sick"), `{"id":"sick","name":`); err != nil {
		t.Fatal(err)
	}
	list, err := c.List(ctx)
	var u *Unreadable
	if !errors.As(err, &u) || vm.KindOf(err) != vm.Corrupt || len(u.Records) != 1 || u.Records[0].ID != "sick" || u.Records[0].Revision == 0 || len(u.Records[0].Data) == 0 {
		t.Errorf("the list's error is %+v, want one corrupt record sick with its data and revision", err)
	}
	if len(list) != 1 || list[0].ID != "well" {
		t.Errorf("the readable records are %+v, want well alone", list)
	}
	if err := c.Delete(ctx, vm.VM{ID: "sick", Revision: u.Records[0].Revision}); err != nil {
		t.Fatal(err)
	}
	if list, err := c.List(ctx); err != nil || len(list) != 1 {
		t.Errorf("after sick is deleted the records are %+v (%v), want one", list, err)
	}
}
