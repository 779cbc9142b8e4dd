// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package e2b_test

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/warren-vm/warren/internal/access"
	"github.com/warren-vm/warren/internal/e2b"
	"github.com/warren-vm/warren/internal/engine"
	"github.com/warren-vm/warren/internal/layout"
	"github.com/warren-vm/warren/internal/vmtest"
	"github.com/warren-vm/warren/vm"
)

// sim is the door over an engine on a simulated host.
type sim struct {
	*testing.T
	house *vmtest.House
	door  *e2b.Door
	call  *vm.Call
	key   string
	dir   layout.Dir
}

func newSim(t *testing.T) *sim {
	t.Helper()
	s, err := vmtest.NewSite(t.TempDir())
	if err != nil {
		t.Fatalf("no site: %v", err)
	}
	h, err := s.Open(t.Context())
	if err != nil {
		t.Fatalf("the site does not open: %v", err)
	}
	call, secret, err := vmtest.Admin(t.Context(), h)
	if err != nil {
		t.Fatalf("no admin: %v", err)
	}
	out := &sim{T: t, house: h, call: call, key: secret, dir: layout.Dir(t.TempDir())}
	out.restart()
	t.Cleanup(func() {
		if err := h.Close(context.Background()); err != nil {
			t.Errorf("the site does not close: %v", err)
		}
	})
	return out
}

// restart replaces the door by a new one, as a restart of the server does.
func (s *sim) restart() {
	r := s.house.Rooms
	s.door = e2b.New(e2b.Config{
		Engine: r.Engine, Inside: r.Inside, Access: r.Access, Policy: r.Policy, Journal: r.Journal, Log: slog.New(slog.DiscardHandler),
		Secret: []byte("secret"), Lifetime: s.Context(), DefaultNetwork: vm.NetClosed, Domain: "warren.localhost", Dir: s.dir,
	})
}

// sandbox makes a sandbox and returns its id.
func (s *sim) sandbox(sb vm.Sandbox) string {
	s.Helper()
	sb.Template, sb.By, sb.Timeout = "base", s.call.Actor.Key, vm.Seconds(time.Minute)
	if sb.EndsAt.IsZero() {
		sb.EndsAt = time.Now().Add(time.Hour)
	}
	if sb.OnEnd == "" {
		sb.OnEnd = vm.OpDelete
	}
	rec, err := s.house.Rooms.Engine.Create(s.Context(), s.call, engine.CreateRequest{Sandbox: &sb})
	if err != nil {
		s.Fatalf("no sandbox: %v", err)
	}
	return string(rec.ID)
}

// do makes a request and returns its status and body.
func (s *sim) do(method, path, body string, headers ...string) (int, string) {
	s.Helper()
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	func() {
		defer func() {
			p := recover()
			if err, ok := p.(error); p != nil && (!ok || !errors.Is(err, http.ErrAbortHandler)) {
				panic(p)
			}
		}()
		s.door.ServeHTTP(w, r)
	}()
	return w.Code, w.Body.String()
}

// token connects to a sandbox and returns its access token.
func (s *sim) token(id string) string {
	s.Helper()
	code, body := s.do("POST", "/e2b/v2/sandboxes/"+id+"/connect", `{"timeout":60}`, "X-API-KEY", s.key)
	var out struct {
		Token string `json:"envdAccessToken"`
	}
	if err := json.Unmarshal([]byte(body), &out); err != nil || code/100 != 2 || out.Token == "" {
		s.Fatalf("connect answers %d %s", code, body)
	}
	return out.Token
}

// TestWhoMay: the control API wants a Warren key, in either form, and shows an account only
// its own sandboxes; a sandbox wants its own token.
func TestWhoMay(t *testing.T) {
	s := newSim(t)
	id, other := s.sandbox(vm.Sandbox{}), s.sandbox(vm.Sandbox{})
	own, err := s.house.Rooms.Engine.Create(t.Context(), s.call, engine.CreateRequest{})
	if err != nil {
		t.Fatalf("no VM: %v", err)
	}
	_, _, stranger, err := s.house.Rooms.Access.CreateAccount(t.Context(), s.call, "stranger")
	if err != nil {
		t.Fatalf("no other account: %v", err)
	}
	token := s.token(id)
	const port = "E2b-Sandbox-Id"
	for _, c := range []struct {
		what, method, path string
		want               int
		headers            []string
	}{
		{"no key", "GET", "/e2b/sandboxes/" + id, 401, nil},
		{"another vendor's key", "GET", "/e2b/sandboxes/" + id, 401, []string{"X-API-KEY", "e2b_0123456789abcdef"}},
		{"the key", "GET", "/e2b/sandboxes/" + id, 200, []string{"X-API-KEY", s.key}},
		{"the key in E2B's form", "GET", "/e2b/sandboxes/" + id, 200, []string{"X-API-KEY", "e2b_" + hex.EncodeToString([]byte(s.key))}},
		{"another account's key", "GET", "/e2b/sandboxes/" + id, 404, []string{"X-API-KEY", stranger}},
		{"a VM that is no sandbox", "DELETE", "/e2b/sandboxes/" + string(own.ID), 404, []string{"X-API-KEY", s.key}},
		{"health without a token", "GET", "/health", 204, []string{port, id}},
		{"files without a token", "GET", "/files?path=/etc/hostname", 401, []string{port, id}},
		{"files with another sandbox's token", "GET", "/files?path=/etc/hostname", 401, []string{port, other, "X-Access-Token", token}},
		{"a command with the API key only", "POST", "/process.Process/List", 401, []string{port, id, "X-API-KEY", s.key}},
		{"an unknown sandbox", "GET", "/health", 502, []string{port, strings.Repeat("a", 20)}},
		{"a VM that is no sandbox, inside", "GET", "/health", 502, []string{port, string(own.ID)}},
		{"a link with a wrong signature", "GET", "/files?path=/x&signature=v1_x", 401, nil},
		{"a link that has expired", "GET", "/files?path=/x&signature=v1_x&signature_expiration=1", 401, nil},
		{"building a template by Docker", "POST", "/e2b/v2/templates", 501, []string{"X-API-KEY", s.key}},
		{"a volume", "POST", "/e2b/volumes", 501, []string{"X-API-KEY", s.key}},
		{"a route of a later SDK", "POST", "/e2b/v9/sandboxes", 404, []string{"X-API-KEY", s.key}},
	} {
		if code, body := s.do(c.method, c.path, "", c.headers...); code != c.want {
			t.Errorf("%s: status %d, want %d: %s", c.what, code, c.want, body)
		}
	}
	second, secret, err := s.house.Rooms.Access.CreateKey(t.Context(), s.call, "", "second")
	if err != nil {
		t.Fatalf("no second key: %v", err)
	}
	list := func() int {
		code, _ := s.do("POST", "/process.Process/List", "{}", port, id, "X-Access-Token", token)
		return code
	}
	s.do("POST", "/e2b/v2/sandboxes/"+id+"/connect", "", "X-API-KEY", secret)
	if code := list(); code != 200 {
		t.Errorf("the token of a sandbox that a second key connected to gets status %d, want 200", code)
	}
	if err := s.house.Rooms.Access.RevokeKey(t.Context(), s.call, second.ID); err != nil {
		t.Fatalf("the second key is not revoked: %v", err)
	}
	if code := list(); code != 401 {
		t.Errorf("after the key that connected last was revoked the token gets status %d, want 401", code)
	}
}

// TestPace: a caller that asks too often is told to wait, in the status that the SDKs know, whether it calls the
// control API or a sandbox.
func TestPace(t *testing.T) {
	s := newSim(t)
	id := s.sandbox(vm.Sandbox{})
	token := s.token(id)
	s.door.Pace = access.NewPace(1)
	ask := map[string]func() int{
		"the control API": func() int {
			code, _ := s.do("GET", "/e2b/v2/sandboxes", "", "X-API-KEY", s.key)
			return code
		},
		"the sandbox": func() int {
			code, _ := s.do("GET", "/files?path=/none", "", "E2b-Sandbox-Id", id, "X-Access-Token", token)
			return code
		},
	}
	for what, do := range ask {
		refused := 0
		for range 20 {
			if do() == http.StatusTooManyRequests {
				refused++
			}
		}
		if refused < 10 {
			t.Errorf("%s refuses %d of 20 requests, at a limit of one in a second", what, refused)
		}
	}
}

// TestBadRequests: a create that cannot be carried out is refused before anything is made.
func TestBadRequests(t *testing.T) {
	s := newSim(t)
	for what, body := range map[string]string{
		"an unknown template": `{"templateID":"nope"}`, "a time-out of 0": `{"timeout":0}`, "a negative time-out": `{"timeout":-5}`,
		"volumes": `{"volumeMounts":[{"name":"v","path":"/v"}]}`, "iam": `{"iam":{"tokens":{}}}`, "an egress proxy": `{"network":{"egressProxy":{"address":"x"}}}`,
		"rules": `{"network":{"rules":{"x":[{}]}}}`, "no memory and resume": `{"autoPause":true,"autoPauseMemory":false,"autoResume":{"enabled":true}}`,
		"no JSON": `{`, "another type": `{"timeout":"x"}`,
	} {
		code, got := s.do("POST", "/e2b/v2/sandboxes", body, "X-API-KEY", s.key)
		if code != 400 || !strings.Contains(got, `"code":400`) {
			t.Errorf("a create with %s answers %d %s, want 400", what, code, got)
		}
	}
	large, _ := json.Marshal(map[string]any{"metadata": map[string]string{"k": strings.Repeat("x", vm.MaxSandboxBytes)}})
	if code, _ := s.do("POST", "/e2b/v2/sandboxes", string(large), "X-API-KEY", s.key); code != 429 {
		t.Errorf("a create with too much metadata answers %d, want 429", code)
	}
	if list := s.house.Rooms.Engine.VMsWhere(func(v *vm.VM) bool { return v.Sandbox != nil }); len(list) > 0 {
		t.Errorf("refused requests left %d sandboxes", len(list))
	}
}

// TestMalformedFrames: a malformed frame of the Connect protocol is answered with an error
// frame, or with a status, and never with a hang.
func TestMalformedFrames(t *testing.T) {
	s := newSim(t)
	id := s.sandbox(vm.Sandbox{})
	token := s.token(id)
	for what, frame := range map[string]string{
		"nothing": "", "half a header": "\x00\x00", "a compressed frame": "\x01\x00\x00\x00\x02{}", "a frame that is cut off": "\x00\x00\x00\x00\x09{}",
		"a huge length": "\x00\xff\xff\xff\xff{}", "no JSON": "\x00\x00\x00\x00\x02{]", "no command": "\x00\x00\x00\x00\x02{}",
	} {
		for _, method := range []string{"/process.Process/Start", "/filesystem.Filesystem/WatchDir"} {
			if what == "no command" && strings.Contains(method, "Watch") {
				continue
			}
			code, body := s.do("POST", method, frame, "E2b-Sandbox-Id", id, "X-Access-Token", token, "Content-Type", "application/connect+json")
			if code != 200 || !strings.HasPrefix(body, "\x02") || !strings.Contains(body, `"invalid_argument"`) {
				t.Errorf("%s with %s: %d %q, want an end frame with invalid_argument", method, what, code, body)
			}
		}
	}
	for what, body := range map[string]string{"no JSON": "{]", "another type": `{"process":7}`} {
		code, got := s.do("POST", "/process.Process/SendSignal", body, "E2b-Sandbox-Id", id, "X-Access-Token", token)
		if code != 400 || !bytes.Contains([]byte(got), []byte("invalid_argument")) {
			t.Errorf("a signal with %s answers %d %s, want 400 invalid_argument", what, code, got)
		}
	}
}

// TestPages: a list comes in pages, and a token of it continues where the page ended.
func TestPages(t *testing.T) {
	s := newSim(t)
	// A time that Python has read keeps microseconds only, so it is before the sandbox's.
	born := s.sandbox(vm.Sandbox{Metadata: map[string]string{"born": "now"}})
	var info struct {
		Started time.Time `json:"startedAt"`
	}
	if _, text := s.do("GET", "/e2b/sandboxes/"+born, "", "X-API-KEY", s.key); json.Unmarshal([]byte(text), &info) != nil {
		t.Fatalf("the sandbox is described as %s", text)
	}
	for at, want := range map[time.Time]bool{info.Started: true, info.Started.Truncate(time.Microsecond): true, info.Started.Add(time.Second): false} {
		path := "/e2b/v2/sandboxes?metadata=born%3Dnow&startedAfter=" + url.QueryEscape(at.Format(time.RFC3339Nano))
		if _, text := s.do("GET", path, "", "X-API-KEY", s.key); strings.Contains(text, born) != want {
			t.Errorf("the sandboxes since %v, one of them of %v, are %s", at, info.Started, text)
		}
	}
	want := map[string]bool{}
	for range 5 {
		want[s.sandbox(vm.Sandbox{Metadata: map[string]string{"a": "b"}})] = true
	}
	s.sandbox(vm.Sandbox{})
	next, pages := "", 0
	for {
		r := httptest.NewRequest("GET", "/e2b/v2/sandboxes?metadata=a%3Db&limit=2&nextToken="+next, nil)
		r.Header.Set("X-API-KEY", s.key)
		w := httptest.NewRecorder()
		s.door.ServeHTTP(w, r)
		var list []struct {
			ID string `json:"sandboxID"`
		}
		if err := json.Unmarshal(w.Body.Bytes(), &list); err != nil || len(list) == 0 || len(list) > 2 {
			t.Fatalf("a page is %d %s", w.Code, w.Body)
		}
		for _, x := range list {
			if !want[x.ID] {
				t.Errorf("%s is listed twice, or has other metadata", x.ID)
			}
			delete(want, x.ID)
		}
		pages++
		if next = w.Header().Get("X-Next-Token"); next == "" {
			break
		}
	}
	if pages != 3 || len(want) > 0 {
		t.Errorf("%d pages leave %d sandboxes out, want 3 pages and none", pages, len(want))
	}
}
