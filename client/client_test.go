// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"

	"github.com/warren-vm/warren/api"
	"github.com/warren-vm/warren/vm"
)

// fake is a server with one handler.
func fake(t *testing.T, h http.HandlerFunc) *Client {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	c := New(s.URL, "secret")
	t.Cleanup(c.Close)
	return c
}

func answer(w http.ResponseWriter, status int, v any) {
	data, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(data)
}

func flush(t *testing.T, w http.ResponseWriter) {
	t.Helper()
	if err := http.NewResponseController(w).Flush(); err != nil {
		t.Error(err)
	}
}

// Every kind of failure is returned unchanged, with the server's message.
func TestErrorKinds(t *testing.T) {
	for _, row := range api.Kinds {
		t.Run(string(row.Kind), func(t *testing.T) {
			sent := vm.Errorf(row.Kind, "box", "because").WithHint("do this").WithCode("INVALID_VM_ID", "vmId", "abc")
			c := fake(t, func(w http.ResponseWriter, _ *http.Request) {
				answer(w, api.Status(sent), api.EncodeError(sent, "ri-1"))
			})
			_, err := c.Get(t.Context(), "box")
			e := vm.AsError(err)
			if !errors.Is(err, row.Kind) || e.Code != "INVALID_VM_ID" || e.Hint != "do this" || e.Fields["vmId"] != "abc" || !strings.Contains(e.Error(), "box: because") {
				t.Errorf("the client made %#v of the answer, want its kind, code, hint, fields and text", err)
			}
		})
	}
}

func TestNoServer(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	url := "http://" + l.Addr().String()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	c := New(url, "k")
	_, listErr := c.List(t.Context(), false)
	_, execErr := c.Exec(t.Context(), "box", vm.ExecSpec{Command: "true"})
	for _, err := range []error{listErr, execErr} {
		if !errors.Is(err, vm.Unavailable) || vm.AsError(err).Hint != "start the server: `warren serve`" {
			t.Errorf("got %v, hint %q", err, vm.AsError(err).Hint)
		}
	}
}

func TestOddAnswers(t *testing.T) {
	for name, h := range map[string]http.HandlerFunc{
		"a page": func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "<html>hello</html>") },
		"a proxy's error": func(w http.ResponseWriter, _ *http.Request) {
			http.Error(w, "bad gateway", http.StatusBadGateway)
		},
		"a redirect": func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://192.0.2.1/", http.StatusFound)
		},
		"other JSON": func(w http.ResponseWriter, _ *http.Request) { answer(w, 404, map[string]string{"detail": "x"}) },
	} {
		t.Run(name, func(t *testing.T) {
			_, err := fake(t, h).Host(t.Context())
			if !errors.Is(err, vm.Unavailable) || !strings.Contains(err.Error(), "not a Warren server's") {
				t.Errorf("host: %v, want that the answer is not a Warren server's", err)
			}
			_, err = fake(t, h).Exec(t.Context(), "box", vm.ExecSpec{})
			if !errors.Is(err, vm.Unavailable) {
				t.Errorf("exec: %v", err)
			}
		})
	}
	cut := fake(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "100")
		_, _ = io.WriteString(w, `{"vms":[`)
	})
	if _, err := cut.List(t.Context(), false); !errors.Is(err, vm.Unavailable) || !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("a cut answer gave %v", err)
	}
}

func TestContext(t *testing.T) {
	c := fake(t, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := c.List(ctx, false); !errors.Is(err, vm.Cancelled) || !errors.Is(err, context.Canceled) {
		t.Errorf("a list with a cancelled context: %v, want cancelled", err)
	}
	ctx, cancel = context.WithTimeout(t.Context(), 1)
	defer cancel()
	if _, err := c.List(ctx, false); !errors.Is(err, vm.Timeout) {
		t.Errorf("a list with an expired context: %v, want timeout", err)
	}
}

func TestBadAddress(t *testing.T) {
	for _, u := range []string{"", "localhost:8787", "ftp://x", "http://", "http://[", "::"} {
		c := New(u, "k")
		_ = c.URL()
		if _, err := c.List(t.Context(), false); !errors.Is(err, vm.Invalid) {
			t.Errorf("%q gave %v", u, err)
		}
		if _, err := c.Exec(t.Context(), "box", vm.ExecSpec{}); !errors.Is(err, vm.Invalid) {
			t.Errorf("exec with %q gave %v", u, err)
		}
	}
	if _, err := New("http://127.0.0.1:1", "").Get(t.Context(), ""); !errors.Is(err, vm.Invalid) {
		t.Errorf("an empty name gave %v", err)
	}
}

// TestRequests pins method, path, query and body of each call.
func TestRequests(t *testing.T) {
	type seen struct{ method, uri, body, user string }
	var got seen
	reply := `{}`
	c := fake(t, func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		got = seen{r.Method, r.RequestURI, string(body), r.Header.Get(api.HeaderLinuxUser)}
		if a := r.Header.Get("Authorization"); a != "Bearer secret" {
			t.Errorf("authorization %q", a)
		}
		w.Header().Set(api.HeaderOffset, "7")
		_, _ = io.WriteString(w, reply)
	})
	ctx := t.Context()
	two := func(_ any, err error) error { return err }
	cases := []struct {
		call func() error
		want seen
	}{
		{func() error { return two(c.Create(ctx, api.CreateVM{Name: "box"})) }, seen{"POST", "/v1/vms", `{"name":"box"}`, ""}},
		{func() error { return two(c.List(ctx, true)) }, seen{"GET", "/v1/vms?all=true", "", ""}},
		{func() error { return two(c.Inspect(ctx, "box")) }, seen{"GET", "/v1/vms/box/inspect", "", ""}},
		{func() error { return two(c.Start(ctx, "box", api.StartVM{})) }, seen{"POST", "/v1/vms/box/start", "{}", ""}},
		{func() error { return two(c.Stop(ctx, "a/b")) }, seen{"POST", "/v1/vms/a%2Fb/stop", "", ""}},
		{func() error { return c.Kill(ctx, "box") }, seen{"POST", "/v1/vms/box/kill", "", ""}},
		{func() error { return c.Delete(ctx, "box") }, seen{"DELETE", "/v1/vms/box", "", ""}},
		{func() error { return two(c.Await(ctx, "box")) }, seen{"POST", "/v1/vms/box/await", "", ""}},
		{func() error { return two(c.Idle(ctx, "box")) }, seen{"GET", "/v1/vms/box/idle", "", ""}},
		{func() error { return two(c.Hold(ctx, "box", api.NewHold{Reason: "x"})) }, seen{"POST", "/v1/vms/box/holds", `{"reason":"x"}`, ""}},
		{func() error { return two(c.Holds(ctx, "box")) }, seen{"GET", "/v1/vms/box/holds", "", ""}},
		{func() error { return c.Release(ctx, "box", "hd-1") }, seen{"DELETE", "/v1/vms/box/holds/hd-1", "", ""}},
		{func() error { return two(c.Stats(ctx, "box")) }, seen{"GET", "/v1/vms/box/stats", "", ""}},
		{func() error { return two(c.Ports(ctx, "box")) }, seen{"GET", "/v1/vms/box/ports", "", ""}},
		{func() error { return two(c.SetNetwork(ctx, "box", api.SetNetwork{Network: "open"})) }, seen{"PUT", "/v1/vms/box/network", `{"network":"open"}`, ""}},
		{func() error { return two(c.Connections(ctx, "box")) }, seen{"GET", "/v1/vms/box/connections", "", ""}},
		{func() error { return two(c.StartProcess(ctx, "box", vm.ExecSpec{Command: "x"})) }, seen{"POST", "/v1/vms/box/processes", `{"command":"x"}`, ""}},
		{func() error { return two(c.Processes(ctx, "box")) }, seen{"GET", "/v1/vms/box/processes", "", ""}},
		{func() error { return two(c.Process(ctx, "box", "p1")) }, seen{"GET", "/v1/vms/box/processes/p1", "", ""}},
		{func() error { return two(c.WaitProcess(ctx, "box", "p1")) }, seen{"POST", "/v1/vms/box/processes/p1/wait", "", ""}},
		{func() error { return c.SignalProcess(ctx, "box", "p1", "INT") }, seen{"POST", "/v1/vms/box/processes/p1/signal", `{"signal":"INT"}`, ""}},
		{func() error { return c.ForgetProcess(ctx, "box", "p1") }, seen{"DELETE", "/v1/vms/box/processes/p1", "", ""}},
		{func() error { return two(c.Stat(ctx, "box", "me", "/a b")) }, seen{"GET", "/v1/vms/box/fs/stat?path=%2Fa+b", "", "me"}},
		{func() error { return two(c.ReadDir(ctx, "box", "", "/")) }, seen{"GET", "/v1/vms/box/fs/list?path=%2F", "", ""}},
		{func() error { return c.Mkdir(ctx, "box", "me", "/d", 0o755, true) }, seen{"POST", "/v1/vms/box/fs/mkdir", `{"path":"/d","mode":493,"parents":true}`, "me"}},
		{func() error { return c.Rename(ctx, "box", "", "/a", "/b") }, seen{"POST", "/v1/vms/box/fs/rename", `{"from":"/a","to":"/b"}`, ""}},
		{func() error { return c.Remove(ctx, "box", "", "/a", true) }, seen{"POST", "/v1/vms/box/fs/remove", `{"path":"/a","recursive":true}`, ""}},
		{func() error { return c.Chmod(ctx, "box", "", "/a", 0o600) }, seen{"POST", "/v1/vms/box/fs/chmod", `{"path":"/a","mode":384}`, ""}},
		{func() error { return c.Symlink(ctx, "box", "", "t", "/a") }, seen{"POST", "/v1/vms/box/fs/symlink", `{"path":"/a","target":"t"}`, ""}},
		{func() error { return two(c.Images(ctx)) }, seen{"GET", "/v1/images", "", ""}},
		{func() error { return two(c.Config(ctx)) }, seen{"GET", "/v1/config", "", ""}},
		{func() error { return two(c.Audit(ctx, AuditQuery{VM: "box", Limit: 5, After: 3})) }, seen{"GET", "/v1/audit?after=3&limit=5&vm=box", "", ""}},
		{func() error { return two(c.AuditVerify(ctx, nil)) }, seen{"POST", "/v1/audit/verify", `{"anchors":null}`, ""}},
		{func() error { return two(c.AuditAcceptNewLog(ctx, nil)) }, seen{"POST", "/v1/audit/verify", `{"anchors":null,"acceptNewLog":true}`, ""}},
		{func() error { return two(c.Accounts(ctx)) }, seen{"GET", "/v1/accounts", "", ""}},
		{func() error { return two(c.CreateAccount(ctx, "ada")) }, seen{"POST", "/v1/accounts", `{"name":"ada"}`, ""}},
		{func() error { return c.RemoveAccount(ctx, "ada", true) }, seen{"DELETE", "/v1/accounts/ada?force=true", "", ""}},
		{func() error { return two(c.Keys(ctx, "ada")) }, seen{"GET", "/v1/keys?account=ada", "", ""}},
		{func() error { return two(c.CreateKey(ctx, api.NewKey{Name: "ci"})) }, seen{"POST", "/v1/keys", `{"name":"ci"}`, ""}},
		{func() error { return two(c.RotateKey(ctx, "ky-1")) }, seen{"POST", "/v1/keys/ky-1/rotate", "", ""}},
		{func() error { return c.RevokeKey(ctx, "ky-1") }, seen{"DELETE", "/v1/keys/ky-1", "", ""}},
		{func() error { return two(c.WhoAmI(ctx)) }, seen{"GET", "/auth/v1/whoami", "", ""}},
		{func() error { return two(c.Storage(ctx)) }, seen{"GET", "/v1/storage", "", ""}},
		{func() error { return two(c.Prune(ctx, api.Prune{DryRun: true, Free: 5})) }, seen{"POST", "/v1/storage/prune", `{"dryRun":true,"freeBytes":5}`, ""}},
		{func() error { return two(c.Quota(ctx, "")) }, seen{"GET", "/v1/quota", "", ""}},
		{func() error { return two(c.Quota(ctx, "ada")) }, seen{"GET", "/v1/accounts/ada/quota", "", ""}},
		{func() error { return two(c.SetQuota(ctx, "ada", vm.Quota{VMs: 2, Disk: 9})) }, seen{"PUT", "/v1/accounts/ada/quota", `{"vms":2,"diskBytes":9}`, ""}},
	}
	for _, tc := range cases {
		if err := tc.call(); err != nil {
			t.Errorf("%s %s failed: %v", tc.want.method, tc.want.uri, err)
		}
		if !reflect.DeepEqual(got, tc.want) {
			t.Errorf("sent %+v, want %+v", got, tc.want)
		}
	}
	reply = "log text"
	r, off, err := c.ProcessLog(ctx, "box", "p1", 3, true)
	if err != nil || off != 7 || got.uri != "/v1/vms/box/processes/p1/log?follow=true&from=3" {
		t.Fatalf("log: %v, offset %d, %s", err, off, got.uri)
	}
	defer r.Close()
	if b, err := io.ReadAll(r); err != nil || string(b) != reply {
		t.Errorf("log %q, %v", b, err)
	}
	r, _, err = c.ConsoleLog(ctx, "box", 0, false)
	if err != nil || got.uri != "/v1/vms/box/logs?source=console" {
		t.Fatalf("console: %v, %s", err, got.uri)
	}
	r.Close()
}

// Consecutive requests share a connection: each new one would cost a round trip.
func TestKeepAlive(t *testing.T) {
	addrs := map[string]bool{}
	c := fake(t, func(w http.ResponseWriter, r *http.Request) {
		addrs[r.RemoteAddr] = true
		answer(w, 200, api.VM{})
	})
	for range 10 {
		if _, err := c.Get(t.Context(), "box"); err != nil {
			t.Fatal(err)
		}
	}
	if len(addrs) != 1 {
		t.Errorf("%d connections", len(addrs))
	}
}

func TestEvents(t *testing.T) {
	var last, query string
	c := fake(t, func(w http.ResponseWriter, r *http.Request) {
		last, query = r.Header.Get("Last-Event-ID"), r.URL.RawQuery
		_, _ = io.WriteString(w, ": quiet\n\nid: 4\nevent: vm.running\ndata: {\"id\":4,\ndata: \"type\":\"vm.running\"}\n\nid: 5\ndata: {\"id\":5}\n\n"+
			"event: error\ndata: {\"code\":\"EVENTS_GONE\",\"kind\":\"not-found\",\"message\":\"gone\"}\n\ndata: {\"id\":6}\n")
	})
	ev, err := c.Events(t.Context(), 3, []string{"a", "b"}, "box")
	if err != nil {
		t.Fatal(err)
	}
	defer ev.Close()
	if last != "3" || query != "types=a%2Cb&vm=box" {
		t.Errorf("asked for %q, %q", last, query)
	}
	for _, want := range []int64{4, 5} {
		if e, err := ev.Next(); err != nil || e.ID != want {
			t.Errorf("the next event is %+v (%v), want number %d", e, err, want)
		}
	}
	if _, err := ev.Next(); !errors.Is(err, vm.NotFound) {
		t.Errorf("error event gave %v", err)
	}
	if e, err := ev.Next(); err != io.EOF { //nolint:errorlint // a bare io.EOF is the contract
		t.Errorf("a part of an event gave %+v, %v", e, err)
	}
	ev2, err := c.Events(t.Context(), -1, nil, "")
	if err != nil {
		t.Fatal(err)
	}
	defer ev2.Close()
	if last != "" || query != "" {
		t.Errorf("asked for %q, %q", last, query)
	}
}

func TestWatch(t *testing.T) {
	c := fake(t, func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "\n{\"eventType\":\"create\",\"filename\":\"/a\"}\n\n{\"code\":\"X\",\"kind\":\"guest\",\"message\":\"gone\"}\n")
		flush(t, w)
		panic(http.ErrAbortHandler)
	})
	w, err := c.WatchFiles(t.Context(), "box", "", "/")
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	if e, err := w.Next(); err != nil || e.Path != "/a" || e.Type != "create" {
		t.Errorf("the first change is %+v (%v), want the create of /a", e, err)
	}
	if _, err := w.Next(); !errors.Is(err, vm.GuestFault) {
		t.Errorf("after the first change: %v, want guest-fault", err)
	}
	if _, err := w.Next(); !errors.Is(err, vm.Unavailable) {
		t.Errorf("a cut watch gave %v", err)
	}
}
