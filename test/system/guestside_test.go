// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

//go:build system

package system

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/warren-vm/warren/vm"
)

// asNobody runs a shell line in a VM as a user who is not root.
const asNobody = "setpriv --reuid 65534 --regid 65534 --clear-groups sh -c "

// TestGuestSide: a program in a VM whose network is closed learns where it is, why a host is
// refused and how to ask for it; it asks, and waits for the decision. It uses the verbs that
// the profile of its VM grants, and no other.
//
// 001-54, 001-39, 000-15
func TestGuestSide(t *testing.T) {
	h := newHost(t)
	h.ok("up", "--name", "box", "--net", "closed", "--filesystem-md")
	t.Run("why", func(t *testing.T) { h.on(t).guestWhy() })
	t.Run("readme", func(t *testing.T) { h.on(t).guestReadme() })
	t.Run("ask", func(t *testing.T) { h.on(t).guestAsk() })
	t.Run("verbs", func(t *testing.T) { h.on(t).guestVerbs() })
	t.Run("fork", func(t *testing.T) { h.on(t).guestFork() })
	t.Run("untrusted", func(t *testing.T) { h.on(t).guestUntrusted() })
}

// on is the host in a subtest.
func (h *host) on(t *testing.T) *host {
	out := *h
	out.t = t
	return &out
}

func (h *host) guestWhy() {
	code, out := h.guest("box", asNobody+"'warren-agent why example.com'")
	if code != 1 || !strings.Contains(out, "refused") || !strings.Contains(out, "warren-agent ask example.com") {
		h.t.Errorf("warren-agent why ends with %d and %q, want 1, the refusal and how to ask", code, out)
	}
	for _, scheme := range []string{"http", "https"} {
		code, out := h.guest("box", "curl -sS '"+scheme+"://policy.warren.internal/why?host=example.com'")
		if code != 0 || !strings.Contains(out, "refused") {
			h.t.Errorf("curl by %s ends with %d and %q, want the refusal", scheme, code, out)
		}
	}
	var answer vm.NetAnswer
	_, out = h.guest("box", asNobody+"'curl -sS -H Accept:application/json --unix-socket /run/warren/agent.sock http://policy.warren.internal/why?host=example.com'")
	if err := json.Unmarshal([]byte(out), &answer); err != nil || answer.Allowed || answer.Reason == "" {
		h.t.Errorf("the socket answers %q, %v, want a refusal with its reason", out, err)
	}
	code, out = h.guest("box", "curl -sS -o /dev/null -w '%{http_code}' -H 'Origin: http://evil.example' -X POST 'http://policy.warren.internal/ask?host=evil.example'")
	if out != "403" {
		h.t.Errorf("a web page that asks gets %s (%d), want 403", out, code)
	}
	if code, out := h.guest("box", "warren-agent dance"); code != 125 {
		h.t.Errorf("an unknown command ends with %d and %q, want 125", code, out)
	}
}

func (h *host) guestReadme() {
	readme := h.sh("box", "cat /run/warren/README.md")
	if !strings.Contains(readme, "the VM box") {
		h.t.Errorf("the README is %q, want the VM's name in it", readme)
	}
	page := h.sh("box", "cat FILESYSTEM.md")
	if !strings.Contains(page, "| / | the VM's own disk |") || !strings.Contains(page, "Which copy counts") {
		h.t.Errorf("FILESYSTEM.md is %q, want the places and which copy counts", page)
	}
	h.ok("fork", "box", "-n", "1", "--name", "try")
	if got := h.sh("try-1", "cat /run/warren/README.md"); !strings.Contains(got, "the VM try-1") || strings.Contains(got, "the VM box") {
		h.t.Errorf("the README of a fork is %q, want the fork's name in it", got)
	}
	if got := h.sh("try-1", "warren-agent filesystem"); !strings.Contains(got, "a fork of box") {
		h.t.Errorf("the places of a fork are %q, want its parent's name", got)
	}
	h.ok("rm", "try-1", "--yes")
}

func (h *host) guestAsk() {
	type waited struct {
		code int
		out  string
	}
	over := make(chan waited, 1)
	go func() {
		code, out := h.guest("box", asNobody+"'warren-agent ask api.example.com --why \"the tests call it\" --wait 2m'")
		over <- waited{code, out}
	}()
	var pending struct{ Items []vm.Ask }
	deadline := time.Now().Add(time.Minute)
	var raw string
	for len(pending.Items) == 0 && time.Now().Before(deadline) {
		raw = h.ok("net", "pending", "--json")
		if err := json.Unmarshal([]byte(raw), &pending.Items); err != nil {
			h.t.Fatalf("net pending --json: %v in %s", err, raw)
		}
	}
	if len(pending.Items) != 1 || pending.Items[0].Why != "the tests call it" || pending.Items[0].Rule == nil || pending.Items[0].Rule.To != "api.example.com" {
		h.t.Fatalf("the host sees %s, want the proposal with its reason", raw)
	}
	h.ok("net", "approve", pending.Items[0].ID)
	if got := <-over; got.code != 0 || !strings.Contains(got.out, "approved") {
		h.t.Errorf("the command that waited ended with %d and %q, want 0 and approved", got.code, got.out)
	}
	if code, out := h.guest("box", "warren-agent why api.example.com"); code != 0 {
		h.t.Errorf("after the approval, why ends with %d and %q, want 0", code, out)
	}
	if code, out := h.guest("box", "warren-agent ask other.example.com --why x"); code != 2 || !strings.Contains(out, "newly allow") {
		h.t.Errorf("an ask that nobody decided ends with %d and %q, want 2 and how far it widens the policy", code, out)
	}
}

func (h *host) guestVerbs() {
	if code, out := h.guest("box", asNobody+"'warren-agent turn before'"); code != 0 {
		h.t.Errorf("turn ends with %d and %q", code, out)
	}
	if got := h.ok("turns", "box"); !strings.Contains(got, "before") {
		h.t.Errorf("the host has the turns %q, want the guest's", got)
	}
	code, out := h.guest("box", "warren-agent fork --json")
	if code != 1 || !strings.Contains(out, `"FORBIDDEN"`) || !strings.Contains(out, "profile") {
		h.t.Errorf("fork with the profile agent ends with %d and %q, want 1 and FORBIDDEN", code, out)
	}
	if code, out := h.guest("box", "warren-agent status"); code != 0 || !strings.Contains(out, "why, status, filesystem, ask, turn\n") {
		h.t.Errorf("status ends with %d and %q, want the granted verbs", code, out)
	}
}

func (h *host) guestFork() {
	h.ok("up", "--name", "dev", "--net", "closed", "--profile", "dev")
	if code, out := h.guest("dev", "warren-agent fork --name kid > /root/forked 2>&1 || { cat /root/forked; false; }"); code != 0 {
		h.t.Fatalf("fork ends with %d and %q", code, out)
	}
	if got := h.sh("dev", "cat /root/forked"); got != "forked: kid-1" {
		h.t.Errorf("in the parent fork said %q", got)
	}
	if got := h.sh("kid-1", "for i in 1 2 3 4 5 6 7 8 9 10; do test -s /root/forked && break; sleep 1; done; cat /root/forked"); got != "this is the fork kid-1" {
		h.t.Errorf("in the fork it said %q, want that this is the fork", got)
	}
	if code, out := h.guest("kid-1", "warren-agent fork"); code != 1 {
		h.t.Errorf("a fork of the guest's fork ends with %d and %q, want 1", code, out)
	}
}

func (h *host) guestUntrusted() {
	h.ok("up", "--name", "raw", "--profile", "untrusted")
	if code, out := h.guest("raw", "warren-agent ask example.com --why x --json"); code != 1 || !strings.Contains(out, `"FORBIDDEN"`) {
		h.t.Errorf("ask with the profile untrusted ends with %d and %q, want 1 and FORBIDDEN", code, out)
	}
	if code, out := h.guest("raw", "warren-agent why example.com"); code != 1 || strings.Contains(out, "warren-agent ask") {
		h.t.Errorf("why with the profile untrusted ends with %d and %q, want 1 and no advice to ask", code, out)
	}
}
