// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package httpd

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/coder/websocket"

	"github.com/warren-vm/warren/api"
	"github.com/warren-vm/warren/internal/vt"
	"github.com/warren-vm/warren/vm"
)

// pty is a client of a terminal.
type pty struct {
	b    *bench
	conn *websocket.Conn
	out  strings.Builder
}

// dialPty opens or attaches; a refusal is returned as its status and code.
func (b *bench) dialPty(path string, header ...string) (*pty, int, string) {
	b.t.Helper()
	h := http.Header{"Authorization": {"Bearer " + b.admin}}
	for i := 0; i < len(header); i += 2 {
		h.Set(header[i], header[i+1])
	}
	conn, resp, err := websocket.Dial(b.t.Context(), strings.Replace(b.server.URL, "http", "ws", 1)+path, &websocket.DialOptions{HTTPHeader: h})
	if err != nil {
		if resp == nil {
			b.t.Fatalf("dial %s: %v", path, err)
		}
		var body api.ErrorBody
		if err := json.NewDecoder(resp.Body).Decode(&body); err != nil {
			b.t.Fatalf("the refusal of %s (%s) has no error body: %v", path, resp.Status, err)
		}
		return nil, resp.StatusCode, body.Code
	}
	b.t.Cleanup(func() { _ = conn.CloseNow() })
	return &pty{b: b, conn: conn}, 101, ""
}

func (b *bench) openPty(path string, header ...string) *pty {
	b.t.Helper()
	p, status, code := b.dialPty(path, header...)
	if p == nil {
		b.t.Fatalf("the terminal %s is refused: %d %s", path, status, code)
	}
	return p
}

// next returns a text frame of that type; output before it is kept.
func (p *pty) next(what string) api.PtyMessage {
	p.b.t.Helper()
	for {
		kind, data, err := p.conn.Read(p.b.t.Context())
		if err != nil {
			p.b.t.Fatalf("waiting for %s: %v; output %q", what, err, p.out.String())
		}
		if kind == websocket.MessageBinary {
			p.out.Write(data)
			continue
		}
		var m api.PtyMessage
		if err := json.Unmarshal(data, &m); err != nil {
			p.b.t.Fatal(err)
		}
		if m.Type == what {
			return m
		}
	}
}

// shows reads until the output holds a text.
func (p *pty) shows(text string) {
	p.b.t.Helper()
	for !strings.Contains(p.out.String(), text) {
		kind, data, err := p.conn.Read(p.b.t.Context())
		if err != nil {
			p.b.t.Fatalf("waiting for %q: %v; output %q", text, err, p.out.String())
		}
		if kind == websocket.MessageBinary {
			p.out.Write(data)
		}
	}
}

func (p *pty) types(text string) {
	p.b.t.Helper()
	if err := p.conn.Write(p.b.t.Context(), websocket.MessageBinary, []byte(text)); err != nil {
		p.b.t.Fatal(err)
	}
}

// closed returns the code with which the server closed; further text frames
// fail the test.
func (p *pty) closed() websocket.StatusCode {
	p.b.t.Helper()
	for {
		kind, data, err := p.conn.Read(p.b.t.Context())
		if err != nil {
			return websocket.CloseStatus(err)
		}
		if kind == websocket.MessageText {
			p.b.t.Errorf("another frame: %s", data)
		}
	}
}

// TestPtyEnv: variables for a terminal's program come one a parameter, and one
// that has no value is refused before the upgrade.
func TestPtyEnv(t *testing.T) {
	b := newBench(t)
	base := "/v1/vms/" + b.create(nil) + "/pty?cols=80&rows=24&exec=echo+$A-$B&env="
	p := b.openPty(base + "A%3D1%3D2&env=B%3Dx+y")
	p.shows("1=2-x y\r\n")
	if _, status, code := b.dialPty(base + "A"); status != 400 || code != "INVALID_REQUEST" {
		t.Errorf("a variable without a value is answered %d %s, want 400 INVALID_REQUEST", status, code)
	}
}

// TestPty: a terminal is opened, left, found again with its screen, resized by
// the smallest viewer, interrupted in order, and ends with exited and 1000.
func TestPty(t *testing.T) {
	b := newBench(t)
	base := "/v1/vms/" + b.create(nil) + "/pty"
	p := b.openPty(base + "?cols=80&rows=24&sessionId=s.1")
	if m := p.next("sessionInfo"); m.SessionID != "s.1" {
		t.Errorf("the new terminal is session %q, want s.1", m.SessionID)
	}
	p.types("echo first\r")
	p.shows("first\r\nfirst")
	_ = p.conn.Close(websocket.StatusNormalClosure, "")

	p = b.openPty(base + "/sessions/s.1?cols=100&rows=30")
	p.next("sessionInfo")
	m := p.next("replay")
	if !m.Redraw || m.Bytes == 0 || m.Offset == nil || *m.Offset == 0 {
		t.Errorf("the replay is %+v, want a redraw of some bytes up to an offset", m)
	}
	p.shows("first")
	screen := vt.New(100, 30)
	_, _ = screen.Write([]byte(p.out.String()))
	if !strings.Contains(screen.Text(), "first\nfirst\n$") {
		t.Errorf("the replay draws %q", screen.Text())
	}
	second := b.openPty(base + "/sessions/s.1?cols=90&rows=40&since=0")
	if m := second.next("replay"); m.Redraw {
		t.Errorf("the replay since 0 is a redraw: %+v", m)
	}
	second.shows("$ echo first\r\nfirst")
	b.until("two viewers, the smaller size", func() bool {
		l := b.do("GET", base+"/sessions", nil).json["sessions"].([]any)[0].(map[string]any)
		return l["cols"] == 90.0 && l["rows"] == 30.0 && l["running"] == true && l["user"] == nil && l["attachedCount"] == 2.0 && l["createdAtMs"] != 0.0
	})
	b.say(second.conn, api.PtyMessage{Type: "resize", Cols: 50, Rows: 20})
	b.until("the smaller size", func() bool {
		s := b.do("GET", base+"/sessions", nil).json["sessions"].([]any)[0].(map[string]any)
		return s["cols"] == 50.0 && s["rows"] == 20.0
	})
	_ = second.conn.CloseNow()

	// A signal and the input after it are obeyed in their order.
	p.types("abc")
	b.say(p.conn, api.PtyMessage{Type: "signal", Signal: "SIGINT"})
	b.say(p.conn, api.PtyMessage{Type: "of a later version"})
	p.types("echo after\r")
	p.shows("abc^C\r\n$ echo after\r\nafter")
	p.types("exit 7\r")
	if m := p.next("exited"); m.ExitCode == nil || *m.ExitCode != 7 {
		t.Errorf("exited says %+v, want code 7", m)
	}
	if code := p.closed(); code != websocket.StatusNormalClosure {
		t.Errorf("closed with %d", code)
	}

	p = b.openPty(base + "/sessions/s.1")
	p.next("replay")
	if m := p.next("exited"); *m.ExitCode != 7 || !strings.Contains(p.out.String(), "after") || p.closed() != websocket.StatusNormalClosure {
		t.Errorf("an ended one: %+v %q", m, p.out.String())
	}
	l := b.do("GET", base+"/sessions", nil).json["sessions"].([]any)[0].(map[string]any)
	if l["running"] != false || l["exitCode"] != 7.0 || l["exitedAtMs"] == nil {
		t.Errorf("the list shows the ended terminal as %v, want exit code 7 and a time", l)
	}
}

// TestPtyRefusals: each refusal is an HTTP status with the contract's code,
// before the upgrade.
func TestPtyRefusals(t *testing.T) {
	b := newBench(t)
	id := b.create(nil)
	base := "/v1/vms/" + id + "/pty"
	b.openPty(base + "?sessionId=taken").next("sessionInfo")
	_, _, secret, err := b.engine.CreateAccount(t.Context(), b.call, "other")
	if err != nil {
		t.Fatal(err)
	}
	other := []string{"Authorization", "Bearer " + secret}
	for _, c := range []struct {
		path   string
		header []string
		status int
		code   string
	}{
		{base + "?sessionId=a%2Fb", nil, 400, "INVALID_SESSION_ID"},
		{base + "?sessionId=", nil, 400, "INVALID_SESSION_ID"},
		{base + "?cols=no", nil, 400, "INVALID_REQUEST"},
		{base + "?sessionId=taken", nil, 409, "SESSION_ALREADY_EXISTS"},
		{base, []string{"Authorization", "Bearer wrong"}, 401, "UNAUTHORIZED_ERROR"},
		{base, other, 404, "VM_NOT_FOUND"},
		{base + "/sessions/taken", other, 404, "VM_NOT_FOUND"},
		{base, []string{api.HeaderLinuxUser, "nobodyhere"}, 404, "USER_NOT_FOUND"},
		{base + "/sessions/none", nil, 404, "SESSION_NOT_FOUND"},
		{base + "/sessions/taken", []string{api.HeaderLinuxUser, "nobody"}, 403, "SESSION_USER_MISMATCH"},
		{"/v1/vms/aaaaaaaaaaaaaaaaaaaa/pty", nil, 404, "VM_NOT_FOUND"},
	} {
		if _, status, code := b.dialPty(c.path, c.header...); status != c.status || code != c.code {
			t.Errorf("%s: %d %s, not %d %s", c.path, status, code, c.status, c.code)
		}
	}
	b.do("GET", base, nil).wants(t, 400, "INVALID_REQUEST")
	a := b.do("DELETE", base+"/sessions/none", nil)
	a.wants(t, 404, "SESSION_NOT_FOUND")
	a.has(t, "vmId", id, "sessionId", "none")
	for range vm.MaxTerminals - 1 {
		_ = b.openPty(base).conn.CloseNow()
	}
	if _, status, code := b.dialPty(base); status != 429 || code != "SESSION_CAP_REACHED" {
		t.Errorf("one too many: %d %s", status, code)
	}
	b.do("POST", "/v1/vms/"+id+"/stop", nil)
	if a := b.do("GET", base+"/sessions", nil); a.json["code"] != "VM_NOT_RUNNING" {
		t.Errorf("a list wakes nobody: %d %s", a.status, a.body)
	}
	if _, status, code := b.dialPty(base + "/sessions/taken"); status != 404 || code != "SESSION_NOT_FOUND" {
		t.Errorf("stopped, and woken without its terminals: %d %s", status, code)
	}
}

// TestPtyGone: a terminal that ended long ago, and a guest that does not
// answer, are refused before the upgrade, too, and name VM and session.
func TestPtyGone(t *testing.T) {
	b := newBench(t)
	id := b.create(nil)
	base := "/v1/vms/" + id + "/pty"
	b.openPty(base + "?sessionId=s").next("sessionInfo")
	for _, c := range []struct {
		err    error
		status int
		code   string
	}{
		{vm.Errorf(vm.NotFound, "s", "ended").WithCode("SESSION_EXPIRED", "sessionId", "s"), 410, "SESSION_EXPIRED"},
		{vm.Errorf(vm.Unavailable, "s", "the link is down"), 503, ""},
	} {
		b.site.World.Fail("guest.pty", c.err)
		for _, path := range []string{base + "/sessions/s", base + "?sessionId=new"} {
			if _, status, code := b.dialPty(path); status != c.status || c.code != "" && code != c.code {
				t.Errorf("after %v a dial of %s is answered %d %s, want %d %s", c.err, path, status, code, c.status, c.code)
			}
		}
		a := b.do("GET", base+"/sessions/s/screen", nil).answers(t, c.status)
		if c.code != "" {
			a.has(t, "vmId", id, "sessionId", "s")
		}
	}
}

// TestPtySleep: a suspension closes sockets without saying that a program has
// exited; the list tells of the sleeping without waking the VM; an attachment
// wakes it.
func TestPtySleep(t *testing.T) {
	b := newBench(t)
	id := b.create(nil)
	base := "/v1/vms/" + id + "/pty"
	p := b.openPty(base + "?sessionId=s")
	p.types("echo kept\r")
	p.shows("kept\r\nkept")
	b.do("POST", "/v1/vms/"+id+"/suspend", nil)
	if code := p.closed(); code != websocket.StatusGoingAway {
		t.Errorf("closed with %d", code)
	}
	for range 2 {
		l := b.do("GET", base+"/sessions", nil).json["sessions"].([]any)[0].(map[string]any)
		if _, ended := l["exitCode"]; l["suspended"] != true || l["running"] != false || l["attachedCount"] != 0.0 || ended {
			t.Errorf("asleep: %v", l)
		}
	}
	if a := b.do("GET", "/v1/vms/"+id, nil); a.json["state"] != "suspended" {
		t.Errorf("the list has made it %v", a.json["state"])
	}
	_, _, _ = b.dialPty(base + "/sessions/s") // the simulated guest has forgotten it
	if a := b.do("GET", "/v1/vms/"+id, nil); a.json["state"] != "running" {
		t.Errorf("attached, it is %v", a.json["state"])
	}
}

// TestPtyClose: DELETE tells every viewer that the terminal has exited, once,
// before their sockets close; a machine that goes away does not.
func TestPtyClose(t *testing.T) {
	b := newBench(t)
	id := b.create(nil)
	base := "/v1/vms/" + id + "/pty"
	p := b.openPty(base + "?sessionId=s")
	b.do("DELETE", base+"/sessions/s", nil).answers(t, 200).has(t, "sessionId", "s", "exitCode", 129.0)
	if m := p.next("exited"); *m.ExitCode != 129 {
		t.Errorf("a closed terminal exited with %d, want 129", *m.ExitCode)
	}
	if code := p.closed(); code != websocket.StatusNormalClosure {
		t.Errorf("a closed terminal's socket closed with %d", code)
	}
	b.do("DELETE", base+"/sessions/s", nil).wants(t, 404, "SESSION_NOT_FOUND")
	b.do("GET", base+"/sessions", nil).equals(t, `{"sessions":[]}`)
	p = b.openPty(base)
	p.next("sessionInfo")
	b.say(p.conn, api.PtyMessage{Type: "signal", Signal: "SIGKILL"})
	if m := p.next("exited"); *m.ExitCode != 137 {
		t.Errorf("after SIGKILL the terminal exited with %d, want 137", *m.ExitCode)
	}
	p = b.openPty(base)
	p.next("sessionInfo")
	b.do("POST", "/v1/vms/"+id+"/kill", nil)
	if code := p.closed(); code == websocket.StatusNormalClosure {
		t.Errorf("a killed machine closed the socket with %d", code)
	}
}

// TestPtyText: agents read the screen and the output as text, and type; what
// could steer a terminal does not come through.
func TestPtyText(t *testing.T) {
	b := newBench(t)
	base := "/v1/vms/" + b.create(nil) + "/pty"
	b.openPty(base + "?sessionId=s&cols=40&rows=10").shows("$ ")
	one := base + "/sessions/s"
	a := b.do("POST", one+"/input", map[string]any{"data": "echo '\x1b]52;c;ZXZpbA==\x07hello'\r"})
	a.ok(t).has(t, "running", true, "quiet", true).lacks(t, `\u001b`)
	if out := a.json["output"].(string); !strings.HasSuffix(out, "\nhello\n$") {
		t.Errorf("the typed command's output is %q, want it to end with hello and a prompt", out)
	}
	if screen := a.json["screen"].(string); !strings.Contains(screen, "hello\n$") {
		t.Errorf("the screen is %q, want hello and a prompt", screen)
	}
	next := a.json["offset"].(float64)
	b.do("GET", one+"/screen", nil).answers(t, 200).contains(t, "\nhello\n$")
	a = b.do("GET", one+"/screen?format=json", nil).has(t, "cols", 40.0, "offset", next)
	if c := a.json["cursor"].(map[string]any); c["x"] != 2.0 || c["visible"] != true {
		t.Errorf("the cursor is %v, want it visible at x 2", c)
	}
	if n := len(a.json["lines"].([]any)); n != 10 {
		t.Errorf("the screen has %d lines, want 10", n)
	}
	a = b.do("GET", one+"/scrollback", nil).lacks(t, "\x1b")
	if !strings.HasPrefix(string(a.body), "$ echo 'hello'") {
		t.Errorf("the scrollback is %q, want it to begin with the typed command", a.body)
	}
	if at := a.header.Get(api.HeaderOffset); at != "0" {
		t.Errorf("the scrollback begins at %q, want 0", at)
	}
	b.do("GET", one+"/scrollback?raw=true", nil).contains(t, "\x1b]52")
	from := a.header.Get(api.HeaderNextOffset)
	b.do("POST", one+"/input", map[string]any{"data": "more\r", "waitQuietMs": 0})
	if a := b.do("GET", one+"/scrollback?since="+from, nil); !strings.HasPrefix(string(a.body), "more\n") {
		t.Errorf("since %s: %q", from, a.body)
	}
	b.do("GET", one+"/screen?format=xml", nil).wants(t, 400, "INVALID_REQUEST")
	b.do("POST", one+"/input", map[string]any{"data": "x", "timeoutMs": 10_000_000}).wants(t, 400, "INVALID_REQUEST")
	b.do("GET", base+"/sessions/none/screen", nil).wants(t, 404, "SESSION_NOT_FOUND")
	b.do("POST", one+"/input", map[string]any{"data": "exit 3\r"}).has(t, "running", false, "exitCode", 3.0)
}
