// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package httpd

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/warren-vm/warren/api"
	"github.com/warren-vm/warren/internal/engine"
	"github.com/warren-vm/warren/internal/vmtest"
	"github.com/warren-vm/warren/vm"
)

// bench is the API over an engine on a simulated host.
type bench struct {
	t      *testing.T
	engine *vmtest.House
	server *httptest.Server
	admin  string // the admin's secret
	call   *vm.Call
	site   *vmtest.Site

	handler Handler
	end     context.CancelFunc // of the server's lifetime
}

func newBench(t *testing.T) *bench {
	t.Helper()
	return newBenchAt(t, nil)
}

// newBenchAt is newBench with a clock of its own; nil = the system's.
func newBenchAt(t *testing.T, clock engine.Clock) *bench {
	t.Helper()
	site, err := vmtest.NewSite(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	site.Clock = clock
	e, err := site.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	call, secret, err := vmtest.Admin(t.Context(), e)
	if err != nil {
		t.Fatal(err)
	}
	lifetime, end := context.WithCancel(context.Background())
	handler := New(Config{House: e.Rooms, Log: slog.New(slog.DiscardHandler), Settings: map[string]any{"data": "x"}, Lifetime: lifetime, SSH: fakeSSH{}, SSHAddress: "127.0.0.1:2222"})
	handler.brake.For = 0
	server := httptest.NewServer(handler)
	t.Cleanup(func() {
		end()
		server.Close()
		handler.Wait()
		if err := e.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return &bench{t: t, engine: e, server: server, admin: secret, call: call, site: site, handler: handler, end: end}
}

type answer struct {
	asked   string // method, path and the beginning of the body
	status  int
	header  http.Header
	trailer http.Header
	body    []byte
	json    map[string]any
}

func (b *bench) as(secret, method, path string, body any, headers ...string) answer {
	b.t.Helper()
	var in io.Reader
	asked := method + " " + path
	switch v := body.(type) {
	case nil:
	case string:
		in = strings.NewReader(v)
		asked += fmt.Sprintf(" %.100s", v)
	default:
		data, err := json.Marshal(v)
		if err != nil {
			b.t.Fatal(err)
		}
		in = bytes.NewReader(data)
		asked += fmt.Sprintf(" %.100s", data)
	}
	r, err := http.NewRequestWithContext(b.t.Context(), method, b.server.URL+path, in)
	if err != nil {
		b.t.Fatal(err)
	}
	if secret != "" {
		r.Header.Set("Authorization", "Bearer "+secret)
	}
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
		if headers[i] == "Host" {
			r.Host = headers[i+1]
		}
	}
	resp, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		b.t.Fatal(err)
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		b.t.Fatalf("the answer to %s breaks off: %v", asked, err)
	}
	a := answer{asked: asked, status: resp.StatusCode, header: resp.Header, trailer: resp.Trailer, body: data}
	_ = json.Unmarshal(data, &a.json)
	if bytes.Contains(data, []byte(`"host":"`+b.site.Host+`"`)) {
		b.t.Errorf("the answer of %s %s shows the server that a record belongs to: %s", method, path, data)
	}
	return a
}

func (b *bench) do(method, path string, body any, headers ...string) answer {
	b.t.Helper()
	return b.as(b.admin, method, path, body, headers...)
}

func (b *bench) create(body any) string {
	b.t.Helper()
	a := b.do("POST", "/v1/vms", body)
	if a.status != 200 {
		b.t.Fatalf("create: %d %s", a.status, a.body)
	}
	id, _ := a.json["id"].(string)
	return id
}

func (a answer) wants(t *testing.T, status int, code string) {
	t.Helper()
	if a.status != status || a.json["code"] != code || a.json["error"] != code || a.json["message"] == "" || a.json["kind"] == nil {
		t.Errorf("%s answers %d, want %d %s: %s", a.asked, a.status, status, code, a.body)
	}
}

// ok ends the test when the request failed.
func (a answer) ok(t *testing.T) answer {
	t.Helper()
	if a.status != 200 {
		t.Fatalf("%s answers %d, want 200: %s", a.asked, a.status, a.body)
	}
	return a
}

// answers states the status.
func (a answer) answers(t *testing.T, status int) answer {
	t.Helper()
	if a.status != status {
		t.Errorf("%s answers %d, want %d: %s", a.asked, a.status, status, a.body)
	}
	return a
}

// has states values of the body's fields: name, value, name, value.
func (a answer) has(t *testing.T, fields ...any) answer {
	t.Helper()
	for i := 0; i < len(fields); i += 2 {
		if name := fields[i].(string); a.json[name] != fields[i+1] {
			t.Errorf("%s answers with %s %v, want %v: %s", a.asked, name, a.json[name], fields[i+1], a.body)
		}
	}
	return a
}

// equals states the whole body, without its last newline.
func (a answer) equals(t *testing.T, body string) answer {
	t.Helper()
	if string(a.body) != body+"\n" {
		t.Errorf("%s answers %q, want %q", a.asked, a.body, body)
	}
	return a
}

// contains states texts that the body holds.
func (a answer) contains(t *testing.T, parts ...string) answer {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(string(a.body), part) {
			t.Errorf("%s answers %d without %q: %s", a.asked, a.status, part, a.body)
		}
	}
	return a
}

// lacks states texts that the body does not hold.
func (a answer) lacks(t *testing.T, parts ...string) answer {
	t.Helper()
	for _, part := range parts {
		if strings.Contains(string(a.body), part) {
			t.Errorf("%s answers %d with %q: %s", a.asked, a.status, part, a.body)
		}
	}
	return a
}

// into decodes the body of a success.
func (a answer) into(t *testing.T, out any) {
	t.Helper()
	if err := json.Unmarshal(a.ok(t).body, out); err != nil {
		t.Fatalf("%s answers no %T: %v: %s", a.asked, out, err, a.body)
	}
}

func TestRouting(t *testing.T) {
	b := newBench(t)
	id := b.create(map[string]any{})
	if a := b.do("PUT", "/v1/vms/"+id+"/files/%2Froot%2Fa%20b%2F%C3%BC.txt", api.FileContent{Content: "x"}); a.status != 200 || string(a.body) != "{}\n" {
		t.Errorf("put: %d %s", a.status, a.body)
	}
	a := b.do("GET", "/v1/vms/"+id+"/files/%2Froot%2Fa%20b%2F%C3%BC.txt", nil)
	if a.json["content"] != base64.StdEncoding.EncodeToString([]byte("x")) || a.json["encoding"] != "base64" {
		t.Errorf("get: %s", a.body)
	}
	b.do("GET", "/v1/vms/snapshots/sc-00000000000000000000", nil).wants(t, 404, "SNAPSHOT_NOT_FOUND")
	b.do("GET", "/v1/vms/builds/b-1", nil).wants(t, 404, "BUILD_NOT_FOUND")
	b.do("GET", "/v1/vms/"+id+"/build", nil).wants(t, 404, "BUILD_NOT_FOUND_FOR_VM")
	b.do("GET", "/v1/nothing", nil).wants(t, 404, "NOT_FOUND")
	b.do("PATCH", "/v1/vms", nil).wants(t, 400, "BAD_REQUEST")
	b.do("GET", "/v1/vms/UPPER%20CASE", nil).wants(t, 400, "INVALID_VM_ID")
	b.do("POST", "/v1/vms", "{nonsense").wants(t, 400, "CREATE_VM_BAD_REQUEST")
	b.do("POST", "/v1/vms/"+id+"/exec-await", `{"command": 7}`).wants(t, 400, "INVALID_REQUEST")
	b.do("POST", "/v1/vms/"+id+"/exec-await", `{}`).wants(t, 400, "INVALID_REQUEST")
	if a := b.do("GET", "/v1/vms", nil, "Host", "evil.example"); a.status != 403 {
		t.Errorf("a foreign Host gives %d", a.status)
	}
	if a := b.do("GET", "/v1/vms", nil, "Host", "x.warren.localhost:80"); a.status != 200 {
		t.Errorf("a local Host gives %d", a.status)
	}
	if a := b.do("POST", "/v1/vms/"+id+"/fs/mkdir", strings.Repeat(" ", maxBody+1)); a.status != 400 || a.json["kind"] != "limit" {
		t.Errorf("a huge body gives %d %s", a.status, a.body)
	}
}

// TestSizes: sizes and snapshot are taken from all three places.
func TestSizes(t *testing.T) {
	b := newBench(t)
	for _, body := range []string{
		`{"vcpuCount":2,"memSizeGb":1,"rootfsSizeGb":20}`,
		`{"template":{"vcpuCount":2,"memSizeGb":1,"rootfsSizeGb":20}}`,
		`{"spec":{"vcpuCount":2,"memSizeGb":1,"rootfsSizeGb":20,"name":null,"aptDeps":[]}}`,
		`{"spec":{"vcpuCount":2,"memSizeGb":1,"name":null},"vcpuCount":4,"rootfsSizeGb":20}`,
	} {
		id := b.create(body)
		a := b.do("GET", "/v1/vms/"+id, nil)
		if got := fmt.Sprint(a.json["sizing"]); got != "map[memSizeMib:1024 rootfsSizeMb:20480 vcpuCount:2]" {
			t.Errorf("%s made %s", body, got)
		}
	}
	for _, body := range []string{
		`{"spec":{"systemd":{"services":[{"name":"x"}]}}}`, `{"baseImage":{"dockerfileContent":"FROM x"}}`,
		`{"domains":[{"domain":"a.example"}]}`, `{"git":{"repos":[{"repo":"r","path":"/p"}]}}`, `{"spec":{"ports":[{"port":443}]}}`,
		`{"vcpuCount":-1}`, `{"rootfsSizeGb":99999999999}`, `{"additionalFiles":{"relative":{"content":"x"}}}`,
	} {
		a := b.do("POST", "/v1/vms", body)
		if a.status == 200 || a.json["code"] == nil {
			t.Errorf("%s gives %d %s", body, a.status, a.body)
		}
	}
}

// TestRaw: bytes with length and digest both ways; a cut stream is no success.
func TestRaw(t *testing.T) {
	b := newBench(t)
	id := b.create(map[string]any{})
	data := strings.Repeat("0123456789abcdef", 100_000)
	path := "/v1/vms/" + id + "/raw/%2Fwork%2Fbig"
	put := b.do("PUT", path+"?mode=0600&parents=true", data)
	digest, _ := put.json["sha256"].(string)
	if put.status != 200 || len(digest) != 64 {
		t.Fatalf("put: %d %s", put.status, put.body)
	}
	got := b.do("GET", path, nil)
	if string(got.body) != data || got.header.Get(api.HeaderLength) != fmt.Sprint(len(data)) || got.trailer.Get(api.HeaderDigest) != digest {
		t.Errorf("get: %d bytes, %v, %v", len(got.body), got.header, got.trailer)
	}
	if a := b.do("GET", path+"?maxBytes=1000", nil); a.status != 400 || a.json["kind"] != "limit" || a.json["code"] != "FILES_BAD_REQUEST" {
		t.Errorf("above maxBytes: %d %s", a.status, a.body)
	}
	b.do("GET", "/v1/vms/"+id+"/raw/%2Fnone", nil).wants(t, 404, "FILE_NOT_FOUND")
	// A client that ends in mid-upload leaves the old file in place.
	r, w := io.Pipe()
	req, err := http.NewRequestWithContext(t.Context(), "PUT", b.server.URL+path, r)
	if err != nil {
		t.Fatal(err)
	}
	req.ContentLength = 1000
	req.Header.Set("Authorization", "Bearer "+b.admin)
	go func() {
		fmt.Fprint(w, "half")
		w.CloseWithError(errors.New("gone"))
	}()
	if resp, err := http.DefaultTransport.RoundTrip(req); err == nil {
		resp.Body.Close()
		t.Errorf("a cut upload gives %d", resp.StatusCode)
	}
	if again := b.do("GET", path, nil); string(again.body) != data {
		t.Errorf("after a cut upload the file has %d bytes", len(again.body))
	}
}
