//go:build system

// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package system

import (
	"strings"
	"testing"
)

// TestNetWorld: the stand-in for the internet answers and records. A guest with an open
// network reaches it by name; a closed one sends nothing into it.
func TestNetWorld(t *testing.T) {
	w := newNetWorld(t)
	at := w.name("api.example.com")
	out, err := w.command("curl", "-sS", "--max-time", "10", "--cacert", w.caFile(), "--resolve", "api.example.com:443:"+at.String(), "https://api.example.com/hello").CombinedOutput()
	if err != nil || !strings.Contains(string(out), `"path":"/hello"`) {
		t.Fatalf("curl beside the server: %v %s", err, out)
	}
	for _, what := range [][]string{{"tls", at.String() + ":443", "api.example.com"}, {"http", "GET api.example.com /hello"}, {"tcp", at.String() + ":443"}} {
		if !w.saw(what...) {
			t.Errorf("%v is not among what arrived: %v", what, w.arrived())
		}
	}
	h := w.host()
	h.ok("up", "--name", "box", "--net", "closed")
	w.forget()
	if got := h.sh("box", "curl -sk --max-time 20 https://api.example.com/; curl -sk --max-time 20 https://"+at.String()+"/; echo done"); got != "done" {
		t.Errorf("a closed guest gets %q", got)
	}
	if got := w.arrived(); len(got) > 0 {
		t.Errorf("of a closed guest arrived: %v", got)
	}
	h.ok("net", "set", "box", "open")
	if got := h.sh("box", "curl -sSk --max-time 20 https://api.example.com/it"); !strings.Contains(got, `"tls":"api.example.com"`) {
		t.Errorf("an open guest gets %q", got)
	}
}
