//go:build system

// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package system

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// TestCoreWorkspace walks the first five minutes of the README.
//
// 000-04, 000-06, 003-02
func TestCoreWorkspace(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	up := h.run("up", "--name", "box")
	if up.code != 0 {
		t.Fatalf("the VM was not made: %s", up)
	}
	if text := up.stdout + up.stderr; !strings.Contains(text, "emulated: not an isolation boundary") && !kvmHere(h) {
		t.Errorf("up does not say that it is emulated:\n%s", text)
	}
	r := h.run("exec", "box", "--", "sh", "-c", "echo hi; uname -a; echo oops >&2; exit 3")
	if r.code != 3 || !strings.HasPrefix(r.stdout, "hi\nLinux ") || r.stderr != "oops\n" {
		t.Fatalf("want status 3 and both streams apart, got %s", r)
	}
	dir := t.TempDir()
	data := make([]byte, 3<<20)
	if _, err := rand.Read(data); err != nil {
		t.Fatal(err)
	}
	in, out := filepath.Join(dir, "in.txt"), filepath.Join(dir, "out.txt")
	if err := os.WriteFile(in, data, 0o644); err != nil {
		t.Fatal(err)
	}
	h.ok("cp", in, "box:/work/in.txt")
	sum := sha256.Sum256(data)
	if got := h.sh("box", "sha256sum /work/in.txt"); !strings.HasPrefix(got, hex.EncodeToString(sum[:])) {
		t.Errorf("in the guest: %s", got)
	}
	h.ok("cp", "box:/work/in.txt", out)
	if back, err := os.ReadFile(out); err != nil || !bytes.Equal(back, data) {
		t.Errorf("copied back: %v, equal %v", err, bytes.Equal(back, data))
	}
	if got := h.sh("box", "systemctl is-system-running"); got != "running" {
		t.Errorf("systemd is %q: %s", got, h.sh("box", "systemctl --failed --no-legend; true"))
	}
	// A script is written, run, and its result is there for the next run.
	h.sh("box", "echo 'n=$(cat /work/n 2>/dev/null || echo 0); echo $((n+1)) | tee /work/n' > /work/step.sh")
	if a, b := h.sh("box", "sh /work/step.sh"), h.sh("box", "sh /work/step.sh"); a != "1" || b != "2" {
		t.Errorf("steps gave %s, %s", a, b)
	}
	if ps := h.ok("ps", "box"); !strings.Contains(ps, "systemd") {
		t.Errorf("ps: %s", ps)
	}
	if v := h.find("box"); v.State != "running" || v.Network != "closed" {
		t.Errorf("listed: %+v", v)
	}
}

func kvmHere(h *host) bool {
	return strings.Contains(h.run("inspect", "--json", "box").stdout, `"kvm"`)
}

// TestCoreStatus: exit statuses, time-outs and unknown things.
//
// 003-33
func TestCoreStatus(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	h.ok("up", "--name", "box")
	r := h.run("exec", "box", "--timeout", "1", "--", "sleep", "30")
	if r.code != 124 {
		t.Errorf("a command that takes too long: want status 124, got %s", r)
	}
	if r.took > 10*time.Second {
		t.Errorf("a command with a time-out of 1 s took %v", r.took)
	}
	if got := h.sh("box", "pgrep -x sleep || echo none"); got != "none" {
		t.Errorf("after a time-out sleep runs on: %s", got)
	}
	h.run("exec", "box", "--", "no-such-command").wants(t, 127, "no-such-command")
	h.run("exec", "nobody", "--", "true").wants(t, 125, "nobody")
	h.run("exec", "box", "--user", "nosuchuser", "--", "true").wants(t, 125, "nosuchuser")
	h.run("inspect", "nobody").wants(t, 3, "nobody")
	h.run("up", "--name", "box").wants(t, 5, "box")
	h.run("up", "--name", "Bad_Name").wants(t, 2, "name")
	h.run("up", "--cpu", "3").wants(t, 2, "power of two")
	h.run("up", "nosuchimage").wants(t, 3, "nosuchimage")
	if r := h.run("exec", "box", "-i", "--", "cat"); r.code != 0 {
		t.Errorf("cat without input: want status 0, got %s", r)
	}
	if r := h.runIn("", []byte("through"), "exec", "box", "-i", "--", "cat"); r.stdout != "through" {
		t.Errorf("cat does not give its input back: %s", r)
	}
	if r := h.run("exec", "box", "--cwd", "/etc", "-e", "A=b c", "--", "sh", "-c", `pwd; echo "$A"`); r.stdout != "/etc\nb c\n" {
		t.Errorf("directory and environment did not reach the command: %s", r)
	}
	if n := len(h.list()); n != 1 {
		t.Errorf("%d VMs after refused creates", n)
	}
}

// TestCoreStopStart: the disk is kept, memory is not, the id stays.
//
// 000-01, 000-05, 000-32, 000-33, 002-13, 002-21
func TestCoreStopStart(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	h.ok("up", "--name", "box")
	id := h.find("box").ID
	h.sh("box", "echo kept > /work/f; echo lost > /run/f; echo log-line >> /var/log/mine.log")
	bytes := h.sh("box", "head -c 1000000 /dev/urandom | tee /work/bytes | sha256sum")
	const tool = "sqlite3 /work/tool.db 'create table if not exists runs (n); insert into runs values (1); select count(*) from runs'"
	if got := h.sh("box", "sha256sum < /work/bytes; "+tool); got != bytes+"\n1" {
		t.Errorf("by the next command: %q, want %q", got, bytes)
	}
	down := h.run("down", "box")
	if down.code != 0 || !strings.Contains(down.stdout+down.stderr, "warren rm box") {
		t.Errorf("down does not say what remains and how to erase it: %s", down)
	}
	if v := h.find("box"); v.State != "stopped" || v.ID != id {
		t.Errorf("after down: %+v", v)
	}
	h.ok("start", "box")
	if got := h.sh("box", "cat /work/f /var/log/mine.log; cat /run/f 2>/dev/null || echo gone"); got != "kept\nlog-line\ngone" {
		t.Errorf("after start: %q", got)
	}
	if got := h.sh("box", "sha256sum < /work/bytes; "+tool); got != bytes+"\n2" {
		t.Errorf("after start: %q, want %q, and the tool's second run", got, bytes)
	}
	if v := h.find("box"); v.State != "running" || v.ID != id {
		t.Errorf("after start: %+v", v)
	}
	h.ok("rm", "box")
	if n := len(h.list()); n != 0 {
		t.Errorf("%d VMs after rm", n)
	}
	h.run("rm", "box").wants(t, 0, "nothing to remove")
}

// TestCoreOneShot: start, run, collect, destroy; nothing left, also after ^C.
//
// 002-03
func TestCoreOneShot(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	if r := h.run("run", "--", "python3", "-c", "print(6*7)"); r.code != 0 || r.stdout != "42\n" {
		t.Fatalf("want status 0 and 42, got %s", r)
	}
	if r := h.run("run", "--", "sh", "-c", "exit 9"); r.code != 9 {
		t.Fatalf("want the command's status 9, got %s", r)
	}
	f := filepath.Join(t.TempDir(), "data.csv")
	if err := os.WriteFile(f, []byte("a\nb\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if r := h.run("run", "--add", f, "--", "wc", "-l", "/work/data.csv"); !strings.HasPrefix(r.stdout, "2 ") {
		t.Fatalf("the added file does not have 2 lines in the VM: %s", r)
	}
	h.jobs(f)
	cmd := exec.Command(h.binary, "run", "--", "sleep", "60")
	cmd.Env = h.environ()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	h.eventually("the one-shot VM runs", func() bool { l := h.list(); return len(l) == 1 && l[0].State == "running" })
	if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err == nil {
		t.Error("run succeeded after ^C")
	}
	h.eventually("nothing is left after ^C", func() bool { return len(h.list()) == 0 })
}

// jobs are shaped as containers' are: a suite of tests, a document, an
// evaluation with a short time-out, and several at once.
func (h *host) jobs(input string) {
	t := h.t
	t.Helper()
	suite := filepath.Join(t.TempDir(), "test_sum.py")
	if err := os.WriteFile(suite, []byte("import unittest\nclass T(unittest.TestCase):\n def test(self): self.assertEqual(1 + 1, 2)\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if r := h.run("run", "base", "--add", suite, "--cwd", "/work", "--", "python3", "-m", "unittest", "-q"); r.code != 0 || !strings.Contains(r.stderr, "Ran 1 test") {
		t.Errorf("a suite of tests: %s", r)
	}
	if r := h.run("run", "--timeout", "1", "--", "sleep", "60"); r.code != 124 {
		t.Errorf("an evaluation beyond its time: %s", r)
	}
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			if r := h.run("run", "--add", input, "--", "sed", "s/.*/<p>&/", "/work/data.csv"); r.stdout != "<p>a\n<p>b\n" {
				t.Errorf("a document: %s", r)
			}
		})
	}
	wg.Wait()
	if l := h.list(); len(l) != 0 {
		t.Errorf("left: %+v", l)
	}
}

// TestCoreTwoMachines: what is made from one warm generation is not one machine.
//
// 002-01
func TestCoreTwoMachines(t *testing.T) {
	h := newHost(t)
	h.ok("up", "--name", "one")
	h.ok("up", "--name", "two")
	for _, line := range []string{
		"cat /etc/machine-id", "cat /proc/sys/kernel/random/boot_id", "hostname", "head -c 16 /dev/urandom | od -An -tx1",
		"cat /proc/sys/kernel/random/uuid", "python3 -c 'import uuid; print(uuid.uuid4())'",
	} {
		a, b := h.sh("one", line), h.sh("two", line)
		if a == b || a == "" {
			t.Errorf("%s: %q in both", line, a)
		}
	}
	if got := h.sh("one", "hostname"); got != "one" {
		t.Errorf("hostname is %q", got)
	}
	before := time.Now()
	stamp := h.sh("one", "date +%s.%N")
	at, err := time.ParseDuration(stamp + "s")
	if err != nil {
		t.Fatal(err)
	}
	if d := time.Unix(0, int64(at)); d.Before(before.Add(-time.Second)) || d.After(time.Now().Add(time.Second)) {
		t.Errorf("the guest's clock says %s, the host's %s", d, before)
	}
	// What one of them has the other has not: files, memory, processes, services,
	// users. Each is a machine of QEMU's own.
	h.sh("one", "echo mine > /work/mine; echo mine > /dev/shm/mine; useradd solo; systemd-run --quiet --unit=solo sleep 4242")
	const look = "ls /work /dev/shm | grep mine; pgrep -f '[s]leep 4242' >/dev/null && echo process; systemctl is-active solo; id -u solo 2>/dev/null; systemd-detect-virt >/dev/null && cat /proc/1/comm; true"
	if got := h.sh("one", look); got != "mine\nmine\nprocess\nactive\n1000\nsystemd" {
		t.Errorf("one has %q", got)
	}
	if got := h.sh("two", look); got != "inactive\nsystemd" {
		t.Errorf("two has of one: %q", got)
	}
	if a, b := h.pidOf(h.find("one").ID, "qemu"), h.pidOf(h.find("two").ID, "qemu"); a == b {
		t.Errorf("both are QEMU %d", a)
	}
}

// processOf returns the id of the command that has word in its arguments.
func (h *host) processOf(name, word string) string {
	h.t.Helper()
	var out struct {
		Commands []struct {
			ID   string   `json:"id"`
			Argv []string `json:"argv"`
		} `json:"commands"`
	}
	if err := json.Unmarshal([]byte(h.ok("ps", "--json", name)), &out); err != nil {
		h.t.Fatal(err)
	}
	for _, c := range out.Commands {
		if strings.Contains(strings.Join(c.Argv, " "), word+" ") && !strings.Contains(c.Argv[0], "pgrep") {
			return c.ID
		}
	}
	h.t.Fatalf("no command with %q in %+v", word, out.Commands)
	return ""
}

// TestCoreServeKilled: serve dies, the VM, its command and its log live on.
func TestCoreServeKilled(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	h.ok("up", "--name", "box")
	cmd := exec.Command(h.binary, "exec", "box", "--", "sh", "-c", "for i in 1 2 3 4 5 6 7 8 9 10 11 12; do echo tick $i; sleep 1; done; echo done; sleep 60")
	cmd.Env = h.environ()
	var out bytes.Buffer
	cmd.Stdout = &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	h.eventually("the command runs", func() bool { return h.run("exec", "box", "--", "pgrep", "-f", "tick").code == 0 })
	h.killServer()
	if err := cmd.Wait(); err == nil {
		t.Error("the client's exec succeeded though serve died")
	}
	h.serve()
	if v := h.find("box"); v.State != "running" {
		t.Fatalf("after the restart: %+v", v)
	}
	if got := h.sh("box", "pgrep -cf 'tick [$]i' || true"); got == "0" {
		t.Error("the command is gone")
	}
	id := h.processOf("box", "tick")
	h.eventually("its log goes on", func() bool { return strings.Contains(h.run("logs", "box", id).stdout, "done") })
}

// TestCoreMonitorKilled: a monitor dies, QEMU and the guest live on.
func TestCoreMonitorKilled(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	h.ok("up", "--name", "box")
	h.sh("box", "echo alive > /run/alive")
	if err := syscall.Kill(h.pidOf(h.find("box").ID, "monitor"), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	h.eventually("the VM answers again", func() bool {
		r := h.run("exec", "box", "--", "cat", "/run/alive")
		return r.code == 0 && r.stdout == "alive\n"
	})
}

// TestCoreQEMUKilled: QEMU dies, the VM is stopped and can start again.
func TestCoreQEMUKilled(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	h.ok("up", "--name", "box")
	h.sh("box", "echo kept > /work/f; sync")
	if err := syscall.Kill(h.pidOf(h.find("box").ID, "qemu"), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	h.eventually("it is stopped", func() bool { return h.find("box").State == "stopped" })
	h.ok("start", "box")
	if got := h.sh("box", "cat /work/f"); got != "kept" {
		t.Errorf("after a crash: %q", got)
	}
}

// TestCoreClosedNetwork: nothing is reached unless it was opened, and the
// refusal comes within seconds.
//
// 001-06, 003-30
func TestCoreClosedNetwork(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	h.ok("up", "--name", "box")
	start := time.Now()
	for _, line := range []string{
		"curl -sS --max-time 20 http://example.com/",
		"curl -sS --max-time 20 http://93.184.215.14/",
		"curl -sS --max-time 20 http://169.254.169.254/latest/meta-data/",
		"curl -sS --max-time 20 http://127.0.0.1:" + strings.Split(h.listen, ":")[1] + "/healthz",
		"curl -sS --max-time 20 http://10.0.2.2:" + strings.Split(h.listen, ":")[1] + "/healthz",
		// Nor by a child's child in a session of its own, nor is a file of the host there.
		"setsid -w sh -c 'sh -c \"curl -sS --max-time 20 http://example.com/\"'",
		"setsid -w sh -c 'cat " + h.data + "/admin.key'",
	} {
		if r := h.run("exec", "box", "--", "sh", "-c", line); r.code == 0 {
			t.Errorf("%s succeeded: %s", line, r.stdout)
		}
	}
	if d := time.Since(start); d > 25*time.Second {
		t.Errorf("the refusals took %s", d)
	}
}
