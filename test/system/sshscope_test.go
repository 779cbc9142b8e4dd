//go:build system

// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package system

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// scoped enters as an identity: with its key, with its token, as the Linux user
// that it was granted, in the environment that the agent sees; and no longer
// once that is taken back.
func (s *openssh) scoped(t *testing.T) {
	h := s.h
	key := filepath.Join(t.TempDir(), "id")
	s.must("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "laptop", "-f", key)
	h.sh("box", "useradd --create-home --shell /bin/bash alice")
	h.ok("identity", "create", "engineer")
	h.ok("identity", "key", "add", "engineer", key+".pub")
	var made struct{ Token string }
	if err := json.Unmarshal([]byte(h.ok("token", "create", "engineer", "--json")), &made); err != nil || made.Token == "" {
		t.Fatalf("the token was not made: %v", err)
	}
	token := made.Token
	byKey := func(more ...string) []string {
		return append(append([]string{"ssh", "-i", key, "-o", "IdentitiesOnly=yes"}, s.direct()...), more...)
	}
	byToken := func(user string, more ...string) []string {
		return append(append([]string{"ssh"}, s.direct()...), append([]string{user + ":" + token + "@127.0.0.1"}, more...)...)
	}
	refused := func(what string, argv []string) {
		t.Helper()
		if r := s.run(argv...); r.code != 255 || r.stdout != "" {
			t.Errorf("%s is let in: %+v", what, r)
		}
	}

	refused("a key without a permission", byKey("box+alice@127.0.0.1", "id -un"))
	h.ok("identity", "grant", "engineer", "box", "--user", "alice")
	for what, argv := range map[string][]string{
		"a key":   byKey("box+alice@127.0.0.1", "id -un"),
		"a token": byToken("box+alice", "id -un"),
	} {
		if out := s.must(argv...); out != "alice\n" {
			t.Errorf("with %s: %q", what, out)
		}
	}
	refused("a key for another Linux user", byKey("box@127.0.0.1", "id -un"))
	refused("a token for another Linux user", byToken("box+nobody", "id -un"))

	// The engineer sees the agent's environment: its processes, files, services
	// and terminals.
	h.ok("identity", "grant", "engineer", "box", "--change", "--user", "alice", "--user", "root")
	h.ok("exec", "box", "-d", "--", "sleep", "4711")
	h.ok("pty", "box", "--session", "agents", "-d")
	h.ok("pty", "send", "box", "agents", "--wait", "1", "cd /srv; export MARK=of-the-agent")
	h.sh("box", "echo by-the-agent > /srv/agents-file")
	out := s.must(byKey("box@127.0.0.1", "cat /srv/agents-file; pgrep -af 'sleep 4711'; systemctl restart cron 2>/dev/null || systemctl restart systemd-journald; systemctl is-system-running; hostname")...)
	if !strings.HasPrefix(out, "by-the-agent\n") || !strings.Contains(out, "sleep 4711") || !strings.Contains(out, "running\nbox\n") {
		t.Errorf("what an engineer sees: %q", out)
	}
	s.types(t, byKey("-tt", "-o", "SetEnv=WARREN_SESSION=agents", "box@127.0.0.1"), "echo $MARK in $PWD\r", "of-the-agent in /srv")
	if list := h.ok("pty", "ls", "box"); !strings.Contains(list, "agents") {
		t.Errorf("the agent's terminal ended with its visitor: %s", list)
	}

	// Nothing that lasts was put into the guest for it.
	r := s.run(append(byToken("box"), "grep -rslF -e '"+token[5:40]+"' /root /home /etc /run /tmp /var --exclude-dir=journal; tr '\\0' '\\n' </proc/self/environ | grep -cF '"+token+"'")...)
	if strings.TrimSpace(r.stdout) != "0" {
		t.Errorf("the token is in the guest: %+v", r)
	}

	// What is open is cut when the right ends.
	open := exec.Command("ssh", byToken("box", "echo in; sleep 600")[1:]...)
	open.Env = s.env
	pipe, err := open.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := open.Start(); err != nil {
		t.Fatal(err)
	}
	in := make([]byte, 3)
	if _, err := io.ReadFull(pipe, in); err != nil || !bytes.Equal(in, []byte("in\n")) {
		t.Errorf("the command gives back %q (%v), want its input", in, err)
	}
	h.ok("identity", "revoke", "engineer", "box")
	cut := make(chan error, 1)
	go func() { cut <- open.Wait() }()
	select {
	case <-cut:
	case <-time.After(10 * time.Second):
		t.Error("a session goes on whose permission was taken back")
		_ = open.Process.Kill()
		<-cut
	}
	refused("a key without a permission any more", byKey("box@127.0.0.1", "id -un"))
	h.ok("identity", "rm", "engineer")
	refused("a token of an identity that is gone", byToken("box", "true"))
}

// types attaches a terminal of OpenSSH's, types a line, and leaves when the
// answer is there.
func (s *openssh) types(t *testing.T, argv []string, line, answer string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Env = s.env
	in, err1 := cmd.StdinPipe()
	out, err2 := cmd.StdoutPipe()
	if err := errors.Join(err1, err2); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(in, line); err != nil {
		t.Error(err)
	}
	var said []byte
	for buf := make([]byte, 4096); !bytes.Contains(said, []byte(answer)); {
		n, err := out.Read(buf)
		said = append(said, buf[:n]...)
		if err != nil {
			t.Errorf("the terminal says %q, then %v", said, err)
			break
		}
	}
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
}

// cli drives the unmodified CLI of the npm package, whose host name is fixed: an
// ssh configuration leads it to the gateway.
func (s *openssh) cli(t *testing.T) {
	h := s.h
	program, err := filepath.Abs("../contract/node_modules/.bin/freestyle")
	if err != nil {
		t.Fatal(err)
	}
	npmInstall(t, filepath.Dir(filepath.Dir(filepath.Dir(program))))
	dir := t.TempDir()
	warren, err := filepath.Abs(h.binary)
	if err != nil {
		t.Fatal(err)
	}
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	write("config", "Host vm-ssh.freestyle.sh\n  ProxyCommand socat - TCP:"+s.addr+"\n  StrictHostKeyChecking accept-new\n  LogLevel ERROR\n  UserKnownHostsFile "+dir+"/hosts\n")
	for _, name := range []string{"ssh", "scp"} { // OpenSSH reads the home of the user database, not $HOME
		write(name, "#!/bin/sh\nexec /usr/bin/"+name+" -F "+dir+"/config \"$@\"\n")
	}
	id := h.find("box").ID
	run := func(stdin io.Reader, args ...string) string {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), program, args...)
		cmd.Dir, cmd.Stdin = dir, stdin
		cmd.Env = append(os.Environ(), "PATH="+dir+":"+filepath.Dir(warren)+":"+os.Getenv("PATH"), "FREESTYLE_API_URL=http://"+h.listen, "FREESTYLE_API_KEY="+s.key)
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Errorf("freestyle %q: %v\n%s", args, err, out)
		}
		return string(out)
	}
	if out := run(nil, "vm", "list"); !strings.Contains(out, id) {
		t.Errorf("vm list: %s", out)
	}
	if out := run(nil, "vm", "exec", id, "hostname"); !strings.Contains(out, "box") {
		t.Errorf("vm exec: %s", out)
	}
	if out := run(strings.NewReader("echo by-$((40+2))\n"), "vm", "ssh", id); !strings.Contains(out, "by-42") {
		t.Errorf("vm ssh: %s", out)
	}
	write("there", "carried")
	run(nil, "vm", "scp", filepath.Join(dir, "there"), id+":/root/carried")
	run(nil, "vm", "scp", id+":/root/carried", filepath.Join(dir, "back"))
	if got, err := os.ReadFile(filepath.Join(dir, "back")); err != nil || string(got) != "carried" {
		t.Errorf("vm scp: %q, %v", got, err)
	}
	if out := h.ok("identity", "ls", "--json"); strings.Contains(out, `"id"`) {
		t.Errorf("the CLI's identities are left: %s", out)
	}
}
