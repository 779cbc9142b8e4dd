// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package qmp

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

const greeting = `{"QMP": {"version": {"qemu": {"micro": 22, "minor": 2, "major": 7}, "package": ""}, "capabilities": ["oob"]}}` + "\r\n"

// fake is a QMP server of one connection. answer returns the lines to send for
// a command; nil closes the connection.
func fake(t *testing.T, answer func(cmd, id string) []string) *Client {
	t.Helper()
	near, far := net.Pipe()
	var wg sync.WaitGroup
	wg.Go(func() {
		defer far.Close()
		if _, err := io.WriteString(far, greeting); err != nil {
			return
		}
		r := bufio.NewReader(far)
		for {
			line, err := r.ReadBytes('\n')
			if err != nil {
				return
			}
			var q struct{ Execute, ID string }
			if err := json.Unmarshal(line, &q); err != nil {
				t.Errorf("client sent %q: %v", line, err)
				return
			}
			out := []string{fmt.Sprintf(`{"return": {}, "id": %q}`, q.ID)}
			if q.Execute != "qmp_capabilities" {
				out = answer(q.Execute, q.ID)
			}
			if out == nil {
				return
			}
			if _, err := io.WriteString(far, strings.Join(out, "\r\n")+"\r\n"); err != nil {
				return
			}
		}
	})
	c, err := New(t.Context(), near)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close(); wg.Wait() })
	return c
}

func TestExecute(t *testing.T) {
	c := fake(t, func(cmd, id string) []string {
		switch cmd {
		case "query-status":
			return []string{ // an answer to nobody and an event come first
				`{"return": {"status": "wrong"}, "id": "999"}`,
				`{"event": "RTC_CHANGE", "data": {"offset": 1}, "timestamp": {"seconds": 5, "microseconds": 7}}`,
				fmt.Sprintf(`{"return": {"status": "running"}, "id": %q}`, id),
			}
		case "stop":
			return []string{fmt.Sprintf(`{"error": {"class": "GenericError", "desc": "no"}, "id": %q}`, id)}
		}
		return nil
	})
	if c.Version != "7.2.22" {
		t.Errorf("version %q", c.Version)
	}
	events := c.Subscribe()
	defer events.Close()
	var st struct{ Status string }
	if err := c.Execute(t.Context(), "query-status", nil, &st); err != nil || st.Status != "running" {
		t.Fatalf("the status is %q (%v), want running", st.Status, err)
	}
	e, err := events.Next(t.Context())
	if err != nil || e.Name != "RTC_CHANGE" || !e.Time.Equal(time.Unix(5, 7000)) {
		t.Errorf("event %+v, %v", e, err)
	}
	var refused *Error
	if err := c.Execute(t.Context(), "stop", nil, nil); !errors.As(err, &refused) || refused.Class != "GenericError" || refused.Desc != "no" {
		t.Errorf("stop: %v, want QEMU's refusal", err)
	}
	// The server closes: this call and later ones fail as closed, never hang.
	for range 2 {
		if err := c.Execute(t.Context(), "quit", nil, nil); !errors.Is(err, ErrClosed) {
			t.Errorf("a call on a closed connection: %v, want closed", err)
		}
	}
	if _, err := events.Next(t.Context()); !errors.Is(err, ErrClosed) {
		t.Errorf("events after the end: %v", err)
	}
}

func TestExecuteConcurrently(t *testing.T) {
	c := fake(t, func(cmd, id string) []string {
		return []string{fmt.Sprintf(`{"return": %q, "id": %q}`, cmd, id)}
	})
	var wg sync.WaitGroup
	for i := range 50 {
		wg.Go(func() {
			want, got := fmt.Sprint("cmd", i), ""
			if err := c.Execute(t.Context(), want, nil, &got); err != nil || got != want {
				t.Errorf("%s answered by %q, %v", want, got, err)
			}
		})
	}
	wg.Wait()
}

// A QEMU that has stopped answering costs a deadline, not the caller.
func TestExecuteDeadline(t *testing.T) {
	c := fake(t, func(string, string) []string { return []string{""} })
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if err := c.Execute(ctx, "query-status", nil, nil); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("a call without an answer: %v, want the deadline", err)
	}
	if n := len(c.pending); n != 0 {
		t.Errorf("%d calls still pending", n)
	}
}

// lateConn ends a context just after a write, and returns from it when that has
// been noticed.
type lateConn struct {
	net.Conn
	end   func() // nil: no more
	ended chan struct{}
}

func (c *lateConn) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	if c.end != nil {
		c.end()
		<-c.ended
		c.end = nil
	}
	return n, err
}

func (c *lateConn) SetWriteDeadline(t time.Time) error {
	err := c.Conn.SetWriteDeadline(t)
	if !t.IsZero() {
		close(c.ended)
	}
	return err
}

// TestEndJustAfterWrite: a caller that goes away just after its command was written
// does not cost the others the connection.
func TestEndJustAfterWrite(t *testing.T) {
	c := fake(t, func(_, id string) []string { return []string{fmt.Sprintf(`{"return": {}, "id": %q}`, id)} })
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	c.conn = &lateConn{Conn: c.conn, end: cancel, ended: make(chan struct{})}
	_ = c.Execute(ctx, "stop", nil, nil) // it may have its answer
	if err := c.Execute(t.Context(), "cont", nil, nil); err != nil {
		t.Errorf("the next command: %v", err)
	}
}

func TestNewDeadline(t *testing.T) {
	near, far := net.Pipe()
	defer far.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, err := New(ctx, near); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("connecting to a silent server: %v, want the deadline", err)
	}
	if _, err := near.Write([]byte{1}); !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("the connection was left open: %v", err)
	}
}

func TestNewRefusesStrangers(t *testing.T) {
	for _, first := range []string{"hello\n", `{"return": {}}` + "\n", "{}\n", ""} {
		near, far := net.Pipe()
		var wg sync.WaitGroup
		wg.Go(func() { _, _ = io.WriteString(far, first); far.Close() })
		if c, err := New(t.Context(), near); err == nil {
			c.Close()
			t.Errorf("%q was taken for a greeting", first)
		}
		wg.Wait()
	}
}

func TestEventsAreBounded(t *testing.T) {
	c := &Client{subs: map[*Events]struct{}{}, pending: map[string]chan message{}}
	s := c.Subscribe()
	for i := range maxQueued + 10 {
		c.dispatch(message{Event: fmt.Sprint(i)})
	}
	e, err := s.Next(t.Context())
	if err != nil || e.Name != "10" || len(s.queue) != maxQueued-1 {
		t.Errorf("first kept event %q (%v), %d queued", e.Name, err, len(s.queue))
	}
}

func FuzzDecode(f *testing.F) {
	f.Add([]byte(greeting))
	f.Add([]byte(`{"return": {}, "id": "1"}` + "\n"))
	f.Add([]byte("\r\n\n" + `{"event": "STOP", "timestamp": {"seconds": -1, "microseconds": -1}}` + "\n"))
	f.Add([]byte(`{"error": {"class": "x", "desc": "y"}}` + "\n{"))
	f.Fuzz(func(t *testing.T, data []byte) {
		r := bufio.NewReader(strings.NewReader(string(data)))
		for range len(data) + 1 {
			m, err := decode(r)
			if err != nil {
				return
			}
			if m.Greeting == nil && m.Event == "" && m.Error == nil && m.Return == nil {
				t.Fatalf("empty message from %q", data)
			}
			var v any
			_ = m.result("x", &v)
			_ = m.event()
		}
		t.Fatalf("no end in %d bytes", len(data))
	})
}

// TestRealQEMU holds the client against the program it is for.
func TestRealQEMU(t *testing.T) {
	bin, err := exec.LookPath("qemu-system-x86_64")
	if err != nil {
		t.Skip("qemu-system-x86_64 is not installed")
	}
	sock := filepath.Join(t.TempDir(), "qmp")
	cmd := exec.CommandContext(t.Context(), bin, "-M", "none", "-nodefaults", "-display", "none", "-S",
		"-chardev", "socket,id=m,path="+sock+",server=on,wait=off", "-mon", "chardev=m,mode=control")
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = cmd.Wait() }()
	defer func() { _ = cmd.Process.Kill() }()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	c := dialSoon(ctx, t, sock)
	defer c.Close()

	var st struct{ Status string }
	if err := c.Execute(ctx, "query-status", nil, &st); err != nil || st.Status != "prelaunch" {
		t.Errorf("status %q, %v", st.Status, err)
	}
	var refused *Error
	if err := c.Execute(ctx, "no-such-command", nil, nil); !errors.As(err, &refused) || refused.Class != "CommandNotFound" {
		t.Errorf("a command that QEMU does not know: %v, want its refusal", err)
	}

	events := c.Subscribe()
	if err := c.Execute(ctx, "quit", nil, nil); err != nil {
		t.Fatal(err)
	}
	if e, err := events.Next(ctx); err != nil || e.Name != "SHUTDOWN" || !strings.Contains(string(e.Data), "host-qmp-quit") {
		t.Errorf("event %s %s, %v", e.Name, e.Data, err)
	}
	if _, err := events.Next(ctx); !errors.Is(err, ErrClosed) {
		t.Errorf("after the end: %v", err)
	}
}

// dialSoon connects to a socket that is about to appear.
func dialSoon(ctx context.Context, t *testing.T, sock string) *Client {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		c, err := Dial(ctx, sock)
		if err == nil {
			return c
		}
		if !errors.Is(err, os.ErrNotExist) && !errors.Is(err, syscall.ECONNREFUSED) {
			t.Fatal(err)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatal(ctx.Err())
		}
	}
}
