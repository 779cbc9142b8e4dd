// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/coder/websocket"

	"github.com/warren-vm/warren/api"
	"github.com/warren-vm/warren/vm"
)

// terminals lets a fake VM have terminals; f serves each socket.
func (f *fake) terminals(list string, serve func(ctx context.Context, r *http.Request, conn *websocket.Conn)) {
	f.mux.HandleFunc("GET /v1/vms/{vm}/pty/sessions", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte(list))
	})
	h := func(w http.ResponseWriter, r *http.Request) {
		conn, err := websocket.Accept(w, r, nil)
		if err != nil {
			f.t.Error(err)
			return
		}
		defer func() { _ = conn.CloseNow() }()
		tell(r.Context(), conn, api.PtyMessage{Type: "sessionInfo", Session: &api.PtySession{SessionID: "work"}})
		serve(r.Context(), r, conn)
	}
	f.mux.HandleFunc("GET /v1/vms/{vm}/pty", h)
	f.mux.HandleFunc("GET /v1/vms/{vm}/pty/sessions/{session}", h)
}

func tell(ctx context.Context, conn *websocket.Conn, m api.PtyMessage) {
	data, _ := json.Marshal(m)
	_ = conn.Write(ctx, websocket.MessageText, data)
}

// After a lost connection the output continues where it stopped, and the exit
// status is the program's.
func TestPtyReattach(t *testing.T) {
	f := newFake(t)
	var times atomic.Int32
	zero, seven := int64(0), 7
	f.terminals(`{"sessions":[]}`, func(ctx context.Context, r *http.Request, conn *websocket.Conn) {
		if times.Add(1) == 1 {
			if r.URL.Path != "/v1/vms/box/pty" || r.URL.Query().Get("exec") != "top -b" {
				t.Errorf("the first request is %s, want the command", r.RequestURI)
			}
			tell(ctx, conn, api.PtyMessage{Type: "replay", Offset: &zero})
			_ = conn.Write(ctx, websocket.MessageBinary, []byte("one "))
			_ = conn.Close(websocket.StatusGoingAway, "")
			return
		}
		if r.URL.Path != "/v1/vms/box/pty/sessions/work" || r.URL.Query().Get("since") != "4" {
			t.Errorf("the second request is %s, want session work since 4", r.RequestURI)
		}
		_ = conn.Write(ctx, websocket.MessageBinary, []byte("two"))
		tell(ctx, conn, api.PtyMessage{Type: "exited", ExitCode: &seven})
	})
	r := run(t, f, Local{}, "", "pty", "box", "--exec", "top -b")
	if r.code != 7 || r.out != "one two" {
		t.Errorf("pty: %+v, want status 7 and the output of both connections", r)
	}
}

// A viewer that reconnects by itself does not wake a suspended VM.
func TestPtyAsleep(t *testing.T) {
	f := newFake(t)
	var times atomic.Int32
	f.terminals(`{"sessions":[]}`, func(_ context.Context, _ *http.Request, conn *websocket.Conn) {
		times.Add(1)
		_ = conn.Close(websocket.StatusGoingAway, "")
	})
	sleeping := box
	sleeping.State = vm.Suspended
	f.on("GET /v1/vms/{vm}", sleeping)
	r := run(t, f, Local{}, "", "pty", "box")
	r.wants(t, 0, "is suspended")
	if times.Load() != 1 {
		t.Errorf("attached %d times", times.Load())
	}
}

// shell attaches to its terminal if it exists, even in a suspended VM, and
// opens it otherwise. The status is the program's.
func TestShell(t *testing.T) {
	for _, c := range []struct {
		list, path string
		args       []string
	}{
		{`{"sessions":[]}`, "/v1/vms/box/pty?cols=80&rows=24&sessionId=shell", []string{"shell", "box", "-s", "shell"}},
		{`{"sessions":[{"sessionId":"shell","running":false,"exitCode":0}]}`, "/v1/vms/box/pty?cols=80&rows=24&sessionId=shell", []string{"shell", "box", "-s", "shell"}},
		{`{"sessions":[{"sessionId":"shell","running":true}]}`, "/v1/vms/box/pty/sessions/shell?cols=80&rows=24", []string{"shell", "box", "-s", "shell"}},
		{`{"sessions":[{"sessionId":"shell","running":false,"suspended":true}]}`, "/v1/vms/box/pty/sessions/shell?cols=80&rows=24", []string{"shell", "box", "-s", "shell"}},
		{`{"sessions":[{"sessionId":"mine","running":true,"user":"me"}]}`, "/v1/vms/box/pty/sessions/mine?cols=80&rows=24", []string{"shell", "box", "-s", "mine"}},
		{`{"sessions":[{"sessionId":"shell-me","running":true,"user":"me"}]}`, "/v1/vms/box/pty/sessions/shell-me?cols=80&rows=24", []string{"shell", "box", "--user", "me", "-s", "shell-me"}},
	} {
		f := newFake(t)
		three := 3
		f.terminals(c.list, func(ctx context.Context, r *http.Request, conn *websocket.Conn) {
			if r.RequestURI != c.path {
				t.Errorf("the client asked for %s, want %s", r.RequestURI, c.path)
			}
			if want := strings.Contains(c.list, `"me"`); want != (r.Header.Get(api.HeaderLinuxUser) == "me") {
				t.Errorf("the client asked for %s as %q", c.path, r.Header.Get(api.HeaderLinuxUser))
			}
			_ = conn.Write(ctx, websocket.MessageBinary, []byte("out\x1b]52;c;ZXZpbA==\x07put"))
			tell(ctx, conn, api.PtyMessage{Type: "exited", ExitCode: &three})
		})
		if r := run(t, f, Local{}, "", c.args...); r.code != 3 || r.out != "output" {
			t.Errorf("%v: %+v, want status 3 and the filtered output", c.args, r)
		}
	}
}

// An outdated list of terminals, or a stopped VM, does not prevent a shell.
func TestShellFinds(t *testing.T) {
	zero := 0
	for _, c := range []struct {
		list, session int
		kind          vm.Kind
		code          string
		paths         []string
	}{
		{400, 0, vm.WrongState, "VM_NOT_RUNNING", []string{"/v1/vms/box/pty"}},
		{200, 409, vm.Exists, "SESSION_ALREADY_EXISTS", []string{"/v1/vms/box/pty", "/v1/vms/box/pty/sessions/work"}},
	} {
		f := newFake(t)
		var paths []string
		refuse := func(w http.ResponseWriter, status int) {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(status)
			_ = json.NewEncoder(w).Encode(api.ErrorBody{Code: c.code, Kind: c.kind, Message: "no"})
		}
		f.mux.HandleFunc("GET /v1/vms/{vm}/pty/sessions", func(w http.ResponseWriter, _ *http.Request) {
			if c.list != 200 {
				refuse(w, c.list)
				return
			}
			_, _ = w.Write([]byte(`{"sessions":[]}`))
		})
		h := func(w http.ResponseWriter, r *http.Request) {
			paths = append(paths, r.URL.Path)
			if c.session != 0 && len(paths) == 1 {
				refuse(w, c.session)
				return
			}
			conn, err := websocket.Accept(w, r, nil)
			if err != nil {
				t.Error(err)
				return
			}
			tell(r.Context(), conn, api.PtyMessage{Type: "sessionInfo", Session: &api.PtySession{SessionID: "work"}})
			tell(r.Context(), conn, api.PtyMessage{Type: "exited", ExitCode: &zero})
			_ = conn.Close(websocket.StatusNormalClosure, "")
		}
		f.mux.HandleFunc("GET /v1/vms/{vm}/pty", h)
		f.mux.HandleFunc("GET /v1/vms/{vm}/pty/sessions/{session}", h)
		if r := run(t, f, Local{}, "", "shell", "box", "--session", "work"); r.code != 0 || !slices.Equal(paths, c.paths) {
			t.Errorf("shell: %+v, requests %v, want %v", r, paths, c.paths)
		}
	}
}

// Keys have names, and the one that leaves is found wherever it comes.
func TestPtyKeys(t *testing.T) {
	for name, want := range map[string]string{"enter": "\r", "ctrl-c": "\x03", "Ctrl-]": "\x1d", "ctrl-\\": "\x1c", "alt-x": "\x1bx", "Up": "\x1b[A"} {
		if got, err := parseKey(name); err != nil || got != want {
			t.Errorf("the key %s is %q (%v), want %q", name, got, err, want)
		}
	}
	for _, name := range []string{"", "ctrl-", "ctrl-1", "nokey", "alt-", "\xff\xfe"} {
		if got, err := parseKey(name); err == nil {
			t.Errorf("%q gives %q", name, got)
		}
	}
	for _, name := range []string{"up", "x", "enter2"} {
		if k, err := parseDetachKey(name); err == nil {
			t.Errorf("%q gives %q", name, k)
		}
	}
	for _, c := range []struct {
		key    byte
		pieces []string
		want   string
		left   bool
	}{
		{0x1d, []string{"abc\x1ddef"}, "abc", true},
		{0x1d, []string{"a\x10", "\x11b"}, "a\x10", true},
		{0x1d, []string{"\x10x\x11", "y"}, "\x10x\x11y", false},
		{0, []string{"\x10\x11\x1d"}, "\x10\x11\x1d", false},
	} {
		d := detector{key: c.key}
		got, left := "", false
		for _, p := range c.pieces {
			keys, gone := d.scan([]byte(p))
			got, left = got+string(keys), left || gone
		}
		if got != c.want || left != c.left {
			t.Errorf("of %q passed %q, left %v, want %q, %v", c.pieces, got, left, c.want, c.left)
		}
	}
}

// What agents use: text to type, text to read.
func TestPtyText(t *testing.T) {
	f := newFake(t)
	f.terminals(`{"sessions":[{"sessionId":"work","running":true,"user":"me","exec":"sh\u001b[2J","title":"\u001b]0;x","cols":80,"rows":24}]}`, nil)
	var body string
	f.mux.HandleFunc("POST /v1/vms/{vm}/pty/sessions/{session}/input", func(w http.ResponseWriter, r *http.Request) {
		var in map[string]any
		if err := json.NewDecoder(r.Body).Decode(&in); err != nil || r.Header.Get(api.HeaderLinuxUser) != "me" {
			t.Error(err, r.Header)
		}
		data, _ := json.Marshal(in)
		body = string(data)
		_, _ = w.Write([]byte(`{"output":"42","screen":"$ 42","offset":9,"running":true}`))
	})
	f.mux.HandleFunc("GET /v1/vms/{vm}/pty/sessions/{session}/scrollback", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set(api.HeaderNextOffset, "12")
		_, _ = w.Write([]byte("since " + r.URL.Query().Get("since")))
	})
	if r := run(t, f, Local{}, "", "pty", "send", "box", "work", "--key", "ctrl-u", "echo", "42", "--wait", "0.5"); r.code != 0 || r.out != "42\n" ||
		body != `{"data":"\u0015echo 42\r","waitQuietMs":500}` {
		t.Errorf("pty send --wait: %+v, sent %s, want the key, the line and the time to wait", r, body)
	}
	if r := run(t, f, Local{}, "", "pty", "send", "box", "work", "--no-enter", "--screen", "x"); r.out != "$ 42\n" || body != `{"data":"x"}` {
		t.Errorf("pty send --no-enter --screen: %+v, sent %s, want the screen and no enter", r, body)
	}
	if r := run(t, f, Local{}, "", "pty", "send", "box", "work"); r.code != 2 {
		t.Errorf("pty send of nothing: %+v, want status 2", r)
	}
	if r := run(t, f, Local{}, "", "pty", "read", "box", "work", "--since", "4", "--json"); r.code != 0 || !strings.Contains(r.out, `"text": "since 4"`) || !strings.Contains(r.out, `"offset": 12`) {
		t.Errorf("pty read --json: %+v, want the text and its end", r)
	}
	if r := run(t, f, Local{}, "", "pty", "ls", "box"); r.code != 0 || strings.Contains(r.out, "\x1b") || !strings.Contains(r.out, "80x24") {
		t.Errorf("pty ls: %+v, want the size and no escape sequence", r)
	}
}
