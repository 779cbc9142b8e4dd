// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package httpd

import (
	"encoding/json"
	"fmt"
	"strings"
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
	if l := b.do("GET", "/v1/vms", nil); fmt.Sprint(l.json["totalCount"]) != "1" {
		t.Errorf("%s", l.body)
	}
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
	if err := json.Unmarshal(b.do("GET", "/v1/vms", nil).body, &l); err != nil || len(l.VMs) != 14 || l.VMs[13].Persistence.Type != "persistent" {
		t.Errorf("%+v, %v", l, err)
	}
	for body, want := range map[string]string{`{}`: "map[priority:5 type:sticky]", `{"persistence":{"type":"persistent"}}`: "map[type:persistent]"} {
		a := b.do("POST", "/v1/vms/"+string(l.VMs[0].ID)+"/snapshot", body)
		one := b.do("GET", "/v1/vms/snapshots/"+fmt.Sprint(a.json["snapshotId"]), nil)
		if got := fmt.Sprint(one.json["snapshotPersistence"]); got != want {
			t.Errorf("snapshot %s: %s, want %s", body, got, want)
		}
	}
	if a := b.do("POST", "/v1/vms", `{"ttlSeconds":60}`); fmt.Sprint(a.json["vm"].(map[string]any)["ttlSeconds"]) != "60" {
		t.Errorf("%s", a.body)
	}
}

// TestUsage: what VMs have used is shown while they are there and afterwards,
// and nobody else sees it.
func TestUsage(t *testing.T) {
	b := newBench(t)
	id := b.create(`{"name":"box"}`)
	other, _ := b.do("POST", "/v1/accounts", `{"name":"other"}`).json["secret"].(string)
	row, _ := b.do("GET", "/v1/vms", nil).json["vms"].([]any)[0].(map[string]any)
	if m, _ := row["metrics"].(map[string]any); m["isActiveToday"] != true || len(fmt.Sprint(m["billingDay"])) != 10 {
		t.Errorf("%v", row)
	}
	b.do("DELETE", "/v1/vms/box", nil)
	var l api.UsageList
	if err := json.Unmarshal(b.do("GET", "/v1/usage?all=true", nil).body, &l); err != nil || len(l.VMs) != 1 || len(l.Accounts) != 1 || l.VMs[0].Gone.IsZero() || l.Accounts[0].RunningSeconds <= 0 {
		t.Errorf("%+v %v", l, err)
	}
	if a := b.do("GET", "/v1/vms/"+id+"/usage", nil); a.status != 200 || a.json["name"] != "box" {
		t.Errorf("%d %s", a.status, a.body)
	}
	b.as(other, "GET", "/v1/vms/"+id+"/usage", nil).wants(t, 404, "VM_NOT_FOUND")
	b.as(other, "GET", "/v1/usage?all=true", nil).wants(t, 403, "FORBIDDEN")
	if a := b.as(other, "GET", "/v1/usage", nil); string(a.body) != `{"accounts":[],"vms":[]}`+"\n" {
		t.Errorf("%s", a.body)
	}
	b.do("GET", "/v1/vms/nobody/usage", nil).wants(t, 404, "VM_NOT_FOUND")
}

// TestDone: the end of a job over HTTP, what remains, and the shredding delete.
func TestDone(t *testing.T) {
	b := newBench(t)
	id := b.create(`{"name":"box"}`)
	snap := fmt.Sprint(b.do("POST", "/v1/vms/box/snapshot", `{"name":"s"}`).json["snapshotId"])
	b.do("POST", "/v1/vms/box/done", `{"retention":"burn"}`).wants(t, 400, "INVALID_REQUEST")
	b.do("POST", "/v1/vms/nobody/done", `{}`).wants(t, 404, "VM_NOT_FOUND")
	a := b.do("POST", "/v1/vms/box/done", `{"retention":"stop","label":"T-1","dropSnapshots":["`+snap+`"],"rotated":true,"logsReviewed":true}`)
	if a.status != 200 || a.json["complete"] != true || a.json["vmId"] != id {
		t.Errorf("%d %s", a.status, a.body)
	}
	if l := b.do("GET", "/v1/jobs", nil); !strings.Contains(string(l.body), `"label":"T-1"`) {
		t.Errorf("%s", l.body)
	}
	if r := b.do("GET", "/v1/vms/box/remains", nil); r.json["state"] != "stopped" || !strings.Contains(string(r.body), `"snapshots":[]`) {
		t.Errorf("%s", r.body)
	}
	other, _ := b.do("POST", "/v1/accounts", `{"name":"other"}`).json["secret"].(string)
	b.as(other, "GET", "/v1/vms/"+id+"/remains", nil).wants(t, 404, "VM_NOT_FOUND")
	b.as(other, "POST", "/v1/vms/"+id+"/done", `{"retention":"destroy"}`).wants(t, 404, "VM_NOT_FOUND")
	if l := b.as(other, "GET", "/v1/jobs", nil); string(l.body) != `{"jobs":[]}`+"\n" {
		t.Errorf("%s", l.body)
	}
	if d := b.do("DELETE", "/v1/vms/box?shred=true", nil); d.status != 200 || d.json["id"] != id || !strings.Contains(string(d.body), `"unreadable":[]`) {
		t.Errorf("%s", d.body)
	}
	b.do("DELETE", "/v1/vms/box?shred=maybe", nil).wants(t, 400, "INVALID_REQUEST")
	if r := b.do("GET", "/v1/vms/"+id+"/remains", nil); r.status != 200 || r.json["state"] != nil {
		t.Errorf("%s", r.body)
	}
}
