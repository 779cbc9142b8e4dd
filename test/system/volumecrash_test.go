//go:build system

// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package system

import (
	"bufio"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// bookkeeper writes numbered lines to an fsynced file and numbered rows to a
// database, in turns, and says each that it was promised to keep. With "check" it
// says what is there.
const bookkeeper = `
import os, sqlite3, sys
db = sqlite3.connect("/data/book.db", isolation_level=None)
db.execute("pragma synchronous=extra") # with full, a rollback journal may come back
if sys.argv[1] == "check":
    print(db.execute("pragma integrity_check").fetchone()[0])
    n, last = db.execute("select count(*), max(n) from t").fetchone()
    whole = 0
    for line in open("/data/book.txt", "rb"):
        if line != b"%08d\n" % (whole + 1):
            break
        whole += 1
    print(n, last, whole)
    sys.exit()
db.execute("pragma journal_mode=" + sys.argv[2])
db.execute("create table if not exists t (n integer primary key, filler blob)")
n = db.execute("select coalesce(max(n), 0) from t").fetchone()[0]
f = os.open("/data/book.txt", os.O_WRONLY | os.O_CREAT)
while True:
    n += 1
    os.pwrite(f, b"%08d\n" % n, 9 * (n - 1))
    os.fsync(f)
    db.execute("insert into t values (?, randomblob(3000))", (n,))
    print(n, flush=True)
`

// TestVolumeCrash: the VM, its monitor and the server are killed at random
// moments while a file and a database are written; nothing that was acknowledged
// to a program outside is missing, and the volume unlocks without a repair.
func TestVolumeCrash(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	h.ok("up", "--name", "box")
	h.ok("volume", "create", "work", "--size", "256")
	script := filepath.Join(t.TempDir(), "book.py")
	if err := os.WriteFile(script, []byte(bookkeeper), 0o600); err != nil {
		t.Fatal(err)
	}
	h.ok("cp", script, "box:/book.py")
	h.sh("box", "sync")
	last := 0
	for round, victim := range []string{"qemu", "qemu", "monitor", "server", "qemu"} {
		h.ok("volume", "unlock", "work")
		h.ok("volume", "mount", "box", "--volume", "work", "--guest", "/data", "--rw")
		last = h.killedWhileWriting(victim, []string{"delete", "wal"}[round%2], last)
		h.ok("volume", "unlock", "work")
		h.ok("volume", "mount", "box", "--volume", "work", "--guest", "/data", "--rw")
		h.bookIsWhole(round, victim, last)
		h.ok("volume", "unmount", "box", "/data")
		h.ok("volume", "lock", "work")
	}
}

// killedWhileWriting lets the bookkeeper write and kills something meanwhile. It
// returns the last number that was acknowledged, with the VM running and without
// the volume.
func (h *host) killedWhileWriting(victim, journal string, from int) int {
	h.t.Helper()
	cmd := exec.Command(h.binary, "exec", "box", "--", "python3", "-u", "/book.py", "write", journal)
	cmd.Env = h.environ()
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		h.t.Fatal(err)
	}
	var acked atomic.Int64
	acked.Store(int64(from))
	read := make(chan struct{})
	go func() { // ends with the command
		defer close(read)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			var n int64
			if _, err := fmt.Sscan(lines.Text(), &n); err == nil {
				acked.Store(n)
			}
		}
	}()
	for deadline := time.Now().Add(20 * time.Second); acked.Load() < int64(from)+5; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			h.t.Fatalf("nothing is written (%d)", acked.Load())
		}
	}
	time.Sleep(rand.N(1500 * time.Millisecond))
	id := h.find("box").ID
	switch victim {
	case "server":
		h.killServer()
	default:
		if err := syscall.Kill(h.pidOf(id, victim), syscall.SIGKILL); err != nil {
			h.t.Fatal(err)
		}
	}
	if victim == "monitor" || victim == "server" { // the guest writes on
		time.Sleep(500 * time.Millisecond)
		if err := syscall.Kill(h.pidOf(id, "qemu"), syscall.SIGKILL); err != nil {
			h.t.Fatal(err)
		}
	}
	if victim == "server" {
		h.serve()
	}
	_ = cmd.Process.Kill() // it may wait for a server that comes back
	<-read
	_ = cmd.Wait()
	h.awaitState("box", "stopped")
	h.ok("start", "box")
	h.t.Logf("%s was killed after %d", victim, acked.Load())
	return int(acked.Load())
}

// bookIsWhole checks that file and database hold all that was acknowledged.
func (h *host) bookIsWhole(round int, victim string, last int) {
	h.t.Helper()
	got := strings.Split(h.sh("box", "python3 /book.py check"), "\n")
	var rows, newest, lines int
	if len(got) == 2 {
		_, _ = fmt.Sscan(got[1], &rows, &newest, &lines)
	}
	if got[0] != "ok" || rows < last || rows != newest || lines < last {
		h.t.Errorf("round %d, %s killed after %d was acknowledged: %q", round, victim, last, got)
	}
}

// TestVolumeHistory: a volume is kept while a VM writes to it, put back and put
// back again; what came after is gone and what came before is there. Nothing of
// it lies on the disk in the clear, and its snapshots go with it.
//
// 000-25, 003-25
func TestVolumeHistory(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	h.ok("up", "--name", "box")
	h.ok("volume", "create", "work", "--size", "256")
	h.ok("volume", "unlock", "work")
	mount := func() { h.ok("volume", "mount", "box", "--volume", "work", "--guest", "/data", "--rw") }
	mount()
	h.sh("box", plant+"/data/kept; echo one >/data/n") // not synced
	start := time.Now()
	h.ok("volume", "snapshot", "create", "work", "--name", "one")
	t.Logf("a snapshot beside the writer: %v", time.Since(start))
	h.sh("box", "rm /data/kept; echo two >/data/n; sync")
	h.run("volume", "rollback", "work").wants(t, 7, "mounted in box")
	h.ok("volume", "unmount", "box", "/data")
	h.ok("volume", "resize", "work", "512M")
	start = time.Now()
	said := h.ok("volume", "rollback", "work")
	t.Logf("a rollback: %v", time.Since(start))
	undo := strings.Fields(said[strings.LastIndex(said, "vs-"):])[0]
	mount()
	if got := h.sh("box", "cat /data/n; grep -c PLANTED /data/kept; cat /sys/block/vdb/size"); got != "one\n20000\n524288" {
		t.Errorf("after the rollback: %q", got)
	}
	h.ok("volume", "unmount", "box", "/data")
	h.ok("volume", "rollback", "work", undo)
	mount()
	if got := h.sh("box", "cat /data/n; ls /data; cat /sys/block/vdb/size"); got != "two\nlost+found\nn\n1048576" {
		t.Errorf("after its undo: %q", got)
	}
	h.ok("volume", "unmount", "box", "/data")
	if l := h.ok("volume", "snapshot", "ls", "work"); !strings.Contains(l, "one") || strings.Count(l, "rollback") != 2 {
		t.Errorf("the snapshots:\n%s", l)
	}
	h.ok("volume", "snapshot", "rm", "work", "one")
	h.run("volume", "rollback", "work").wants(t, 3, "no such snapshot")
	h.ok("volume", "lock", "work")
	h.ok("rm", "box")
	h.nowhere("the volume's plaintext", planted)
	h.ok("volume", "unlock", "work") // whole
}

// TestVolumeRun: batch jobs of which nothing stays but what they wrote into a
// volume; status and output are the command's, and a job that is killed leaves a
// volume that the next can use.
//
// 000-46
func TestVolumeRun(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	h.ok("volume", "create", "work", "--size", "256")
	h.run("run", "--volume", "work:/data", "--", "true").wants(t, 125, "warren volume unlock work")
	h.ok("volume", "unlock", "work")
	start := time.Now()
	h.ok("run", "--volume", "work:/data", "--", "sh", "-c", plant+"/data/kept; echo one >>/data/log; (sleep 1000; cat /data/log) >/dev/null 2>&1 & cd /data; exec 9</data/log; sleep 100 & exit 0")
	t.Logf("a job with a new volume: %v", time.Since(start))
	h.volumeIs("work", "unlocked", 0)
	start = time.Now()
	if r := h.run("run", "--volume", "work:/data", "--", "sh", "-c", "echo two >>/data/log; cat /data/log; exit 3"); r.code != 3 || r.stdout != "one\ntwo\n" {
		t.Errorf("want status 3 and both lines of the log, got %+v", r)
	}
	t.Logf("a job with a volume: %v", time.Since(start))
	if got := h.ok("run", "--volume", "work:/data:ro", "--", "sh", "-c", "touch /data/x 2>&1; grep -c PLANTED /data/kept"); !strings.Contains(got, "Read-only") || !strings.HasSuffix(got, "20000\n") {
		t.Errorf("to read only: %q", got)
	}
	cmd := exec.Command(h.binary, "run", "--volume", "work:/data", "--", "sh", "-c", "echo three >>/data/log; sync; echo ready; sleep 100")
	cmd.Env = h.environ()
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "ready\n" {
		t.Fatalf("the program says %q (%v), want ready", line, err)
	}
	if err := cmd.Process.Kill(); err != nil { // the server removes the VM when its runner is gone
		t.Fatal(err)
	}
	_ = cmd.Wait()
	for deadline := time.Now().Add(90 * time.Second); len(h.list()) > 0; time.Sleep(time.Second) {
		if time.Now().After(deadline) {
			t.Fatalf("left: %+v", h.list())
		}
	}
	h.volumeIs("work", "locked", 0)
	h.ok("volume", "unlock", "work")
	if got := h.ok("run", "--volume", "work:/data", "--", "tail", "-n", "1", "/data/log"); got != "three\n" {
		t.Errorf("after a job that was killed: %q", got)
	}
	h.ok("volume", "lock", "work")
	h.nowhere("the volume's plaintext", planted)
	if left, err := filepath.Glob(filepath.Join(h.data, "vms", "*")); err != nil || len(left) > len(h.members()) {
		t.Errorf("left: %v, %v", left, err)
	}
	if left, err := filepath.Glob(filepath.Join(h.data, "generations", "*")); err != nil || len(left) > 0 { // no job has made a snapshot
		t.Errorf("left: %v, %v", left, err)
	}
}

// TestVolumeFullDisk: the host's disk fills up while a VM writes to a volume. The
// VM is paused and says so, continues when there is room, and nothing is missing
// or wrong.
func TestVolumeFullDisk(t *testing.T) {
	h := crashHost(t, smallMiB)
	h.ok("up", "--name", "app")
	h.ok("volume", "create", "work", "--size", "256")
	h.ok("volume", "unlock", "work")
	h.ok("volume", "mount", "app", "--volume", "work", "--guest", "/data", "--rw")
	h.count("app")
	script := filepath.Join(t.TempDir(), "book.py")
	if err := os.WriteFile(script, []byte(bookkeeper), 0o600); err != nil {
		t.Fatal(err)
	}
	h.ok("cp", script, "app:/book.py")
	h.sh("app", "(timeout 600 python3 -u /book.py write wal >/run/acked) >/dev/null 2>&1 & for i in $(seq 100); do test -s /run/acked && exit; sleep 0.1; done; exit 1")
	// Begun before the disk is full: the VM may be paused at its next write.
	h.ok("exec", "app", "-d", "--", "sh", "-c", "sleep 2; yes 0123456789 | head -c 20000000 >/data/big; sync; md5sum </data/big >/run/sum")
	h.leave(8) // the guest fills the rest; what it writes while the disk is filled fits, too
	h.eventually("it is paused and says so", func() bool { return strings.Contains(h.run("inspect", "app").stdout, "it resumes when there is room") })
	h.run("volume", "create", "other").wants(t, 8, "disk")
	h.volumeIs("work", "unlocked", 1)
	h.makeRoom()
	h.goesOn("there is room", "app")
	h.eventually("the file is written", func() bool { return h.run("exec", "app", "--", "test", "-s", "/run/sum").code == 0 })
	h.sh("app", "pkill python3; sleep 0.5; sync")
	got := strings.Fields(h.sh("app", "tail -n 1 /run/acked; python3 /book.py check; echo 3 >/proc/sys/vm/drop_caches; md5sum </data/big | cmp - /run/sum && wc -c </data/big; dmesg | grep -c 'I/O error' || true"))
	var last, rows, newest, lines int
	if len(got) != 7 {
		t.Fatalf("the checks after the full disk say %q, want 7 figures", got)
	}
	_, _ = fmt.Sscan(strings.Join([]string{got[0], got[2], got[3], got[4]}, " "), &last, &rows, &newest, &lines)
	if got[1] != "ok" || rows != newest || rows < last || lines < last || last == 0 {
		t.Errorf("%d writes were acknowledged; the database is %s with %d rows up to %d, and the log has %d lines", last, got[1], rows, newest, lines)
	}
	if got[5] != "20000000" {
		t.Errorf("the file that met the full disk has %s bytes with the same sum, want 20000000", got[5])
	}
	if got[6] != "0" {
		t.Errorf("the guest saw %s I/O errors", got[6])
	}
	h.ok("volume", "unmount", "app", "/data")
	h.ok("volume", "lock", "work")
	h.ok("volume", "unlock", "work") // whole
}
