// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bytes"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/coder/websocket"
)

// gateway lets a fake server have an SSH gateway that answers with what it is told.
func (f *fake) gateway(key *string) {
	f.mux.HandleFunc("GET /v1/ssh", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"address":"127.0.0.1:2222","hostKey":"`+*key+`"}`)
	})
	f.mux.HandleFunc("GET /v1/vms/{vm}/ssh", func(w http.ResponseWriter, r *http.Request) {
		conn, err := websocket.Accept(w, r, nil)
		if err != nil {
			f.t.Error(err)
			return
		}
		stream := websocket.NetConn(r.Context(), conn, websocket.MessageBinary)
		defer stream.Close()
		_, _ = io.WriteString(stream, r.PathValue("vm")+" ")
		buf := make([]byte, 5)
		if _, err := io.ReadFull(stream, buf); err == nil {
			_, _ = stream.Write(bytes.ToUpper(buf))
		}
	})
}

// TestSSHConfig: the block has no secret, the host key is the server's, and
// --write includes the block once, before earlier content.
func TestSSHConfig(t *testing.T) {
	f := newFake(t)
	key := "ssh-ed25519 AAAA"
	f.gateway(&key)
	home := t.TempDir()
	env := map[string]string{"HOME": home, "WARREN_API_URL": f.server.URL, "WARREN_API_KEY": "secret", "WARREN_DATA": "/da ta"}
	r := runEnv(t, env, Local{}, "", "ssh-config", "box")
	for _, want := range []string{"Host box.warren\n", "ssh-proxy --data '/da ta' --url " + f.server.URL + " %h", "StrictHostKeyChecking yes", "User root"} {
		if r.code != 0 || !strings.Contains(r.out, want) {
			t.Errorf("ssh-config: status %d, lacks %q: %s%s", r.code, want, r.out, r.stderr)
		}
	}
	if strings.Contains(r.out, "secret") {
		t.Error("the key is shown")
	}
	known := filepath.Join(home, ".config", "warren", "ssh_known_hosts")
	for _, key = range []string{"ssh-ed25519 AAAA", "ssh-ed25519 BBBB"} { // a server that was made again
		if err := os.MkdirAll(filepath.Join(home, ".ssh"), 0o700); err != nil {
			t.Fatal(err)
		}
		config := filepath.Join(home, ".ssh", "config")
		if _, err := os.Stat(config); err != nil {
			if err := os.WriteFile(config, []byte("Host other\n"), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if r := runEnv(t, env, Local{}, "", "ssh-config", "--write"); r.code != 0 {
			t.Fatal(r.stderr)
		}
		data, err := os.ReadFile(config)
		if err != nil || !strings.HasPrefix(string(data), "Include ") || strings.Count(string(data), "Include") != 1 || !strings.HasSuffix(string(data), "\nHost other\n") {
			t.Errorf("the configuration is %q (%v), want one Include before what was there", data, err)
		}
		data, err = os.ReadFile(known)
		if err != nil || strings.Count(string(data), "\n") != 1 || !strings.HasSuffix(string(data), " "+key+"\n") {
			t.Errorf("the known hosts are %q (%v), want one line of the server's key", data, err)
		}
	}
	key = "two\\nlines x"
	if r := runEnv(t, env, Local{}, "", "ssh-config"); r.code == 0 {
		t.Error("a host key of two lines was taken")
	}
	if r := runEnv(t, env, Local{}, "", "ssh-config", "-l", "a b"); r.code == 0 {
		t.Error("a user with a space was taken")
	}
}

// TestSSHCommand: the arguments of ssh; the API key is not among them.
func TestSSHCommand(t *testing.T) {
	f := newFake(t)
	key := "ssh-ed25519 AAAA"
	f.gateway(&key)
	bin := t.TempDir()
	if err := os.WriteFile(filepath.Join(bin, "ssh"), []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", bin)
	var argv []string
	old := become
	defer func() { become = old }()
	become = func(_ string, a, _ []string) error { argv = a; return nil }
	env := map[string]string{"HOME": t.TempDir(), "WARREN_API_URL": f.server.URL, "WARREN_API_KEY": "secret"}
	r := runEnv(t, env, Local{}, "", "ssh", "box", "-L", "1:localhost:2", "-A", "--", "echo", "a b")
	if r.code != 0 {
		t.Fatal(r.stderr)
	}
	line := strings.Join(argv, "\x00")
	if strings.Contains(line, "secret") || !slices.Contains(argv, "-A") || !strings.Contains(line, "-L\x001:localhost:2\x00") ||
		!strings.HasSuffix(line, "\x00--\x00box\x00echo 'a b'") || !strings.Contains(line, "-l\x00root\x00") {
		t.Errorf("ssh is run with %q, want its flags, the user and the command but no API key", argv)
	}
	runEnv(t, env, Local{}, "", "ssh", "box", "--", "echo $HOME; exit 3")
	if argv[len(argv)-1] != "echo $HOME; exit 3" {
		t.Errorf("ssh is run with %q, want the command unchanged", argv)
	}
}

// TestSSHProxy: standard streams are those of the connection; the name ends at
// a dot; the key may come from a file.
func TestSSHProxy(t *testing.T) {
	f := newFake(t)
	key := ""
	f.gateway(&key)
	file := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(file, []byte("secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	in, stdin := io.Pipe()
	defer stdin.Close()
	go func() { _, _ = io.WriteString(stdin, "hello") }() // and stays open, as ssh's does
	var out, errs bytes.Buffer
	code := Main(t.Context(), []string{"ssh-proxy", "--url", f.server.URL, "--key-file", file, "box.warren"}, in, &out, &errs,
		func(string) string { return "" }, Local{})
	if code != 0 || out.String() != "box HELLO" {
		t.Errorf("ssh-proxy: status %d, %q, stderr %q, want 0 and the answer", code, out.String(), errs.String())
	}
	if r := runEnv(t, map[string]string{}, Local{}, "", "ssh-proxy", "--key-file", file+"x", "box"); r.code == 0 {
		t.Error("no refusal without the file")
	}
}
