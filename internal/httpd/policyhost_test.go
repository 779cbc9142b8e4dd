// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package httpd

import (
	"encoding/json"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/warren-vm/warren/internal/engine"
	"github.com/warren-vm/warren/vm"
)

// guestBench is a VM whose programs ask the policy host.
type guestBench struct {
	*bench
	vm vm.VM
}

func newGuestBench(t *testing.T, profile string) *guestBench {
	t.Helper()
	b := newBench(t)
	v, err := b.engine.Create(t.Context(), b.call, engine.CreateRequest{Name: "box", Profile: profile, Network: "closed"})
	if err != nil {
		t.Fatal(err)
	}
	return &guestBench{b, v}
}

// ask makes one request of the VM's programs.
func (b *guestBench) ask(method, path, body string, headers ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequestWithContext(b.t.Context(), method, "http://"+vm.PolicyHost+path, strings.NewReader(body))
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	b.handler.ServePolicy(w, r, b.vm.ID)
	return w
}

// gets checks an answer's status, its word and a part of its body.
func (b *guestBench) gets(w *httptest.ResponseRecorder, status int, word, part string) {
	b.t.Helper()
	if w.Code != status || w.Header().Get(headerAnswer) != word || !strings.Contains(w.Body.String(), part) {
		b.t.Errorf("the answer is %d, %q, %q; want %d, %q and %q in it", w.Code, w.Header().Get(headerAnswer), w.Body, status, word, part)
	}
}

// What a program learns of its VM's policy, as text and as JSON.
func TestPolicyHost(t *testing.T) {
	b := newGuestBench(t, "")
	b.gets(b.ask("GET", "/", ""), 200, answerDone, "The network of the VM box is closed: it reaches nothing")
	b.gets(b.ask("GET", "/why?host=example.com", ""), 200, answerRefused, "next: ask for it: `warren-agent ask example.com --why REASON`")
	var a vm.NetAnswer
	if err := json.Unmarshal(b.ask("GET", "/why?host=example.com&port=443", "", "Accept", "application/json").Body.Bytes(), &a); err != nil || a.Allowed || a.Policy == "" {
		t.Errorf("the answer in JSON is %+v, %v, want a refusal with the digest of the policy", a, err)
	}
	b.gets(b.ask("GET", "/status", ""), 200, answerDone, "its programs may use why, status, filesystem, ask, turn")
	b.gets(b.ask("GET", "/filesystem", ""), 200, answerDone, "| / | the VM's own disk | stays | stays | copied | lost |")
}

// Hostile requests get a typed error, and change nothing.
func TestPolicyHostRefuses(t *testing.T) {
	b := newGuestBench(t, "")
	for _, c := range []struct {
		method, path, body, word, part string
		status                         int
		headers                        []string
	}{
		{"GET", "/why", "", answerFailed, "host: is missing", 400, nil},
		{"GET", "/why?host=a&port=x", "", answerFailed, "not a number", 400, nil},
		{"GET", "/why?host=a&port=70000", "", answerFailed, "not a port", 400, nil},
		{"GET", "/why?host=a&proto=sctp", "", answerFailed, "neither tcp nor udp", 400, nil},
		{"GET", "/why?host=" + strings.Repeat("a", 2000), "", answerFailed, "longer than", 400, nil},
		{"POST", "/ask", "{", answerFailed, "JSON", 400, nil},
		{"POST", "/ask", `{"host":` + strings.Repeat(" ", 20000) + `"a"}`, answerFailed, "longer than", 400, nil},
		{"POST", "/ask", `{"host":"10.0.0.1"}`, answerRefused, "administrator", 403, nil},
		{"GET", "/ask", "", answerFailed, "takes POST", 400, nil},
		{"GET", "/ask/ask-000000000000", "", answerFailed, "no such ask", 404, nil},
		{"GET", "/../v1/vms", "", answerFailed, "nothing here", 404, nil},
		{"POST", "/ask?host=example.com", "", answerRefused, "web page", 403, []string{"Origin", "http://evil.example"}},
		{"POST", "/ask?host=example.com", "", answerRefused, "web page", 403, []string{"Sec-Fetch-Site", "cross-site"}},
		{"POST", "/fork", "", answerRefused, "profile agent", 403, nil},
	} {
		b.gets(b.ask(c.method, c.path, c.body, c.headers...), c.status, c.word, c.part)
	}
	_, total, _, err := b.engine.Engine.List(t.Context(), b.call, engine.Filter{})
	if err != nil || total != 1 {
		t.Errorf("there are %d VMs, %v, want 1", total, err)
	}
}

// A program proposes a rule, waits, and learns of the decision. Another VM does not see it.
func TestPolicyHostAsk(t *testing.T) {
	b := newGuestBench(t, "")
	w := b.ask("POST", "/ask", `{"host":"api.example.com","why":"tests"}`, "Accept", "application/json")
	var a vm.Ask
	if err := json.Unmarshal(w.Body.Bytes(), &a); err != nil || a.State != vm.AskPending || len(a.Widens) == 0 || a.Why != "tests" || w.Header().Get(headerAsk) != a.ID {
		t.Fatalf("the proposal is %s, %v, want it pending with its reason and how far it widens the policy", w.Body, err)
	}
	b.gets(b.ask("GET", "/ask/"+a.ID+"?wait=10ms", ""), 200, "pending", a.ID)
	other, err := b.engine.Create(t.Context(), b.call, engine.CreateRequest{Name: "other"})
	if err != nil {
		t.Fatal(err)
	}
	stranger := &guestBench{b.bench, other}
	b.gets(stranger.ask("GET", "/ask/"+a.ID, ""), 404, answerFailed, "no such ask")
	over := make(chan *httptest.ResponseRecorder, 1)
	go func() { over <- b.ask("GET", "/ask/"+a.ID+"?wait=60s", "") }()
	if _, err := b.engine.Rooms.Asks.Approve(t.Context(), b.call, a.ID, 0, ""); err != nil {
		t.Fatal(err)
	}
	select {
	case w := <-over:
		b.gets(w, 200, "approved", "it is in force")
	case <-time.After(30 * time.Second):
		t.Fatal("an ask that was approved still waits")
	}
	b.gets(b.ask("GET", "/why?host=api.example.com", ""), 200, answerAllowed, "allowed")
}

// A program marks turns and forks its VM as the VM itself, within bounds.
func TestPolicyHostFork(t *testing.T) {
	b := newGuestBench(t, vm.ProfileDev)
	b.gets(b.ask("POST", "/turn?note=before", ""), 200, answerDone, "turn 1 is marked")
	b.gets(b.ask("POST", "/fork?count=9", ""), 403, answerFailed, "may have 8")
	b.gets(b.ask("POST", "/fork?count=2&name=kid", ""), 200, answerDone, "forked: kid-2")
	kid, err := b.engine.Engine.Get(t.Context(), b.call, "kid-1")
	if err != nil || !kid.FromInside {
		t.Fatalf("the fork is %+v, %v, want it marked as made from inside", kid, err)
	}
	inner := &guestBench{b.bench, kid}
	b.gets(inner.ask("POST", "/fork", ""), 403, answerRefused, "may not fork it")
	b.gets(b.ask("POST", "/fork?count=7", ""), 403, answerFailed, "may have 8")
	forks := 0
	records, err := b.site.Audit.List(t.Context(), vm.AuditFilter{})
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range records {
		if e.Op == vm.OpFork && e.Actor.VM == b.vm.ID {
			forks++
		}
	}
	if forks == 0 {
		t.Error("no audit record says that the VM forked itself")
	}
}

// A VM that asks too often is told so, and others are not affected.
func TestGuestPace(t *testing.T) {
	p := newGuestPace()
	limit := guestRates[vm.GuestFork]
	for range limit.burst {
		if err := p.take("vm-a", vm.GuestFork); err != nil {
			t.Fatalf("a fork within the limit is refused: %v", err)
		}
	}
	if err := p.take("vm-a", vm.GuestFork); vm.KindOf(err) != vm.Limit {
		t.Errorf("a fork above the limit gets %v, want a limit", err)
	}
	if err := p.take("vm-b", vm.GuestFork); err != nil {
		t.Errorf("another VM's fork gets %v", err)
	}
}
