//go:build system

// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package system

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// ledger appends numbers, each durable before it is counted.
const ledger = `
import os, time
f = open("/root/ledger", "a")
n = 0
while True:
    n += 1
    f.write("%d\n" % n); f.flush(); os.fsync(f.fileno())
    with open("/run/.acknowledged", "w") as a: a.write(str(n))
    os.rename("/run/.acknowledged", "/run/acknowledged")
    time.sleep(0.02)
`

// victims are the processes that are killed.
var victims = []string{"serve", "monitor", "qemu"}

// withLedger makes a VM with the ledger running in it.
func (h *host) withLedger(name string) {
	h.t.Helper()
	h.ok("up", "--name", name)
	if r := h.runIn("", []byte(ledger), "exec", "-i", name, "--", "sh", "-c", "cat > /root/ledger.py; sync"); r.code != 0 {
		h.t.Fatalf("the ledger's program was not written: %s", r)
	}
	h.startLedger(name)
}

func (h *host) startLedger(name string) {
	h.t.Helper()
	h.ok("exec", name, "-d", "--", "sh", "-c", "rm -f /root/ledger /run/acknowledged; exec python3 /root/ledger.py")
	h.eventually("the ledger goes on", func() bool { return h.run("exec", name, "--", "test", "-s", "/run/acknowledged").code == 0 })
}

func (h *host) acknowledged(name string) int {
	h.t.Helper()
	n, err := strconv.Atoi(h.sh(name, "cat /run/acknowledged"))
	if err != nil {
		h.t.Fatal(err)
	}
	return n
}

// kill ends one process as a crash would. A VM may have none at that moment.
func (h *host) kill(who, id string) {
	h.t.Helper()
	if who == "serve" {
		h.killServer()
		h.serve()
		return
	}
	if pid := h.livePid(id, who); pid != 0 {
		_ = syscall.Kill(pid, syscall.SIGKILL) // it may have ended by itself
	}
}

// killedIn kills who at that moment of the command and returns how the command
// ended.
func (h *host) killedIn(who string, delay time.Duration, args ...string) result {
	h.t.Helper()
	id := h.find("app").ID
	done := make(chan result, 1)
	go func() { done <- h.run(args...) }()
	<-time.After(delay)
	h.kill(who, id)
	return <-done
}

// back wants the VM to answer, with a whole file system and a ledger that goes
// to atLeast. It reports whether the ledger's process is still there; where
// memory may be lost and is, it begins the ledger again.
func (h *host) back(what string, atLeast int, mayLose bool) (kept bool) {
	h.t.Helper()
	var out string
	h.eventually(what+": the VM answers", func() bool {
		r := h.run("exec", "app", "--", "sh", "-c", "tail -1 /root/ledger; dmesg | grep -c 'EXT4-fs error' || true")
		out = strings.TrimSpace(r.stdout)
		return r.code == 0
	})
	lines := strings.Split(out, "\n")
	if n, err := strconv.Atoi(lines[0]); err != nil || n < atLeast || len(lines) != 2 || lines[1] != "0" {
		h.t.Errorf("%s: the ledger and the file system's errors are %q, the ledger went to %d", what, out, atLeast)
	}
	if h.run("exec", "app", "--", "pgrep", "-f", "[l]edger.py").code != 0 {
		if !mayLose {
			h.t.Errorf("%s: its processes are gone", what)
		}
		h.startLedger("app")
		return false
	}
	from := h.acknowledged("app")
	h.eventually(what+": its programs go on", func() bool { return h.acknowledged("app") != from })
	return true
}

// TestKilledInResume kills at random moments of a resume: the processes that
// were suspended come back, unless QEMU itself was killed when they ran.
func TestKilledInResume(t *testing.T) {
	t.Parallel()
	h := crashHost(t, 0)
	h.withLedger("app")
	for _, who := range victims {
		h.killedResume(who, time.Duration(5+rand.IntN(600))*time.Millisecond)
	}
	h.whole("after the kills")
}

func (h *host) killedResume(who string, delay time.Duration) {
	h.t.Helper()
	what := fmt.Sprintf("%s killed %v into resume", who, delay)
	n := h.acknowledged("app")
	h.ok("suspend", "app")
	r := h.killedIn(who, delay, "resume", "app")
	kept := h.back(what, n, who == "qemu" && r.code == 0)
	h.t.Logf("%s: status %d, memory kept: %v", what, r.code, kept)
}

// TestKilledInRollback kills at random moments of a rollback: the VM is what it
// was before or what it was put back to, whole.
func TestKilledInRollback(t *testing.T) {
	t.Parallel()
	h := crashHost(t, 0)
	h.withLedger("app")
	for _, who := range victims {
		h.killedRollback(who, time.Duration(5+rand.IntN(1200))*time.Millisecond)
	}
	h.whole("after the kills")
}

func (h *host) killedRollback(who string, delay time.Duration) {
	h.t.Helper()
	what := fmt.Sprintf("%s killed %v into rollback", who, delay)
	h.sh("app", "rm -f /root/late; sync")
	n := h.acknowledged("app")
	h.ok("snapshot", "create", "app")
	h.sh("app", "echo late > /root/late; sync")
	r := h.killedIn(who, delay, "rollback", "app")
	kept := h.back(what, n, who == "qemu")
	late := h.run("exec", "app", "--", "cat", "/root/late").stdout == "late\n"
	h.t.Logf("%s: status %d, memory kept: %v, rolled back: %v", what, r.code, kept, !late)
	if r.code == 0 && late {
		h.t.Errorf("%s: it said it was rolled back and was not", what)
	}
}

// TestKilledInFlatten kills while the layers below a running VM's disk are
// merged into it: the disk holds what it held.
func TestKilledInFlatten(t *testing.T) {
	t.Parallel()
	h := crashHost(t, 0)
	h.withLedger("app")
	h.sh("app", "head -c 60000000 /dev/urandom > /root/big; sync; md5sum /root/big > /root/sum; sync")
	h.killedFlatten(victims[rand.IntN(len(victims))]) // one suffices here: `make soak` kills them all
	h.whole("after the kills")
}

func (h *host) killedFlatten(who string) {
	h.t.Helper()
	n := h.acknowledged("app")
	for range 9 {
		h.ok("snapshot", "create", "app", "--disk-only")
	}
	id := h.find("app").ID
	disk := filepath.Join(h.data, "vms", id, "overlay.qcow2")
	from := blocks(disk)
	begun := false
	for deadline := time.Now().Add(30 * time.Second); !begun && time.Now().Before(deadline); <-time.After(5 * time.Millisecond) {
		begun = blocks(disk) > from+(8<<20)
	}
	if !begun {
		h.t.Errorf("the layers were not merged in 30 s")
		return
	}
	<-time.After(time.Duration(rand.IntN(40)) * time.Millisecond)
	what := fmt.Sprintf("%s killed in flatten, %d MiB in", who, (blocks(disk)-from)>>20)
	h.kill(who, id)
	kept := h.back(what, n, who == "qemu")
	h.t.Logf("%s: memory kept: %v", what, kept)
	if r := h.run("exec", "app", "--", "sh", "-c", "echo 3 > /proc/sys/vm/drop_caches; md5sum -c /root/sum"); r.code != 0 {
		h.t.Errorf("%s: what was below the disk: %s", what, r)
	}
}

// blocks returns how much of a file is on the disk, in bytes.
func blocks(path string) int64 {
	st, err := os.Stat(path)
	if err != nil {
		return 0
	}
	return st.Sys().(*syscall.Stat_t).Blocks * 512
}
