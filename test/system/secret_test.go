//go:build system

// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package system

import (
	"net/http"
	"os/exec"
	"strings"
	"sync"
	"testing"
)

const (
	secretValue = "sk-test-THE-VALUE-no-guest-ever-holds-4711"
	secretNext  = "sk-test-the-value-after-it-was-rotated-0815"
)

// tokenAPI is a host that wants a token, and knows which tokens were tried.
type tokenAPI struct {
	mu    sync.Mutex
	good  string
	tried []string
}

func (a *tokenAPI) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	token := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
	a.tried = append(a.tried, token)
	good := token == a.good
	a.mu.Unlock()
	if !good {
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	switch r.URL.Path {
	case "/echo":
		_, _ = w.Write([]byte("you sent " + token))
	case "/redirect":
		http.Redirect(w, r, "https://other.example.com/?from=redirect", http.StatusFound)
	default:
		_, _ = w.Write([]byte("welcome"))
	}
}

func (a *tokenAPI) accept(token string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.good, a.tried = token, nil
}

// holds reports whether a file below the server's data has a text.
func (h *host) holds(text string) string {
	h.t.Helper()
	out, err := exec.Command("grep", "-rlaF", "-e", text, h.data).Output()
	if err != nil && len(out) > 0 {
		h.t.Logf("grep: %v", err)
	}
	return strings.TrimSpace(string(out))
}

// TestSecret: a token works in a guest that never holds it: not in its environment, its
// memory, its disk, a snapshot, or any file of the server. (002-40)
func TestSecret(t *testing.T) {
	w := newNetWorld(t)
	api := &tokenAPI{good: secretValue}
	w.handle("api.example.com", api)
	w.name("api.example.com")
	w.name("other.example.com")
	w.name("bad.example.com")
	w.badCertificate("bad.example.com")
	h := w.host()
	set := func(name, value string, args ...string) string {
		t.Helper()
		r := h.runIn("", []byte(value+"\n"), append([]string{"secret", "set", name}, args...)...)
		if r.code != 0 {
			t.Fatalf("secret set: %s", r)
		}
		return r.stdout
	}
	set("api-token", secretValue, "--host", "api.example.com", "--header", "Authorization")
	set("bad-token", secretValue, "--host", "bad.example.com", "--header", "Authorization")
	h.ok("up", "--name", "box", "--net", "api.example.com,other.example.com,bad.example.com", "--secret", "api-token", "--secret", "bad-token")
	curl := func(box, args string) string {
		return h.sh(box, "curl -sS --max-time 60 -w ' %{http_code}' "+args+" 2>&1")
	}
	auth := `-H "Authorization: Bearer $API_TOKEN" `
	holder := h.sh("box", "echo $API_TOKEN")

	t.Run("works", func(t *testing.T) {
		if got := curl("box", auth+"https://api.example.com/"); got != "welcome 200" {
			t.Errorf("a request with the placeholder gets %q", got)
		}
		if file := h.sh("box", "cat /run/warren/secrets/api-token"); file != holder || holder == "" || holder == secretValue {
			t.Errorf("the environment has %q, the file %q", holder, file)
		}
		if !strings.HasPrefix(holder, "sk-") || strings.HasPrefix(holder, "sk-test-") || len(holder) != len(secretValue) {
			t.Errorf("the placeholder %q does not look like the value, or tells a part of it", holder)
		}
		if got := curl("box", auth+"https://api.example.com/echo"); got != "you sent "+holder+" 200" {
			t.Errorf("a host that repeats the token shows the guest %q", got)
		}
		if got := h.ok("net", "log", "box"); !strings.Contains(got, "injected") {
			t.Errorf("net log does not say that a secret was put in:\n%s", got)
		}
		if got := h.ok("audit", "ls", "--json"); !strings.Contains(got, `"secret-use"`) {
			t.Error("the use of a secret has no audit record")
		}
	})
	t.Run("misplaced", func(t *testing.T) { secretMisplaced(t, w, h, curl, api) })
	t.Run("fork", func(t *testing.T) {
		h.sh("box", `sh -c 'while [ ! -e /tmp/go ]; do sleep 0.2; done; curl -sS --max-time 60 -H "Authorization: Bearer $API_TOKEN" https://api.example.com/ > /tmp/running 2>&1; touch /tmp/ran' >/dev/null 2>&1 &`)
		h.ok("fork", "box", "--name", "kid")
		kid := h.sh("kid-1", "echo $API_TOKEN; cat /run/warren/secrets/api-token")
		lines := strings.Fields(kid)
		if len(lines) != 2 || lines[0] != lines[1] || lines[0] == holder {
			t.Errorf("the fork has the placeholders %q, its parent %q", lines, holder)
		}
		if got := curl("kid-1", auth+"https://api.example.com/"); got != "welcome 200" {
			t.Errorf("the fork's placeholder gets %q", got)
		}
		if got := h.sh("kid-1", "touch /tmp/go; while [ ! -e /tmp/ran ]; do sleep 0.2; done; cat /tmp/running"); got != "welcome" {
			t.Errorf("a program that ran at the fork gets %q", got)
		}
		if got := h.sh("box", "curl -sSk -o /dev/null --max-time 60 -w '%{http_code}' -H 'Authorization: Bearer "+lines[0]+"' https://api.example.com/"); got != "401" {
			t.Errorf("the fork's placeholder in its parent gets %q, want 401", got)
		}
		h.ok("secret", "revoke", "api-token", "kid-1")
		if got := curl("kid-1", "-k -o /dev/null "+auth+"https://api.example.com/"); !strings.HasSuffix(got, "401") {
			t.Errorf("a fork from which the secret was revoked gets %q", got)
		}
		h.ok("rm", "kid-1")
	})
	t.Run("rotate", func(t *testing.T) {
		api.accept(secretNext)
		if got := set("api-token", secretNext); !strings.Contains(got, "new value") {
			t.Errorf("a second set says %q", got)
		}
		if got := curl("box", auth+"https://api.example.com/"); got != "welcome 200" {
			t.Errorf("after the rotation the guest gets %q", got)
		}
	})
	t.Run("nowhere", func(t *testing.T) {
		h.ok("snapshot", "create", "box", "--name", "kept")
		h.ok("suspend", "box")
		for _, v := range []string{secretValue, secretNext} {
			if files := h.holds(v); files != "" {
				t.Errorf("the value is in %s", files)
			}
		}
		if files := h.holds(holder); files == "" {
			t.Error("grep does not find the placeholder either: the check proves nothing")
		}
		h.ok("start", "box")
		if got := curl("box", auth+"https://api.example.com/"); got != "welcome 200" {
			t.Errorf("after a suspend the guest gets %q", got)
		}
	})
	t.Run("removed", func(t *testing.T) {
		h.ok("secret", "rm", "api-token")
		if got := h.sh("box", "curl -sSk -o /dev/null --max-time 60 -w '%{http_code}' -H 'Authorization: Bearer "+holder+"' https://api.example.com/"); got != "401" {
			t.Errorf("with a removed secret the guest gets %q, want 401", got)
		}
		set("api-token", secretNext, "--host", "api.example.com", "--header", "Authorization")
		if got := h.sh("box", "curl -sSk -o /dev/null --max-time 60 -w '%{http_code}' -H 'Authorization: Bearer "+holder+"' https://api.example.com/"); got != "401" {
			t.Errorf("a later secret of the name serves the old VM: %q", got)
		}
		if got := h.sh("box", "ls /run/warren/secrets; echo \"[$API_TOKEN]\""); got != "bad-token\n[]" {
			t.Errorf("the guest still holds %q", got)
		}
	})
}

// secretMisplaced sends a placeholder to where it does not belong.
func secretMisplaced(t *testing.T, w *netWorld, h *host, curl func(box, args string) string, api *tokenAPI) {
	api.mu.Lock()
	api.tried = nil
	api.mu.Unlock()
	w.forget()
	for name, args := range map[string]string{
		"another header": `-H "X-Key: $API_TOKEN" https://api.example.com/`,
		"the URL":        `"https://api.example.com/?k=$API_TOKEN"`,
		"the body":       `-d "k=$API_TOKEN" https://api.example.com/`,
		"plain HTTP":     `-H "Authorization: Bearer $API_TOKEN" http://api.example.com/`,
		"another host":   `-H "Authorization: Bearer $BAD_TOKEN" https://api.example.com/`,
	} {
		if got := curl("box", args); !strings.HasSuffix(got, " 403") || !strings.Contains(got, "placeholder") {
			t.Errorf("%s: the guest gets %q", name, got)
		}
	}
	if w.saw("http", "api.example.com") {
		t.Errorf("a request with a misplaced placeholder arrived: %v", w.arrived())
	}
	if got := curl("box", `-H "Authorization: Bearer $BAD_TOKEN" https://bad.example.com/`); !strings.HasSuffix(got, " 502") || !strings.Contains(got, "certificate of bad.example.com does not verify") {
		t.Errorf("a host with a bad certificate: the guest gets %q", got)
	}
	if w.saw("http", "bad.example.com") {
		t.Error("a host with a bad certificate got a request")
	}
	// curl sends the header to the new host only with --location-trusted. The world's echo shows
	// what that host gets: the guest's own placeholder, which is worth nothing.
	got := curl("box", `-k -L --location-trusted -H "Authorization: Bearer $API_TOKEN" https://api.example.com/redirect`)
	if !w.saw("http", "other.example.com /?from=redirect") || strings.Contains(got, secretValue) {
		t.Errorf("a redirect: the guest gets %q", got)
	}
	api.mu.Lock()
	defer api.mu.Unlock()
	cmd := exec.Command("timeout", "5", h.binary, "events", "--json", "--after", "0")
	cmd.Env = h.environ()
	if out, _ := cmd.Output(); strings.Count(string(out), `"secret.misplaced"`) < 5 { // it ends by the time
		t.Errorf("the events of misplaced placeholders are missing:\n%s", out)
	}
}
