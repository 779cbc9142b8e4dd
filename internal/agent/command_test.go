// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"bytes"
	"context"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/warren-vm/warren/vm"
)

// policyGuest is a guest whose network answers at PolicyHost with a handler.
type policyGuest struct {
	t     *testing.T
	dir   string
	door  *policyDoor
	asked []string
	mu    sync.Mutex
}

// newPolicyGuest serves the socket of a guest until the test ends.
func newPolicyGuest(t *testing.T, answer http.HandlerFunc) *policyGuest {
	t.Helper()
	dir, err := os.MkdirTemp("", "warren-door-") // a socket's path must be short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	g := &policyGuest{t: t, dir: dir}
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		g.mu.Lock()
		g.asked = append(g.asked, r.Method+" "+r.Host+r.URL.String())
		g.mu.Unlock()
		answer(w, r)
	}), ReadHeaderTimeout: 10 * time.Second}
	served := make(chan struct{})
	go func() { defer close(served); _ = server.Serve(l) }()
	at := netip.MustParseAddrPort(l.Addr().String())
	g.door = &policyDoor{to: syscall.SockaddrInet4{Port: int(at.Port()), Addr: at.Addr().As4()}}
	ctx, stop := context.WithCancel(context.Background())
	over := make(chan error, 1)
	go func() { over <- g.door.run(ctx, dir) }()
	t.Cleanup(func() {
		_ = server.Close()
		<-served
		stop()
		<-over
	})
	for socket := filepath.Join(dir, policySocket); ; {
		if st, err := os.Stat(socket); err == nil && st.Mode().Perm() == 0o666 {
			return g
		}
		select {
		case err := <-over:
			t.Fatalf("the socket ended: %v", err)
		case <-time.After(time.Millisecond):
		}
	}
}

// run runs the command and returns its status, its output and what it asked.
func (g *policyGuest) run(args ...string) (int, string, string) {
	g.t.Helper()
	var out, errs bytes.Buffer
	g.asked = nil
	c := &guestCommand{socket: filepath.Join(g.dir, policySocket), machineID: filepath.Join(g.dir, "machine-id"), out: &out, errs: &errs}
	code := c.run(g.t.Context(), args)
	g.mu.Lock()
	defer g.mu.Unlock()
	return code, out.String() + errs.String(), strings.Join(g.asked, " | ")
}

// The command asks what its arguments say, and its status says how it ended.
func TestCommand(t *testing.T) {
	word := ""
	g := newPolicyGuest(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Warren-Answer", word)
		w.Header().Set("Warren-Ask", "ask-1")
		_, _ = w.Write([]byte("said\n"))
	})
	for _, c := range []struct {
		line, word, asked string
		code              int
	}{
		{"why example.com", "refused", "GET policy.warren.internal/why?host=example.com", exitNo},
		{"why example.com:8443 --json", "allowed", "GET policy.warren.internal/why?host=example.com&port=8443", exitYes},
		{"why --port 53 --proto udp example.com", "allowed", "GET policy.warren.internal/why?host=example.com&port=53&proto=udp", exitYes},
		{"why [2001:db8::1]:80", "allowed", "GET policy.warren.internal/why?host=2001%3Adb8%3A%3A1&port=80", exitYes},
		{"why http://example.com/x --method GET", "allowed", "GET policy.warren.internal/why?host=example.com&method=GET&path=%2Fx&port=80", exitYes},
		{"ask example.com --why because", "pending", "POST policy.warren.internal/ask?host=example.com&why=because", exitPending},
		{"ask example.com", "approved", "POST policy.warren.internal/ask?host=example.com", exitYes},
		{"ask --id ask-1", "denied", "GET policy.warren.internal/ask/ask-1?wait=0s", exitNo},
		{"ask --id ask-1", "expired", "GET policy.warren.internal/ask/ask-1?wait=0s", exitNo},
		{"status", "done", "GET policy.warren.internal/status", exitYes},
		{"policy", "done", "GET policy.warren.internal/", exitYes},
		{"turn note", "done", "POST policy.warren.internal/turn?note=note", exitYes},
		{"fork -n 2 --name kid", "done", "POST policy.warren.internal/fork?count=2&name=kid", exitYes},
		{"fork", "failed", "POST policy.warren.internal/fork", exitFault},
		{"why", "", "", exitFault},
		{"why a b", "", "", exitFault},
		{"why a --what", "", "", exitFault},
		{"why a:b", "", "", exitFault},
		{"dance", "", "", exitFault},
		{"help", "", "", exitYes},
		{"why --help", "", "", exitYes},
	} {
		word = c.word
		code, out, asked := g.run(strings.Fields(c.line)...)
		if code != c.code || asked != c.asked || out == "" {
			t.Errorf("warren-agent %s: status %d, asked %q, printed %q; want %d and %q", c.line, code, asked, out, c.code, c.asked)
		}
	}
}

// An ask waits until it is decided.
func TestCommandWaits(t *testing.T) {
	polls := 0
	g := newPolicyGuest(t, func(w http.ResponseWriter, r *http.Request) {
		state := vm.AskPending
		if r.Method == "GET" {
			if polls++; polls == 2 {
				state = vm.AskApproved
			}
		}
		w.Header().Set("Warren-Answer", string(state))
		w.Header().Set("Warren-Ask", "ask-1")
		_, _ = w.Write([]byte(string(state) + "\n"))
	})
	code, out, _ := g.run("ask", "example.com", "--wait", "1m")
	if code != exitYes || out != "pending\napproved\n" || polls != 2 {
		t.Errorf("a command that waits ends with %d, printed %q, after %d polls; want 0, both states and 2", code, out, polls)
	}
}

// A fork has a copy of the command that forked. Its connection is cut, and it says so.
func TestCommandForked(t *testing.T) {
	var g *policyGuest
	answered := make(chan struct{})
	defer close(answered)
	g = newPolicyGuest(t, func(_ http.ResponseWriter, r *http.Request) {
		if err := os.WriteFile(filepath.Join(g.dir, "machine-id"), []byte("child\n"), 0o600); err != nil {
			t.Error(err)
		}
		g.door.cut() // as the reset of the fork does
		select {
		case <-answered:
		case <-r.Context().Done():
		}
	})
	code, out, asked := g.run("fork")
	if code != exitYes || !strings.HasPrefix(out, "this is the fork ") {
		t.Errorf("in a fork the command ends with %d and %q after %q, want 0 and the fork's name", code, out, asked)
	}
}

// A network that does not answer is an error, and the socket says so.
func TestDoorWithoutNetwork(t *testing.T) {
	g := newPolicyGuest(t, func(http.ResponseWriter, *http.Request) {})
	g.door.to.Port = 1
	// The socket may be reset before the command has read the reason.
	if code, out, _ := g.run("status"); code != exitFault || !strings.Contains(out, "does not answer") && !strings.Contains(out, "the answer was lost") {
		t.Errorf("without a network the command ends with %d and %q, want 125 and the reason", code, out)
	}
}

// The README has its VM's name, changes with it, and is written in one piece.
func TestReadme(t *testing.T) {
	a, root, _ := trusting(t)
	if err := os.MkdirAll(filepath.Join(root, "usr/local/bin"), 0o755); err != nil {
		t.Fatal(err)
	}
	if len(readmeText)+3*63 > maxSmall {
		t.Errorf("the README has %d bytes, want less than %d: it is written in one piece", len(readmeText), maxSmall-3*63)
	}
	for _, name := range []string{"a-long-name-of-a-vm", "kid"} {
		a.readme(name)
		b, err := os.ReadFile(filepath.Join(root, "run/warren", readmeFile))
		if err != nil || !strings.HasPrefix(string(b), "# You are in the VM "+name+"\n") || !strings.HasSuffix(string(b), "/status).\n") {
			t.Errorf("the README of %s is %q, %v", name, b, err)
		}
	}
	a.offer()
	a.offer()
	if to, err := os.Readlink(filepath.Join(root, vm.GuestCommand)); err != nil || to != vm.GuestProgram {
		t.Errorf("the command leads to %q, %v, want %s", to, err, vm.GuestProgram)
	}
}
