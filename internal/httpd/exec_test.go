// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package httpd

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/warren-vm/warren/api"
	"github.com/warren-vm/warren/vm"
)

// dialExec opens the exec WebSocket of a VM and sends the command.
func (b *bench) dialExec(id string, spec vm.ExecSpec) *websocket.Conn {
	b.t.Helper()
	conn, _, err := websocket.Dial(b.t.Context(), strings.Replace(b.server.URL, "http", "ws", 1)+"/v1/vms/"+id+"/exec",
		&websocket.DialOptions{HTTPHeader: http.Header{"Authorization": {"Bearer " + b.admin}}})
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() { _ = conn.CloseNow() })
	b.say(conn, spec)
	return conn
}

func (b *bench) say(conn *websocket.Conn, v any) {
	b.t.Helper()
	data, err := json.Marshal(v)
	if err != nil {
		b.t.Fatal(err)
	}
	if err := conn.Write(b.t.Context(), websocket.MessageText, data); err != nil {
		b.t.Fatal(err)
	}
}

// hear reads frames until a text frame of that type, and returns it.
func (b *bench) hear(conn *websocket.Conn, what string) api.ExecMessage {
	b.t.Helper()
	for {
		kind, data, err := conn.Read(b.t.Context())
		if err != nil {
			b.t.Fatalf("waiting for %s: %v", what, err)
		}
		var m api.ExecMessage
		if kind == websocket.MessageBinary {
			continue
		}
		if err := json.Unmarshal(data, &m); err != nil {
			b.t.Fatal(err)
		}
		if m.Type == what {
			return m
		}
		if m.Type == "error" || m.Type == "exit" {
			b.t.Fatalf("waiting for %s: %s", what, data)
		}
	}
}

// TestExecSocket: streams apart, input, exit status, and a command that keeps
// running in the background when its client goes away.
func TestExecSocket(t *testing.T) {
	b := newBench(t)
	id := b.create(nil)
	wsURL := strings.Replace(b.server.URL, "http", "ws", 1) + "/v1/vms/" + id + "/exec"
	for name, h := range map[string]http.Header{
		"a stranger":     {"Authorization": {"Bearer wrong"}},
		"a foreign page": {"Authorization": {"Bearer " + b.admin}, "Origin": {"https://evil.example"}},
	} {
		_, resp, err := websocket.Dial(t.Context(), wsURL, &websocket.DialOptions{HTTPHeader: h})
		if err == nil || resp == nil || resp.StatusCode != 401 && resp.StatusCode != 403 {
			t.Errorf("the socket of %s is answered %v, %v, want 401 or 403", name, resp, err)
		}
	}
	conn := b.dialExec(id, vm.ExecSpec{Command: "cat; echo bad >&2; exit 4", Stdin: true})
	if p := b.hear(conn, "started").Process; p == nil || p.ID == "" {
		t.Errorf("started %+v", p)
	}
	for _, piece := range []string{"hel", "lo"} {
		if err := conn.Write(t.Context(), websocket.MessageBinary, append([]byte{api.ChannelStdin}, piece...)); err != nil {
			t.Fatal(err)
		}
	}
	b.say(conn, api.ExecMessage{Type: "stdinEof"})
	out := map[byte]string{}
	for {
		kind, data, err := conn.Read(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if kind == websocket.MessageBinary {
			out[data[0]] += string(data[1:])
			continue
		}
		var m api.ExecMessage
		if err := json.Unmarshal(data, &m); err != nil || m.Type != "exit" || m.Status.Code != 4 {
			t.Errorf("after the output comes %s (%v), want an exit with code 4", data, err)
		}
		break
	}
	if out[api.ChannelStdout] != "hello" || out[api.ChannelStderr] != "bad\n" {
		t.Errorf("output %q", out)
	}

	gone := b.dialExec(id, vm.ExecSpec{Argv: []string{"sleep", "60"}})
	p := b.hear(gone, "started").Process.ID
	if err := gone.CloseNow(); err != nil {
		t.Fatal(err)
	}
	b.until("its command is in the background", func() bool {
		a := b.do("GET", "/v1/vms/"+id+"/processes/"+p, nil)
		return a.json["background"] == true && a.json["exitCode"] == nil
	})
}

// TestSignalPassesInput: a signal reaches a command that does not read the
// input that waits for it.
func TestSignalPassesInput(t *testing.T) {
	b := newBench(t)
	conn := b.dialExec(b.create(nil), vm.ExecSpec{Argv: []string{"sleep", "60"}, Stdin: true})
	b.hear(conn, "started")
	piece := append([]byte{api.ChannelStdin}, bytes.Repeat([]byte("x"), 32<<10)...)
	for range inputFrames / 2 {
		if err := conn.Write(t.Context(), websocket.MessageBinary, piece); err != nil {
			t.Fatal(err)
		}
	}
	b.say(conn, api.ExecMessage{Type: "stdinEof"})
	b.say(conn, api.ExecMessage{Type: "signal", Signal: "INT"})
	if m := b.hear(conn, "exit"); m.Status.Code != 130 || m.Status.Signal != "INT" {
		t.Errorf("it ended with %+v", m.Status)
	}
}

// TestSocketRefusals: what cannot be run is said in an error frame with the
// contract's body, and a wrong signal ends nothing.
func TestSocketRefusals(t *testing.T) {
	b := newBench(t)
	id := b.create(nil)
	for _, c := range []struct {
		ref  string
		spec vm.ExecSpec
		code string
	}{
		{id, vm.ExecSpec{}, "INVALID_REQUEST"},
		{id, vm.ExecSpec{Argv: []string{"true"}, User: "nobodyhere"}, "USER_NOT_FOUND"},
		{"aaaaaaaaaaaaaaaaaaaa", vm.ExecSpec{Argv: []string{"true"}}, "VM_NOT_FOUND"},
	} {
		conn := b.dialExec(c.ref, c.spec)
		_, data, err := conn.Read(t.Context())
		var m api.ExecMessage
		if err != nil || json.Unmarshal(data, &m) != nil || m.Type != "error" || m.Error.Code != c.code {
			t.Errorf("%+v is answered %s (%v), want an error %s", c.spec, data, err, c.code)
		} else if m.Error.RequestID == "" {
			t.Errorf("the error of %+v has no request id: %s", c.spec, data)
		}
		if _, _, err := conn.Read(t.Context()); websocket.CloseStatus(err) != websocket.StatusNormalClosure {
			t.Errorf("%+v: closed with %v", c.spec, err)
		}
	}
	conn := b.dialExec(id, vm.ExecSpec{Argv: []string{"sleep", "60"}})
	b.hear(conn, "started")
	b.say(conn, api.ExecMessage{Type: "signal", Signal: "NONSENSE"})
	if m := b.hear(conn, "warning"); m.Error.Kind != vm.Invalid {
		t.Errorf("warning %+v", m.Error)
	}
	b.say(conn, api.ExecMessage{Type: "of a later version"})
	b.say(conn, api.ExecMessage{Type: "signal", Signal: "KILL"})
	if m := b.hear(conn, "exit"); m.Status.Code != 137 {
		t.Errorf("exit %+v", m.Status)
	}
	b.do("GET", "/v1/vms/"+id+"/exec", nil).wants(t, 400, "INVALID_REQUEST")
}

// TestDetach: a detached command keeps running, and its log can be read from
// an offset while it runs and after it has ended.
func TestDetach(t *testing.T) {
	b := newBench(t)
	id := b.create(nil)
	conn := b.dialExec(id, vm.ExecSpec{Command: "echo one; sleep 60"})
	p := b.hear(conn, "started").Process.ID
	b.say(conn, api.ExecMessage{Type: "detach"})
	if _, _, err := conn.Read(t.Context()); err == nil {
		for err == nil { // output that came before
			_, _, err = conn.Read(t.Context())
		}
	}
	base := "/v1/vms/" + id + "/processes/" + p
	b.until("in the background", func() bool {
		return b.do("GET", base, nil).json["background"] == true && b.do("GET", base+"/log", nil).header.Get(api.HeaderOffset) == "0"
	})
	b.until("its log", func() bool { return string(b.do("GET", base+"/log", nil).body) == "one\n" })
	if a := b.do("GET", base+"/log?from=2", nil); string(a.body) != "e\n" || a.header.Get(api.HeaderOffset) != "2" {
		t.Errorf("from 2: %q at %s", a.body, a.header.Get(api.HeaderOffset))
	}
	a := b.do("POST", base+"/wait?timeoutMs=20", nil)
	if a.wants(t, 408, "EXEC_TIMED_OUT"); a.json["timeoutMs"] != 20.0 {
		t.Errorf("wait: %s", a.body)
	}
	b.do("POST", base+"/signal", `{}`) // TERM
	if a := b.do("POST", base+"/wait?timeoutMs=10000", nil); a.json["exitCode"] != 143.0 || a.json["signal"] != "TERM" {
		t.Errorf("wait: %d %s", a.status, a.body)
	}
	if a := b.do("GET", base+"/log?follow=true", nil); string(a.body) != "one\n" {
		t.Errorf("the log of an ended process: %q", a.body)
	}
	if a := b.do("DELETE", base, nil); a.status != 200 {
		t.Errorf("forget: %s", a.body)
	}
	b.do("GET", base, nil).wants(t, 404, "NOT_FOUND")
}

// until waits for a condition that another goroutine brings about.
func (b *bench) until(what string, is func() bool) {
	b.t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	limit := time.After(10 * time.Second)
	for !is() {
		select {
		case <-tick.C:
		case <-limit:
			b.t.Fatalf("not within 10 s: %s", what)
		}
	}
}

// TestExecChunked: output comes as lines while the command runs, each stream
// apart, the exit status last.
func TestExecChunked(t *testing.T) {
	b := newBench(t)
	id := b.create(nil)
	a := b.do("POST", "/v1/vms/"+id+"/exec", api.ExecChunked{ExecSpec: vm.ExecSpec{Command: "cat; echo bad >&2; exit 9", Env: map[string]string{"A": "b"}}, Input: []byte("in\xff")})
	if a.header.Get("Content-Type") != "application/x-ndjson" || a.header.Get(api.HeaderReceipt) == "" {
		t.Errorf("headers %v", a.header)
	}
	got := map[string]string{}
	var last api.ExecMessage
	for line := range bytes.Lines(a.body) {
		last = api.ExecMessage{}
		if err := json.Unmarshal(line, &last); err != nil {
			t.Fatalf("the output's line %q is no message: %v", line, err)
		}
		got[last.Type] += string(last.Data)
	}
	if got["stdout"] != "in\xff" || got["stderr"] != "bad\n" || last.Type != "exit" || last.Status.Code != 9 {
		t.Errorf("%q, last %+v", got, last)
	}
	// A command that reads nothing of a large input ends anyway.
	big := api.ExecChunked{ExecSpec: vm.ExecSpec{Argv: []string{"true"}}, Input: make([]byte, 1<<20)}
	b.do("POST", "/v1/vms/"+id+"/exec", big).contains(t, `"type":"exit","status":{"code":0}`)
}

// TestExecAwait: the contract's call, with its time-out, its limits and its
// replacement of what is no text.
func TestExecAwait(t *testing.T) {
	b := newBench(t)
	id := b.create(nil)
	path := "/v1/vms/" + id + "/exec-await"
	b.do("POST", path, `{"command":"echo out; echo err >&2; exit 3","terminal":null,"timeoutMs":null}`).equals(t, `{"stdout":"out\n","stderr":"err\n","statusCode":3}`)
	a := b.do("POST", path, `{"command":"echo part; sleep 60","timeoutMs":150}`)
	a.wants(t, 408, "EXEC_TIMED_OUT")
	a.has(t, "stdout", "part\n", "stderr", "", "timeoutMs", 150.0)
	a = b.do("POST", path, `{"command":"yes","timeoutMs":1500}`)
	if a.wants(t, 408, "EXEC_TIMED_OUT"); len(a.json["stdout"].(string)) > captured {
		t.Errorf("%d bytes of output", len(a.json["stdout"].(string)))
	}
	b.do("POST", path, `{"command":"true","timeoutMs":0}`).wants(t, 400, "INVALID_REQUEST")
	b.do("POST", path, `{"command":"whoami"}`, api.HeaderLinuxUser, "nobodyhere").wants(t, 404, "USER_NOT_FOUND")
	b.do("PUT", "/v1/vms/"+id+"/raw/%2Fbin.out", "a\xffb").ok(t)
	b.do("POST", path, `{"command":"cat /bin.out"}`).has(t, "stdout", "a\uFFFDb")
	b.do("POST", "/v1/vms/"+id+"/stop", nil)
	if a := b.do("POST", path, `{"command":"true"}`); a.status != 200 || b.do("GET", "/v1/vms/"+id, nil).json["state"] != "running" {
		t.Errorf("an exec did not wake the VM: %s", a.body)
	}
}

// TestCapture keeps the head of a stream and says that there was more.
func TestCapture(t *testing.T) {
	c := capture{reserve: func(int64) error { return nil }}
	half := make([]byte, captured/2+1)
	for range 3 {
		if n, err := c.Write(half); n != len(half) || err != nil {
			t.Fatalf("a capture took %d of %d bytes: %v", n, len(half), err)
		}
	}
	if c.buf.Len() != captured || !c.more {
		t.Errorf("%d bytes, more %v", c.buf.Len(), c.more)
	}
}
