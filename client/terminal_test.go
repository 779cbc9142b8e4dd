// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"testing"

	"github.com/coder/websocket"

	"github.com/warren-vm/warren/api"
	"github.com/warren-vm/warren/vm"
)

// serveTerminal is a server of one terminal's socket.
func serveTerminal(t *testing.T, uri string, script func(conn *websocket.Conn, say func(api.PtyMessage))) *Client {
	t.Helper()
	return fake(t, func(w http.ResponseWriter, r *http.Request) {
		if r.RequestURI != uri || r.Header.Get(api.HeaderLinuxUser) != "me" {
			t.Errorf("the client asked for %s as %q, want %s as me", r.RequestURI, r.Header.Get(api.HeaderLinuxUser), uri)
		}
		conn, err := websocket.Accept(w, r, nil)
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.CloseNow()
		script(conn, func(m api.PtyMessage) {
			data, err := json.Marshal(m)
			if err == nil {
				err = conn.Write(t.Context(), websocket.MessageText, data)
			}
			if err != nil {
				t.Error(err)
			}
		})
	})
}

// The offset counts output, not redrawn bytes, so that an attachment from it
// neither misses nor repeats output.
func TestTerminalOffset(t *testing.T) {
	at, zero := int64(500), 0
	c := serveTerminal(t, "/v1/vms/box/pty/sessions/s?cols=80&rows=24&since=400", func(conn *websocket.Conn, say func(api.PtyMessage)) {
		say(api.PtyMessage{Type: "sessionInfo", SessionID: "s", Session: &api.PtySession{SessionID: "s"}})
		say(api.PtyMessage{Type: "replay", Redraw: true, Bytes: 6, Offset: &at})
		for _, b := range []string{"draw", "nnew"} {
			if err := conn.Write(t.Context(), websocket.MessageBinary, []byte(b)); err != nil {
				t.Error(err)
			}
		}
		say(api.PtyMessage{Type: "of a later version"})
		say(api.PtyMessage{Type: "exited", ExitCode: &zero})
	})
	term, err := c.AttachTerminal(t.Context(), "box", "s", vm.TerminalView{User: "me", Since: 400})
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if st, err := term.Run(&out); err != nil || st.Code != 0 || out.String() != "drawnnew" || term.Offset() != 502 {
		t.Errorf("%+v, %v, %q, offset %d", st, err, out.String(), term.Offset())
	}
}

// What is sent keeps its order and its frames; leaving is no failure.
func TestTerminalInput(t *testing.T) {
	heard := make(chan string, 8)
	c := serveTerminal(t, "/v1/vms/box/pty?cols=100&env=A%3D1&env=B%3D2&exec=top+-b&rows=30&sessionId=s", func(conn *websocket.Conn, say func(api.PtyMessage)) {
		say(api.PtyMessage{Type: "sessionInfo", SessionID: "s", Session: &api.PtySession{SessionID: "s"}})
		for {
			_, data, err := conn.Read(t.Context())
			if err != nil {
				close(heard)
				return
			}
			heard <- string(data)
		}
	})
	term, err := c.OpenTerminal(t.Context(), "box", vm.TerminalSpec{ID: "s", User: "me", Command: "top -b", Env: map[string]string{"B": "2", "A": "1"}, Cols: 100, Rows: 30})
	if err != nil {
		t.Fatal(err)
	}
	_, err = term.Write([]byte("abc"))
	if err := errors.Join(err, term.Signal("SIGINT"), term.Resize(90, 20)); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"abc", `{"type":"signal","signal":"SIGINT"}`, `{"type":"resize","cols":90,"rows":20}`} {
		if got := <-heard; got != want {
			t.Errorf("the server heard %q, want %q", got, want)
		}
	}
	done := make(chan error, 1)
	go func() {
		_, err := term.Run(io.Discard)
		done <- err
	}()
	_ = term.Detach()
	if err := <-done; !errors.Is(err, ErrDetached) || !errors.Is(err, vm.Cancelled) {
		t.Error(err)
	}
}

// A cut connection is never an exit.
func TestTerminalBroken(t *testing.T) {
	c := serveTerminal(t, "/v1/vms/box/pty?cols=80&rows=24", func(conn *websocket.Conn, say func(api.PtyMessage)) {
		say(api.PtyMessage{Type: "sessionInfo", SessionID: "s", Session: &api.PtySession{SessionID: "s"}})
		_ = conn.Close(websocket.StatusGoingAway, "")
	})
	term, err := c.OpenTerminal(t.Context(), "box", vm.TerminalSpec{User: "me"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := term.Run(io.Discard); !errors.Is(err, vm.Unavailable) {
		t.Error(err)
	}
}
