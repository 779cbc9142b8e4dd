// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package httpd

import (
	"strings"
	"testing"
	"time"

	"github.com/warren-vm/warren/api"
	"github.com/warren-vm/warren/internal/answers"
	"github.com/warren-vm/warren/vm"
)

// later polls for the answer of a background request as the SDK does.
func (b *bench) later(a answer) answer {
	b.t.Helper()
	id := a.header.Get(api.HeaderBackgroundID)
	if a.status != 202 || id == "" || a.json["requestId"] != id || a.json["status"] != "running" {
		b.t.Fatalf("want 202 with an id, got %d %v %s", a.status, a.header, a.body)
	}
	var out answer
	b.until("the answer of "+id, func() bool {
		out = b.do("GET", "/auth/v1/background-requests/"+id, nil)
		return out.status != 202
	})
	return out
}

// TestBackgroundCreate: a slow create answers 202 only to those who asked for
// it, and later with what it would have answered.
func TestBackgroundCreate(t *testing.T) {
	b := newBench(t)
	reached, release := b.site.World.Hold("launch")
	asked := make(chan answer, 1)
	go func() { asked <- b.do("POST", "/v1/vms", `{"name":"slow"}`, api.HeaderBackgroundIn, "0.05") }() // ends with the answer below
	<-reached
	first := <-asked
	id := first.header.Get(api.HeaderBackgroundID)
	if again := b.do("GET", "/auth/v1/background-requests/"+id, nil); again.status != 202 {
		t.Errorf("while it runs: %d %s", again.status, again.body)
	}
	if l := b.do("GET", "/observability/v1/logs?requestId="+id, nil); len(l.json["logs"].([]any)) == 0 {
		t.Errorf("logs: %s", l.body)
	}
	release()
	a := b.later(first)
	if a.ok(t); a.json["id"] == nil || a.json["domains"] == nil || a.json["snapshotId"] == "" {
		t.Errorf("the create's late answer has no id, domains or snapshotId: %s", a.body)
	}
	if again := b.do("GET", "/auth/v1/background-requests/"+id, nil); string(again.body) != string(a.body) {
		t.Errorf("asked twice: %s", again.body)
	}
	// Another account's is not found, with a code: the SDK polls for ever without.
	_, _, other, err := b.engine.CreateAccount(t.Context(), b.call, "other")
	if err != nil {
		t.Fatal(err)
	}
	b.as(other, "GET", "/auth/v1/background-requests/"+id, nil).wants(t, 404, "NOT_FOUND")
	b.do("GET", "/auth/v1/background-requests/nonsense", nil).wants(t, 404, "NOT_FOUND")
	if l := b.as(other, "GET", "/observability/v1/logs?requestId="+id, nil); string(l.body) != `{"logs":[],"nextPageToken":null}`+"\n" {
		t.Errorf("another's logs: %s", l.body)
	}
}

// TestBackgroundFailure: a failure is replayed with its status and code.
func TestBackgroundFailure(t *testing.T) {
	b := newBench(t)
	_, release := b.site.World.Hold("warm")
	b.site.World.Fail("launch", vm.Errorf(vm.GuestFault, "x", "made to fail"))
	first := b.do("POST", "/v1/vms", `{}`, api.HeaderBackgroundIn, "0.01")
	release()
	b.later(first).wants(t, 500, "RESUMED_VM_NON_RESPONSIVE")
	if left := b.site.World.Running(); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}

// TestFastEnough: who asks for the background and needs none gets the answer
// itself; who does not ask waits, however long it takes.
func TestFastEnough(t *testing.T) {
	b := newBench(t)
	a := b.do("POST", "/v1/vms", `{}`, api.HeaderBackgroundIn, "5")
	if a.ok(t); a.json["id"] == nil {
		t.Errorf("a create within its time is answered without an id: %s", a.body)
	}
	if a.header.Get(api.HeaderReceipt) == "" {
		t.Errorf("a create within its time has no receipt: %v", a.header)
	}
	if id := a.header.Get(api.HeaderBackgroundID); id != "" {
		t.Errorf("a create within its time is in the background as %s", id)
	}
	b.do("POST", "/v1/vms", `{"vcpuCount":3}`, api.HeaderBackgroundIn, "5").wants(t, 400, "CREATE_VM_VCPU_NOT_POWER_OF_TWO")
	for _, bad := range []string{"soon", "-1", "0", "1e9"} {
		b.do("POST", "/v1/vms", `{}`, api.HeaderBackgroundIn, bad).wants(t, 400, "CREATE_VM_BAD_REQUEST")
	}
	reached, release := b.site.World.Hold("launch")
	asked := make(chan answer, 1)
	go func() { asked <- b.do("POST", "/v1/vms", `{}`) }() // ends with the answer below
	<-reached
	select {
	case a := <-asked:
		t.Errorf("answered early: %d %s", a.status, a.body)
	case <-time.After(50 * time.Millisecond):
	}
	release()
	(<-asked).answers(t, 200)
}

// TestStopUndoes: a server that stops ends work in the background, and nothing
// is left of it.
func TestStopUndoes(t *testing.T) {
	b := newBench(t)
	reached, release := b.site.World.Hold("launch")
	defer release()
	first := b.do("POST", "/v1/vms", `{}`, api.HeaderBackgroundIn, "0.01")
	<-reached
	b.end()
	b.handler.Wait() // does not hang: the create is held until its context ends
	b.later(first).answers(t, 500).has(t, "kind", "cancelled")
	if a := b.do("GET", "/v1/vms", nil); a.json["totalCount"] != 0.0 {
		t.Errorf("left: %s", a.body)
	}
	b.as("", "GET", "/readyz", nil).wants(t, 503, "SERVICE_UNAVAILABLE")
}

// TestBackgroundTooLarge: an answer that is larger than what is kept is told as
// one, instead of never. One that is larger than a record is kept.
func TestBackgroundTooLarge(t *testing.T) {
	b := newBench(t)
	rec := answers.Result{Request: "rq-large", Account: b.call.Actor.Account, Created: time.Now()}
	if err := b.engine.SaveResult(t.Context(), b.call, rec); err != nil {
		t.Fatal(err)
	}
	large := `"` + strings.Repeat("x", 100<<10) + `"`
	b.handler.keep(t.Context(), b.call, "", rec, outcome{200, []byte(large)})
	if a := b.do("GET", "/auth/v1/background-requests/rq-large", nil); string(a.body) != large {
		t.Errorf("%d bytes came back, not %d", len(a.body), len(large))
	}
	b.handler.keep(t.Context(), b.call, "", rec, outcome{200, []byte(`"` + strings.Repeat("x", 5<<20) + `"`)})
	b.do("GET", "/auth/v1/background-requests/rq-large", nil).wants(t, 403, "VM_LIMIT_EXCEEDED")
}
