// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package httpd

import (
	"testing"

	"github.com/warren-vm/warren/internal/engine"
	"github.com/warren-vm/warren/vm"
)

// TestObjectGrantsOfForks: a fork has the grants of its parent, each ends alone, and none is
// left of a VM that is deleted.
func TestObjectGrantsOfForks(t *testing.T) {
	b := newBench(t)
	room := b.engine.Rooms.Objects
	v, err := b.engine.Create(t.Context(), b.call, engine.CreateRequest{Name: "box"})
	if err != nil {
		t.Fatal(err)
	}
	b.do("POST", "/v1/objects/buckets", `{"name":"data"}`).answers(t, 200)
	b.do("PUT", "/v1/objects/buckets/data/grants", `{"vm":"box","prefix":"in/","access":"read"}`).answers(t, 200)
	forked, err := b.engine.Fork(t.Context(), b.call, "box", engine.ForkRequest{Count: 2, Prefix: "try"})
	if err != nil {
		t.Fatal(err)
	}
	grants := func(id vm.ID) []vm.ObjectGrant { return room.GrantsOf(v.Account, "", id)["data"] }
	for _, child := range forked.Children {
		if got := grants(child.ID); len(got) != 1 || got[0].Prefix != "in/" || got[0].Access != vm.ObjectRead {
			t.Errorf("the fork %s has the grants %+v, want its parent's", child.Name, got)
		}
	}
	b.do("DELETE", "/v1/objects/buckets/data/grants?vm=box&prefix=in%2F", "").answers(t, 200)
	first := forked.Children[0].ID
	if len(grants(v.ID)) != 0 || len(grants(first)) != 1 {
		t.Errorf("after the parent's grant ended it has %+v, and its fork %+v, want none and one", grants(v.ID), grants(first))
	}
	b.do("DELETE", "/v1/vms/try-1", "").answers(t, 200)
	if got := grants(first); len(got) != 0 {
		t.Errorf("a deleted VM has the grants %+v, want none", got)
	}
	all, err := room.Grants(t.Context(), b.call, "data")
	if err != nil || len(all) != 1 {
		t.Errorf("the bucket has the grants %+v, %v, want that of the fork that is left", all, err)
	}
}

// TestMountObjects: whoever owns the account mounts objects in any of its VMs, which may
// then read them, and nothing else. A mount that fails leaves no right.
func TestMountObjects(t *testing.T) {
	b := newBench(t)
	room := b.engine.Rooms.Objects
	v, err := b.engine.Create(t.Context(), b.call, engine.CreateRequest{Name: "box"})
	if err != nil {
		t.Fatal(err)
	}
	grants := func() []vm.ObjectGrant { return room.GrantsOf(v.Account, "", v.ID)["data"] }
	mount := func(body string) answer { t.Helper(); return b.do("POST", "/v1/vms/box/mounts", body) }
	b.do("POST", "/v1/objects/buckets", `{"name":"data"}`).answers(t, 200)
	for body, status := range map[string]int{
		`{"host":"s3://nobodys/in","path":"/data"}`:        404,
		`{"host":"s3://data/in","path":"/data","rw":true}`: 400,
		`{"host":"s3://data/../other","path":"/data"}`:     400,
		`{"host":"s3://data/a//b","path":"/data"}`:         400,
		`{"host":"s3://","path":"/data"}`:                  400,
		`{"host":"s3://data/in","path":"/etc"}`:            400,
		`{"host":"s3://data/in\u0000","path":"/data"}`:     400,
	} {
		mount(body).answers(t, status)
	}
	b.site.World.Fail("folder", vm.Errorf(vm.GuestFault, "", "no"))
	if got := mount(`{"host":"s3://data/in","path":"/data"}`); got.status == 200 {
		t.Error("a mount that the guest refuses succeeds")
	}
	b.site.World.Fail("folder", nil)
	if got := grants(); len(got) != 0 {
		t.Errorf("after mounts that failed the VM has the grants %+v, want none", got)
	}
	mount(`{"host":"s3://data/in","path":"/data"}`).answers(t, 200)
	if got := grants(); len(got) != 1 || got[0].Prefix != "in/" || got[0].Access != vm.ObjectRead {
		t.Errorf("after the mount the VM has the grants %+v, want to read in/", got)
	}
	mount(`{"host":"s3://data/in/deep","path":"/deep"}`).answers(t, 200)
	if got := grants(); len(got) != 1 {
		t.Errorf("a mount of what the VM may read makes another grant: %+v", got)
	}
	_, token := b.identity("agent").token(nil)
	if got := b.as(token, "POST", "/v1/vms/box/mounts", `{"host":"s3://data/in","path":"/other"}`); got.status != 403 && got.status != 401 && got.status != 404 {
		t.Errorf("an identity mounts objects: %d", got.status)
	}
}
