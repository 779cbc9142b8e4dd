// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package repo_test

import (
	"context"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/warren-vm/warren/internal/repo"
	"github.com/warren-vm/warren/vm"
)

// TestStream: a client that is connected by streams, as over SSH, clones and pushes, with
// the same checks; the server answers without waiting for the client's end.
func TestStream(t *testing.T) {
	h := newHost(t)
	owner, _ := h.account("ann")
	agent, _ := h.identity(owner, "agent")
	rec := h.create(owner, repo.CreateRequest{})
	h.commit(owner, rec, "", "m", map[string]string{"a": "x"})
	h.must(h.GrantRepo(t.Context(), owner, "agent", rec.ID, vm.GitWrite, false))
	g := newClient(t)
	door := streamDoor(h, agent)
	g.git("-c", "protocol.ext.allow=always", "clone", "-q", "ext::"+door+" %S "+rec.ID, ".")
	tip := g.change("b", strings.Repeat("y", 1<<20))
	g.git("-c", "protocol.ext.allow=always", "push", "-q", "origin", "HEAD:refs/heads/agent/x")
	if b, err := h.room.Branch(t.Context(), owner, rec.ID, "agent/x"); err != nil || b.Commit != tip {
		t.Errorf("the pushed branch is %+v, %v", b, err)
	}
	g.refused("a push to main", "the caller may not push to this branch", "-c", "protocol.ext.allow=always", "push", "-q", "origin", "HEAD:main")
}

func listenUnix(h *host, path string) net.Listener {
	h.Helper()
	l, err := net.Listen("unix", path)
	h.must(err)
	h.Cleanup(func() { _ = l.Close() })
	return l
}

// streamDoor returns a program that connects its standard streams to ServeStream.
func streamDoor(h *host, c *vm.Call) string {
	h.Helper()
	if _, err := exec.LookPath("python3"); err != nil {
		h.Skip("python3 connects git's streams to the test, and is not installed")
	}
	dir := h.TempDir()
	path := filepath.Join(dir, "s")
	l := listenUnix(h, path)
	go func() { // ends with the listener
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				var line []byte
				for one := make([]byte, 1); len(line) == 0 || line[len(line)-1] != '\n'; line = append(line, one[0]) {
					if _, err := conn.Read(one); err != nil {
						return
					}
				}
				f := strings.Fields(string(line))
				_ = h.room.ServeStream(context.Background(), c, f[1], f[0], "version=2", conn, conn, io.Discard)
			}()
		}
	}()
	script := filepath.Join(dir, "door")
	h.must(os.WriteFile(script, []byte(`#!/usr/bin/env python3
import os, socket, sys, threading
s = socket.socket(socket.AF_UNIX)
s.connect("`+path+`")
s.sendall((sys.argv[1] + " " + sys.argv[2] + "\n").encode())
def up():
    while True:
        b = os.read(0, 65536)
        if not b:
            s.shutdown(socket.SHUT_WR)
            return
        s.sendall(b)
threading.Thread(target=up, daemon=True).start()
while True:
    b = s.recv(65536)
    if not b:
        break
    os.write(1, b)
os._exit(0)
`), 0o755))
	return script
}
