// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package secret_test

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/warren-vm/warren/internal/engine"
	"github.com/warren-vm/warren/internal/secret"
	"github.com/warren-vm/warren/internal/vmtest"
	"github.com/warren-vm/warren/vm"
)

// TestMain makes this process trust the certificate of httptest's servers.
func TestMain(m *testing.M) {
	s := httptest.NewTLSServer(http.NotFoundHandler())
	dir, err := os.MkdirTemp("", "secret")
	if err != nil {
		panic(err)
	}
	file := filepath.Join(dir, "ca.pem")
	err = os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}), 0o600)
	if err == nil {
		err = os.Setenv("SSL_CERT_FILE", file)
	}
	s.Close()
	if err != nil {
		panic(err)
	}
	code := m.Run()
	_ = os.RemoveAll(dir)
	os.Exit(code)
}

const value = "ghp_theValueThatNobodyMaySee0123456789"

// room is a server with one VM, and the room of its secrets.
type room struct {
	*secret.Secrets
	t    *testing.T
	site *vmtest.Site
	e    *vmtest.House
	c    *vm.Call
	box  vm.VM
}

func newRoom(t *testing.T) *room {
	t.Helper()
	s, err := vmtest.NewSite(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	s.ReachPrivate = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
	r := &room{t: t, site: s}
	r.open()
	t.Cleanup(r.close)
	e := r.e
	key, _, err := e.EnsureAdmin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	c := &vm.Call{}
	if c.Actor, err = e.Authenticate(t.Context(), key); err != nil {
		t.Fatal(err)
	}
	r.c = c
	r.set(secret.Request{Name: "token", Host: "API.example.com.", Header: "authorization", Value: value})
	if r.box, err = e.Create(t.Context(), c, engine.CreateRequest{Name: "box", Secrets: []string{"token"}}); err != nil {
		t.Fatal(err)
	}
	return r
}

func (r *room) open() {
	r.t.Helper()
	e, err := r.site.Open(r.t.Context())
	if err != nil {
		r.t.Fatal(err)
	}
	r.e, r.Secrets = e, e.Rooms.Secrets
}

func (r *room) close() {
	r.t.Helper()
	ctx, stop := context.WithTimeout(context.Background(), 10*time.Second)
	defer stop()
	if err := r.e.Close(ctx); err != nil {
		r.t.Errorf("close: %v", err)
	}
}

func (r *room) set(in secret.Request) {
	r.t.Helper()
	if _, _, err := r.Set(r.t.Context(), r.c, in); err != nil {
		r.t.Fatal(err)
	}
}

// now is the VM's record.
func (r *room) now(id vm.ID) vm.VM {
	r.t.Helper()
	v, ok := r.e.VMOf(id)
	if !ok {
		r.t.Fatal("the VM is gone")
	}
	return v
}

// ask asks for a value as the VM's monitor.
func (r *room) ask(v vm.VM, change func(*vm.SecretAsk)) (string, error) {
	r.t.Helper()
	a := vm.SecretAsk{Name: "token", Host: "api.example.com", Port: 443, Header: "Authorization", Method: "GET", Path: "/"}
	if len(v.Network.Secrets) > 0 {
		a.Placeholder = v.Network.Secrets[0].Placeholder
	}
	if change != nil {
		change(&a)
	}
	out, err := r.Value(r.t.Context(), &vm.Call{Actor: vm.Actor{Account: v.Account, VM: v.ID}}, r.now(v.ID), a)
	return out.Value, err
}

// A VM gets a value for exactly the requests that the secret is for, after the audit record.
func TestValue(t *testing.T) {
	r := newRoom(t)
	if got, err := r.ask(r.box, nil); err != nil || got != value {
		t.Errorf("the VM's monitor gets %q, %v", got, err)
	}
	for name, change := range map[string]func(*vm.SecretAsk){
		"another host":        func(a *vm.SecretAsk) { a.Host = "evil.example.com" },
		"another port":        func(a *vm.SecretAsk) { a.Port = 8443 },
		"another header":      func(a *vm.SecretAsk) { a.Header = "X-Key" },
		"another placeholder": func(a *vm.SecretAsk) { a.Placeholder = strings.Repeat("x", 38) },
		"no placeholder":      func(a *vm.SecretAsk) { a.Placeholder = "" },
		"another name":        func(a *vm.SecretAsk) { a.Name = "other" },
	} {
		if got, err := r.ask(r.box, change); vm.KindOf(err) != vm.Denied || got != "" {
			t.Errorf("%s: the monitor gets %q, %v, want kind denied", name, got, err)
		}
	}
	list, err := r.site.Audit.List(t.Context(), vm.AuditFilter{})
	if err != nil {
		t.Fatal(err)
	}
	uses := 0
	for _, rec := range list {
		if rec.Op == vm.OpSecretUse && rec.Outcome == "ok" && rec.VM == r.box.ID {
			uses++
		}
	}
	if uses != 1 {
		t.Errorf("the audit log has %d uses, want 1", uses)
	}
	r.site.Audit.Fail(vm.Errorf(vm.NoSpace, "", "no space"))
	if got, err := r.ask(r.box, nil); err == nil || got != "" {
		t.Errorf("without an audit record the monitor gets %q, %v", got, err)
	}
}

// No record, audit record, event, error or answer has the value.
func TestValueIsNowhere(t *testing.T) {
	r := newRoom(t)
	if _, err := r.ask(r.box, nil); err != nil {
		t.Fatal(err)
	}
	r.set(secret.Request{Name: "token", Value: value + "2"})
	_, _, refused := r.Set(t.Context(), r.c, secret.Request{Name: "token", Host: "other.example.com", Value: value + "3"})
	_, _, malformed := r.Set(t.Context(), r.c, secret.Request{Name: "token", Value: value + "\n"})
	rec, users, err := r.Get(t.Context(), r.c, "token")
	if err != nil {
		t.Fatal(err)
	}
	audit, err := r.site.Audit.List(t.Context(), vm.AuditFilter{})
	if err != nil {
		t.Fatal(err)
	}
	dump, err := json.Marshal([]any{rec, users, audit, fmt.Sprint(refused, malformed), r.now(r.box.ID)})
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range []string{value[4:], "theValue"} {
		if strings.Contains(string(dump), v) {
			t.Errorf("the value is in %s", dump)
		}
	}
	if vm.KindOf(refused) != vm.Exists || vm.KindOf(malformed) != vm.Invalid {
		t.Errorf("another host gives %v, a line end %v", refused, malformed)
	}
	err = filepath.WalkDir(string(r.site.Dir), func(path string, d os.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		b, err := os.ReadFile(path)
		if strings.Contains(string(b), "theValue") {
			t.Errorf("the value is in %s", path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// A removed secret is void at once, and a later one of its name is another.
func TestGrantEnds(t *testing.T) {
	r := newRoom(t)
	if err := r.Remove(t.Context(), r.c, "token"); err != nil {
		t.Fatal(err)
	}
	if _, err := r.ask(r.box, nil); err == nil {
		t.Error("a removed secret is still given")
	}
	if left := r.now(r.box.ID).Network.Secrets; len(left) > 0 {
		t.Errorf("the VM's policy still has %v", left)
	}
	r.set(secret.Request{Name: "token", Host: "api.example.com", Header: "Authorization", Value: value + "new"})
	if _, err := r.ask(r.box, nil); vm.KindOf(err) != vm.Denied {
		t.Errorf("a later secret of the name gives %v, want kind denied", err)
	}
	v, err := r.Grant(t.Context(), r.c, "token", "box")
	if err != nil {
		t.Fatal(err)
	}
	if got, err := r.ask(v, nil); err != nil || got != value+"new" {
		t.Errorf("after a grant the monitor gets %q, %v", got, err)
	}
	if _, err := r.Revoke(t.Context(), r.c, "token", "box"); err != nil {
		t.Fatal(err)
	}
	if _, err := r.ask(v, nil); vm.KindOf(err) != vm.Denied {
		t.Errorf("after a revoke: %v, want kind denied", err)
	}
}

// A fork has a placeholder of its own. Its parent's still works in it, its own not in its
// parent.
func TestFork(t *testing.T) {
	r := newRoom(t)
	f, err := r.e.Fork(t.Context(), r.c, "box", engine.ForkRequest{})
	if err != nil {
		t.Fatal(err)
	}
	kid := f.Children[0]
	own, parents := kid.Network.Secrets[0].Placeholder, r.box.Network.Secrets[0].Placeholder
	if own == parents || len(own) != len(parents) || !strings.HasPrefix(own, "ghp_") {
		t.Errorf("the fork holds %q, its parent %q", own, parents)
	}
	for name, c := range map[string]struct {
		v      vm.VM
		holder string
		want   vm.Kind
	}{"the fork's own": {kid, own, ""}, "the parent's in the fork": {kid, parents, ""}, "the fork's in the parent": {r.box, own, vm.Denied}} {
		if _, err := r.ask(c.v, func(a *vm.SecretAsk) { a.Placeholder = c.holder }); vm.KindOf(err) != c.want {
			t.Errorf("%s: %v, want kind %q", name, err, c.want)
		}
	}
}

// A sealed value opens only in the record that it was sealed for.
func TestSealedValueStaysInPlace(t *testing.T) {
	r := newRoom(t)
	r.set(secret.Request{Name: "evil", Host: "evil.example.com", Header: "Authorization", Value: "0123456789"})
	if _, err := r.Grant(t.Context(), r.c, "evil", "box"); err != nil {
		t.Fatal(err)
	}
	if err := r.SwapSealed("token", "evil", r.c.Actor.Account); err != nil {
		t.Fatal(err)
	}
	uses := r.now(r.box.ID).Network.Secrets
	got, err := r.ask(r.box, func(a *vm.SecretAsk) {
		a.Name, a.Host, a.Placeholder = "evil", "evil.example.com", uses[len(uses)-1].Placeholder
	})
	if vm.KindOf(err) != vm.Corrupt || got != "" {
		t.Errorf("a value moved to another host's record gives %q, %v, want kind corrupt", got, err)
	}
}

// Bad requests are refused, with what to do.
func TestBadRequests(t *testing.T) {
	r := newRoom(t)
	good := secret.Request{Name: "n", Host: "a.example.com", Header: "X-Key", Value: "0123456789"}
	for name, change := range map[string]func(*secret.Request){
		"no host":         func(q *secret.Request) { q.Host = "" },
		"a wildcard":      func(q *secret.Request) { q.Host = "*.example.com" },
		"our own":         func(q *secret.Request) { q.Host = "git.warren.internal" },
		"no header":       func(q *secret.Request) { q.Header = "" },
		"header Host":     func(q *secret.Request) { q.Header = "host" },
		"a bad header":    func(q *secret.Request) { q.Header = "a b" },
		"a bad port":      func(q *secret.Request) { q.Port = 70000 },
		"a short value":   func(q *secret.Request) { q.Value = "1234567" },
		"a line end":      func(q *secret.Request) { q.Value = "0123456789\nX: y" },
		"a long value":    func(q *secret.Request) { q.Value = strings.Repeat("x", 9000) },
		"a bad name":      func(q *secret.Request) { q.Name = "../x" },
		"PATH":            func(q *secret.Request) { q.Env = "PATH" },
		"LD_PRELOAD":      func(q *secret.Request) { q.Env = "LD_PRELOAD" },
		"a bad method":    func(q *secret.Request) { q.Methods = []string{"CONNECT"} },
		"a bad path":      func(q *secret.Request) { q.Paths = []string{"v1"} },
		"** in between":   func(q *secret.Request) { q.Paths = []string{"/a/**/b"} },
		"a plain rotator": func(q *secret.Request) { q.RotateURL = "http://x.example/r" },
		"a named rotator": func(q *secret.Request) { q.RotateURL = "https://me:pw@x.example/r" },
		"two rotators": func(q *secret.Request) {
			q.RotateURL, q.OAuth = "https://x.example/r", &vm.OAuth{TokenURL: "https://x.example/t", ClientID: "x"}
		},
		"a plain revocation": func(q *secret.Request) {
			q.OAuth = &vm.OAuth{TokenURL: "https://x.example/t", ClientID: "x", RevokeURL: "http://x.example/r"}
		},
		"OAuth in plain": func(q *secret.Request) { q.OAuth = &vm.OAuth{TokenURL: "http://x.example/t", ClientID: "x"} },
		"OAuth alone":    func(q *secret.Request) { q.OAuth = &vm.OAuth{TokenURL: "https://x.example/t"} },
	} {
		in := good
		change(&in)
		if _, _, err := r.Set(t.Context(), r.c, in); vm.KindOf(err) != vm.Invalid {
			t.Errorf("%s gives %v, want kind invalid", name, err)
		}
	}
	for name, call := range map[string]*vm.Call{"an identity": {Actor: vm.Actor{Account: r.c.Actor.Account, Identity: "x"}}, "a VM": {Actor: vm.Actor{Account: r.c.Actor.Account, VM: r.box.ID}}} {
		_, _, set := r.Set(t.Context(), call, good)
		_, get := r.List(t.Context(), call)
		_, grant := r.Grant(t.Context(), call, "token", "box")
		rm := r.Remove(t.Context(), call, "token")
		_, rotate := r.Rotate(t.Context(), call, vm.Rotation{Name: "token"})
		for _, err := range []error{set, get, grant, rm, rotate} {
			if vm.KindOf(err) != vm.Denied {
				t.Errorf("%s: %v, want kind denied", name, err)
			}
		}
	}
	other := &vm.Call{Actor: vm.Actor{Account: "other"}}
	if _, _, err := r.Get(t.Context(), other, "token"); vm.KindOf(err) != vm.NotFound {
		t.Errorf("another account sees the secret: %v", err)
	}
}

// The server gets access tokens, keeps a new refresh token, and asks again when one ends.
func TestOAuth(t *testing.T) {
	r := newRoom(t)
	var calls atomic.Int32
	var life, status atomic.Int32
	life.Store(3600)
	status.Store(200)
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		n := calls.Add(1)
		want := fmt.Sprintf("refresh-token-%d", n)
		if q.FormValue("refresh_token") != want || q.FormValue("grant_type") != "refresh_token" || q.FormValue("client_id") != "me" || q.FormValue("client_secret") != "client-secret" {
			t.Errorf("the form of call %d is %v", n, q.Form)
		}
		w.WriteHeader(int(status.Load()))
		_, _ = fmt.Fprintf(w, `{"access_token":"access-%d","expires_in":%d,"refresh_token":"refresh-token-%d"}`, n, life.Load(), n+1)
	}))
	defer s.Close()
	r.set(secret.Request{Name: "crm", Host: "crm.example.com", Header: "Authorization", Value: "refresh-token-1", ClientSecret: "client-secret", OAuth: &vm.OAuth{TokenURL: s.URL + "/token", ClientID: "me"}})
	if _, err := r.Grant(t.Context(), r.c, "crm", "box"); err != nil {
		t.Fatal(err)
	}
	ask := func() (string, error) {
		uses := r.now(r.box.ID).Network.Secrets
		return r.ask(r.box, func(a *vm.SecretAsk) { a.Name, a.Host, a.Placeholder = "crm", "crm.example.com", uses[1].Placeholder })
	}
	for range 3 {
		if got, err := ask(); err != nil || got != "access-1" {
			t.Fatalf("the first token is %q, %v", got, err)
		}
	}
	r.Expire("crm", r.c.Actor.Account)
	if got, err := ask(); err != nil || got != "access-2" {
		t.Errorf("after its end: %q, %v, want the second token", got, err)
	}
	r.Expire("crm", r.c.Actor.Account)
	status.Store(400)
	if got, err := ask(); vm.KindOf(err) != vm.Unavailable || got != "" || strings.Contains(fmt.Sprint(err), "refresh-token") {
		t.Errorf("when no token is given: %q, %v, want kind unavailable", got, err)
	}
}

// A guest that hangs up while a token is asked for does not lose the new refresh token.
func TestOAuthHangUp(t *testing.T) {
	r := newRoom(t)
	ctx, hangUp := context.WithCancel(t.Context())
	var calls atomic.Int32
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		n := calls.Add(1)
		hangUp()
		if want := fmt.Sprintf("refresh-token-%d", n); q.FormValue("refresh_token") != want {
			t.Errorf("call %d has the refresh token %q, want %q", n, q.FormValue("refresh_token"), want)
		}
		_, _ = fmt.Fprintf(w, `{"access_token":"access-%d","refresh_token":"refresh-token-%d"}`, n, n+1)
	}))
	defer s.Close()
	r.set(secret.Request{Name: "crm", Host: "crm.example.com", Header: "Authorization", Value: "refresh-token-1", OAuth: &vm.OAuth{TokenURL: s.URL + "/token", ClientID: "me"}})
	box, err := r.Grant(t.Context(), r.c, "crm", "box")
	if err != nil {
		t.Fatal(err)
	}
	a := vm.SecretAsk{Name: "crm", Host: "crm.example.com", Port: 443, Header: "Authorization", Method: "GET", Path: "/", Placeholder: box.Network.Secrets[1].Placeholder}
	_, _ = r.Value(ctx, &vm.Call{Actor: vm.Actor{Account: box.Account, VM: box.ID}}, box, a)
	r.Expire("crm", r.c.Actor.Account)
	got, err := r.ask(box, func(to *vm.SecretAsk) { *to = a })
	if err != nil {
		t.Fatal(err)
	}
	if got != "access-2" {
		t.Errorf("after the guest hung up, the token is %q, want access-2", got)
	}
}
