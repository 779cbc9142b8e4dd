//go:build system

// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package system

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/warren-vm/warren/internal/vmtest"
)

// openssh runs OpenSSH's clients on a host's gateway.
type openssh struct {
	h          *host
	addr, port string
	key        string // an API key
	config     string // by `warren ssh-config`
	env        []string
}

func newOpenSSH(t *testing.T) *openssh {
	t.Helper()
	addr := vmtest.FreePort(t)
	h := newHost(t, "--ssh", addr)
	s := &openssh{h: h, addr: addr}
	_, s.port, _ = net.SplitHostPort(addr)
	key, err := os.ReadFile(filepath.Join(h.data, "admin.key"))
	if err != nil {
		t.Fatal(err)
	}
	s.key = strings.TrimSpace(string(key))
	s.env = append(h.environ(), "XDG_CONFIG_HOME="+t.TempDir())
	s.config = filepath.Join(t.TempDir(), "config")
	out := s.must(h.binary, "ssh-config")
	if err := os.WriteFile(s.config, []byte(out), 0o600); err != nil {
		t.Fatal(err)
	}
	return s
}

// direct are the options of a client that goes to the gateway's own port.
func (s *openssh) direct() []string {
	return []string{
		"-F", "none", "-o", "Port=" + s.port, "-o", "UserKnownHostsFile=" + s.config + ".hosts",
		"-o", "StrictHostKeyChecking=accept-new", "-o", "BatchMode=yes", "-o", "LogLevel=ERROR",
	}
}

func (s *openssh) run(argv ...string) result {
	s.h.t.Helper()
	ctx, cancel := context.WithTimeout(s.h.t.Context(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Env = s.env
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	if err != nil && cmd.ProcessState == nil {
		s.h.t.Fatal(err)
	}
	return result{code: cmd.ProcessState.ExitCode(), stdout: out.String(), stderr: errs.String()}
}

func (s *openssh) must(argv ...string) string {
	s.h.t.Helper()
	r := s.run(argv...)
	if r.code != 0 {
		s.h.t.Fatalf("%q: status %d\n%s%s", argv, r.code, r.stdout, r.stderr)
	}
	return r.stdout
}

// start runs a client that stays, until the test ends.
func (s *openssh) start(t *testing.T, argv ...string) {
	t.Helper()
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Env = s.env
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
}

// get asks for a page until there is one.
func get(t *testing.T, url string) string {
	t.Helper()
	var last error
	for end := time.Now().Add(40 * time.Second); time.Now().Before(end); time.Sleep(300 * time.Millisecond) {
		resp, err := http.Get(url)
		if err != nil {
			last = err
			continue
		}
		body, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil {
			t.Fatal(err)
		}
		return string(body)
	}
	t.Fatalf("GET %s has no answer in 40 s: %v", url, last)
	return ""
}

// TestSSH: OpenSSH's own clients on the gateway.
//
// 002-08, 002-17, 002-39
func TestSSH(t *testing.T) {
	t.Parallel()
	s := newOpenSSH(t)
	h := s.h
	h.ok("up", "--name", "box")
	ssh := func(more ...string) []string { return append([]string{"ssh", "-F", s.config}, more...) }

	t.Run("exec", func(t *testing.T) {
		for name, argv := range map[string][]string{
			"token in the user name": append(append([]string{"ssh"}, s.direct()...), "box:"+s.key+"@127.0.0.1"),
			"by the API":             ssh("box.warren"),
			"warren ssh":             {h.binary, "ssh", "box", "--"},
		} {
			r := s.run(append(argv, "echo out; echo err >&2; pwd; exit 7")...)
			if r.code != 7 || r.stdout != "out\n/workspace\n" || r.stderr != "err\n" {
				t.Errorf("by %s: want status 7, /workspace and both streams apart, got %+v", name, r)
			}
		}
		if r := s.run(ssh("nobody@box.warren", "id -un")...); r.stdout != "nobody\n" {
			t.Errorf("a login as nobody: want that user, got %+v", r)
		}
		if r := s.run(ssh("stranger@box.warren", "id")...); r.code != 255 || !strings.Contains(r.stderr, "no such Linux user") {
			t.Errorf("a login as an unknown user: want status 255 and a refusal, got %+v", r)
		}
		if out := s.must(ssh("-tt", "box.warren", "tty; stty size")...); !strings.HasPrefix(out, "/dev/pts/") {
			t.Errorf("ssh -tt has the terminal %q, want one of /dev/pts", out)
		}
	})

	t.Run("bad token", func(t *testing.T) {
		wrong := append(append([]string{"ssh"}, s.direct()...), "box:wrong@127.0.0.1", "true")
		var took [3]time.Duration
		for i := range took {
			began := time.Now()
			if r := s.run(wrong...); r.code != 255 || !strings.Contains(r.stderr, "Permission denied") {
				t.Errorf("a wrong token: want status 255 and permission denied, got %+v", r)
			}
			took[i] = time.Since(began)
		}
		if took[0] < 250*time.Millisecond || took[2] < time.Second {
			t.Errorf("the delays do not grow: %v", took)
		}
	})

	t.Run("files", func(t *testing.T) { s.files(t) })
	t.Run("forwarding", func(t *testing.T) { s.forwarding(t) })
	t.Run("agent", func(t *testing.T) {
		sock := filepath.Join(t.TempDir(), "agent")
		s.start(t, "ssh-agent", "-D", "-a", sock)
		key := filepath.Join(t.TempDir(), "key")
		s.must("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "the-key", "-f", key)
		for end := time.Now().Add(10 * time.Second); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
			if _, err := os.Stat(sock); err == nil {
				break
			}
		}
		s.must("env", "SSH_AUTH_SOCK="+sock, "ssh-add", "-q", key)
		out := s.must(append([]string{"env", "SSH_AUTH_SOCK=" + sock}, ssh("-A", "box.warren", "ssh-add -l; stat -c %a $SSH_AUTH_SOCK")...)...)
		if !strings.Contains(out, "the-key") {
			t.Errorf("the forwarded agent lists %q, want the key", out)
		}
		if out := s.must(ssh("box.warren", "ls -d /tmp/ssh-* 2>/dev/null | wc -l")...); out != "0\n" {
			t.Errorf("sockets are left: %q", out)
		}
	})

	t.Run("scoped", func(t *testing.T) { s.scoped(t) })
	t.Run("the npm package's CLI", func(t *testing.T) { s.cli(t) })
	t.Run("wake", func(t *testing.T) {
		h.ok("suspend", "box")
		if out := s.must(ssh("box.warren", "echo awake")...); out != "awake\n" {
			t.Errorf("a command in a suspended VM puts out %q, want awake", out)
		}
	})
}

// files goes through every way of moving them.
func (s *openssh) files(t *testing.T) {
	dir := t.TempDir()
	from := filepath.Join(dir, "from")
	if err := os.MkdirAll(filepath.Join(from, "sub"), 0o755); err != nil {
		t.Fatal(err)
	}
	big := make([]byte, 5<<20+3)
	for i := range big {
		big[i] = byte(i * i >> 7)
	}
	for name, data := range map[string][]byte{"big": big, "sub/empty": nil, "sub/a name": []byte("x")} {
		if err := os.WriteFile(filepath.Join(from, name), data, 0o640); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chmod(filepath.Join(from, "big"), 0o750); err != nil {
		t.Fatal(err)
	}
	same := func(what, back string) {
		t.Helper()
		if r := s.run("diff", "-r", from, back); r.code != 0 {
			t.Errorf("%s gave another tree back: %s", what, r.stdout+r.stderr)
		}
	}
	direct := append(append([]string{"scp", "-q"}, s.direct()...), "-r")
	for what, c := range map[string]struct {
		argv []string
		host string
	}{
		"scp":           {[]string{"scp", "-q", "-F", s.config, "-r"}, "box.warren"},
		"scp -O":        {[]string{"scp", "-q", "-O", "-F", s.config, "-r"}, "box.warren"},
		"scp -p":        {[]string{"scp", "-q", "-p", "-F", s.config, "-r"}, "box.warren"},
		"scp to 2222":   {direct, "box," + s.key + "@127.0.0.1"},
		"scp as a user": {[]string{"scp", "-q", "-F", s.config, "-r"}, "nobody@box.warren"},
	} {
		to, back := "/tmp/"+strings.ReplaceAll(what, " ", "_"), filepath.Join(dir, what)
		s.must(append(c.argv, from, c.host+":"+to)...)
		s.must(append(c.argv, c.host+":"+to, back)...)
		same(what, back)
		if mode := s.must("ssh", "-F", s.config, "box.warren", "stat -c %a "+to+"/big"); mode != "750\n" {
			t.Errorf("%s: the mode is %s", what, mode)
		}
	}
	batch := filepath.Join(dir, "batch")
	lines := "put " + filepath.Join(from, "big") + " up\nls -l up\nrename up down\nget down " + filepath.Join(dir, "down") + "\nln -s down way\nrm down\nmkdir d\nrmdir d\n"
	if err := os.WriteFile(batch, []byte(lines), 0o600); err != nil {
		t.Fatal(err)
	}
	s.must("sftp", "-q", "-F", s.config, "-b", batch, "box.warren")
	if got, err := os.ReadFile(filepath.Join(dir, "down")); err != nil || !bytes.Equal(got, big) {
		t.Errorf("sftp: %d bytes, %v", len(got), err)
	}
	s.kernelFile(t, dir)
	s.must("git", "init", "-q", filepath.Join(dir, "repo"))
	s.must("git", "-C", filepath.Join(dir, "repo"), "-c", "user.name=a", "-c", "user.email=a@b", "commit", "-q", "--allow-empty", "-m", "first")
	s.must("ssh", "-F", s.config, "box.warren", "git init -q --bare /srv/repo.git")
	s.must("git", "-C", filepath.Join(dir, "repo"), "-c", "core.sshCommand=ssh -F "+s.config, "push", "-q", "box.warren:/srv/repo.git", "HEAD:main")
	s.must("git", "-c", "core.sshCommand=ssh -F "+s.config, "clone", "-q", "-b", "main", "box.warren:/srv/repo.git", filepath.Join(dir, "clone"))
	s.rsync(t, from, filepath.Join(dir, "rsync"), same)
}

// kernelFile has a user who is not root write, in place, what would have the
// guest's kernel run a program as root.
func (s *openssh) kernelFile(t *testing.T, dir string) {
	pattern := []string{"ssh", "-F", s.config, "box.warren", "cat /proc/sys/kernel/core_pattern"}
	before := s.must(pattern...)
	file, batch := filepath.Join(dir, "pattern"), filepath.Join(dir, "pattern.batch")
	if err := errors.Join(os.WriteFile(file, []byte("|/tmp/run-me\n"), 0o600), os.WriteFile(batch, []byte("put "+file+" /proc/sys/kernel/core_pattern\n"), 0o600)); err != nil {
		t.Fatal(err)
	}
	r := s.run("sftp", "-q", "-F", s.config, "-b", batch, "nobody@box.warren")
	if now := s.must(pattern...); r.code == 0 || now != before {
		t.Errorf("%+v; the pattern was %q and is %q", r, before, now)
	}
}

// rsync takes this host's rsync into the guest, whose image has none.
func (s *openssh) rsync(t *testing.T, from, back string, same func(what, back string)) {
	program, err := exec.LookPath("rsync")
	if err != nil {
		t.Log("rsync is not installed: deploy/install-deps.sh --tests")
		return
	}
	s.must("ssh", "-F", s.config, "box.warren", "mkdir /opt/rsync")
	copies := []string{"scp", "-q", "-F", s.config, program}
	for line := range strings.Lines(s.must("ldd", program)) {
		if f := strings.Fields(line); len(f) > 2 && !strings.Contains(f[0], "libc.so") {
			copies = append(copies, f[2])
		}
	}
	s.must(append(copies, "box.warren:/opt/rsync/")...)
	const there = "LD_LIBRARY_PATH=/opt/rsync /opt/rsync/rsync"
	if r := s.run("ssh", "-F", s.config, "box.warren", there+" --version"); r.code != 0 {
		t.Logf("this host's rsync does not run in the guest: %s", r.stderr)
		return
	}
	argv := []string{"rsync", "-a", "-e", "ssh -F " + s.config, "--rsync-path=" + there}
	s.must(append(argv, from+"/", "box.warren:/tmp/rsync")...)
	s.must(append(argv, "box.warren:/tmp/rsync/", back)...)
	same("rsync", back)
}

// forwarding goes both ways, by name and by socket.
func (s *openssh) forwarding(t *testing.T) {
	s.must("ssh", "-F", s.config, "box.warren", "mkdir -p /srv/www && echo from-the-guest > /srv/www/index.html && cd /srv/www && "+
		"(setsid python3 -m http.server --bind 127.0.0.1 8000 </dev/null >/dev/null 2>&1 &)")
	here := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "from-the-host") }))
	defer here.Close()
	local, socks := vmtest.FreePort(t), vmtest.FreePort(t)
	_, port, _ := net.SplitHostPort(local)
	s.start(t, "ssh", "-F", s.config, "-N", "-o", "ExitOnForwardFailure=yes",
		"-L", local+":localhost:8000", "-D", socks, "-R", "9000:"+strings.TrimPrefix(here.URL, "http://"),
		"-R", "/tmp/up.sock:"+strings.TrimPrefix(here.URL, "http://"), "box.warren")
	if got := get(t, "http://127.0.0.1:"+port); got != "from-the-guest\n" {
		t.Errorf("the port of -L shows %q, want the guest's page", got)
	}
	if got := s.must("curl", "-sS", "--noproxy", "", "-x", "socks5h://"+socks, "http://localhost:8000/"); got != "from-the-guest\n" {
		t.Errorf("the proxy of -D shows %q, want the guest's page", got)
	}
	// A name that only the guest's hosts file has.
	s.must("ssh", "-F", s.config, "box.warren", "echo 127.0.0.1 my.test >> /etc/hosts")
	if got := s.must("curl", "-sS", "--noproxy", "", "-x", "socks5h://"+socks, "http://my.test:8000/"); got != "from-the-guest\n" {
		t.Errorf("-D with a name: %q", got)
	}
	for what, line := range map[string]string{
		"-R":             "curl -sS http://127.0.0.1:9000/",
		"-R of a socket": "curl -sS --unix-socket /tmp/up.sock http://x/",
	} {
		if got := s.must("ssh", "-F", s.config, "box.warren", line); got != "from-the-host\n" {
			t.Errorf("%s shows %q, want the host's page", what, got)
		}
	}
}
