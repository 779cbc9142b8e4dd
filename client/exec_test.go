// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/coder/websocket"

	"github.com/warren-vm/warren/api"
	"github.com/warren-vm/warren/vm"
)

// guest is the server's end of an exec in these tests.
type guest struct {
	t    *testing.T
	conn *websocket.Conn
	spec vm.ExecSpec
}

// serveExec runs script as the server's side after the command came.
func serveExec(t *testing.T, script func(g *guest)) *Client {
	t.Helper()
	return fake(t, func(w http.ResponseWriter, r *http.Request) {
		if r.RequestURI != "/v1/vms/box/exec" || r.Header.Get("Authorization") != "Bearer secret" {
			t.Errorf("%s with %q", r.RequestURI, r.Header.Get("Authorization"))
		}
		conn, err := websocket.Accept(w, r, nil)
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.CloseNow()
		g := &guest{t: t, conn: conn}
		typ, data, err := conn.Read(t.Context())
		if err != nil || typ != websocket.MessageText || json.Unmarshal(data, &g.spec) != nil {
			t.Errorf("first frame: %v %q %v", typ, data, err)
			return
		}
		script(g)
	})
}

func (g *guest) say(m api.ExecMessage) {
	g.t.Helper()
	data, err := json.Marshal(m)
	if err == nil {
		err = g.conn.Write(g.t.Context(), websocket.MessageText, data)
	}
	if err != nil {
		g.t.Error(err)
	}
}

func (g *guest) started() {
	g.say(api.ExecMessage{Type: "started", Process: &vm.Process{ID: "p7", PID: 42}})
}

func (g *guest) exit(code int) {
	g.say(api.ExecMessage{Type: "exit", Status: &vm.ExitStatus{Code: code}})
}

func (g *guest) out(channel byte, data []byte) {
	if err := g.conn.Write(g.t.Context(), websocket.MessageBinary, append([]byte{channel}, data...)); err != nil {
		g.t.Error(err)
	}
}

// next returns a text frame's type and signal, or "stdin" and the input.
func (g *guest) next() (string, string) {
	typ, data, err := g.conn.Read(g.t.Context())
	if err != nil {
		return "gone", ""
	}
	if typ == websocket.MessageBinary {
		if data[0] != api.ChannelStdin {
			g.t.Errorf("input on channel %d", data[0])
		}
		return "stdin", string(data[1:])
	}
	var m api.ExecMessage
	if err := json.Unmarshal(data, &m); err != nil {
		g.t.Error(err)
	}
	return m.Type, m.Signal
}

func start(t *testing.T, c *Client, spec vm.ExecSpec) *Exec {
	t.Helper()
	e, err := c.Exec(t.Context(), "box", spec)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// Large output comes whole, in order and on its channel, in frames of any size.
func TestExecOutput(t *testing.T) {
	var want bytes.Buffer
	for i := range 200 {
		want.Write(bytes.Repeat([]byte{byte(i)}, 1+i*700))
	}
	c := serveExec(t, func(g *guest) {
		if g.spec.Command != "make" || g.spec.Env["A"] != "b" {
			t.Errorf("spec %+v", g.spec)
		}
		g.started()
		for data := want.Bytes(); len(data) > 0; {
			n := min(len(data), 1+len(data)%(1<<20-1))
			g.out(api.ChannelStdout, data[:n])
			data = data[n:]
		}
		g.out(api.ChannelStderr, []byte("oops"))
		g.out(api.ChannelStdout, nil)
		g.say(api.ExecMessage{Type: "warning"})
		g.exit(3)
	})
	e := start(t, c, vm.ExecSpec{Command: "make", Env: map[string]string{"A": "b"}})
	if p := e.Process(); p.ID != "p7" || p.PID != 42 {
		t.Errorf("process %+v", p)
	}
	var out, errs bytes.Buffer
	st, err := e.Run(&out, &errs)
	if err != nil || st.Code != 3 {
		t.Fatalf("the command ended with %+v (%v), want exit code 3", st, err)
	}
	if !bytes.Equal(out.Bytes(), want.Bytes()) || errs.String() != "oops" {
		t.Errorf("%d of %d bytes, stderr %q", out.Len(), want.Len(), errs.String())
	}
}

func TestExecInputAndSignal(t *testing.T) {
	input := strings.Repeat("0123456789", 20_000)
	c := serveExec(t, func(g *guest) {
		g.started()
		var in strings.Builder
		for {
			typ, s := g.next()
			if typ != "stdin" {
				if typ != "stdinEof" || in.String() != input {
					t.Errorf("%s after %d bytes", typ, in.Len())
				}
				break
			}
			in.WriteString(s)
		}
		if typ, s := g.next(); typ != "signal" || s != "INT" {
			t.Errorf("after the input the client sent %s %q, want signal INT", typ, s)
		}
		g.say(api.ExecMessage{Type: "exit", Status: &vm.ExitStatus{Code: 130, Signal: "INT"}})
	})
	e := start(t, c, vm.ExecSpec{Command: "cat", Stdin: true})
	if n, err := io.WriteString(e, input); err != nil || n != len(input) {
		t.Fatalf("wrote %d bytes of input (%v), want %d", n, err, len(input))
	}
	if err := errors.Join(e.CloseStdin(), e.Signal("INT")); err != nil {
		t.Fatal(err)
	}
	st, err := e.Run(io.Discard, io.Discard)
	if err != nil || st.Code != 130 || st.Signal != "INT" {
		t.Errorf("the interrupted command ended with %+v (%v), want exit code 130 by INT", st, err)
	}
}

func TestExecDetach(t *testing.T) {
	heard := make(chan string, 1)
	c := serveExec(t, func(g *guest) {
		g.started()
		typ, _ := g.next()
		heard <- typ
	})
	e := start(t, c, vm.ExecSpec{Command: "sleep 60"})
	done := make(chan error, 1)
	go func() { // ends with the detachment
		_, err := e.Run(io.Discard, io.Discard)
		done <- err
	}()
	if err := e.Detach(); err != nil {
		t.Fatal(err)
	}
	err := <-done
	if !errors.Is(err, vm.Cancelled) || !errors.Is(err, ErrDetached) || !strings.Contains(vm.AsError(err).Hint, "p7") {
		t.Errorf("run ended with %v, hint %q", err, vm.AsError(err).Hint)
	}
	if typ := <-heard; typ != "detach" {
		t.Errorf("the server heard %q", typ)
	}
}

// A link that breaks before the exit is never taken for an end of the command.
func TestExecBroken(t *testing.T) {
	for name, end := range map[string]func(g *guest){
		"cut":          func(g *guest) { _ = g.conn.CloseNow() },
		"closed well":  func(g *guest) { _ = g.conn.Close(websocket.StatusNormalClosure, "") },
		"server stops": func(g *guest) { _ = g.conn.Close(websocket.StatusGoingAway, "") },
	} {
		t.Run(name, func(t *testing.T) {
			c := serveExec(t, func(g *guest) {
				g.started()
				g.out(api.ChannelStdout, []byte("half"))
				end(g)
			})
			e := start(t, c, vm.ExecSpec{Command: "x"})
			var out bytes.Buffer
			_, err := e.Run(&out, io.Discard)
			if !errors.Is(err, vm.Unavailable) || !strings.Contains(vm.AsError(err).Hint, "p7") || out.String() != "half" {
				t.Errorf("a connection that breaks gives output %q and error %v, want half of the output and an error that hints at p7", out.String(), err)
			}
		})
	}
}

func TestExecErrors(t *testing.T) {
	fault := func(k vm.Kind) *api.ErrorBody {
		b := api.EncodeError(vm.Errorf(k, "box", "no"), "")
		return &b
	}
	t.Run("before the start", func(t *testing.T) {
		c := serveExec(t, func(g *guest) { g.say(api.ExecMessage{Type: "error", Error: fault(vm.WrongState)}) })
		if _, err := c.Exec(t.Context(), "box", vm.ExecSpec{}); !errors.Is(err, vm.WrongState) {
			t.Errorf("exec: %v, want wrong-state", err)
		}
	})
	t.Run("while it runs", func(t *testing.T) {
		c := serveExec(t, func(g *guest) {
			g.started()
			g.say(api.ExecMessage{Type: "error", Error: fault(vm.GuestFault)})
		})
		if _, err := start(t, c, vm.ExecSpec{}).Run(io.Discard, io.Discard); !errors.Is(err, vm.GuestFault) {
			t.Errorf("run: %v, want guest-fault", err)
		}
	})
	t.Run("refused upgrade, with a long reason", func(t *testing.T) {
		c := fake(t, func(w http.ResponseWriter, _ *http.Request) {
			answer(w, 404, api.EncodeError(vm.Errorf(vm.NotFound, "box", "no such VM %s", strings.Repeat("x", 4000)), ""))
		})
		if _, err := c.Exec(t.Context(), "box", vm.ExecSpec{}); !errors.Is(err, vm.NotFound) {
			t.Errorf("exec in no VM: %v, want not-found", err)
		}
	})
	t.Run("output before the start", func(t *testing.T) {
		c := serveExec(t, func(g *guest) { g.out(api.ChannelStdout, []byte("x")) })
		if _, err := c.Exec(t.Context(), "box", vm.ExecSpec{}); !errors.Is(err, vm.GuestFault) {
			t.Errorf("exec: %v, want guest-fault", err)
		}
	})
	t.Run("the caller's writer fails", func(t *testing.T) {
		full := errors.New("full")
		c := serveExec(t, func(g *guest) {
			g.started()
			g.out(api.ChannelStdout, []byte("x"))
			_, _ = g.next()
		})
		if _, err := start(t, c, vm.ExecSpec{}).Run(failing{full}, io.Discard); !errors.Is(err, full) {
			t.Errorf("run whose output cannot be written: %v, want the writer's error", err)
		}
	})
	t.Run("the caller goes away", func(t *testing.T) {
		c := serveExec(t, func(g *guest) {
			g.started()
			_, _ = g.next()
		})
		ctx, cancel := context.WithCancel(t.Context())
		e, err := c.Exec(ctx, "box", vm.ExecSpec{})
		if err != nil {
			t.Fatal(err)
		}
		cancel()
		if _, err := e.Run(io.Discard, io.Discard); !errors.Is(err, vm.Cancelled) {
			t.Errorf("run: %v, want cancelled", err)
		}
		if _, err := e.Write([]byte("x")); !errors.Is(err, vm.Cancelled) {
			t.Errorf("write gave %v", err)
		}
	})
}

type failing struct{ err error }

func (f failing) Write([]byte) (int, error) { return 0, f.err }

// TestStreamKeptAlive: blank lines between the messages of a streamed command are left out.
func TestStreamKeptAlive(t *testing.T) {
	c := fake(t, func(w http.ResponseWriter, _ *http.Request) {
		_, err := io.WriteString(w, "{\"type\":\"started\",\"process\":{\"id\":\"p1\"}}\n\n{\"type\":\"stdout\",\"data\":\"aGk=\"}\n\n\n{\"type\":\"exit\",\"status\":{\"code\":3}}\n")
		if err != nil {
			t.Errorf("the answer: %v", err)
		}
	})
	s, err := c.Stream(t.Context(), "box", api.ExecChunked{})
	if err != nil {
		t.Fatalf("the command does not start: %v", err)
	}
	var out bytes.Buffer
	if st, err := s.Run(&out, io.Discard); err != nil || st.Code != 3 || out.String() != "hi" {
		t.Errorf("it ends with %+v, %v and prints %q, want status 3 and hi", st, err, out.String())
	}
}
