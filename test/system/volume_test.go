//go:build system

// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package system

import (
	"bytes"
	"encoding/json"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// planted is what test/system/coding-agent writes into its volume. It stands in
// no file of the host in this form.
const planted = "PLANTED-VOLUME-PLAINTEXT"

// volumeJSON is the part of `volume inspect` and `volume ls --json` that tests
// look at.
type volumeJSON struct {
	ID        string `json:"id"`
	Name      string `json:"name"`
	State     string `json:"state"`
	Sensitive bool   `json:"sensitive"`
	Mounts    []struct {
		VM   string `json:"vmId"`
		Path string `json:"path"`
		RW   bool   `json:"rw"`
	} `json:"mounts"`
}

func (h *host) volume(name string) (v volumeJSON) {
	h.t.Helper()
	if err := json.Unmarshal([]byte(h.ok("volume", "inspect", name)), &v); err != nil {
		h.t.Fatal(err)
	}
	return v
}

// volumeIs checks what the host says of a volume.
func (h *host) volumeIs(name, state string, mounts int) {
	h.t.Helper()
	v := h.volume(name)
	if v.State != state || len(v.Mounts) != mounts || v.Sensitive != (state == "unlocked" || mounts > 0) {
		h.t.Errorf("%s is %s, sensitive %v, with %d mounts; want %s with %d", name, v.State, v.Sensitive, len(v.Mounts), state, mounts)
	}
}

// findsNothing looks for a text in every file of the data directory but the
// images, which lie elsewhere. Memory files may hold a few times what stood in
// registers when a program was interrupted, never a page.
func (h *host) findsNothing(text string) {
	h.t.Helper()
	files := 0
	err := filepath.WalkDir(h.data, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		files++
		n, err := occurrences(path, text)
		if n > 0 && (d.Name() != "ram" || n > 20) {
			h.t.Errorf("%s holds %d times what was written into a volume", path, n)
		}
		return err
	})
	if err != nil || files < 10 {
		h.t.Errorf("looked at %d files: %v", files, err)
	}
}

// occurrences counts a text in a file, which may be large.
func occurrences(path, text string) (count int, err error) {
	f, err := os.Open(path)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	buf := make([]byte, 4<<20)
	for at := int64(0); ; {
		n, err := f.ReadAt(buf, at)
		count += bytes.Count(buf[:n], []byte(text))
		if err == io.EOF {
			return count, nil
		}
		if err != nil {
			return count, err
		}
		at += int64(n - len(text) + 1) // it may begin in one part and end in the next
	}
}

// TestVolumeCodingAgent is the coding agent's script, line by line as the issue
// has it.
//
// 003-05, 003-08, 003-10, 003-11, 003-12, 003-13, 003-14, 003-15, 003-16, 003-22, 003-28, 003-29, 003-34,
// 003-43
func TestVolumeCodingAgent(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	out := t.TempDir()
	bin := t.TempDir()
	for _, name := range []string{"warren", "mvmctl"} {
		if err := os.Symlink(h.binary, filepath.Join(bin, name)); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command("coding-agent/run.sh")
	cmd.Env = append(h.environ(), "PATH="+bin+":"+os.Getenv("PATH"), "AGENT_IMAGE=base", "OUT="+out)
	said, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("the program fails: %v\n%s", err, said)
	}
	var result struct {
		Bytes int `json:"bytes"`
	}
	data, err := os.ReadFile(filepath.Join(out, "result.json"))
	if err == nil {
		err = json.Unmarshal(data, &result)
	}
	if want := 20000 * (len(planted) + 1); err != nil || result.Bytes != want {
		t.Errorf("the result is %q (%v), want %d bytes", data, err, want)
	}
	h.volumeIs("coding-agent-work", "locked", 0)
	if v := h.find("coding-agent"); v.State != "stopped" {
		t.Errorf("compute is %s", v.State)
	}
	h.findsNothing(planted)
	receipts, err := os.ReadFile(filepath.Join(out, "receipts.json"))
	for _, op := range []string{"volume-create", "volume-unlock", "mount", "unmount", "volume-lock"} {
		if err != nil || !strings.Contains(string(receipts), `"`+op+`"`) {
			t.Errorf("no receipt of %s (%v)", op, err)
		}
	}
	defer func(real string) { h.binary = real }(h.binary)
	h.binary = filepath.Join(bin, "mvmctl") // whoever comes from there calls it so
	h.stillThere("coding-agent")
}

// stillThere mounts the coding agent's volume again, in a VM that was booted
// since, and reads what was kept: what findsNothing has not found is there.
func (h *host) stillThere(name string) {
	h.t.Helper()
	if list := h.ok("volume", "ls", name); strings.Contains(list, "/workspace") {
		h.t.Errorf("nobody has asked for a mount, and there is one:\n%s", list)
	}
	h.run("volume", "mount", name, "--volume", "coding-agent-work", "--guest", "/workspace").
		wants(h.t, 6, "mvmctl volume unlock coding-agent-work")
	h.ok("volume", "unlock", "coding-agent-work")
	h.volumeIs("coding-agent-work", "unlocked", 0)
	h.ok("volume", "mount", name, "--volume", "coding-agent-work", "--guest", "/workspace")
	if got := h.sh(name, "grep -c PLANTED /workspace/kept.txt; touch /workspace/x 2>&1; cat /sys/block/vdb/ro"); !strings.HasPrefix(got, "20000\n") ||
		!strings.Contains(got, "Read-only") || !strings.HasSuffix(got, "\n1") {
		h.t.Errorf("the guest says %q", got)
	}
	if list := h.ok("volume", "ls", name); !strings.Contains(list, "/workspace") {
		h.t.Errorf("its mounts are\n%s", list)
	}
	h.ok("stop", name)
	h.volumeIs("coding-agent-work", "locked", 0) // with its last VM
	h.findsNothing(planted)
}

// TestVolumeShare: one writer or many readers, several volumes at once, and what
// is refused.
//
// 003-18
func TestVolumeShare(t *testing.T) {
	h := newHost(t)
	h.ok("up", "--name", "a")
	h.ok("up", "--name", "b")
	for _, v := range []string{"one", "two", "three"} {
		h.ok("volume", "create", v, "--size", "256")
		h.ok("volume", "unlock", v)
	}
	h.ok("volume", "mount", "a", "--volume", "one", "--guest", "/m", "--rw") // makes the file system
	h.ok("volume", "unmount", "a", "/m")
	h.ok("volume", "lock", "one")
	h.ok("volume", "unlock", "one")
	mount := func(vm, volume, path string, flags ...string) result {
		t.Helper()
		return h.run(append([]string{"volume", "mount", vm, "--volume", volume, "--guest", path}, flags...)...)
	}
	mount("a", "two", "/data").wants(t, 6, "mount it with --rw once")
	mount("a", "two", "/", "--rw").wants(t, 2, "the guest needs its own files there")
	mount("a", "two", "/usr", "--rw").wants(t, 2, "the guest needs its own files there")
	mount("a", "two", "data", "--rw").wants(t, 2, "absolute path")
	mount("a", "two", "/etc/apt", "--rw").wants(t, 5, "not empty")
	h.volumeIs("two", "unlocked", 0)
	mount("a", "two", "/two", "--rw").wants(t, 0, "")
	mount("a", "three", "/three", "--rw").wants(t, 0, "")
	mount("a", "one", "/one").wants(t, 0, "")
	mount("b", "one", "/one").wants(t, 0, "") // two readers
	mount("b", "two", "/two", "--rw").wants(t, 7, "a has it mounted to write")
	mount("b", "two", "/two", "--rw", "--share").wants(t, 7, "ext4")
	mount("b", "two", "/two").wants(t, 7, "--share")
	mount("b", "one", "/other", "--rw").wants(t, 5, "already")
	if h.sh("a", "echo two >/two/f; echo three >/three/f; cat /two/f /three/f; df --output=target | grep -c -E '^/(one|two|three)$'") != "two\nthree\n3" {
		t.Error("the volumes are mixed up")
	}
	h.ok("exec", "a", "--", "sh", "-c", "cd /two; sleep 1000 >/dev/null 2>&1 & sleep 0.5")
	h.run("volume", "unmount", "a", "/two").wants(t, 7, "sleep")
	h.run("volume", "lock", "two").wants(t, 7, "mounted in a at /two")
	h.ok("volume", "lock", "two", "--force")
	h.volumeIs("two", "locked", 0)
	h.run("fork", "a").wants(t, 6, "volumes detach")
	h.sh("a", "a=PLANTED; b=VOLUME; c=PLAINTEXT; yes $a-$b-$c | head -n 20000 >/three/kept; sync")
	h.ok("fork", "a", "--name", "kid", "--volumes", "detach")
	if h.sh("kid-1", "ls /three; ls /sys/block | grep -c vd") != "1" || h.sh("a", "cat /three/f") != "three" {
		t.Error("the fork has the volume, or its parent has lost it")
	}
	h.findsNothing(planted) // nor in the memory that the fork runs on
	h.nowhere("the key of three", h.keyOf("three"))
	h.ok("rm", "a", "kid-1")
	h.volumeIs("one", "unlocked", 1)
	h.volumeIs("three", "locked", 0)
	h.run("volume", "rm", "one").wants(t, 7, "mounted in b")
	h.ok("volume", "rm", "two", "three")
	if left, err := filepath.Glob(h.data + "/volumes/*"); err != nil || len(left) != 1 {
		t.Errorf("volumes on disk: %v (%v)", left, err)
	}
}

const volumeLedger = `
import os, sys
f = os.open("/data/ledger", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
n = 0
while True:
    n += 1
    os.write(f, b"%08d\n" % n)
    os.fsync(f)
    print(n, flush=True)
`

// TestVolumeLives: a suspend keeps a volume attached, under a writer; a crash of
// the VM loses no acknowledged write; keys end with the server, mounts do not.
//
// 003-05, 003-16
func TestVolumeLives(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	h.ok("up", "--name", "box")
	h.ok("volume", "create", "work", "--size", "256")
	h.ok("volume", "unlock", "work")
	h.ok("volume", "mount", "box", "--volume", "work", "--guest", "/data", "--rw")
	script := filepath.Join(t.TempDir(), "ledger.py")
	if err := os.WriteFile(script, []byte(volumeLedger), 0o600); err != nil {
		t.Fatal(err)
	}
	h.ok("cp", script, "box:/ledger.py")
	h.sh("box", "nohup python3 /ledger.py >/acked 2>/errors </dev/null &")
	acked := func() int {
		n, _ := strconv.Atoi(h.sh("box", "tail -n 1 /acked"))
		return n
	}
	h.sh("box", "for i in $(seq 100); do test -s /acked && exit; sleep 0.1; done; cat /errors; exit 1")
	h.sh("box", plant+"/data/kept; sync; grep -c PLANTED /data/kept")
	key := h.keyOf("work")
	h.ok("suspend", "box")
	if sealed, err := filepath.Glob(h.data + "/generations/*/ram.sealed"); err != nil || len(sealed) != 1 {
		t.Errorf("the memory is not sealed: %v (%v)", sealed, err)
	}
	h.traceless("suspended", key)
	h.volumeIs("work", "unlocked", 1)
	h.ok("volume", "lock", "work") // nobody runs with it
	h.run("start", "box").wants(t, 6, "warren volume unlock work")
	h.ok("volume", "unlock", "work")
	h.ok("start", "box")
	h.run("volume", "lock", "work").wants(t, 7, "mounted in box")
	h.mapped("running again", key)
	before := acked()
	h.sh("box", "sleep 1")
	if after := acked(); after <= before {
		t.Errorf("the writer does not go on: %d, then %d", before, after)
	}

	h.killServer()
	h.serve()
	h.volumeIs("work", "locked", 1) // no key survives; the mount does
	h.sh("box", "tail -n 1 /data/ledger")
	h.ok("suspend", "box")
	h.run("start", "box").wants(t, 6, "warren volume unlock work")
	h.stopServer()
	h.traceless("the server ended", key)
	h.serve()
	h.ok("volume", "unlock", "work")
	h.ok("start", "box")

	last := acked()
	if err := syscall.Kill(h.pidOf(h.find("box").ID, "qemu"), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	h.awaitState("box", "stopped")
	h.volumeIs("work", "locked", 0)
	h.ok("volume", "unlock", "work")
	h.ok("start", "box")
	h.run("volume", "mount", "box", "--volume", "work", "--guest", "/data").wants(t, 6, "mount it with --rw once")
	h.ok("volume", "mount", "box", "--volume", "work", "--guest", "/data", "--rw")
	h.wholeLedger("box", last)
	h.findsNothing("00000001\n00000002\n")
	h.ok("volume", "lock", "work", "--force")
	h.traceless("locked", key)
}

// traceless checks that no file of the host holds the planted text or a volume's
// key, when no machine runs on memory that may.
func (h *host) traceless(when, key string) {
	h.t.Helper()
	h.nowhere("the volume's plaintext, "+when, planted)
	h.nowhere("the volume's key, "+when, key)
}

// mapped checks the same while a machine runs on memory that may hold text of the
// volume: that is a plain file until the machine ends, and the only one.
func (h *host) mapped(when, key string) {
	h.t.Helper()
	h.nowhere("the volume's key, "+when, key)
	open, err := filepath.Glob(h.data + "/generations/*/ram")
	if err != nil || len(open) != 1 {
		h.t.Errorf("%s: memory files %v (%v)", when, open, err)
	}
	h.elsewhere("the volume's plaintext, "+when, planted, open...)
}

// wholeLedger checks that the ledger holds every line up to at least last.
func (h *host) wholeLedger(name string, last int) {
	h.t.Helper()
	got := h.sh(name, "awk '{ if ($1+0 != NR) { print \"line\", NR, \"is\", $1; exit } } END { print NR }' /data/ledger | tail -n 1")
	n, err := strconv.Atoi(got)
	if err != nil || n < last || last < 2 {
		h.t.Errorf("the ledger ends with %q, %d was acknowledged", got, last)
	}
}

// awaitState waits until a VM is in a state.
func (h *host) awaitState(name, state string) {
	h.t.Helper()
	for deadline := time.Now().Add(20 * time.Second); h.find(name).State != state; {
		if time.Now().After(deadline) {
			h.t.Fatalf("%s is %s", name, h.find(name).State)
		}
		time.Sleep(100 * time.Millisecond)
	}
}
