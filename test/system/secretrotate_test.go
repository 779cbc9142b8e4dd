//go:build system

// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package system

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/warren-vm/warren/api"
	"github.com/warren-vm/warren/vm"
)

// services are those of two tokens: a rotator, which gives api another token for the one that
// it accepts, and an OAuth server for crm.
type services struct {
	api, crm *tokenAPI

	mu      sync.Mutex
	broken  bool // the rotator answers with status 500
	asks    []map[string]string
	asked   chan bool // the rotator tells that it was asked, and never answers; nil = it answers
	refresh string
	n       int
	revoked []string
}

func (s *services) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch r.URL.Path {
	case "/rotate":
		s.rotate(w, r)
	case "/token":
		if r.FormValue("refresh_token") != s.refresh {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		s.n++
		s.refresh = fmt.Sprintf("refresh-THE-VALUE-%d", s.n)
		access := fmt.Sprintf("access-THE-VALUE-%d", s.n)
		s.crm.accept(access)
		_, _ = fmt.Fprintf(w, `{"access_token":%q,"refresh_token":%q,"expires_in":3600}`, access, s.refresh)
	case "/revoke":
		s.revoked = append(s.revoked, r.FormValue("token"))
	}
}

func (s *services) rotate(w http.ResponseWriter, r *http.Request) {
	var ask map[string]string
	body, err := io.ReadAll(r.Body) // to its end, so that the end of the connection is seen
	if err == nil {
		err = json.Unmarshal(body, &ask)
	}
	if err != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	switch asked := s.asked; {
	case asked != nil:
		s.asked = nil
		asked <- true
		<-r.Context().Done()
	case s.broken:
		w.WriteHeader(http.StatusInternalServerError)
	case r.Header.Get("Authorization") != "Bearer "+s.api.accepts():
		w.WriteHeader(http.StatusUnauthorized)
	default:
		s.asks = append(s.asks, ask)
		next := fmt.Sprintf("%s-%d", secretNext, len(s.asks))
		s.api.accept(next)
		_, _ = fmt.Fprintf(w, `{"value":%q}`, next)
	}
}

func (s *services) set(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
}

func (a *tokenAPI) accepts() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.good
}

// TestSecretRotate: `warren done` gives the secrets that a VM could use new values at their
// services. The old ones are refused there; another VM works on with the placeholders that it
// has. What fails is open, and is closed by a later `warren done`.
//
// 003-45
func TestSecretRotate(t *testing.T) {
	w := newNetWorld(t)
	s := &services{api: &tokenAPI{good: secretValue}, crm: &tokenAPI{}, refresh: "refresh-THE-VALUE-0"}
	w.handle("api.example.com", s.api)
	w.handle("crm.example.com", s.crm)
	w.handle("login.example.com", s)
	at := w.name("api.example.com", "crm.example.com", "login.example.com")
	h := w.host()
	set := func(name, value string, args ...string) {
		t.Helper()
		if r := h.runIn("", []byte(value+"\n"), append([]string{"secret", "set", name, "--header", "Authorization"}, args...)...); r.code != 0 {
			t.Fatalf("secret set: %s", r)
		}
	}
	set("api-token", secretValue, "--host", "api.example.com", "--rotate-url", "https://login.example.com/rotate")
	set("crm-token", s.refresh, "--host", "crm.example.com", "--oauth-token-url", "https://login.example.com/token",
		"--oauth-client-id", "warren", "--oauth-revoke-url", "https://login.example.com/revoke")
	for _, name := range []string{"box", "other"} {
		h.ok("up", "--name", name, "--net", "api.example.com,crm.example.com", "--secret", "api-token", "--secret", "crm-token")
	}
	works := func(what, name string) {
		t.Helper()
		for host, env := range map[string]string{"api": "API_TOKEN", "crm": "CRM_TOKEN"} {
			if got := h.sh(name, "curl -sS --max-time 60 -w ' %{http_code}' -H \"Authorization: Bearer $"+env+"\" https://"+host+".example.com/ 2>&1"); got != "welcome 200" {
				t.Errorf("%s: %s gets %q from %s", what, name, got, host)
			}
		}
	}
	// direct asks the API with a value itself, as a thief of it could.
	direct := func(value string) string {
		t.Helper()
		out, err := w.command("curl", "-sS", "-o", "/dev/null", "--max-time", "20", "-w", "%{http_code}", "--cacert", w.caFile(),
			"--resolve", "api.example.com:443:"+at.String(), "-H", "Authorization: Bearer "+value, "https://api.example.com/").CombinedOutput()
		if err != nil {
			t.Errorf("curl: %v: %s", err, out)
		}
		return string(out)
	}
	works("before", "box")
	works("before", "other")
	holders := h.sh("other", "echo $API_TOKEN $CRM_TOKEN")
	if got := direct(secretValue); got != "200" {
		t.Fatalf("the API answers the first value with %s", got)
	}

	t.Run("killed", func(t *testing.T) { // before the service has replaced the value
		asked := make(chan bool)
		s.set(func() { s.asked = asked })
		cmd := exec.Command(h.binary, "secret", "rotate", "api-token")
		cmd.Env = h.environ()
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		select {
		case <-asked:
		case <-time.After(30 * time.Second):
			t.Fatal("the rotator is not asked")
		}
		h.killServer()
		if err := cmd.Wait(); err == nil {
			t.Error("secret rotate succeeds, though the server died")
		}
		h.serve()
		works("after the server died in a rotation", "box")
	})

	id := h.find("box").ID
	used := s.refresh
	r := h.run("done", "box", "--rm", "--json")
	job := decoded[vm.Job](t, r.stdout)
	if r.code != 0 || !job.Complete || len(job.Remains.Credentials) != 2 {
		t.Errorf("done: %s", r)
	}
	for _, c := range job.Remains.Credentials {
		if c.RotatedAt.IsZero() || c.Uses < 2 || c.Others != 1 || c.Granted {
			t.Errorf("the record of the job says of %s: %+v", c.Name, c)
		}
	}
	if got := direct(secretValue); got != "401" {
		t.Errorf("after done the API answers the old value with %s, want 401", got)
	}
	if len(s.revoked) != 1 || s.revoked[0] != used {
		t.Errorf("the revoked tokens are %v, want %s", s.revoked, used)
	}
	works("after done", "other")
	if got := h.sh("other", "echo $API_TOKEN $CRM_TOKEN"); got != holders {
		t.Errorf("the other VM has the placeholders %q, want %q as before", got, holders)
	}
	if got := decoded[api.Secret](t, h.ok("secret", "show", "api-token", "--json")); len(got.VMs) != 1 || got.VMs[0].Name != "other" || got.RotatedAt == nil {
		t.Errorf("after done the secret is %+v, want it granted to the other VM only", got)
	}
	if r := h.run("done", id); r.code != 0 || len(s.asks) != 1 || !strings.Contains(r.stdout, "api-token: rotated 2") {
		t.Errorf("a second done, with %d rotations: %s", len(s.asks), r)
	}
	if s.asks[0]["vm"] != id || s.asks[0]["secret"] != "api-token" || s.asks[0]["host"] != "api.example.com" {
		t.Errorf("the rotator was asked %v", s.asks[0])
	}

	t.Run("fails", func(t *testing.T) {
		s.set(func() { s.broken = true })
		id := h.find("other").ID
		r := h.run("done", "other", "--rm")
		if r.code != 6 || !strings.Contains(r.stdout, "api-token: NOT rotated: the rotator answered with status 500") || !strings.Contains(r.stdout, "crm-token: rotated 2") {
			t.Errorf("done with a broken rotator: %s", r)
		}
		s.set(func() { s.broken = false })
		if r := h.run("done", id); r.code != 0 || len(s.asks) != 2 {
			t.Errorf("done again, with %d rotations: %s", len(s.asks), r)
		}
	})
	t.Run("nowhere", func(t *testing.T) {
		for _, v := range []string{secretValue, secretNext, "THE-VALUE"} {
			if files := h.holds(v); files != "" {
				t.Errorf("the value is in %s", files)
			}
		}
		if strings.Contains(h.log.String(), "THE-VALUE") {
			t.Error("a value is in the server's log")
		}
		if got := h.ok("audit", "ls", "--json"); strings.Count(got, `"secret-rotate"`) < 5 || strings.Contains(got, "THE-VALUE") {
			t.Errorf("the audit records of rotations are missing, or have a value:\n%s", got)
		}
		cmd := exec.Command("timeout", "5", h.binary, "events", "--json", "--after", "0")
		cmd.Env = h.environ()
		if out, _ := cmd.Output(); strings.Count(string(out), `"secret.rotated"`) != 4 || strings.Contains(string(out), "THE-VALUE") { // it ends by the time
			t.Errorf("the events of four rotations are missing, or have a value:\n%s", out)
		}
	})
}
