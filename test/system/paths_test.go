//go:build system

// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package system

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/warren-vm/warren/vm"
)

// TestPaths: path rules in a directory of the host bind root in the guest and its children; on
// the VM's disk and on volumes they bind the file API, and the API says that they are void
// there.
//
// 001-06, 001-07
func TestPaths(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	src := h.hostDir("src")
	for name, content := range map[string]string{".env": "TOKEN=hidden\n", "docs/a": "read\n", "keys/k": "denied\n", "ask/one": "asked\n", "ask/two": "asked\n", "lib/deep/x": "x\n"} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(src, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		h.put(filepath.Join(src, name), content)
	}
	h.ok("up", "--name", "box", "--profile", "dev", "--add-dir", src+":/src:rw",
		"--path", "hide:.env", "--path", "read-only:/src/docs", "--path", "deny:/src/keys", "--path", "ask:/src/ask/*", "--path", "deny:/root/secret")
	t.Run("root", func(t *testing.T) { h.pathsRoot(t, src) })
	t.Run("live", func(t *testing.T) { h.pathsLive(t) })
	t.Run("ask", func(t *testing.T) { h.pathsAsk(t) })
	t.Run("api", func(t *testing.T) { h.pathsAPI(t) })
	t.Run("void", func(t *testing.T) { h.pathsVoid(t) })
	t.Run("refused", func(t *testing.T) { h.pathsRefused(t) })
	t.Run("asleep", func(t *testing.T) {
		h.ok("suspend", "box")
		h.ok("start", "box")
		if got := h.sh("box", "cat /src/.env 2>&1; cat /src/file"); !strings.Contains(got, "No such file") || !strings.Contains(got, "from the host") {
			t.Errorf("after a suspend root reads %q, want a hidden file and an open one", got)
		}
	})
}

// pathsRoot: what root in the guest, and a child of its shell, can do in the folder.
func (h *host) pathsRoot(t *testing.T, src string) {
	for what, x := range map[string]struct{ line, want string }{
		"list":               {"ls -A /src | tr '\\n' ' '", "ask docs file keys lib"},
		"read hidden":        {"cat /src/.env", "No such file or directory"},
		"make hidden":        {"echo x >/src/.env", "Permission denied"},
		"hidden upper case":  {"cat /src/.ENV", "No such file or directory"},
		"through a link":     {"ln -sf .env /src/link; cat /src/link; rm /src/link", "No such file or directory"},
		"list denied":        {"ls /src/keys", "Permission denied"},
		"read denied":        {"cat /src/keys/k", "Permission denied"},
		"read read-only":     {"cat /src/docs/a", "read"},
		"write read-only":    {"echo x >>/src/docs/a", "Read-only file system"},
		"remove read-only":   {"rm -f /src/docs/a", "Read-only file system"},
		"a link out of it":   {"ln /src/docs/a /src/a", "Read-only file system"},
		"move it":            {"mv /src/docs /src/mine", "Read-only file system"},
		"mount over it":      {"mkdir -p /tmp/m && mount --bind /src/docs /tmp/m && echo x >/tmp/m/a", "Read-only file system"},
		"a child of a child": {"setsid sh -c 'cat /src/keys/k' 2>&1 | cat", "Permission denied"},
		"raw name":           {"python3 -c \"import os; os.open('/src/keys/k', os.O_RDONLY)\"", "Permission"},
		"an open path":       {"echo new >/src/new && cat /src/new", "new"},
	} {
		if got := h.sh("box", "("+x.line+") 2>&1 || true"); !strings.Contains(got, x.want) {
			t.Errorf("%s: root in the guest gets %q, want %q", what, got, x.want)
		}
	}
	if data, err := os.ReadFile(src + "/docs/a"); err != nil || string(data) != "read\n" {
		t.Errorf("the read-only file on the host is %q, %v", data, err)
	}
}

// pathsLive: a change holds at once, for open files as well.
func (h *host) pathsLive(t *testing.T) {
	h.ok("exec", "box", "--", "sh", "-c", `cat >/root/hold.py <<'END'
import os, time
fd = os.open("/src/lib/deep/x", os.O_RDWR)
print("open", flush=True)
while not os.path.exists("/root/go"): time.sleep(0.05)
try:
    os.write(fd, b"y"); print("written", flush=True)
except OSError as e:
    print(e.strerror, flush=True)
END
python3 /root/hold.py >/root/held 2>&1 </dev/null & while ! grep -q open /root/held; do sleep 0.1; done`)
	h.ok("path", "deny", "box", "deep", "--mount", "/src")
	if got := h.sh("box", "cat /src/lib/deep/x 2>&1; touch /root/go; while ! grep -qv open /root/held; do sleep 0.1; done; tail -1 /root/held"); strings.Count(got, "ermission denied") != 2 {
		t.Errorf("after the rule a new and an open file say %q, want permission denied twice", got)
	}
	if got := h.sh("box", "mv /src/lib /src/lib2 2>&1; cat /src/lib2/deep/x 2>&1 || true"); !strings.Contains(got, "ermission denied") {
		t.Errorf("after moving the directory above the root gets %q, want permission denied", got)
	}
	h.ok("path", "rm", "box", "deep", "--mount", "/src")
	if got := h.sh("box", "cat /src/lib*/deep/x"); got != "x" {
		t.Errorf("after the rule is removed the file is %q", got)
	}
}

// pathsAsk: an access waits for the account's decision.
func (h *host) pathsAsk(t *testing.T) {
	pending := func() (id, what string) {
		h.eventually("an ask about the path", func() bool {
			var list []vm.Ask
			if err := json.Unmarshal([]byte(h.ok("ask", "ls", "box", "--json")), &list); err != nil {
				t.Fatal(err)
			}
			for _, a := range list {
				if a.State == vm.AskPending && strings.HasPrefix(a.What, "/src/ask/") {
					id, what = a.ID, a.What
				}
			}
			return id != ""
		})
		return id, what
	}
	read := func(name string) chan string {
		out := make(chan string, 1)
		go func() { r := h.run("exec", "box", "--", "cat", "/src/ask/"+name); out <- r.stdout + r.stderr }()
		return out
	}
	first := read("one")
	id, what := pending()
	if what != "/src/ask/one" {
		t.Errorf("the ask is about %q", what)
	}
	if got := h.sh("box", "cat /src/file"); got != "from the host" {
		t.Errorf("another file meanwhile is %q", got)
	}
	h.ok("approve", id)
	if got := <-first; got != "asked\n" {
		t.Errorf("after the approval the program reads %q", got)
	}
	if got := h.sh("box", "cat /src/ask/one"); got != "asked" {
		t.Errorf("the second time it reads %q", got)
	}
	second := read("two")
	id, _ = pending()
	h.ok("deny", id)
	if got := <-second; !strings.Contains(got, "Permission denied") {
		t.Errorf("after the denial the program gets %q", got)
	}
}

// pathsAPI: the rules bind the file API wherever the path is.
func (h *host) pathsAPI(t *testing.T) {
	h.sh("box", "mkdir -p /root/tree/sub; echo top >/root/secret; echo h >/root/tree/.env; echo o >/root/tree/open; ln -sf /root/secret /root/tree/sub/link")
	dir := t.TempDir()
	h.run("cp", "box:/root/secret", dir+"/s").wants(t, 4, "a path rule denies it")
	h.run("cp", "box:/root/tree/sub/link", dir+"/l").wants(t, 4, "a path rule denies it")
	h.run("cp", "box:/root/tree/.env", dir+"/e").wants(t, 3, "no such file")
	h.ok("cp", "-r", "box:/root/tree", dir+"/tree")
	if _, err := os.Stat(dir + "/tree/.env"); err == nil {
		t.Error("the copy of a tree has the hidden file")
	}
	if data, err := os.ReadFile(dir + "/tree/open"); err != nil || string(data) != "o\n" {
		t.Errorf("the copy's other file is %q, %v", data, err)
	}
	h.run("cp", "-r", "box:/root", dir+"/all").wants(t, 4, "/root/secret")
	h.put(dir+"/new", "new\n")
	h.run("cp", dir+"/new", "box:/root/secret").wants(t, 4, "a path rule denies it")
	h.run("cp", dir+"/new", "box:/src/docs/a").wants(t, 4, "read-only")
	h.run("fs", "rm", "-r", "box:/root/secret").wants(t, 4, "a path rule denies it")
	if got := h.ok("fs", "ls", "box:/root/tree"); strings.Contains(got, ".env") {
		t.Errorf("a listing shows the hidden file:\n%s", got)
	}
	if got := h.sh("box", "cat /root/secret"); got != "top" {
		t.Errorf("the denied file in the guest is %q", got)
	}
}

// pathsVoid: the API says where root in the guest makes a rule void.
func (h *host) pathsVoid(t *testing.T) {
	var rules []vm.PathRuleShown
	if err := json.Unmarshal([]byte(h.ok("path", "show", "box", "--json")), &rules); err != nil {
		t.Fatal(err)
	}
	seen := map[string]string{}
	for _, r := range rules {
		for _, p := range r.Places {
			if p.Void && !strings.Contains(p.Why, "root in the guest") {
				t.Errorf("%s in %s is void because of %q", r.Path, p.Path, p.Why)
			}
			how := "holds"
			if p.Void {
				how = "void"
			}
			seen[r.Path+" "+p.Path] = how
		}
	}
	for at, want := range map[string]string{"/**/.env /src": "holds", "/**/.env /": "void", "/src/docs /src": "holds", "/src/docs /": "", "/root/secret /": "void", "/root/secret /src": ""} {
		if seen[at] != want {
			t.Errorf("the rule and place %s: %q, want %q", at, seen[at], want)
		}
	}
	h.ok("volume", "create", "data", "--size", "64M")
	h.ok("volume", "unlock", "data")
	h.ok("volume", "mount", "box", "--volume", "data", "--guest", "/data", "--rw")
	h.ok("path", "read-only", "box", "/data/keep")
	if got := h.sh("box", "mkdir /data/keep && echo x >/data/keep/f && cat /data/keep/f"); got != "x" {
		t.Errorf("root writes to the volume: %q", got)
	}
	h.run("cp", h.newFile(t, "y"), "box:/data/keep/f").wants(t, 4, "read-only")
	if got := h.ok("path", "show", "box", "--json"); !strings.Contains(got, `"volume"`) {
		t.Errorf("the rules' places have no volume:\n%s", got)
	}
	h.ok("volume", "unmount", "box", "/data", "--force")
}

// newFile makes a file for a copy and returns its path.
func (h *host) newFile(t *testing.T, content string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "file")
	h.put(name, content)
	return name
}

// pathsRefused: what is no rule, and who may not change them.
func (h *host) pathsRefused(t *testing.T) {
	h.run("path", "deny", "box", "/").wants(t, 2, "every path")
	h.run("path", "deny", "box", "/a/../b").wants(t, 2, "..")
	h.run("path", "rm", "box", "/nothing").wants(t, 3, "no such path rule")
	h.run("up", "--name", "no", "--path", "block:/a").wants(t, 2, "not an action")
}

// TestPathsConcurrent: what concurrent changes of files give, in a directory of the host and on
// the VM's disk.
//
// 001-38
func TestPathsConcurrent(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	src := h.hostDir("src")
	h.ok("up", "--name", "one", "--profile", "dev", "--add-dir", src+":/src:rw")
	h.ok("up", "--name", "two", "--profile", "dev", "--add-dir", src+":/src:rw")
	for _, dir := range []string{"/src", "/root"} {
		t.Run(dir[1:], func(t *testing.T) { h.concurrent(t, dir) })
	}
	t.Run("two agents", func(t *testing.T) {
		lines := func(name string) string {
			return "for i in $(seq 50); do echo " + name + " >>/src/both; done"
		}
		done := make(chan string, 1)
		go func() { r := h.run("exec", "two", "--", "sh", "-c", lines("two")); done <- r.stderr }()
		h.sh("one", lines("one"))
		if errs := <-done; errs != "" {
			t.Errorf("the second agent: %s", errs)
		}
		data, err := os.ReadFile(src + "/both")
		if err != nil || strings.Count(string(data), "one\n") != 50 || strings.Count(string(data), "two\n") != 50 || len(data) != 400 {
			t.Errorf("two agents appended 50 lines each, and the file has %d and %d in %d bytes (%v)", strings.Count(string(data), "one\n"), strings.Count(string(data), "two\n"), len(data), err)
		}
		h.sh("one", "echo of one >/src/last")
		h.sh("two", "echo of two >/src/last")
		h.eventually("the first agent sees what the second wrote last", func() bool { return h.sh("one", "cat /src/last") == "of two" })
	})
}

// concurrent looks at one agent's changes in a directory.
func (h *host) concurrent(t *testing.T, dir string) {
	// Overwriting: a reader that has the file open sees the new content, not a mixture of lengths.
	for what, x := range map[string]struct{ line, want string }{
		"overwrite":            {"echo long long >o; exec 3<o; echo short >o; cat <&3; cat o", "short\nshort"},
		"replace by rename":    {"echo old >r; exec 3<r; echo new >r.tmp; mv r.tmp r; cat <&3; cat r", "old\nnew"},
		"directory rename":     {"mkdir -p d/e; echo x >d/e/f; exec 3<d/e/f; mv d moved; cat <&3; cat moved/e/f; ls d 2>&1 | tail -c 10", "x\nx\ndirectory"},
		"one agent, two files": {"(for i in $(seq 30); do echo a >>fa; done) & (for i in $(seq 30); do echo b >>fb; done) & wait; wc -l <fa; wc -l <fb", "30\n30"},
		"tree delete":          {"mkdir -p t/u/v; echo x >t/u/v/f; exec 3<t/u/v/f; rm -r t; cat <&3; ls t 2>&1 | tail -c 10", "x\ndirectory"},
	} {
		if got := h.sh("one", "cd "+dir+"; "+x.line); got != x.want {
			t.Errorf("%s in %s: %q, want %q", what, dir, got, x.want)
		}
	}
	// A watcher sees a change at once.
	h.ok("exec", "one", "--", "sh", "-c", `cat >/root/watch.py <<'END'
import ctypes, os, sys, time
libc = ctypes.CDLL(None)
fd = libc.inotify_init1(0)
assert libc.inotify_add_watch(fd, sys.argv[1].encode(), 0x100) > 0
print("watching", flush=True)
data = os.read(fd, 65536)
print("heard", data[16:].rstrip(b"\0").decode(), time.monotonic() - float(open("/root/at").read()), flush=True)
END
rm -f /root/heard; python3 /root/watch.py `+dir+` >/root/heard 2>&1 </dev/null & while ! grep -q watching /root/heard; do sleep 0.1; done
python3 -c "import time; open('/root/at', 'w').write(str(time.monotonic())); open('`+dir+`/seen', 'w').close()"
while ! grep -q heard /root/heard; do sleep 0.1; done`)
	f := strings.Fields(h.sh("one", "tail -1 /root/heard"))
	if len(f) != 3 || f[1] != "seen" {
		t.Fatalf("the watcher says %q", f)
	}
	if took, err := time.ParseDuration(f[2] + "s"); err != nil || took > 5*time.Second {
		t.Errorf("the watcher heard after %v (%v)", took, err)
	}
}
