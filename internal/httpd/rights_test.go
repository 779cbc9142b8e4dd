// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package httpd

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/warren-vm/warren/api"
	"github.com/warren-vm/warren/internal/access"
	"github.com/warren-vm/warren/internal/engine"
	"github.com/warren-vm/warren/internal/vault"
	"github.com/warren-vm/warren/internal/vmtest"
	"github.com/warren-vm/warren/vm"
)

const aPublicKey = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGh0bWxzYWZlLXRlc3Qta2V5LTAxMjM0NTY3ODkwMTIz laptop"

// agent is an identity of the bench's account.
type agent struct {
	b  *bench
	id string
}

func (b *bench) identity(name string) agent {
	b.t.Helper()
	a := b.do("POST", "/identity/v1/identities", map[string]any{"name": name})
	id, _ := a.json["id"].(string)
	if a.status != 200 || id == "" {
		b.t.Fatalf("identity: %d %s", a.status, a.body)
	}
	return agent{b, id}
}

// must makes a request about the identity that succeeds.
func (a agent) must(method, path string, body any) answer {
	a.b.t.Helper()
	return a.b.do(method, "/identity/v1/identities/"+a.id+path, body).ok(a.b.t)
}

// token makes a token and returns its id and secret.
func (a agent) token(body any) (id, secret string) {
	a.b.t.Helper()
	got := a.must("POST", "/tokens", body)
	id, _ = got.json["id"].(string)
	secret, _ = got.json["token"].(string)
	return id, secret
}

// openToTokens are all routes that a token may call, with the right that they
// ask for. A route that is missing here is none for tokens.
var openToTokens = map[string]right{
	"GET /auth/v1/whoami":     token,
	"GET /v1/vms":             token,
	"GET /v1/asks":            token, // its own
	"GET /v1/asks/{ask}":      token, // its own
	"GET /v1/ssh":             token,
	"GET /v1/vms/{vm}/ssh":    granted, // the Linux user is SSH's
	"GET /v1/vms/{vm}":        granted,
	"POST /v1/vms/{vm}/start": granted,
	"POST /v1/vms/{vm}/await": granted,
	"GET /v1/vms/{vm}/stats":  granted,
	"GET /v1/vms/{vm}/state":  granted,
	"GET /v1/vms/{vm}/idle":   granted,
	"GET /v1/vms/{vm}/diff":   granted, "POST /v1/vms/{vm}/diff": granted, "GET /v1/vms/{vm}/diff/patch": granted,
	"GET /v1/vms/{vm}/truth":    granted, // as root
	"POST /v1/vms/{vm}/commit":  granted, // as root, with a right to the repository
	"POST /v1/vms/{vm}/publish": granted, // as root, with a grant for the key; see ship.TestShipRights
	"POST /v1/vms/{vm}/fetch":   granted, // as root, with a grant for the key
	"GET /v1/vms/{vm}/top":      granted,
	"GET /v1/vms/{vm}/diagnose": granted,
	"GET /v1/vms/{vm}/ports":    granted,
	"GET /v1/vms/{vm}/mounts":   granted,
	"GET /v1/ca":                token,

	"GET /v1/vms/{vm}/previews":                 granted,
	"GET /v1/vms/{vm}/previews/{port}":          granted,
	"POST /v1/vms/{vm}/previews/{port}/tickets": granted,
	"GET /v1/vms/{vm}/dial/{port}":              granted,
	"GET /v1/vms/{vm}/screen/shot":              granted,
	"POST /v1/vms/{vm}/screen/move":             granted,
	"POST /v1/vms/{vm}/screen/click":            granted,
	"POST /v1/vms/{vm}/screen/scroll":           granted,
	"POST /v1/vms/{vm}/screen/type":             granted,
	"POST /v1/vms/{vm}/screen/key":              granted,

	"POST /v1/vms/{vm}/ports/{port}/wait": granted,

	"POST /v1/vms/{vm}/turns":       granted, // as root
	"GET /v1/vms/{vm}/turns":        granted, // as root
	"GET /v1/vms/{vm}/exec":         granted, // the Linux user is in the command
	"POST /v1/vms/{vm}/exec":        granted,
	"POST /v1/vms/{vm}/processes":   granted,
	"GET /v1/vms/{vm}/terminals":    asUser,
	"POST /v1/vms/{vm}/exec-await":  asUser,
	"GET /v1/vms/{vm}/processes":    asUser,
	"POST /v1/vms/{vm}/watch-files": asUser,

	"GET /v1/vms/{vm}/processes/{process}":         asUser,
	"DELETE /v1/vms/{vm}/processes/{process}":      asUser,
	"POST /v1/vms/{vm}/processes/{process}/wait":   asUser,
	"POST /v1/vms/{vm}/processes/{process}/signal": asUser,
	"GET /v1/vms/{vm}/processes/{process}/log":     asUser,

	"GET /v1/vms/{vm}/pty":                               asUser,
	"GET /v1/vms/{vm}/pty/sessions":                      asUser,
	"GET /v1/vms/{vm}/pty/sessions/{session}":            asUser,
	"DELETE /v1/vms/{vm}/pty/sessions/{session}":         asUser,
	"GET /v1/vms/{vm}/pty/sessions/{session}/screen":     asUser,
	"GET /v1/vms/{vm}/pty/sessions/{session}/scrollback": asUser,
	"POST /v1/vms/{vm}/pty/sessions/{session}/input":     asUser,
	"GET /v1/vms/{vm}/systemd/services":                  asUser,
	"POST /v1/vms/{vm}/systemd/services":                 asUser,
	"DELETE /v1/vms/{vm}/systemd/services/{service}":     asUser,
	"GET /v1/vms/{vm}/systemd/services/{service}/status": asUser,
	"GET /v1/vms/{vm}/systemd/services/{service}/logs":   asUser,
	"POST /v1/vms/{vm}/systemd/start":                    asUser,
	"POST /v1/vms/{vm}/systemd/stop":                     asUser,
	"POST /v1/vms/{vm}/systemd/restart":                  asUser,
	"GET /v1/vms/{vm}/files/{path...}":                   asUser,
	"PUT /v1/vms/{vm}/files/{path...}":                   asUser,
	"GET /v1/vms/{vm}/fs/stat":                           asUser,
	"GET /v1/vms/{vm}/fs/list":                           asUser,
	"GET /v1/vms/{vm}/fs/watch":                          asUser,
	"GET /v1/vms/{vm}/fs/tree":                           asUser,
	"POST /v1/vms/{vm}/fs/pick":                          asUser,
	"PUT /v1/vms/{vm}/fs/place":                          asUser,
	"POST /v1/vms/{vm}/fs/mkdir":                         asUser,
	"POST /v1/vms/{vm}/fs/rename":                        asUser,
	"POST /v1/vms/{vm}/fs/remove":                        asUser,
	"POST /v1/vms/{vm}/fs/chmod":                         asUser,
	"POST /v1/vms/{vm}/fs/symlink":                       asUser,
	"GET /v1/vms/{vm}/raw/{path...}":                     asUser,
	"PUT /v1/vms/{vm}/raw/{path...}":                     asUser,
	"GET /v1/vms/{vm}/tar/{path...}":                     asUser,
	"PUT /v1/vms/{vm}/tar/{path...}":                     asUser,
}

// walk is what one route is tried on: made again for each, since a caller
// with the right to it may well delete it.
type walk struct {
	own  *vm.Call // of the owner
	made []string // identities
	*bench
	row              route
	vm, identity     string
	owner, other     string // secrets of API keys
	whole, none      string // secrets of tokens: granted, not granted
	alice            string // granted as Linux user alice only
	revoked, expired string
}

// knock sends the route's request and returns status and code. What the server
// holds, or streams without end, has status 200: it was let in.
func (w *walk) knock(secret string, headers ...string) (int, string) {
	w.t.Helper()
	path := strings.NewReplacer("{vm}", w.vm, "{process}", "p2", "{session}", "s", "{path...}", "%2Fetc%2Fhostname", "{snapshot}", "sc-x", "{build}", "b",
		"{request}", "ri-00000000000000000000", "{account}", "x", "{key}", "ky-x", "{identity}", w.identity, "{token}", "t", "{repo}", "r",
		"{port}", "3000", "{domain}", "app.warren.localhost", "{volume}", "v"+w.vm, "{slot}", "ks-x", "{volumesnapshot}", "vs-x").Replace(w.row.pattern)
	if strings.Contains(path, "/fs/") && (w.row.method == "GET" || w.row.stream) {
		path += "?path=/etc"
	}
	var body io.Reader
	switch {
	case w.row.method == "GET":
	case strings.HasSuffix(path, "/network"):
		body = strings.NewReader(`{"mode":"open"}`)
	case strings.HasSuffix(path, "/paths"):
		body = strings.NewReader(`{"action":"deny","path":"/x","rules":[]}`)
	case strings.HasSuffix(path, "/tar/%2Fetc%2Fhostname"):
		body = bytes.NewReader(make([]byte, 1024)) // an empty archive
	default:
		body = strings.NewReader(`{"command":"true","path":"/x","from":"/x","to":"/y","target":"/z","content":"x","name":"n","seconds":1,"everySeconds":60}`)
	}
	ctx, stop := context.WithTimeout(w.t.Context(), time.Second)
	defer stop()
	r, err := http.NewRequestWithContext(ctx, w.row.method, w.server.URL+path, body)
	if err != nil {
		w.t.Fatal(err)
	}
	if w.row.stream && strings.Contains(path, "/pty") {
		for k, v := range map[string]string{"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13", "Sec-WebSocket-Key": "MDEyMzQ1Njc4OWFiY2RlZg=="} {
			r.Header.Set(k, v)
		}
	}
	if secret != "" {
		r.Header.Set("Authorization", "Bearer "+secret)
	}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	resp, err := http.DefaultTransport.RoundTrip(r)
	if errors.Is(err, context.DeadlineExceeded) {
		return 200, ""
	}
	if err != nil {
		w.t.Fatalf("%s %s has no answer: %v", w.row.method, path, err)
	}
	defer resp.Body.Close()
	if resp.StatusCode < 400 {
		return resp.StatusCode, ""
	}
	var refusal api.ErrorBody
	if err := json.NewDecoder(resp.Body).Decode(&refusal); err != nil {
		w.t.Errorf("%s %s: %d without an error body: %v", w.row.method, path, resp.StatusCode, err)
	}
	return resp.StatusCode, refusal.Code
}

// refused wants a refusal of a caller.
func (w *walk) refused(who string, status int, code, secret string, headers ...string) {
	w.t.Helper()
	if code == "VM_ACCESS_DENIED" && strings.HasPrefix(w.row.pattern, "/v1/vms/{vm}/pty") {
		code = "ACCESS_DENIED"
	}
	if gotStatus, got := w.knock(secret, headers...); gotStatus != status || got != code {
		w.t.Errorf("%s %s (%s), %s: %d %s, want %d %s", w.row.method, w.row.pattern, w.row.right, who, gotStatus, got, status, code)
	}
}

// about are refusals with status 401 that are about what was asked for, by a
// caller who may ask.
var about = []string{"VM_ACCESS_DENIED_FOR_MAPPING", "FAILED_PERMISSIONS_CHECK"}

// letIn wants a caller to come past the question of its right.
func (w *walk) letIn(who, secret string, headers ...string) {
	w.t.Helper()
	status, code := w.knock(secret, headers...)
	if !slices.Contains(about, code) && (status == 401 || status == 403 || code == "VM_NOT_FOUND") {
		w.t.Errorf("%s %s (%s), %s: %d %s, want to be let in", w.row.method, w.row.pattern, w.row.right, who, status, code)
	}
}

// TestRights walks every route as every kind of caller.
func TestRights(t *testing.T) {
	clock := vmtest.NewClock()
	b := newBenchAt(t, clock)
	_, _, owner, err := b.engine.CreateAccount(t.Context(), b.call, "owner")
	if err != nil {
		t.Fatal(err)
	}
	_, _, other, err := b.engine.CreateAccount(t.Context(), b.call, "other")
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range (&server{}).routes() {
		if ofRepository(row) || strings.HasPrefix(row.pattern, "/v1/objects/") { // see TestRepoRights and TestObjectRights
			continue
		}
		if row.pattern == "/mcp" { // what a caller may do is decided where its calls arrive: TestHTTPDoorHasTheCallersRights
			continue
		}
		w := &walk{bench: b, row: row, owner: owner, other: other}
		w.prepare(clock)
		w.try()
		for _, id := range w.made { // an account has a limited number of them
			if _, err := b.engine.DeleteIdentity(t.Context(), w.own, id); err != nil && vm.KindOf(err) != vm.NotFound {
				t.Error(err)
			}
		}
		if row.pattern == "/v1/drain" && row.method == "POST" {
			if _, err := b.engine.Undrain(t.Context(), b.call); err != nil {
				t.Error(err)
			}
		}
	}
	for name := range openToTokens {
		method, pattern, _ := strings.Cut(name, " ")
		if !slices.ContainsFunc((&server{}).routes(), func(r route) bool { return r.method == method && r.pattern == pattern }) {
			t.Errorf("%s is no route any more", name)
		}
	}
}

// prepare makes a VM and identities of the owner.
func (w *walk) prepare(clock *vmtest.Clock) {
	w.t.Helper()
	ctx := w.t.Context()
	must := func(err error) {
		w.t.Helper()
		if err != nil {
			w.t.Fatal(err)
		}
	}
	actor, err := w.engine.Authenticate(ctx, w.owner)
	must(err)
	own := &vm.Call{Actor: actor}
	w.own = own
	made, err := w.engine.Create(ctx, own, engine.CreateRequest{})
	must(err)
	w.vm = string(made.ID)
	_, err = w.engine.CreateVolume(ctx, own, vault.VolumeRequest{Name: "v" + w.vm})
	must(err)
	for _, step := range [][2]string{
		{"/exec-await", `{"command":"useradd --create-home alice"}`}, // p1
		{"/processes", `{"argv":["sleep","60"],"user":"alice"}`},     // p2
	} {
		w.as(w.owner, "POST", "/v1/vms/"+w.vm+step[0], step[1]).ok(w.t)
	}
	member := func(grant bool, users []string, r access.TokenRequest) (string, string, vm.TokenID) {
		i, err := w.engine.CreateIdentity(ctx, own, "")
		must(err)
		w.made = append(w.made, string(i.ID))
		if grant {
			_, err = w.engine.GrantVM(ctx, own, string(i.ID), w.vm, users)
			must(err)
		}
		t, secret, err := w.engine.CreateToken(ctx, own, string(i.ID), r)
		must(err)
		return string(i.ID), secret, t.ID
	}
	_, w.whole, _ = member(true, nil, access.TokenRequest{})
	_, w.none, _ = member(false, nil, access.TokenRequest{})
	_, w.alice, _ = member(true, []string{"alice"}, access.TokenRequest{})
	var id vm.TokenID
	w.identity, w.revoked, id = member(true, nil, access.TokenRequest{})
	must(w.engine.RevokeToken(ctx, own, w.identity, id))
	_, w.expired, _ = member(true, nil, access.TokenRequest{TTL: new(vm.Seconds(time.Minute))})
	clock.Advance(61 * time.Second)
}

func (w *walk) try() {
	w.t.Helper()
	r := w.row.right
	if r == public {
		for _, secret := range []string{"", "wrong", w.owner, w.whole, w.revoked} {
			w.letIn("anybody", secret)
		}
		return
	}
	w.refused("nobody", 401, "UNAUTHORIZED_ERROR", "")
	w.refused("a wrong key", 401, "UNAUTHORIZED_ERROR", strings.Repeat("x", 48))
	w.refused("a revoked token", 401, "UNAUTHORIZED_ERROR", w.revoked)
	w.refused("an expired token", 401, "UNAUTHORIZED_ERROR", w.expired)
	w.refused("a revoked token beside a key", 401, "UNAUTHORIZED_ERROR", w.owner, api.HeaderIdentityToken, w.revoked)
	w.refused("a key in the place of a token", 401, "UNAUTHORIZED_ERROR", "", api.HeaderIdentityToken, w.owner)
	w.tryTokens()
	switch {
	case r == admin:
		w.refused("a key", 403, "FORBIDDEN", w.other)
		w.letIn("an admin", w.admin)
		return
	case strings.Contains(w.row.pattern, "{identity}"):
		w.refused("another account's key", 403, "IDENTITY_ACCESS_DENIED", w.other)
		w.refused("an admin of another account", 403, "IDENTITY_ACCESS_DENIED", w.admin)
	case strings.Contains(w.row.pattern, "{volume}"):
		w.refused("another account's key", 404, "VOLUME_NOT_FOUND", w.other)
		w.refused("an admin of another account", 404, "VOLUME_NOT_FOUND", w.admin)
	case strings.HasPrefix(w.row.pattern, "/v1/receipts/"):
		w.refused("another account's key", 404, "VM_NOT_FOUND", w.other)
		return // the simulated audit log has no records to make one of
	case strings.Contains(w.row.pattern, "{secret}") && w.row.method != "DELETE":
		w.refused("another account's key", 404, "SECRET_NOT_FOUND", w.other)
		w.refused("an admin of another account", 404, "SECRET_NOT_FOUND", w.admin)
		return // there is no such secret of the owner
	case w.row.pattern == "/v1/vms/{vm}/exec" && w.row.method == "GET": // tells it in its first frame; see TestExecSocketRights
	case strings.Contains(w.row.pattern, "{vm}"):
		w.refused("another account's key", 404, "VM_NOT_FOUND", w.other)
		w.refused("an admin of another account", 404, "VM_NOT_FOUND", w.admin)
	}
	w.letIn("the owner", w.owner)
}

func (w *walk) tryTokens() {
	w.t.Helper()
	switch w.row.method + " " + w.row.pattern {
	case "POST /v1/vms/{vm}/snapshot", "POST /v1/vms/{vm}/mounts": // only after an approval; see asks.TestCall
		w.refused("a token that was not granted the VM", 403, "VM_ACCESS_DENIED", w.none)
		return
	}
	asAlice := []string{api.HeaderLinuxUser, "alice"}
	want, open := openToTokens[w.row.method+" "+w.row.pattern]
	if open && want != w.row.right {
		w.t.Errorf("%s %s asks for %s, want %s", w.row.method, w.row.pattern, w.row.right, want)
	}
	switch {
	case !open:
		for _, secret := range []string{w.whole, w.none, w.alice} {
			w.refused("a token", 403, "FORBIDDEN", secret)
			w.refused("a token", 403, "FORBIDDEN", "", api.HeaderIdentityToken, secret)
		}
		return
	case want == token:
		w.letIn("a token that was granted nothing", w.none)
	default:
		w.refused("a token that was not granted the VM", 403, "VM_ACCESS_DENIED", w.none)
		w.refused("a token that was not granted the VM", 403, "VM_ACCESS_DENIED", "", api.HeaderIdentityToken, w.none)
	}
	if want == asUser || w.row.pattern == "/v1/vms/{vm}/exec" && w.row.method == "POST" || strings.HasSuffix(w.row.pattern, "/processes") {
		w.refused("a token without root", 403, "VM_ACCESS_DENIED", w.alice)
		w.refused("a token without bob", 403, "VM_ACCESS_DENIED", w.alice, api.HeaderLinuxUser, "bob")
		w.letIn("a token as alice", w.alice, asAlice...)
	} else if strings.Contains(w.row.pattern, "{vm}/diff") || slices.Contains([]string{"truth", "turns", "commit", "publish", "fetch"}, strings.TrimPrefix(w.row.pattern, "/v1/vms/{vm}/")) { // they show or hold every file
		w.refused("a token without root", 403, "VM_ACCESS_DENIED", w.alice)
	} else if want == granted {
		w.letIn("a token without root", w.alice)
	}
	w.letIn("a granted token", w.whole)
	w.letIn("a granted token in its own header", "", api.HeaderIdentityToken, w.whole)
}

// TestExecSocketRights: the exec WebSocket tells a refusal in its first frame,
// and the Linux user of the command counts.
func TestExecSocketRights(t *testing.T) {
	b := newBench(t)
	id := b.create(nil)
	b.do("POST", "/v1/vms/"+id+"/exec-await", `{"command":"useradd --create-home alice"}`)
	_, _, other, err := b.engine.CreateAccount(t.Context(), b.call, "other")
	if err != nil {
		t.Fatal(err)
	}
	a := b.identity("agent")
	a.must("POST", "/permissions/vm/"+id, `{"allowedUsers":["alice"]}`)
	_, alice := a.token(nil)
	for _, try := range []struct{ secret, user, header, code string }{
		{other, "", "", "VM_NOT_FOUND"},
		{alice, "", "", "VM_ACCESS_DENIED"},
		{alice, "root", "", "VM_ACCESS_DENIED"},
		{alice, "root", "alice", "VM_ACCESS_DENIED"},
		{alice, "alice", "", ""},
		{alice, "", "alice", ""},
		{b.admin, "root", "", ""},
	} {
		h := http.Header{"Authorization": {"Bearer " + try.secret}, api.HeaderLinuxUser: {try.header}}
		conn, _, err := websocket.Dial(t.Context(), strings.Replace(b.server.URL, "http", "ws", 1)+"/v1/vms/"+id+"/exec", &websocket.DialOptions{HTTPHeader: h})
		if err != nil {
			t.Fatal(err)
		}
		b.say(conn, vm.ExecSpec{Command: "true", User: try.user})
		var m api.ExecMessage
		if _, data, err := conn.Read(t.Context()); err != nil || json.Unmarshal(data, &m) != nil {
			t.Fatalf("a command as %q (header %q) is answered %q: %v", try.user, try.header, data, err)
		}
		switch {
		case try.code == "" && m.Type != "started":
			t.Errorf("a command as %q (header %q) did not start: %+v", try.user, try.header, m.Error)
		case try.code != "" && (m.Error == nil || m.Error.Code != try.code):
			t.Errorf("a command as %q (header %q) is answered %s %+v, want %s", try.user, try.header, m.Type, m.Error, try.code)
		}
		_ = conn.CloseNow()
	}
}

// TestCut: connections opened by a token end with it: at its revocation, its
// expiry, the end of the permission, of the Linux user, of the identity, and of an
// API key.
func TestCut(t *testing.T) {
	clock := vmtest.NewClock()
	for name, cut := range map[string]func(b *bench, a agent, vm, token string){
		"token revoked":      func(_ *bench, a agent, _, token string) { a.must("DELETE", "/tokens/"+token, nil) },
		"token expired":      func(*bench, agent, string, string) { clock.Advance(61 * time.Second) },
		"permission revoked": func(_ *bench, a agent, vm, _ string) { a.must("DELETE", "/permissions/vm/"+vm, nil) },
		"user taken away": func(_ *bench, a agent, vm, _ string) {
			a.must("PUT", "/permissions/vm/"+vm, `{"allowedUsers":["bob"]}`)
		},
		"identity deleted": func(_ *bench, a agent, _, _ string) { a.must("DELETE", "", nil) },
	} {
		t.Run(name, func(t *testing.T) {
			b := newBenchAt(t, clock)
			id := b.create(nil)
			a := b.identity("agent")
			a.must("POST", "/permissions/vm/"+id, `{"allowedUsers":["root"]}`)
			token, secret := a.token(`{"ttlSeconds":60}`)
			kept := b.attached(id, b.admin)
			defer kept.stop()
			held := b.attached(id, secret)
			defer held.stop()
			cut(b, a, id, token)
			held.wantCut(t)
			kept.wantAlive(t)
			if got := b.as(secret, "GET", "/v1/vms/"+id, nil); got.status != 401 && got.status != 403 && name != "user taken away" {
				t.Errorf("afterwards: %d", got.status)
			}
		})
	}
	for _, name := range []string{"revoked", "rotated"} {
		t.Run("key "+name, func(t *testing.T) {
			b := newBench(t)
			id := b.create(nil)
			k, secret, err := b.engine.CreateKey(t.Context(), b.call, "", "second")
			if err != nil {
				t.Fatal(err)
			}
			kept := b.attached(id, b.admin)
			defer kept.stop()
			held := b.attached(id, secret)
			defer held.stop()
			events := b.streamOf("/v1/events", secret)
			if name == "revoked" {
				b.do("DELETE", "/v1/keys/"+string(k.ID), nil)
			} else {
				b.do("POST", "/v1/keys/"+string(k.ID)+"/rotate", nil)
			}
			held.wantCut(t)
			kept.wantAlive(t)
			if err := events(); err == nil {
				t.Error("the events go on")
			}
		})
	}
}

// attachments are a terminal, a command and a watch of one caller.
type attachments struct {
	b     *bench
	pty   *websocket.Conn
	exec  *websocket.Conn
	watch func() error
}

func (b *bench) attached(id, secret string) *attachments {
	b.t.Helper()
	dial := func(path string) *websocket.Conn {
		conn, _, err := websocket.Dial(b.t.Context(), strings.Replace(b.server.URL, "http", "ws", 1)+"/v1/vms/"+id+path,
			&websocket.DialOptions{HTTPHeader: http.Header{"Authorization": {"Bearer " + secret}}})
		if err != nil {
			b.t.Fatal(err)
		}
		return conn
	}
	a := &attachments{b: b, pty: dial("/pty"), exec: dial("/exec"), watch: b.streamOf("/v1/vms/"+id+"/fs/watch?path=/root", secret)}
	b.say(a.exec, vm.ExecSpec{Command: "cat", Stdin: true})
	b.hear(a.exec, "started")
	return a
}

func (a *attachments) stop() {
	_ = a.pty.CloseNow()
	_ = a.exec.CloseNow()
}

// streamOf begins to read a stream and returns what waits for its end: nil when
// it continues.
func (b *bench) streamOf(path, secret string) func() error {
	b.t.Helper()
	r, err := http.NewRequestWithContext(b.t.Context(), "GET", b.server.URL+path, nil)
	if err != nil {
		b.t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+secret)
	resp, err := http.DefaultTransport.RoundTrip(r)
	if err != nil || resp.StatusCode != 200 {
		b.t.Fatalf("the stream %s does not begin: %v %v", path, resp, err)
	}
	b.t.Cleanup(func() { resp.Body.Close() })
	ended := make(chan error, 1)
	go func() {
		_, err := io.Copy(io.Discard, resp.Body)
		if err == nil {
			err = io.EOF
		}
		ended <- err
	}()
	return func() error {
		select {
		case err := <-ended:
			return err
		case <-time.After(2 * time.Second):
			return nil
		}
	}
}

// wantCut wants all of it to be ended by the server, which says why.
func (a *attachments) wantCut(t *testing.T) {
	t.Helper()
	ctx, stop := context.WithTimeout(t.Context(), 5*time.Second)
	defer stop()
	for name, conn := range map[string]*websocket.Conn{"terminal": a.pty, "command": a.exec} {
		var err error
		for err == nil {
			_, _, err = conn.Read(ctx)
		}
		if websocket.CloseStatus(err) != websocket.StatusPolicyViolation {
			t.Errorf("%s: %v, want to be cut with status 1008", name, err)
		}
		var closed websocket.CloseError
		if errors.As(err, &closed) && name == "terminal" && closed.Reason == "" {
			t.Error("the terminal is not told why")
		}
	}
	if a.watch() == nil {
		t.Error("the watch goes on")
	}
}

// wantAlive wants all of it to continue.
func (a *attachments) wantAlive(t *testing.T) {
	t.Helper()
	if err := a.exec.Write(t.Context(), websocket.MessageBinary, append([]byte{api.ChannelStdin}, "still here\n"...)); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithTimeout(t.Context(), 5*time.Second)
	defer stop()
	for {
		kind, data, err := a.exec.Read(ctx)
		if err != nil {
			t.Fatalf("another caller's command: %v", err)
		}
		if kind == websocket.MessageBinary && strings.Contains(string(data), "still here") {
			break
		}
	}
	if err := a.pty.Write(ctx, websocket.MessageBinary, []byte("echo hi\n")); err != nil {
		t.Errorf("another caller's terminal: %v", err)
	}
}
