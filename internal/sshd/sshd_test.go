// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package sshd_test

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"errors"
	"io"
	"log/slog"
	"net"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pkg/sftp"
	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/agent"

	"github.com/warren-vm/warren/internal/access"
	"github.com/warren-vm/warren/internal/engine"
	"github.com/warren-vm/warren/internal/sshd"
	"github.com/warren-vm/warren/internal/vmtest"
	"github.com/warren-vm/warren/vm"
)

// door is a gateway before an engine on a simulated host with the VM "box".
type door struct {
	t      *testing.T
	site   *vmtest.Site
	engine *vmtest.House
	call   *vm.Call
	secret string
	server *sshd.Server
	addr   string
	box    vm.VM
}

func signer(t *testing.T) ssh.Signer {
	t.Helper()
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	s, err := ssh.NewSignerFromKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func newDoor(t *testing.T) *door {
	t.Helper()
	d := &door{t: t}
	var err error
	if d.site, err = vmtest.NewSite(t.TempDir()); err != nil {
		t.Fatal(err)
	}
	if d.engine, err = d.site.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.engine.Close(context.WithoutCancel(t.Context())) })
	if d.call, d.secret, err = vmtest.Admin(t.Context(), d.engine); err != nil {
		t.Fatal(err)
	}
	if d.box, err = d.engine.Create(t.Context(), d.call, engine.CreateRequest{Name: "box"}); err != nil {
		t.Fatal(err)
	}
	d.server = sshd.New(sshd.Config{Engine: d.engine, Repositories: d.engine.Repo, HostKey: signer(t), Log: slog.New(slog.NewTextHandler(t.Output(), nil)), Version: "test"})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	d.addr = l.Addr().String()
	ctx, stop := context.WithCancel(t.Context())
	over := make(chan error, 1)
	go func() { over <- d.server.Serve(ctx, l) }()
	t.Cleanup(func() {
		stop()
		if err := <-over; err != nil {
			t.Error(err)
		}
	})
	return d
}

// dial logs in; banner is what the server has said.
func (d *door) dial(user string, auth ...ssh.AuthMethod) (c *ssh.Client, banner string, err error) {
	d.t.Helper()
	c, err = ssh.Dial("tcp", d.addr, &ssh.ClientConfig{
		User: user, Auth: auth, HostKeyCallback: ssh.InsecureIgnoreHostKey(), Timeout: 20 * time.Second,
		BannerCallback: func(m string) error { banner += m; return nil },
	})
	if err == nil {
		d.t.Cleanup(func() { _ = c.Close() })
	}
	return c, banner, err
}

func (d *door) enter(user string, auth ...ssh.AuthMethod) *ssh.Client {
	d.t.Helper()
	c, banner, err := d.dial(user, auth...)
	if err != nil {
		d.t.Fatalf("the login of %s is refused: %v %s", user, err, banner)
	}
	return c
}

func (d *door) session(c *ssh.Client) *ssh.Session {
	d.t.Helper()
	s, err := c.NewSession()
	if err != nil {
		d.t.Fatal(err)
	}
	return s
}

// identity makes one that may enter the box, with a token.
func (d *door) identity(users []string) (vm.Identity, string) {
	d.t.Helper()
	i, err := d.engine.CreateIdentity(d.t.Context(), d.call, "")
	if err != nil {
		d.t.Fatal(err)
	}
	if _, err := d.engine.GrantVM(d.t.Context(), d.call, string(i.ID), "box", users); err != nil {
		d.t.Fatal(err)
	}
	_, token, err := d.engine.CreateToken(d.t.Context(), d.call, string(i.ID), access.TokenRequest{})
	if err != nil {
		d.t.Fatal(err)
	}
	return i, token
}

// TestLogin: the contract's forms of a login, and what each caller is told.
func TestLogin(t *testing.T) {
	d := newDoor(t)
	_, token := d.identity([]string{"dev", "root"})
	key := signer(t)
	owner, _ := d.identity(nil)
	if _, err := d.engine.AddSSHKey(t.Context(), d.call, string(owner.ID), "laptop", string(ssh.MarshalAuthorizedKey(key.PublicKey())), false); err != nil {
		t.Fatal(err)
	}
	questions := ssh.KeyboardInteractive(func(_, _ string, q []string, _ []bool) ([]string, error) {
		return append([]string{}, token)[:len(q)], nil
	})
	for user, auth := range map[string][]ssh.AuthMethod{
		"box:" + token:                      nil,
		"box," + token:                      nil,
		string(d.box.ID) + "+root:" + token: nil,
		"box:" + d.secret:                   nil,
		"box":                               {ssh.Password(token)},
		"box+root":                          {questions},
		string(d.box.ID):                    {ssh.PublicKeys(key)},
	} {
		out, err := d.session(d.enter(user, auth...)).Output("whoami")
		if err != nil || strings.TrimSpace(string(out)) != "root" {
			t.Errorf("after a login as %s whoami says %q (%v), want root", user, out, err)
		}
	}
	if c := d.enter("box+dev:" + token); c != nil {
		s := d.session(c)
		said, err := s.StderrPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Start("true"); err != nil {
			t.Fatal(err)
		}
		text, _ := io.ReadAll(said)
		var status *ssh.ExitError
		if err := s.Wait(); !errors.As(err, &status) || status.ExitStatus() != 255 || !strings.Contains(string(text), "no such Linux user") {
			t.Errorf("a user that the guest does not have: %v, %q", err, text)
		}
	}
	for user, c := range map[string]struct {
		auth []ssh.AuthMethod
		told string
	}{
		"box:wrong":                 {nil, ""},
		"nobox:wrong":               {nil, ""},
		"box":                       {nil, ""},
		"box+x":                     {[]ssh.AuthMethod{ssh.PublicKeys(signer(t))}, ""},
		"box+other:" + token:        {nil, "not for this Linux user"},
		"nobox:" + token:            {nil, "no permission for this VM"},
		"nobox:" + d.secret:         {nil, "no such VM"},
		"nobox":                     {[]ssh.AuthMethod{ssh.PublicKeys(key)}, "no permission for this VM"},
		"box+" + "\x1b[2J:" + token: {nil, "not for this Linux user"},
	} {
		_, banner, err := d.dial(user, c.auth...)
		if err == nil || (c.told == "") != (banner == "") || !strings.Contains(banner, c.told) || strings.Contains(banner, "\x1b") {
			t.Errorf("%q: %v, told %q", user, err, banner)
		}
	}
}

// TestKeyIsNotAnOracle: knowing only a public key reveals nothing.
func TestKeyIsNotAnOracle(t *testing.T) {
	d := newDoor(t)
	key := signer(t)
	i, _ := d.identity(nil)
	if _, err := d.engine.AddSSHKey(t.Context(), d.call, string(i.ID), "k", string(ssh.MarshalAuthorizedKey(key.PublicKey())), false); err != nil {
		t.Fatal(err)
	}
	for _, ref := range []string{"box", "nobox"} {
		_, banner, err := d.dial(ref, ssh.PublicKeys(thief{key.PublicKey()}))
		if err == nil || banner != "" {
			t.Errorf("%s: %v, told %q", ref, err, banner)
		}
	}
}

// thief has the public half of a key only.
type thief struct{ key ssh.PublicKey }

func (th thief) PublicKey() ssh.PublicKey { return th.key }

func (thief) Sign(io.Reader, []byte) (*ssh.Signature, error) {
	return &ssh.Signature{Format: ssh.KeyAlgoED25519, Blob: make([]byte, ed25519.SignatureSize)}, nil
}

// TestBadLogins: each wrong token from one address is delayed longer; a valid one is not delayed.
func TestBadLogins(t *testing.T) {
	d := newDoor(t)
	var took []time.Duration
	for range 4 {
		began := time.Now()
		if _, _, err := d.dial("box:wrong"); err == nil {
			t.Fatal("let in")
		}
		took = append(took, time.Since(began))
	}
	if took[0] < 200*time.Millisecond || took[3] < 4*took[0]*2/3 {
		t.Errorf("the delays do not grow: %v", took)
	}
	began := time.Now()
	d.enter("box:" + d.secret)
	if late := time.Since(began); late > took[3]/2 {
		t.Errorf("a right token waited %v", late)
	}
}

// TestRevoked: a revoked token, a withdrawn permission and a deleted identity
// close connections at once.
func TestRevoked(t *testing.T) {
	d := newDoor(t)
	ctx := t.Context()
	for what, end := range map[string]func(i vm.Identity) error{
		"token": func(i vm.Identity) error {
			l, err := d.engine.Tokens(ctx, d.call, string(i.ID))
			if err != nil {
				return err
			}
			return d.engine.RevokeToken(ctx, d.call, string(i.ID), l[0].ID)
		},
		"permission": func(i vm.Identity) error { return d.engine.RevokeVM(ctx, d.call, string(i.ID), "box") },
		"identity": func(i vm.Identity) error {
			_, err := d.engine.DeleteIdentity(ctx, d.call, string(i.ID))
			return err
		},
	} {
		i, token := d.identity(nil)
		c := d.enter("box:" + token)
		s := d.session(c)
		if err := s.Start("sleep 1000"); err != nil {
			t.Fatal(err)
		}
		if err := end(i); err != nil {
			t.Fatalf("end the %s: %v", what, err)
		}
		cut := make(chan struct{})
		go func() { _ = c.Wait(); close(cut) }()
		select {
		case <-cut:
		case <-time.After(5 * time.Second):
			t.Errorf("%s: the connection lives", what)
		}
		if _, _, err := d.dial("box:" + token); err == nil {
			t.Errorf("%s: let in again", what)
		}
		wait(t, "what it ran has ended", func() bool { return d.running() == 0 })
	}
}

// TestExec: separate streams, input, status, environment, and a shell without a terminal.
func TestExec(t *testing.T) {
	d := newDoor(t)
	c := d.enter("box:" + d.secret)
	s := d.session(c)
	var out, errs bytes.Buffer
	s.Stdout, s.Stderr, s.Stdin = &out, &errs, strings.NewReader("in")
	if err := s.Setenv("GREETING", "hello"); err != nil {
		t.Error(err)
	}
	err := s.Run("echo $GREETING; cat; pwd; echo no >&2; exit 7")
	var status *ssh.ExitError
	if !errors.As(err, &status) || status.ExitStatus() != 7 {
		t.Errorf("the command ended with %v, want status 7", err)
	}
	if out.String() != "hello\nin/root\n" {
		t.Errorf("its output is %q, want greeting, input and directory", out.String())
	}
	if errs.String() != "no\n" {
		t.Errorf("its error output is %q, want no", errs.String())
	}
	if s := d.session(c); s.Setenv("A=B", "x") == nil || s.Setenv("", "x") == nil {
		t.Error("a variable without a name was taken")
	}
	if err := d.session(c).RequestSubsystem("netconf"); err == nil {
		t.Error("an unknown subsystem was taken")
	}
	if _, _, err := c.OpenChannel("x11", nil); err == nil {
		t.Error("an unknown channel was taken")
	}
	// Signals reach the command.
	s = d.session(c)
	if err := s.Start("sleep 1000"); err != nil {
		t.Fatal(err)
	}
	over := make(chan error, 1)
	go func() { over <- s.Wait() }()
	for {
		_ = s.Signal(ssh.SIGTERM)
		select {
		case err := <-over:
			if !errors.As(err, &status) {
				t.Errorf("a command that SIGTERM killed ended with %v, want a status", err)
			}
			return
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// TestHangUp: a command whose client leaves ends; the records name the client.
func TestHangUp(t *testing.T) {
	d := newDoor(t)
	c := d.enter("box:" + d.secret)
	s := d.session(c)
	if err := s.Start("sleep 1000"); err != nil {
		t.Fatal(err)
	}
	wait(t, "the command runs", func() bool { return d.running() == 1 })
	_ = c.Close()
	wait(t, "the command ends", func() bool { return d.running() == 0 })
	var login vm.AuditRecord
	wait(t, "the login's record is closed", func() bool {
		l, err := d.engine.AuditList(t.Context(), d.call, vm.AuditFilter{})
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range l {
			if r.Op == vm.OpLogin && r.Outcome != "" {
				login = r
			}
		}
		return login.ID != ""
	})
	if login.VM != d.box.ID {
		t.Errorf("the login's record is of %s, want %s", login.VM, d.box.ID)
	}
	if login.Detail["how"] != "token" || login.Detail["user"] != "root" || login.Detail["from"] != "127.0.0.1" {
		t.Errorf("the login's record says %v, want root by token from 127.0.0.1", login.Detail)
	}
}

// running counts the commands that run in the box.
func (d *door) running() int {
	d.t.Helper()
	l, err := d.engine.Processes(d.t.Context(), d.call, "box")
	if err != nil {
		d.t.Fatal(err)
	}
	n := 0
	for _, p := range l {
		if p.EndedAt == nil {
			n++
		}
	}
	return n
}

func wait(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); !ok(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("never: %s", what)
		}
	}
}

// TestTerminal: a shell is a terminal of the VM. It ends with its client unless
// it has a name; then the client can attach again.
func TestTerminal(t *testing.T) {
	d := newDoor(t)
	sessions := func() []vm.TerminalSession {
		l, err := d.engine.Terminals(t.Context(), d.call, "box")
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	open := func(name string) (*ssh.Client, *ssh.Session, io.Writer, *syncBuffer) {
		c := d.enter("box:" + d.secret)
		s := d.session(c)
		if name != "" {
			if err := s.Setenv("WARREN_SESSION", name); err != nil {
				t.Fatal(err)
			}
		}
		in, err := s.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		out := &syncBuffer{}
		s.Stdout = out
		if err := s.RequestPty("vt100", 33, 101, nil); err != nil {
			t.Fatal(err)
		}
		if err := s.Shell(); err != nil {
			t.Fatal(err)
		}
		return c, s, in, out
	}
	say := func(w io.Writer, line string) {
		if _, err := io.WriteString(w, line+"\r"); err != nil {
			t.Fatal(err)
		}
	}
	c, s, in, out := open("")
	say(in, "echo one")
	wait(t, "an answer", func() bool { return strings.Contains(out.String(), "one\r\none") })
	if l := sessions(); len(l) != 1 || l[0].Cols != 101 || l[0].Rows != 33 {
		t.Errorf("the terminals are %+v, want one of 101 by 33", l)
	}
	if err := s.WindowChange(20, 70); err != nil {
		t.Fatal(err)
	}
	wait(t, "the new size", func() bool { l := sessions(); return len(l) == 1 && l[0].Cols == 70 && l[0].Rows == 20 })
	_ = c.Close()
	wait(t, "its end", func() bool { return len(sessions()) == 0 })

	c, _, in, out = open("work")
	say(in, "echo two")
	wait(t, "an answer", func() bool { return strings.Contains(out.String(), "two") })
	_ = c.Close()
	wait(t, "it is left", func() bool { l := sessions(); return len(l) == 1 && l[0].Running() && l[0].Attached == 0 })
	_, s, in, out = open("work")
	wait(t, "what was there", func() bool { return strings.Contains(out.String(), "two") })
	say(in, "exit 5")
	var status *ssh.ExitError
	if err := s.Wait(); !errors.As(err, &status) || status.ExitStatus() != 5 {
		t.Errorf("the shell ended with %v, want status 5", err)
	}
}

// TestWake: a login wakes a suspended VM.
func TestWake(t *testing.T) {
	d := newDoor(t)
	if _, err := d.engine.Suspend(t.Context(), d.call, "box", engine.SuspendRequest{}); err != nil {
		t.Fatal(err)
	}
	if out, err := d.session(d.enter("box:" + d.secret)).Output("echo awake"); err != nil || string(out) != "awake\n" {
		t.Errorf("a command in a suspended VM puts out %q (%v), want awake", out, err)
	}
}

// TestSleep: when a VM is suspended, its shell and command sessions end with
// the reason; the VM stays suspended and keeps its programs.
func TestSleep(t *testing.T) {
	d := newDoor(t)
	c := d.enter("box:" + d.secret)
	shell, command := d.session(c), d.session(c)
	var told syncBuffer
	shell.Stderr = &told
	if err := shell.RequestPty("xterm", 24, 80, nil); err != nil {
		t.Fatal(err)
	}
	if err := shell.Shell(); err != nil {
		t.Fatal(err)
	}
	if err := command.Start("sleep 1000"); err != nil {
		t.Fatal(err)
	}
	wait(t, "both run", func() bool {
		l, err := d.engine.Terminals(t.Context(), d.call, "box")
		return err == nil && len(l) == 1 && d.running() == 1
	})
	if _, err := d.engine.Suspend(t.Context(), d.call, "box", engine.SuspendRequest{}); err != nil {
		t.Fatal(err)
	}
	if shell.Wait() == nil || command.Wait() == nil {
		t.Error("an exit was told of")
	}
	if !strings.HasPrefix(told.String(), "warren: ") {
		t.Errorf("told %q", told.String())
	}
	time.Sleep(100 * time.Millisecond)
	if v, err := d.engine.Get(t.Context(), d.call, "box"); err != nil || v.State != vm.Suspended {
		t.Errorf("after its sessions ended the VM is %q (%v), want suspended", v.State, err)
	}
	if l, err := d.engine.Terminals(t.Context(), d.call, "box"); err != nil || len(l) != 1 {
		t.Errorf("the suspended VM has the terminals %+v (%v), want the shell's", l, err)
	}
	// The connection still exists, and wakes it.
	if out, err := d.session(c).Output("echo awake"); err != nil || string(out) != "awake\n" {
		t.Errorf("a command over the old connection puts out %q (%v), want awake", out, err)
	}
}

// TestForwarding: to the guest and from it, TCP and sockets, the agent.
func TestForwarding(t *testing.T) {
	d := newDoor(t)
	c := d.enter("box:" + d.secret)
	ask := func(conn net.Conn, err error) {
		t.Helper()
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		if _, err := io.WriteString(conn, "hello"); err != nil {
			t.Error(err)
		}
		buf := make([]byte, 5)
		if _, err := io.ReadFull(conn, buf); err != nil || string(buf) != "hello" {
			t.Errorf("the forwarded connection gives back %q (%v), want hello", buf, err)
		}
	}
	conn, err := c.Dial("tcp", "localhost:7")
	ask(conn, err)
	if _, err := c.Dial("tcp", "127.0.0.1:1"); err == nil || !strings.Contains(err.Error(), "connection refused") {
		t.Errorf("a dial of a port that nobody listens on gives %v, want a refused connection", err)
	}
	echo := func(l net.Listener) {
		t.Cleanup(func() { _ = l.Close() })
		go func() {
			for {
				conn, err := l.Accept()
				if err != nil {
					return
				}
				go func() { _, _ = io.Copy(conn, conn); _ = conn.Close() }()
			}
		}()
	}
	l, err := c.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	echo(l)
	conn, err = net.Dial("tcp", l.Addr().String())
	ask(conn, err)
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	wait(t, "it listens no more", func() bool { _, err := net.Dial("tcp", l.Addr().String()); return err != nil })

	path := t.TempDir() + "/s"
	u, err := c.ListenUnix(path)
	if err != nil {
		t.Fatal(err)
	}
	echo(u)
	conn, err = c.Dial("unix", path)
	ask(conn, err)
}

// TestAgent: an account may forward an SSH agent; an identity only with a key
// that is registered for that.
func TestAgent(t *testing.T) {
	d := newDoor(t)
	i, token := d.identity(nil)
	with, without := signer(t), signer(t)
	for name, k := range map[string]ssh.Signer{"with": with, "without": without} {
		if _, err := d.engine.AddSSHKey(t.Context(), d.call, string(i.ID), name, string(ssh.MarshalAuthorizedKey(k.PublicKey())), name == "with"); err != nil {
			t.Fatal(err)
		}
	}
	for what, k := range map[string]struct {
		c  *ssh.Client
		ok bool
	}{
		"owner":           {d.enter("box:" + d.secret), true},
		"token":           {d.enter("box:" + token), false},
		"key":             {d.enter(string(d.box.ID), ssh.PublicKeys(with)), true},
		"key without it ": {d.enter(string(d.box.ID), ssh.PublicKeys(without)), false},
	} {
		ring := agent.NewKeyring()
		if err := agent.ForwardToAgent(k.c, ring); err != nil {
			t.Fatal(err)
		}
		s := d.session(k.c)
		if err := agent.RequestAgentForwarding(s); (err == nil) != k.ok {
			t.Errorf("%s: the agent is forwarded: %v (%v), want %v", what, err == nil, err, k.ok)
		}
		out, err := s.Output("echo $SSH_AUTH_SOCK; cat")
		if err != nil || (strings.TrimSpace(string(out)) != "") != k.ok {
			t.Errorf("%s: the agent's socket in the guest is %q (%v), want one: %v", what, out, err, k.ok)
		}
		if path := strings.TrimSpace(string(out)); k.ok {
			if _, err := os.Stat(path); err == nil {
				t.Errorf("%s: the socket is left", what)
			}
		}
	}
}

// syncBuffer is written by one goroutine and read by another.
type syncBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// TestSFTP: what scp, sftp and sshfs ask for.
func TestSFTP(t *testing.T) {
	d := newDoor(t)
	c, err := sftp.NewClient(d.enter("box:" + d.secret))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if wd, err := c.Getwd(); err != nil || wd != "/root" {
		t.Errorf("SFTP begins in %q (%v), want /root", wd, err)
	}
	want := make([]byte, 3<<20+17)
	_, _ = rand.Read(want)
	f, err := c.Create("data")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.ReadFrom(bytes.NewReader(want)); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	f, err = c.Open("/root/data")
	if err != nil {
		t.Fatal(err)
	}
	got, err := io.ReadAll(f)
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("%d bytes, %v", len(got), err)
	}
	_ = f.Close()
	when := time.Unix(1_600_000_000, 0)
	for what, err := range map[string]error{
		"chmod": c.Chmod("data", 0o640), "chtimes": c.Chtimes("data", when, when), "truncate": c.Truncate("data", 5),
		"mkdir": c.Mkdir("dir"), "symlink": c.Symlink("data", "way"), "link": c.Link("data", "other"),
	} {
		if err != nil {
			t.Errorf("%s over SFTP: %v", what, err)
		}
	}
	st, err := c.Stat("way")
	if err != nil {
		t.Fatal(err)
	}
	if st.Size() != 5 {
		t.Errorf("the truncated file has %d bytes, want 5", st.Size())
	}
	if st.Mode() != 0o640 {
		t.Errorf("the file's mode is %v after chmod 640", st.Mode())
	}
	if !st.ModTime().Equal(when) {
		t.Errorf("the file's time is %v, want %v", st.ModTime(), when)
	}
	if st, err := c.Lstat("way"); err != nil || st.Mode()&os.ModeSymlink == 0 {
		t.Errorf("lstat of a link gives %+v (%v), want a link", st, err)
	}
	if to, err := c.ReadLink("way"); err != nil || to != "data" {
		t.Errorf("the link leads to %q (%v), want data", to, err)
	}
	l, err := c.ReadDir(".")
	if err != nil || len(l) < 4 {
		t.Errorf("the directory lists %v (%v), want 4 entries or more", l, err)
	}
	for what, err := range map[string]error{
		"missing": second(c.Open("nothing")), "exclusive": second(c.OpenFile("data", os.O_WRONLY|os.O_CREATE|os.O_EXCL)),
		"a name that is taken": c.Rename("other", "data"), "rmdir of a file": c.RemoveDirectory("data"), "a directory": second(c.OpenFile("dir", os.O_WRONLY)),
	} {
		if err == nil {
			t.Errorf("%s: no refusal", what)
		}
	}
	if _, err := c.Open("nothing"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("opening a file that is not there gives %v, want that it does not exist", err)
	}
	for what, err := range map[string]error{
		"rename": c.PosixRename("other", "data"), "remove": c.Remove("way"), "rmdir": c.RemoveDirectory("dir"),
	} {
		if err != nil {
			t.Errorf("%s over SFTP: %v", what, err)
		}
	}
	f, err = c.OpenFile("data", os.O_WRONLY|os.O_APPEND)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.Write([]byte("more")); err != nil {
		t.Error(err)
	}
	_ = f.Close()
	if st, err := c.Stat("data"); err != nil || st.Size() != 9 {
		t.Errorf("after 4 appended bytes the file is %+v (%v), want 9 bytes", st, err)
	}
}

func second[T any](_ T, err error) error { return err }

// TestServeActor: the API authenticates the caller; the SSH user is the Linux user.
func TestServeActor(t *testing.T) {
	d := newDoor(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	near, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	far, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	go d.server.ServeActor(t.Context(), far, "192.0.2.1", d.call.Actor, "box")
	conn, channels, requests, err := ssh.NewClientConn(near, "box", &ssh.ClientConfig{User: "root", HostKeyCallback: ssh.InsecureIgnoreHostKey()})
	if err != nil {
		t.Fatal(err)
	}
	c := ssh.NewClient(conn, channels, requests)
	if out, err := d.session(c).Output("whoami"); err != nil || string(out) != "root\n" {
		t.Errorf("over the API whoami says %q (%v), want root", out, err)
	}
	_ = c.Close()
	if !strings.HasPrefix(d.server.HostKey(), "ssh-ed25519 ") {
		t.Errorf("the host key is %q, want an ssh-ed25519", d.server.HostKey())
	}
}
