//go:build system

// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package system

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// directory goes through what a working directory is to programs, and prints a
// line for each part. What it expects of edits is in docs/correctness.md.
const directory = `
import ctypes, errno, fcntl, os, socket, struct, subprocess, sys, tempfile, threading, time
os.makedirs("/workspace/app/src"); os.chdir("/workspace/app")
def put(path, text):
    with open(path, "w") as f: f.write(text)
def get(path):
    with open(path) as f: return f.read()
def run(line): return subprocess.run(["sh", "-c", line], capture_output=True, text=True)
libc = ctypes.CDLL(None, use_errno=True)
class Watch:
    def __init__(self, path, mask):
        self.fd = libc.inotify_init1(0o4000)
        assert libc.inotify_add_watch(self.fd, path.encode(), mask) > 0
    def names(self):
        out, buf = [], b""
        try: buf = os.read(self.fd, 65536)
        except BlockingIOError: pass
        while buf:
            n = struct.unpack("iIII", buf[:16])[3]
            out.append(buf[16:16+n].rstrip(b"\0").decode()); buf = buf[16+n:]
        return out

def mutable():
    put("f", "one"); open("f", "a").write(" two"); os.truncate("f", 5)
    with open("f", "r+") as f: f.seek(2); f.write("E")
    return get("f") == "onE t"
def relative():
    put("src/../g", "here")
    return get("./g") == "here" and run("cat src/../g && cd src && cat ../g").stdout == "herehere"
def watching():
    w = Watch("src", 0x100 | 0x8)
    run("echo x > src/watched")
    return "watched" in w.names()
def caches():
    put("src/mod.py", "x = 6 * 7")
    return run("cd src && python3 -c 'import mod; print(mod.x)' && ls __pycache__").stdout.startswith("42\nmod.cpython")
def debugger():
    run("ulimit -c unlimited; cd src && python3 -c 'import os; os.abort()'; sync")
    return any(n.startswith("core") and os.path.getsize("src/" + n) > 100000 for n in os.listdir("src"))
def inodes():
    put("i", "x"); os.link("i", "j"); n = os.stat("i").st_ino
    os.rename("i", "k"); f = open("k")
    same = os.stat("k").st_ino == os.stat("j").st_ino == n and os.stat("j").st_nlink == 2
    os.unlink("j"); os.unlink("k")
    return same and f.read() == "x" and os.fstat(f.fileno()).st_nlink == 0
def locks():
    a = open("lock", "w"); fcntl.flock(a, fcntl.LOCK_EX)
    other = "import fcntl; fcntl.%s(open('lock', 'w'), fcntl.LOCK_EX | fcntl.LOCK_NB)"
    held = run('python3 -c "%s"' % (other % "flock")).returncode
    fcntl.flock(a, fcntl.LOCK_UN); free = run('python3 -c "%s"' % (other % "flock")).returncode
    fcntl.lockf(a, fcntl.LOCK_EX); record = run('python3 -c "%s"' % (other % "lockf")).returncode
    return held == 1 and free == 0 and record == 1
def renames():
    put("r", "0" * 5000); bad, over = [], threading.Event()
    def read():
        while not over.is_set():
            try: t = get("r")
            except OSError as e: t = str(e)
            if len(t) != 5000 or len(set(t)) != 1: bad.append(t[:40])
    t = threading.Thread(target=read); t.start()
    for i in range(100): put("r.new", str(i % 10) * 5000); os.rename("r.new", "r")
    over.set(); t.join()
    return not bad
def temporary():
    with tempfile.TemporaryFile(dir=".") as f:
        f.write(b"mine"); f.flush(); f.seek(0)
        return f.read() == b"mine" and not [n for n in os.listdir(".") if n.startswith("tmp")]
def executable():
    put("x.sh", "#!/bin/sh\necho ran\n"); before = run("./x.sh").returncode
    os.chmod("x.sh", 0o755)
    return before == 126 and run("./x.sh").stdout == "ran\n"
def symlinks():
    os.symlink("g", "s"); os.symlink("nothing", "dangling")
    return get("s") == "here" and os.readlink("s") == "g" and not os.path.exists("dangling") and os.path.lexists("dangling")
def pipes():
    os.mkfifo("pipe")
    return run("(echo through > pipe &) ; cat pipe").stdout == "through\n"
def sockets():
    s = socket.socket(socket.AF_UNIX); s.bind("sock"); s.listen()
    c = socket.socket(socket.AF_UNIX); c.connect("sock"); c.sendall(b"hi")
    return s.accept()[0].recv(2) == b"hi"
def overwrite():
    put("o", "long old text"); f = open("o"); put("o", "new")
    return get("o") == "new" and f.read() == "new"
def directory_rename():
    os.makedirs("d/in"); put("d/in/f", "x"); f = open("d/in/f", "a"); p = subprocess.Popen(["sleep", "60"], cwd="d/in")
    os.rename("d", "e"); f.write("y"); f.close()
    at = os.readlink("/proc/%d/cwd" % p.pid); p.kill(); p.wait()
    return get("e/in/f") == "xy" and at == "/workspace/app/e/in" and not os.path.exists("d")
def two_writers():
    put("both", "")
    line = "for i in $(seq 200); do echo %s-$i >> both; done"
    a = subprocess.Popen(["sh", "-c", line % "a"]); b = subprocess.Popen(["sh", "-c", line % "b"]); a.wait(); b.wait()
    return sorted(get("both").split()) == sorted(w + "-%d" % i for w in "ab" for i in range(1, 201))
def tree_delete():
    os.makedirs("t/u"); put("t/u/f", "x"); f = open("t/u/f"); p = subprocess.Popen(["sh", "-c", "cd t/u; read x; pwd -P; ls; echo y > z"], stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True, stdout=subprocess.PIPE)
    while os.readlink("/proc/%d/cwd" % p.pid) != "/workspace/app/t/u": time.sleep(0.01)
    gone = run("rm -rf t").returncode == 0 and not os.path.exists("t")
    out, err = p.communicate("go\n")
    return gone and f.read() == "x" and "z" in err and not os.path.exists("t")
def seen_at_once():
    w = Watch(".", 0x8 | 0x80 | 0x200)
    put("n1", "x"); one = w.names(); os.rename("n1", "n2"); two = w.names(); os.unlink("n2"); three = w.names()
    return one == ["n1"] and two == ["n2"] and three == ["n2"]
def processes():
    p = subprocess.Popen(["sleep", "60"]); p.terminate()
    return get("/proc/1/comm") == "systemd\n" and p.wait() == -15 and run("exit 7").returncode == 7
def network():
    s = socket.create_server(("127.0.0.1", 0)); c = socket.create_connection(s.getsockname()); a = s.accept()[0]
    u = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); u.bind(("127.0.0.1", 0)); u.sendto(b"u", u.getsockname()); c.sendall(b"t")
    return a.recv(1) == b"t" and u.recv(1) == b"u" and len(run("ip -br link").stdout.splitlines()) > 1 and "default" in run("ip route").stdout
def users():
    run("useradd --create-home ann && echo secret > /root/s && chmod 600 /root/s")
    return run("su ann -c 'id -un; cat /root/s; touch /home/ann/f'; stat -c %U /home/ann/f").stdout == "ann\nann\n"
def packages():
    os.makedirs("p/DEBIAN"); os.makedirs("p/usr/bin"); put("p/usr/bin/installed", "#!/bin/sh\necho installed\n"); os.chmod("p/usr/bin/installed", 0o755)
    put("p/DEBIAN/control", "Package: installed\nVersion: 1\nArchitecture: all\nMaintainer: a <a@b>\nDescription: a\n")
    run("dpkg-deb -b p p.deb && dpkg -i p.deb && apt-get check")
    return run("installed").stdout == "installed\n" and run("dpkg -s installed").returncode == 0
for part in sys.argv[1:]:
    try: ok = globals()[part]()
    except Exception as e: ok = repr(e)
    print(part, "ok" if ok is True else "BAD %s" % ok, flush=True)
`

// TestDirectory: the working directory of a workspace is an ordinary one of an
// ordinary machine, and what becomes of edits is what docs/correctness.md says,
// be they a program's or the API's.
//
// 000-20, 001-42
func TestDirectory(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	h.ok("up", "--name", "box")
	parts := []string{
		"mutable", "relative", "watching", "caches", "debugger", // 001-03
		"inodes", "locks", "renames", // 001-29
		"temporary", "executable", "symlinks", "pipes", "sockets", // 001-30
		"overwrite", "directory_rename", "two_writers", "tree_delete", "seen_at_once", // 001-38
		"processes", "network", "users", "packages", // 000-20, with the terminal below
	}
	r := h.runIn("", []byte(directory), append([]string{"exec", "-i", "box", "--", "python3", "-"}, parts...)...)
	if want := strings.Join(parts, " ok\n") + " ok\n"; r.stdout != want {
		t.Errorf("not every part of the directory is right, want %q: %s", want, r)
	}
	h.edits("box")

	// A terminal has a current directory. 001-31
	h.ok("pty", "box", "--session", "sh", "--exec", "bash --norc", "-d")
	if got := h.ok("pty", "send", "box", "sh", "--wait", "1", "cd /workspace/app/src && echo at $(dirs -l +0) of $(pwd)"); !strings.Contains(got, "at /workspace/app/src of /workspace/app/src") {
		t.Errorf("the terminal says %q", got)
	}
	if !strings.Contains(h.ok("state", "box"), "/workspace/app/src") {
		t.Error("state does not say where the terminal is")
	}
}

// edits changes files by the API while a server serves them.
//
// An edit is seen at the next request, and the server keeps running; of two
// writers of one file one has written all of it; two files at once are both
// there. The citations are the calling test's.
func (h *host) edits(name string) {
	t := h.t
	t.Helper()
	h.ok("exec", "-d", name, "--cwd", "/workspace/app", "--", "python3", "-m", "http.server", "3000")
	h.eventually("the server answers", func() bool { return h.run("exec", name, "--", "curl", "-sf", "localhost:3000").code == 0 })
	server := h.sh(name, "pgrep -of [h]ttp.server")
	dir := t.TempDir()
	file := func(which, letter string) string {
		path := filepath.Join(dir, which)
		if err := os.WriteFile(path, bytes.Repeat([]byte(letter), 256<<10), 0o644); err != nil {
			t.Fatal(err)
		}
		return path
	}
	page := file("page", "p")
	for _, text := range []string{"first", "second"} {
		if err := os.WriteFile(page, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		h.ok("cp", page, name+":/workspace/app/page")
		if got := h.sh(name, "curl -s localhost:3000/page"); got != text {
			t.Errorf("the server gives %q after an edit to %q", got, text)
		}
	}
	if now := h.sh(name, "pgrep -of [h]ttp.server"); now != server {
		t.Errorf("the server is process %s, it was %s", now, server)
	}
	var wg sync.WaitGroup
	for letter, to := range map[string]string{"a": "one", "b": "one", "c": "two", "d": "three"} {
		from := file(letter, letter)
		wg.Go(func() { h.run("cp", from, name+":/workspace/app/"+to).wants(t, 0, "") })
	}
	wg.Wait()
	got := h.sh(name, "cd /workspace/app; for f in one two three; do b=$(head -c 1 $f); echo $b $(tr -d $b <$f | wc -c) $(stat -c %s $f); done")
	if got = strings.Replace(got, "b 0", "a 0", 1); got != "a 0 262144\nc 0 262144\nd 0 262144" {
		t.Errorf("after four writers of three files: %q", got)
	}
}
