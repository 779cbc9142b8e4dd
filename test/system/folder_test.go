//go:build system

// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package system

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// hostDir makes a directory of the host with a file in it.
func (h *host) hostDir(name string) string {
	h.t.Helper()
	root, err := filepath.EvalSymlinks(h.t.TempDir())
	if err != nil {
		h.t.Fatal(err)
	}
	dir := filepath.Join(root, name)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		h.t.Fatal(err)
	}
	h.put(filepath.Join(dir, "file"), "from the host\n")
	return dir
}

func (h *host) put(path, content string) {
	h.t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		h.t.Fatal(err)
	}
}

// crypt mounts gocryptfs on a new directory.
func (h *host) crypt() string {
	h.t.Helper()
	for _, tool := range []string{"gocryptfs", "fusermount"} {
		if _, err := exec.LookPath(tool); err != nil {
			h.t.Fatalf("%v: deploy/install-deps.sh --tests installs it", err)
		}
	}
	dir := h.hostDir("plain")
	cipher := filepath.Join(filepath.Dir(dir), "cipher")
	if err := os.Mkdir(cipher, 0o700); err != nil {
		h.t.Fatal(err)
	}
	_ = os.Remove(filepath.Join(dir, "file"))
	for _, argv := range [][]string{{"-init", "-q", "-scryptn", "10", "-extpass", "echo secret", cipher}, {"-q", "-extpass", "echo secret", cipher, dir}} {
		if out, err := exec.Command("gocryptfs", argv...).CombinedOutput(); err != nil {
			h.t.Fatalf("gocryptfs: %v\n%s", err, out)
		}
	}
	h.t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			_ = exec.Command("fusermount", "-u", "-z", dir).Run()
		}
	})
	h.put(filepath.Join(dir, "file"), "from the host\n")
	return dir
}

// TestVolumeFolder: a directory of the host in a VM: who may have one, what is
// seen of changes on both sides, and what becomes of it when the VM sleeps, is
// forked and goes back.
//
// 003-03, 003-04, 003-19, 003-21
func TestVolumeFolder(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	src := h.hostDir("src")
	h.run("run", "--add-dir", src+":/src:rw", "--", "true").wants(t, 125, "--profile dev")
	h.ok("up", "--name", "box", "--profile", "dev", "--add-dir", src+":/src:rw")
	if list := h.ok("volume", "ls", "box"); !strings.Contains(list, src) || !strings.Contains(list, "rw") {
		t.Errorf("its mounts are\n%s", list)
	}
	h.folderRefusals(src)
	h.folderChanges(src)
	h.folderSleeps(src)
	h.folderForks(src)
	h.folderBusy(src)
	h.folderCrypt()
}

func (h *host) folderRefusals(src string) {
	mount := func(host, path string, flags ...string) result {
		return h.run(append([]string{"volume", "mount", "box", "--volume", "data", "--host", host, "--guest", path}, flags...)...)
	}
	mount(src, "/data").wants(h.t, 4, "not known to be encrypted at rest: plain device")
	mount("src", "/data").wants(h.t, 2, "not an absolute path")
	mount(src+"/none", "/data").wants(h.t, 3, "no such directory")
	mount(src+"/file", "/data").wants(h.t, 2, "not a directory")
	mount("/proc/1", "/data").wants(h.t, 4, "the kernel's")
	mount(h.data, "/data").wants(h.t, 4, "Warren's own keys")
	mount(src, "/usr").wants(h.t, 2, "the guest needs its own files there")
	link := filepath.Join(filepath.Dir(src), "link")
	if err := os.Symlink(src, link); err != nil {
		h.t.Fatal(err)
	}
	mount(link, "/data").wants(h.t, 2, "give "+src)
	h.run("up", "--name", "no", "--profile", "dev", "--add-dir", src+":/etc/apt:ro").wants(h.t, 5, "not empty")
	if h.run("inspect", "no").code == 0 {
		h.t.Error("a VM is left that has not what was asked for")
	}
}

// folderChanges looks at what each side sees of the other.
func (h *host) folderChanges(src string) {
	t := h.t
	if got := h.sh("box", "cat /src/file; echo from the guest >/src/guest; mkdir /src/dir; ln -s /etc/shadow /src/link; mknod /src/null c 1 3 2>&1; stat -c %u /src/file; tty </src/file || :"); got != "from the host\nmknod: /src/null: Operation not permitted\n0\nnot a tty" {
		t.Errorf("the guest says %q", got)
	}
	if data, err := os.ReadFile(src + "/guest"); err != nil || string(data) != "from the guest\n" {
		t.Errorf("the host sees %q, %v", data, err)
	}
	if to, err := os.Readlink(src + "/link"); err != nil || to != "/etc/shadow" {
		t.Errorf("the link leads to %q, %v", to, err)
	}
	h.put(src+"/file", "changed on the host\n")
	h.eventually("the guest sees the change", func() bool { return h.sh("box", "cat /src/file") == "changed on the host" })
	// A program that watches hears of it, within a second.
	h.ok("exec", "box", "--", "sh", "-c", `cat >/root/watch.py <<'END'
import ctypes, os, struct, sys, time
libc = ctypes.CDLL(None)
fd = libc.inotify_init1(0)
assert libc.inotify_add_watch(fd, b"/src", 0x100 | 0x200 | 0x8) > 0
print("watching", flush=True)
want = {"new", "file", "guest"}
while want:
    data = os.read(fd, 65536)
    now = time.time()
    while data:
        wd, mask, cookie, n = struct.unpack("iIII", data[:16])
        name = data[16:16+n].rstrip(b"\0").decode()
        data = data[16+n:]
        if name in want:
            want.discard(name)
            print(name, {0x100: "created", 0x200: "deleted", 8: "written"}[mask & 0x308], flush=True)
END
python3 /root/watch.py >/root/heard 2>&1 </dev/null & sleep 0; while ! grep -q watching /root/heard; do sleep 0.1; done`)
	begun := time.Now()
	h.put(src+"/new", "x")
	h.put(src+"/file", "again\n")
	if err := os.Remove(src + "/guest"); err != nil {
		t.Fatal(err)
	}
	var heard string
	h.eventually("the guest's program hears of it", func() bool {
		heard = h.sh("box", "cat /root/heard")
		return strings.Count(heard, "\n") >= 3
	})
	for _, want := range []string{"new created", "file written", "guest deleted"} {
		if !strings.Contains(heard, want) {
			t.Errorf("heard %q, not %q", heard, want)
		}
	}
	t.Logf("heard after %v at most", time.Since(begun).Round(time.Millisecond))
}

// folderSleeps: after a suspend and after a rollback it is mounted again.
func (h *host) folderSleeps(src string) {
	t := h.t
	h.ok("snapshot", "create", "box", "--name", "before")
	h.ok("suspend", "box")
	h.put(src+"/asleep", "while it slept\n")
	h.ok("start", "box")
	if got := h.sh("box", "cat /src/asleep; echo awake >/src/awake; cat /src/file"); got != "while it slept\nagain" {
		t.Errorf("after a suspend the guest says %q", got)
	}
	h.ok("rollback", "box", "before")
	if got := h.sh("box", "cat /src/awake; echo back >/src/back; grep -c ' /src ' /proc/mounts"); got != "awake\n1" {
		t.Errorf("after a rollback the guest says %q", got)
	}
	h.killServer()
	h.serve()
	if got := h.sh("box", "cat /src/back"); got != "back" {
		t.Errorf("with another server the guest says %q", got)
	}
	id := h.find("box").ID
	if err := unix.Kill(h.pidOf(id, "monitor"), unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	h.eventually("another monitor serves it", func() bool { return h.run("exec", "box", "--", "cat", "/src/back").stdout == "back\n" })
}

// folderForks: a child only reads.
func (h *host) folderForks(src string) {
	h.ok("fork", "box", "--name", "kid")
	if got := h.sh("kid-1", "cat /src/back; echo kid >/src/kid; echo $?"); !strings.HasPrefix(got, "back\n") || !strings.HasSuffix(got, "\n2") && !strings.HasSuffix(got, "\n1") {
		h.t.Errorf("a child says %q", got)
	}
	if _, err := os.Stat(src + "/kid"); err == nil {
		h.t.Error("a child writes")
	}
	if got := h.sh("box", "echo parent >/src/parent && cat /src/parent"); got != "parent" {
		h.t.Errorf("its parent says %q", got)
	}
	h.ok("rm", "kid-1")
}

// folderBusy: it is not taken from programs that use it, unless that is said.
func (h *host) folderBusy(src string) {
	h.ok("exec", "box", "--", "sh", "-c", "cd /src; sleep 1000 >/dev/null 2>&1 & sleep 0.5")
	h.run("volume", "unmount", "box", "/src").wants(h.t, 7, "sleep")
	h.ok("volume", "unmount", "box", "/src", "--force")
	if list := h.ok("volume", "ls", "box"); strings.Contains(list, src) {
		h.t.Errorf("its mounts are\n%s", list)
	}
	if got := h.sh("box", "ls /src; grep -c ' /src ' /proc/mounts || true"); got != "0" {
		h.t.Errorf("the guest says %q", got)
	}
}

// folderCrypt: an encrypted directory is a volume; a VM of the profile dev writes to it.
func (h *host) folderCrypt() {
	t := h.t
	dir := h.crypt()
	var mounted struct {
		Host string `json:"host"`
		RW   bool   `json:"rw"`
	}
	if err := json.Unmarshal([]byte(h.ok("volume", "mount", "box", "--volume", "project-data", "--host", dir, "--guest", "/data", "--rw", "--json")), &mounted); err != nil || mounted.Host != dir || !mounted.RW {
		t.Errorf("the folder was mounted as %+v (%v), want %s for writing", mounted, err, dir)
	}
	if got := h.sh("box", "cat /data/file; echo sealed >/data/guest"); got != "from the host" {
		t.Errorf("the guest says %q", got)
	}
	if data, err := os.ReadFile(dir + "/guest"); err != nil || string(data) != "sealed\n" {
		t.Errorf("the host sees %q, %v", data, err)
	}
	h.ok("suspend", "box")
	if out, err := exec.Command("fusermount", "-u", dir).CombinedOutput(); err != nil {
		t.Fatalf("unmount the host's directory: %v\n%s", err, out)
	}
	h.ok("start", "box") // without what is not encrypted any more
	if got := h.run("exec", "box", "--", "ls", "/data"); strings.Contains(got.stdout, "file") {
		t.Errorf("the guest says %q", got.stdout)
	}
	if got := h.ok("run", "--add-dir", dir+":/fixture:ro", "--", "sh", "-c", "touch /fixture/x 2>&1; ls /fixture | wc -l"); !strings.Contains(got, "Read-only") || !strings.HasSuffix(got, "\n0\n") {
		t.Errorf("a fixture: %q", got)
	}
}
