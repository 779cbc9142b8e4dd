// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package freestyle_test

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/warren-vm/warren/internal/access"
	"github.com/warren-vm/warren/internal/freestyle"
	"github.com/warren-vm/warren/internal/vmtest"
	"github.com/warren-vm/warren/vm"
)

// sim is the door over rooms on a simulated host.
type sim struct {
	*testing.T
	house *vmtest.House
	door  *freestyle.Door
	call  *vm.Call
	key   string
}

func newSim(t *testing.T) *sim {
	t.Helper()
	site, err := vmtest.NewSite(t.TempDir())
	if err != nil {
		t.Fatalf("no site: %v", err)
	}
	h, err := site.Open(t.Context())
	if err != nil {
		t.Fatalf("the site does not open: %v", err)
	}
	call, secret, err := vmtest.Admin(t.Context(), h)
	if err != nil {
		t.Fatalf("no admin: %v", err)
	}
	r := h.Rooms
	life, end := context.WithCancel(context.Background())
	door := freestyle.New(freestyle.Config{
		Engine: r.Engine, Inside: r.Inside, Access: r.Access, Policy: r.Policy, Names: r.Names, Meter: r.Meter, Answers: r.Answers, Journal: r.Journal,
		Log: slog.New(slog.DiscardHandler), Lifetime: life,
	})
	t.Cleanup(func() {
		end()
		door.Wait()
		if err := h.Close(context.Background()); err != nil {
			t.Errorf("the site does not close: %v", err)
		}
	})
	return &sim{t, h, door, call, secret}
}

// do makes a request and returns its answer.
func (s *sim) do(method, path, body string, headers ...string) *http.Response {
	s.Helper()
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	s.door.ServeHTTP(w, r)
	return w.Result()
}

// made makes a VM and returns its id.
func (s *sim) made() string {
	s.Helper()
	var out struct {
		ID string `json:"id"`
	}
	a := s.do("POST", "/v5/vms", `{"firewall":{"rules":[]}}`, "Authorization", "Bearer "+s.key)
	if err := json.NewDecoder(a.Body).Decode(&out); err != nil || a.StatusCode != 201 || out.ID == "" {
		s.Fatalf("a create answers %d (%v)", a.StatusCode, err)
	}
	return out.ID
}

// member makes an identity that may use a VM, and returns its token.
func (s *sim) member(id string, users ...string) string {
	s.Helper()
	i, err := s.house.Rooms.Access.CreateIdentity(s.Context(), s.call, "")
	if err != nil {
		s.Fatalf("no identity: %v", err)
	}
	_, token, err := s.house.Rooms.Access.CreateToken(s.Context(), s.call, string(i.ID), access.TokenRequest{})
	if err != nil {
		s.Fatalf("no token: %v", err)
	}
	if _, err := s.house.Rooms.Access.GrantVM(s.Context(), s.call, string(i.ID), id, users); err != nil {
		s.Fatalf("no permission: %v", err)
	}
	return token
}

const tokenHeader = "X-Freestyle-Identity-Access-Token"

// TestTakes: the door takes its own paths and those of generations that this server lacks, and
// leaves the others to the API and to git.
func TestTakes(t *testing.T) {
	s := newSim(t)
	for path, want := range map[string]bool{
		"/v5": true, "/v5/vms": true, "/v5/x/y": true, "/v6/vms": true, "/v3/snapshots/x": true, "/v1/vms": false, "/v5x/vms": false, "/v6/info/refs": false, "/": false, "/v50/vms": true,
	} {
		if got := s.door.Takes(httptest.NewRequest("GET", path, nil)); got != want {
			t.Errorf("the door takes %s: %v, want %v", path, got, want)
		}
	}
}

// TestWhoMay: every route wants a key or a token, shows an account only its own VMs, and gives an
// identity nothing of the account's owner.
func TestWhoMay(t *testing.T) {
	s := newSim(t)
	id, other := s.made(), s.made()
	token := s.member(id)
	_, _, stranger, err := s.house.Rooms.Access.CreateAccount(t.Context(), s.call, "stranger")
	if err != nil {
		t.Fatalf("no other account: %v", err)
	}
	key, foreign, member := []string{"Authorization", "Bearer " + s.key}, []string{"Authorization", "Bearer " + stranger}, []string{tokenHeader, token}
	for _, c := range []struct {
		what, method, path string
		want               int
		headers            []string
	}{
		{"no key", "GET", "/v5/vms/" + id, 401, nil},
		{"another scheme", "GET", "/v5/vms/" + id, 401, []string{"Authorization", "Basic " + s.key}},
		{"another vendor's key", "GET", "/v5/vms", 401, []string{"Authorization", "Bearer fs-1-2"}},
		{"a key in the place of a token", "GET", "/v5/vms", 401, []string{tokenHeader, s.key}},
		{"an unknown route without a key", "GET", "/v5/nothing", 401, nil},
		{"an unknown route", "GET", "/v5/nothing", 404, key},
		{"the key", "GET", "/v5/vms/" + id, 200, key},
		{"another account's key", "GET", "/v5/vms/" + id, 404, foreign},
		{"another account's delete", "DELETE", "/v5/vms/" + id, 404, foreign},
		{"another account's read", "GET", "/v5/vms/" + id + "/fs/read?path=/etc/hostname", 404, foreign},
		{"a token", "GET", "/v5/vms/" + id, 200, member},
		{"a token for another VM", "GET", "/v5/vms/" + other, 403, member},
		{"a token's delete", "DELETE", "/v5/vms/" + id, 403, member},
		{"a token's identities", "GET", "/v5/identities", 403, member},
		{"a token's rules", "GET", "/v5/firewall/rules", 403, member},
		{"a token's snapshots", "GET", "/v5/snapshots", 403, member},
		{"no VM", "GET", "/v5/vms/" + strings.Repeat("a", 20), 404, key},
		{"what is no id", "GET", "/v5/vms/%2e%2e", 404, key},
	} {
		if a := s.do(c.method, c.path, "", c.headers...); a.StatusCode != c.want {
			body, _ := io.ReadAll(a.Body)
			t.Errorf("%s: status %d, want %d: %s", c.what, a.StatusCode, c.want, body)
		}
	}
}

// TestLaterAnswers: the answer of a request that takes long is found by its caller under the
// address that it was told, and by nobody else of another account or identity.
func TestLaterAnswers(t *testing.T) {
	s := newSim(t)
	id := s.made()
	token, another := s.member(id), s.member(id)
	var later struct {
		URL string `json:"resultUrl"`
	}
	a := s.do("POST", "/v5/vms/"+id+"/exec-await", `{"command":"sleep 2; echo done"}`, tokenHeader, token, "X-Freestyle-Background-After-Secs", "1")
	if err := json.NewDecoder(a.Body).Decode(&later); err != nil || a.StatusCode != 202 || later.URL == "" {
		t.Fatalf("a long command answers %d (%v), want 202 and where its answer will be", a.StatusCode, err)
	}
	if got := a.Header.Get("X-Freestyle-Background-Request-Id"); !strings.HasSuffix(later.URL, "/"+got) || got == "" {
		t.Errorf("the header names request %q, and the body %s", got, later.URL)
	}
	if a := s.do("GET", later.URL, "", tokenHeader, another); a.StatusCode != 404 {
		t.Errorf("another identity's poll has status %d, want 404", a.StatusCode)
	}
	a = s.do("GET", later.URL, "", tokenHeader, token)
	body, _ := io.ReadAll(a.Body)
	if a.StatusCode != 200 || !strings.Contains(string(body), `"done\n"`) || a.Header.Get("X-Freestyle-Background-Request-Id") == "" {
		t.Errorf("the poll has status %d and says %s, want the output and the request's id", a.StatusCode, body)
	}
	_, _, stranger, err := s.house.Rooms.Access.CreateAccount(t.Context(), s.call, "stranger")
	if err != nil {
		t.Fatalf("no other account: %v", err)
	}
	if a := s.do("GET", later.URL, "", "Authorization", "Bearer "+stranger); a.StatusCode != 404 {
		t.Errorf("another account's poll has status %d, want 404", a.StatusCode)
	}
	if a := s.do("GET", later.URL, "", "Authorization", "Bearer "+s.key); a.StatusCode != 200 {
		t.Errorf("the owner's poll has status %d, want 200", a.StatusCode)
	}
}

// TestUploadsAreOwn: an upload is nobody's but its caller's.
func TestUploadsAreOwn(t *testing.T) {
	s := newSim(t)
	id := s.made()
	token := s.member(id)
	var up struct {
		ID string `json:"uploadId"`
	}
	base := "/v5/vms/" + id + "/fs/uploads"
	a := s.do("POST", base, `{"path":"/root/x","size":3}`, "Authorization", "Bearer "+s.key)
	if err := json.NewDecoder(a.Body).Decode(&up); err != nil || up.ID == "" {
		t.Fatalf("an upload begins with %d (%v)", a.StatusCode, err)
	}
	if a := s.do("PUT", base+"/"+up.ID+"?offset=0", "abc", tokenHeader, token); a.StatusCode != 404 {
		t.Errorf("an identity's chunk of the owner's upload has status %d, want 404", a.StatusCode)
	}
	for range 15 {
		s.do("POST", base, `{"path":"/root/x","size":3}`, "Authorization", "Bearer "+s.key)
	}
	if a := s.do("POST", base, `{"path":"/root/x","size":3}`, "Authorization", "Bearer "+s.key); a.StatusCode != 409 {
		t.Errorf("the seventeenth open upload of a VM has status %d, want 409", a.StatusCode)
	}
}
