// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package httpd

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/coder/websocket"

	"github.com/warren-vm/warren/vm"
)

// fakeSSH is a gateway that says which caller it was given and repeats what it
// hears.
type fakeSSH struct{}

func (fakeSSH) HostKey() string { return "ssh-ed25519 AAAA" }

func (fakeSSH) ServeActor(_ context.Context, conn net.Conn, from string, a vm.Actor, ref string) {
	defer conn.Close()
	if _, err := fmt.Fprintf(conn, "%s %s %s\n", from, a.Account, ref); err == nil {
		_, _ = io.Copy(conn, conn)
	}
}

// TestSSHSocket: the bytes of an SSH connection go through, with who it is; a
// refusal comes before the upgrade.
func TestSSHSocket(t *testing.T) {
	b := newBench(t)
	id := b.create(`{"name":"box"}`)
	h := http.Header{"Authorization": {"Bearer " + b.admin}}
	conn, _, err := websocket.Dial(t.Context(), strings.Replace(b.server.URL, "http", "ws", 1)+"/v1/vms/box/ssh", &websocket.DialOptions{HTTPHeader: h})
	if err != nil {
		t.Fatal(err)
	}
	stream := websocket.NetConn(t.Context(), conn, websocket.MessageBinary)
	defer stream.Close()
	if _, err := io.WriteString(stream, "SSH-2.0-x\n"); err != nil {
		t.Fatal(err)
	}
	want := fmt.Sprintf("127.0.0.1 %s %s\nSSH-2.0-x\n", b.call.Actor.Account, id)
	got := make([]byte, len(want))
	if _, err := io.ReadFull(stream, got); err != nil || string(got) != want {
		t.Errorf("the stream carries %q (%v), want %q", got, err, want)
	}
	for path, status := range map[string]int{"/v1/vms/none/ssh": 404, "/v1/vms/box/ssh": 400} {
		b.do("GET", path, nil).answers(t, status)
	}
	b.do("GET", "/v1/ssh", nil).has(t, "hostKey", "ssh-ed25519 AAAA", "address", "127.0.0.1:2222")
}
