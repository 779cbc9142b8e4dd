// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package httpd

import (
	"fmt"
	"testing"

	"github.com/warren-vm/warren/api"
)

// TestRetentionRefused: what is not a way of keeping a VM is refused with a code
// that the SDKs know, and nothing is made.
//
// 004-06
func TestRetentionRefused(t *testing.T) {
	b := newBench(t)
	id := b.create(`{"name":"box"}`)
	for _, member := range []string{
		`"persistence":{"type":"sticky","priority":-1}`, `"persistence":{"type":"sticky","priority":11}`,
		`"persistence":{"type":"sticky","priority":"high"}`, `"persistence":{"type":"sticky","priority":2.5}`,
		`"persistence":{"type":"eternal"}`, `"persistence":{"priority":3}`, `"persistence":"sticky"`,
		`"persistence":{"type":"ephemeral","deleteEvent":"onTuesday"}`, `"persistence":{"type":"ephemeral","deleteEvent":7}`,
		`"ttlSeconds":0`, `"ttlSeconds":-1`, `"ttlSeconds":1000000000000`, `"ttlSeconds":"soon"`, `"ttlSeconds":1.5`,
		`"idleTimeoutSeconds":-1`, `"idleTimeoutSeconds":1000000000000`,
	} {
		b.do("POST", "/v1/vms", "{"+member+"}").wants(t, 400, "CREATE_VM_BAD_REQUEST")
		if a := b.do("POST", "/v1/vms/"+id+"/fork", "{"+member+"}"); a.status != 400 || a.json["kind"] != "invalid" {
			t.Errorf("fork %s: %d %s", member, a.status, a.body)
		}
	}
	for _, p := range []string{`{"type":"ephemeral"}`, `{"type":"sticky","priority":11}`, `{"type":"eternal"}`} {
		b.do("POST", "/v1/vms/"+id+"/snapshot", `{"persistence":`+p+`}`).wants(t, 400, "SNAPSHOT_VM_BAD_REQUEST")
	}
	b.do("GET", "/v1/vms", nil).has(t, "totalCount", 1.0)
}

// TestRetentionShown: how a VM is kept is in the answers that make one, in the
// list, and in those about snapshots.
//
// 004-07, 004-14
func TestRetentionShown(t *testing.T) {
	b := newBench(t)
	for _, c := range []struct{ body, want string }{
		{`{}`, "map[priority:5 type:sticky]"},
		{`{"persistence":{"type":"sticky"}}`, "map[priority:5 type:sticky]"},
		{`{"persistence":{"type":"sticky","priority":null}}`, "map[priority:5 type:sticky]"},
		{`{"persistence":{"type":"sticky","priority":10}}`, "map[priority:10 type:sticky]"},
		{`{"persistence":{"type":"ephemeral"}}`, "map[type:ephemeral]"},
		{`{"persistence":{"type":"ephemeral","deleteEvent":"onIdleTimeout"}}`, "map[deleteEvent:onIdleTimeout type:ephemeral]"},
		{`{"persistence":{"type":"persistent"},"ttlSeconds":null}`, "map[type:persistent]"},
	} {
		made := b.do("POST", "/v1/vms", c.body)
		id := fmt.Sprint(made.json["id"])
		forked := b.do("POST", "/v1/vms/"+id+"/fork", `{}`)
		fork, _ := forked.json["forks"].([]any)[0].(map[string]any)
		got := b.do("GET", "/v1/vms/"+id, nil)
		for where, v := range map[string]any{"create": made.json["persistence"], "get": got.json["persistence"], "fork": fork["persistence"]} {
			if fmt.Sprint(v) != c.want {
				t.Errorf("%s, %s: %v, want %s", c.body, where, v, c.want)
			}
		}
	}
	var l api.VMList
	if b.do("GET", "/v1/vms", nil).into(t, &l); len(l.VMs) != 14 {
		t.Fatalf("the list has %d VMs, want 14", len(l.VMs))
	}
	if kept := l.VMs[13].Persistence.Type; kept != "persistent" {
		t.Errorf("the list's last VM is %q, want persistent", kept)
	}
	for body, want := range map[string]string{`{}`: "map[priority:5 type:sticky]", `{"persistence":{"type":"persistent"}}`: "map[type:persistent]"} {
		a := b.do("POST", "/v1/vms/"+string(l.VMs[0].ID)+"/snapshot", body)
		one := b.do("GET", "/v1/vms/snapshots/"+fmt.Sprint(a.json["snapshotId"]), nil)
		if got := fmt.Sprint(one.json["snapshotPersistence"]); got != want {
			t.Errorf("snapshot %s: %s, want %s", body, got, want)
		}
	}
	if a := b.do("POST", "/v1/vms", `{"ttlSeconds":60}`); a.json["vm"].(map[string]any)["ttlSeconds"] != 60.0 {
		t.Errorf("a create does not answer its time to live of 60 s: %s", a.body)
	}
}

// TestUsage: what VMs have used is shown while they are there and afterwards,
// and nobody else sees it.
func TestUsage(t *testing.T) {
	b := newBench(t)
	id := b.create(`{"name":"box"}`)
	other, _ := b.do("POST", "/v1/accounts", `{"name":"other"}`).json["secret"].(string)
	row, _ := b.do("GET", "/v1/vms", nil).json["vms"].([]any)[0].(map[string]any)
	m, _ := row["metrics"].(map[string]any)
	if m["isActiveToday"] != true {
		t.Errorf("a VM made today is not active today: %v", row)
	}
	if day := fmt.Sprint(m["billingDay"]); len(day) != 10 {
		t.Errorf("the billing day is %q, want a date", day)
	}
	b.do("DELETE", "/v1/vms/box", nil)
	var l api.UsageList
	if b.do("GET", "/v1/usage?all=true", nil).into(t, &l); len(l.VMs) != 1 || l.VMs[0].Gone.IsZero() {
		t.Errorf("the usage shows the VMs %+v, want one that is gone", l.VMs)
	}
	if len(l.Accounts) != 1 || l.Accounts[0].RunningSeconds <= 0 {
		t.Errorf("the usage shows the accounts %+v, want one with running time", l.Accounts)
	}
	b.do("GET", "/v1/vms/"+id+"/usage", nil).answers(t, 200).has(t, "name", "box")
	b.as(other, "GET", "/v1/vms/"+id+"/usage", nil).wants(t, 404, "VM_NOT_FOUND")
	b.as(other, "GET", "/v1/usage?all=true", nil).wants(t, 403, "FORBIDDEN")
	b.as(other, "GET", "/v1/usage", nil).equals(t, `{"accounts":[],"vms":[]}`)
	b.do("GET", "/v1/vms/nobody/usage", nil).wants(t, 404, "VM_NOT_FOUND")
}

// TestDone: the end of a job over HTTP, what remains, and the shredding delete.
func TestDone(t *testing.T) {
	b := newBench(t)
	id := b.create(`{"name":"box"}`)
	snap := fmt.Sprint(b.do("POST", "/v1/vms/box/snapshot", `{"name":"s"}`).json["snapshotId"])
	b.do("POST", "/v1/vms/box/done", `{"retention":"burn"}`).wants(t, 400, "INVALID_REQUEST")
	b.do("POST", "/v1/vms/nobody/done", `{}`).wants(t, 404, "VM_NOT_FOUND")
	b.do("POST", "/v1/vms/box/done", `{"retention":"stop","label":"T-1","dropSnapshots":["`+snap+`"],"rotated":true,"logsReviewed":true}`).answers(t, 200).has(t, "complete", true, "vmId", id)
	b.do("GET", "/v1/jobs", nil).contains(t, `"label":"T-1"`)
	b.do("GET", "/v1/vms/box/remains", nil).has(t, "state", "stopped").contains(t, `"snapshots":[]`)
	other, _ := b.do("POST", "/v1/accounts", `{"name":"other"}`).json["secret"].(string)
	b.as(other, "GET", "/v1/vms/"+id+"/remains", nil).wants(t, 404, "VM_NOT_FOUND")
	b.as(other, "POST", "/v1/vms/"+id+"/done", `{"retention":"destroy"}`).wants(t, 404, "VM_NOT_FOUND")
	b.as(other, "GET", "/v1/jobs", nil).equals(t, `{"jobs":[]}`)
	b.do("DELETE", "/v1/vms/box?shred=true", nil).answers(t, 200).has(t, "id", id).contains(t, `"unreadable":[]`)
	b.do("DELETE", "/v1/vms/box?shred=maybe", nil).wants(t, 400, "INVALID_REQUEST")
	b.do("GET", "/v1/vms/"+id+"/remains", nil).answers(t, 200).has(t, "state", nil)
}
