// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package httpd

import (
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/warren-vm/warren/api"
	"github.com/warren-vm/warren/vm"
)

var varying = regexp.MustCompile(`"(requestId|id|createdAt|lastNetworkActivity|startedAt|snapshotId|imageId|vmInstanceId|accountId|keyId|diskBytes|wallTimeSeconds|billingDay)":("[^"]*"|[0-9.e-]+)`)

var ids = regexp.MustCompile(`"vmId":"[a-z0-9]{20}"`)

// golden is a body with what differs from run to run replaced.
func (a answer) golden() string {
	return strings.TrimSpace(varying.ReplaceAllString(string(a.body), `"$1":"*"`))
}

// TestGolden holds the exact form of the answers that other programs read.
func TestGolden(t *testing.T) {
	b := newBench(t)
	const record = `{"id":"*","name":"box","state":"running","vmInstanceId":"*","recreate":false,"createdAt":"*","lastNetworkActivity":"*",` +
		`"persistence":{"type":"sticky","priority":5},"snapshotId":"*","sizing":{"vcpuCount":1,"memSizeMib":512,"rootfsSizeMb":16384},` +
		`"image":"base","imageId":"*","network":"closed","idleTimeoutSeconds":300,"startedAt":"*","accel":"tcg","warning":"emulated: not an isolation boundary","onBoot":"stay"}`
	listed := strings.Replace(record, `"persistence"`, `"metrics":{"wallTimeSeconds":"*","billingDay":"*","isActiveToday":true},"persistence"`, 1)
	noSnapshot := strings.Replace(record, `"snapshotId":"*",`, "", 1)
	for _, c := range []struct {
		method, path string
		body         any
		status       int
		want         string
	}{
		{"POST", "/v1/vms", `{"name":"box"}`, 200, `{"id":"*","domains":[],"snapshotId":"*","persistence":{"type":"sticky","priority":5},"vm":` + record + `}`},
		{"GET", "/v1/vms/box", nil, 200, record},
		{"GET", "/v1/vms", nil, 200, `{"vms":[` + listed + `],"totalCount":1,"buildingCount":0,"runningCount":1,"startingCount":0,"suspendingCount":0,"suspendedCount":0,"stoppedCount":0,"lostCount":0}`},
		{"POST", "/v1/vms/box/start", `{}`, 200, `{"id":"*","domains":[],"console_url":null,"vm":` + noSnapshot + `}`},
		{"POST", "/v1/vms/box/stop", nil, 200, `{"vmId":"*","vmInstanceId":"*","remains":{"diskBytes":"*","logBytes":21,"erase":"warren rm box"}}`},
		{"POST", "/v1/vms/box/stop", nil, 400, `{"code":"VM_NOT_RUNNING","error":"VM_NOT_RUNNING","hint":"start it first: ` + "`warren start box`" + `","kind":"state",` +
			`"message":"stop: box: the VM is stopped; stop needs it to be running, suspended","op":"stop","requestId":"*","state":"stopped","subject":"box","vmId":"*"}`},
		{"POST", "/v1/vms/box/await", nil, 200, `{"id":"*","exitStatus":"stop"}`},
		{"POST", "/v1/vms/box/kill", nil, 200, `{"id":"*"}`},
		{"DELETE", "/v1/vms/box", nil, 200, `{"id":"*","recreate":false}`},
		{"GET", "/v1/vms/box", nil, 404, `{"code":"VM_NOT_FOUND","error":"VM_NOT_FOUND","hint":"` + "`warren ls`" + ` lists ids and names","kind":"not-found",` +
			`"message":"get: box: no such VM","op":"get","requestId":"*","subject":"box","vmId":"box"}`},
		{"GET", "/observability/v1/logs?vmId=x", nil, 200, `{"logs":[],"nextPageToken":null}`},
		{"GET", "/v1/vms", nil, 200, `{"vms":[],"totalCount":0,"buildingCount":0,"runningCount":0,"startingCount":0,"suspendingCount":0,"suspendedCount":0,"stoppedCount":0,"lostCount":0}`},
	} {
		a := b.do(c.method, c.path, c.body)
		got := a.golden()
		got = ids.ReplaceAllString(got, `"vmId":"*"`)
		if a.status != c.status || got != c.want {
			t.Errorf("%s %s: %d\n got %s\nwant %s", c.method, c.path, a.status, got, c.want)
		}
	}
	a := b.as("", "GET", "/v1/vms?x=y", nil)
	if want := `{"code":"UNAUTHORIZED_ERROR","error":"UNAUTHORIZED_ERROR","hint":"send ` + "`Authorization: Bearer KEY`" + `; the admin's key is in DATA/admin.key",` +
		`"kind":"unauthenticated","message":"no or unknown credentials","reason":null,"requestId":"*","route":"/v1/vms"}`; a.golden() != want {
		t.Errorf("got %s\nwant %s", a.golden(), want)
	}
}

// TestCredentials: both ways to show them, and what strangers learn.
func TestCredentials(t *testing.T) {
	b := newBench(t)
	for _, c := range []struct {
		name, value string
		ok          bool
	}{
		{"Authorization", "Bearer " + b.admin, true},
		{"Authorization", "bearer  " + b.admin, true},
		{"Authorization", b.admin, false},
		{"Authorization", "Basic " + b.admin, false},
		{"Authorization", "Bearer ", false},
		{"Authorization", "Bearer " + b.admin + "x", false},
		{api.HeaderIdentityToken, b.admin, false}, // a key is no identity token
		{api.HeaderIdentityToken, "x", false},
	} {
		a := b.as("", "GET", "/auth/v1/whoami", nil, c.name, c.value)
		if !c.ok {
			a.wants(t, 401, "UNAUTHORIZED_ERROR")
			continue
		}
		if a.answers(t, 200).has(t, "admin", true, "identityId", nil); a.json["accountId"] == "" {
			t.Errorf("%s: %q is of no account: %s", c.name, c.value, a.body)
		}
	}
	b.as("", "GET", "/v1/no/such/route", nil).wants(t, 401, "UNAUTHORIZED_ERROR")
	b.as("", "PATCH", "/v1/vms", nil).wants(t, 401, "UNAUTHORIZED_ERROR")
	if a := b.as("", "OPTIONS", "/v1/vms", nil, "Origin", "https://evil.example"); a.header.Get("Access-Control-Allow-Origin") != "" {
		t.Errorf("a foreign page is let in: %v", a.header)
	}
}

// TestHosts: a name that a page on the web pointed here is refused, before the
// key is looked at.
func TestHosts(t *testing.T) {
	s := &server{Config: Config{HostNames: []string{"warren.example"}}}
	for host, ok := range map[string]bool{
		"127.0.0.1:8787": true, "[::1]:8787": true, "[::1]": true, "10.1.2.3": true, "localhost": true, "LocalHost:1": true, "a.b.localhost": true,
		"warren.example": true, "warren.example:443": true,
		"evil.example": false, "localhost.evil.example": false, "127.0.0.1.evil.example": false, "": false, "xlocalhost": false, "warren.example.evil": false,
	} {
		if err := s.checkHost(host); (err == nil) != ok {
			t.Errorf("the host %q is allowed: %v, want %v: %v", host, err == nil, ok, err)
		}
	}
}

// TestKeys: secrets are shown once, and nobody rules over another's keys.
func TestKeys(t *testing.T) {
	b := newBench(t)
	made := b.do("POST", "/v1/accounts", `{"name":"other"}`).ok(t)
	other, _ := made.json["secret"].(string)
	if len(other) != 48 {
		t.Fatalf("a new account's secret has %d characters, want 48", len(other))
	}
	var mine api.KeyList
	if b.do("GET", "/v1/keys", nil).into(t, &mine); len(mine.Keys) != 1 {
		t.Fatalf("the admin has %d keys, want 1: %+v", len(mine.Keys), mine)
	}
	for _, c := range [][2]string{{"POST", "/rotate"}, {"DELETE", ""}} {
		b.as(other, c[0], "/v1/keys/"+string(mine.Keys[0].ID)+c[1], nil).wants(t, 404, "NOT_FOUND")
	}
	b.as(other, "POST", "/v1/keys", `{"account":"admin"}`).wants(t, 403, "FORBIDDEN")
	b.as(other, "GET", "/v1/keys?account=admin", nil).wants(t, 403, "FORBIDDEN")
	b.do("GET", "/v1/keys?account=other", nil).contains(t, `"ky-`).lacks(t, other, "hash")
	b.as(other, "GET", "/v1/audit?vm=none", nil).equals(t, `{"records":[]}`)
	b.do("DELETE", "/v1/accounts/other", nil).answers(t, 200)
	b.as(other, "GET", "/v1/vms", nil).wants(t, 401, "UNAUTHORIZED_ERROR")
}

// TestIdleAndPersistence: absent, null and a number are three things, and the
// effective persistence is shown.
func TestIdleAndPersistence(t *testing.T) {
	b := newBench(t)
	for body, want := range map[string]string{
		`{}`:                          `300 map[priority:5 type:sticky]`,
		`{"idleTimeoutSeconds":null}`: `<nil> map[priority:5 type:sticky]`,
		`{"idleTimeoutSeconds":7,"persistence":{"type":"persistent"}}`:                              `7 map[type:persistent]`,
		`{"spec":{"idleTimeoutSeconds":null,"name":null}}`:                                          `<nil> map[priority:5 type:sticky]`,
		`{"idleTimeoutSeconds":9,"spec":{"idleTimeoutSeconds":null}}`:                               `9 map[priority:5 type:sticky]`,
		`{"template":{"persistence":{"type":"ephemeral","deleteEvent":"OnStop"}}}`:                  `300 map[deleteEvent:OnStop type:ephemeral]`,
		`{"persistence":{"type":"sticky","priority":0},"template":{"persistence":{"type":"junk"}}}`: `300 map[priority:0 type:sticky]`,
	} {
		a := b.do("GET", "/v1/vms/"+b.create(body), nil)
		if got := fmt.Sprint(a.json["idleTimeoutSeconds"], " ", a.json["persistence"]); got != want {
			t.Errorf("%s: %s, want %s", body, got, want)
		}
	}
	id := b.create(`{"idleTimeoutSeconds":50}`)
	for _, c := range [][2]string{{`{}`, "50"}, {`{"idleTimeoutSeconds":null}`, "<nil>"}, {`{}`, "<nil>"}, {`{"idleTimeoutSeconds":60}`, "60"}} {
		b.do("POST", "/v1/vms/"+id+"/stop", nil)
		b.do("POST", "/v1/vms/"+id+"/start", c[0])
		if a := b.do("GET", "/v1/vms/"+id, nil); fmt.Sprint(a.json["idleTimeoutSeconds"]) != c[1] {
			t.Errorf("start %s: %v, want %s", c[0], a.json["idleTimeoutSeconds"], c[1])
		}
	}
}

// TestWhoseName: what the SDKs repeat in the spec counts once; names are not
// unique unless that is asked for, and an ambiguous one is refused.
func TestWhoseName(t *testing.T) {
	b := newBench(t)
	one := b.create(`{"spec":{"name":"twin"}}`)
	two := b.create(`{"name":"twin","spec":{"name":"ignored"}}`)
	a := b.do("GET", "/v1/vms/twin", nil)
	if a.status != 400 || !strings.Contains(string(a.body), one) || !strings.Contains(string(a.body), two) {
		t.Errorf("an ambiguous name: %d %s", a.status, a.body)
	}
	b.do("POST", "/v1/vms", `{"name":"twin","uniqueName":true}`).wants(t, 400, "CREATE_VM_BAD_REQUEST")
	b.do("POST", "/v1/vms", `{"name":"twin","uniqueName":true}`).has(t, "kind", "exists")
	b.do("DELETE", "/v1/vms/"+one, nil)
	b.do("GET", "/v1/vms/twin", nil).has(t, "id", two)
}

// TestList: pages, states and names.
func TestList(t *testing.T) {
	b := newBench(t)
	for _, name := range []string{"oak-1", "oak-2", "elm-1"} {
		b.create(map[string]any{"name": name})
	}
	b.do("POST", "/v1/vms/oak-2/stop", nil)
	for query, want := range map[string]string{
		"": "oak-1 oak-2 elm-1 3", "?limit=2": "oak-1 oak-2 3", "?limit=2&offset=2": "elm-1 3", "?offset=9": "3", "?search=oak": "oak-1 oak-2 2",
		"?vmState=stopped": "oak-2 1", "?vmState=stopped&vmState=running": "oak-1 oak-2 elm-1 3", "?includeDeleted=true": "oak-1 oak-2 elm-1 3", "?all=true": "oak-1 oak-2 elm-1 3",
	} {
		var l api.VMList
		if err := json.Unmarshal(b.do("GET", "/v1/vms"+query, nil).body, &l); err != nil {
			t.Fatal(err)
		}
		got := ""
		for _, v := range l.VMs {
			got += v.Name + " "
		}
		if got += fmt.Sprint(l.TotalCount); got != want || l.RunningCount != 2 || l.StoppedCount != 1 {
			t.Errorf("%q: %s (running %d, stopped %d), want %s", query, got, l.RunningCount, l.StoppedCount, want)
		}
	}
	for _, bad := range []string{"?limit=x", "?limit=-1", "?offset=-1", "?vmState=asleep", "?all=perhaps"} {
		b.do("GET", "/v1/vms"+bad, nil).wants(t, 400, "INVALID_REQUEST")
	}
}

// TestReceipts: a change carries the id of its audit record, a look does not.
func TestReceipts(t *testing.T) {
	b := newBench(t)
	id := b.create(nil)
	base := "/v1/vms/" + id
	receipts := map[string]bool{}
	for _, c := range []struct {
		method, path, body string
		change             bool
	}{
		{"GET", "", "", false},
		{"GET", "/inspect", "", false},
		{"GET", "/processes", "", false},
		{"GET", "/fs/stat?path=/etc", "", false},
		{"POST", "/exec-await", `{"command":"true"}`, true},
		{"POST", "/processes", `{"argv":["true"]}`, true},
		{"PUT", "/files/%2Fx", `{"content":"x"}`, true},
		{"GET", "/files/%2Fx", "", true},
		{"GET", "/raw/%2Fx", "", true},
		{"GET", "/tar/%2Fx", "", true},
		{"POST", "/fs/chmod", `{"path":"/x","mode":384}`, true},
		{"PUT", "/network", `{"mode":"open"}`, true},
		{"PUT", "/on-boot", `{"onBoot":"resume"}`, true},
		{"POST", "/stop", "", true},
		{"POST", "/start", "", true},
		{"POST", "/kill", "", true},
		{"DELETE", "", "", true},
	} {
		a := b.do(c.method, base+c.path, c.body)
		receipt := a.header.Get(api.HeaderReceipt)
		if a.status != 200 || (receipt != "") != c.change || receipts[receipt] && receipt != "" {
			t.Errorf("%s %s: %d, receipt %q", c.method, c.path, a.status, receipt)
		}
		receipts[receipt] = true
		if r := a.header.Get(api.HeaderRequest); !strings.HasPrefix(r, "ri-") || a.header.Get(api.HeaderTrace) != r {
			t.Errorf("%s %s has the request id %q and the trace %q", c.method, c.path, r, a.header.Get(api.HeaderTrace))
		}
		if a.header.Get(api.HeaderVersion) == "" {
			t.Errorf("%s %s is answered without a version: %v", c.method, c.path, a.header)
		}
	}
	var l api.AuditList
	if err := json.Unmarshal(b.do("GET", "/v1/audit?vm="+id, nil).body, &l); err != nil {
		t.Fatal(err)
	}
	for _, r := range l.Records {
		delete(receipts, r.ID)
		if r.Outcome != "ok" || r.VM != vm.ID(id) || r.RequestID == "" || r.Actor.Key == "" {
			t.Errorf("the audit record is %+v, want ok, of %s, with request and key", r, id)
		}
	}
	if delete(receipts, ""); len(receipts) > 0 {
		t.Errorf("receipts without a record: %v", receipts)
	}
}

// TestHead: HEAD is GET without a body, and no stream.
func TestHead(t *testing.T) {
	b := newBench(t)
	id := b.create(nil)
	for path, status := range map[string]int{"/healthz": 200, "/v1/vms/" + id: 200, "/v1/events": 400, "/v1/vms/" + id + "/raw/%2Fetc%2Fhostname": 400} {
		if a := b.do(http.MethodHead, path, nil).answers(t, status); len(a.body) > 0 {
			t.Errorf("HEAD %s is answered with a body: %q", path, a.body)
		}
	}
}
