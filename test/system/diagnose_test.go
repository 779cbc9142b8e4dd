//go:build system

// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package system

import (
	"bufio"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/warren-vm/warren/vm"
)

// holdLock takes dpkg's lock and sits on it.
const holdLock = `
import fcntl, time
f = open("/var/lib/dpkg/lock-frontend", "w")
fcntl.lockf(f, fcntl.LOCK_EX)
time.sleep(3600)
`

// manyWatch takes every inotify instance that root may have.
const manyWatch = `
import ctypes, resource, time
resource.setrlimit(resource.RLIMIT_NOFILE, (4096, 4096))
c = ctypes.CDLL(None)
fds = []
while True:
    fd = c.inotify_init1(0)
    if fd < 0: break
    fds.append(fd)
time.sleep(3600)
`

// blind opens a watcher that watches nothing, and waits for what it says.
const blind = `
import ctypes, os
os.read(ctypes.CDLL(None).inotify_init1(0), 4096)
`

// eat writes memory until the kernel says no.
const eat = `
b = []
while True: b.append(bytearray(b"x") * (8 << 20))
`

// diagnosis asks for one and returns the findings by their codes.
func (h *host) diagnosis(name string, args ...string) (vm.Diagnosis, map[string][]vm.Finding) {
	h.t.Helper()
	var d vm.Diagnosis
	if err := json.Unmarshal([]byte(h.ok(append([]string{"diagnose", name, "--json"}, args...)...)), &d); err != nil {
		h.t.Fatal(err)
	}
	out := map[string][]vm.Finding{}
	for _, f := range d.Findings {
		out[f.Code] = append(out[f.Code], f)
		if f.Do == "" || f.Says == "" || len(f.Evidence) == 0 {
			h.t.Errorf("a finding without evidence or remedy: %+v", f)
		}
	}
	return d, out
}

// TestDiagnose: each trouble that is made in a real guest is named, with the
// one who makes it, and gone from the page when it is gone.
//
// 002-34, 002-35, 002-37, 002-38
func TestDiagnose(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	h.ok("up", "--name", "box")
	if d, found := h.diagnosis("box"); !d.Live || len(d.Problems) > 0 || len(d.Findings) > 0 {
		t.Fatalf("a new VM has findings: %+v, %v", found, d.Problems)
	}
	h.followsService()
	dir := t.TempDir()
	for name, text := range map[string]string{"hold.py": holdLock, "many.py": manyWatch, "blind.py": blind, "eat.py": eat} {
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		h.ok("cp", file, "box:/work/"+name)
	}
	start := func(argv ...string) { h.ok(append([]string{"exec", "-d", "box", "--"}, argv...)...) }
	start("python3", "/work/hold.py")
	start("python3", "-m", "http.server", "3000")
	start("python3", "/work/blind.py")
	start("python3", "/work/many.py")
	start("sleep", "7777")
	h.eventually("port 3000 is taken", func() bool { return h.run("state", "box", "--expect", "port:3000").code == 0 })
	start("apt-get", "-o", "DPkg::Lock::Timeout=600", "-y", "install", "--reinstall", "hostname")
	h.run("service", "add", "box", "web", "--", "python3", "-m", "http.server", "3000")
	h.sh("box", "kill -STOP $(pgrep -f '^sleep 7777')")
	h.run("exec", "box", "--", "python3", "/work/eat.py") // it is killed, with its command's status
	var d vm.Diagnosis
	var found map[string][]vm.Finding
	codes := []string{"oom-kill", "port-taken", "install-locked", "process-stopped", "watch-limit", "watcher-blind"}
	h.eventually("all is found", func() bool {
		d, found = h.diagnosis("box")
		for _, c := range codes {
			if len(found[c]) == 0 {
				return false
			}
		}
		return true
	})
	if r := h.run("diagnose", "box", "--fail"); r.code != 1 || !strings.Contains(r.stdout, "ERROR  port-taken") || !strings.Contains(r.stdout, "  do: ") {
		t.Errorf("want status 1 and the taken port with advice, got %s", r)
	}
	h.topShows()
	if out := h.ok("logs", "box", "--service", "web", "--lines", "50"); !strings.Contains(out, "Address already in use") {
		t.Errorf("the failed service's log does not say why:\n%s", out)
	}
	// Last, since looking at what fills a disk takes a while.
	h.sh("box", "mkdir -p /big/deep; fallocate -l $(( ($(df --output=avail -k / | tail -1) - 8000) * 1024 )) /big/deep/file; true")
	d, found = h.diagnosis("box")
	for code, words := range map[string][]string{
		"disk-full":       {"/big/deep", "resize box"},
		"oom-kill":        {"python3", "--mem"},
		"port-taken":      {"unit web", "port 3000", "http.server 3000", "kill "},
		"install-locked":  {"apt-get", "/var/lib/dpkg/lock-frontend", "hold.py", "kill "},
		"process-stopped": {"sleep 7777", "kill -CONT"},
		"watcher-blind":   {"blind.py", "watches nothing", "start it again"},
		"watch-limit":     {"many.py", "fs.inotify.max_user_instances", "user root"},
	} {
		text, _ := json.Marshal(found[code])
		for _, w := range words {
			if !strings.Contains(string(text), w) {
				t.Errorf("%s does not say %q: %s", code, w, text)
			}
		}
	}
	for _, p := range d.Problems {
		if !strings.Contains(p, "of its files were looked at") { // many.py has more than are listed
			t.Errorf("not looked at: %s", p)
		}
	}

	h.sh("box", "rm -r /big; pkill -KILL -x sleep; pkill -KILL -x apt-get; pkill -KILL -x python3; systemctl reset-failed")
	h.eventually("what was mended is gone", func() bool {
		_, found = h.diagnosis("box")
		for _, c := range codes {
			if c != "oom-kill" && len(found[c]) > 0 {
				return false
			}
		}
		return len(found["oom-kill"]) == 1 && len(found["disk-full"]) == 0
	})
	h.ok("suspend", "box")
	if d, found := h.diagnosis("box"); d.Live || d.State != vm.Suspended || len(found["not-running"]) != 1 {
		t.Errorf("a suspended VM: %+v", d)
	}
	if out := h.ok("top", "box"); !strings.Contains(out, "suspended") || h.find("box").State != "suspended" {
		t.Errorf("top of a suspended VM: %s", out)
	}
}

// topShows holds the one page against what runs.
func (h *host) topShows() {
	h.t.Helper()
	var top vm.Top
	if err := json.Unmarshal([]byte(h.ok("top", "box", "--json")), &top); err != nil {
		h.t.Fatal(err)
	}
	if top.CPUPercent == nil || top.MemTotal == 0 {
		h.t.Errorf("top shows CPU %v and %d bytes of memory", top.CPUPercent, top.MemTotal)
	}
	if len(top.Mounts) == 0 || len(top.Services) == 0 || len(top.Logs) == 0 {
		h.t.Errorf("top shows the mounts %+v, services %+v and logs %+v, want some of each", top.Mounts, top.Services, top.Logs)
	}
	stopped, port := false, false
	for _, b := range top.Blocked {
		stopped = stopped || b.State == "T" && b.Command == "sleep 7777"
	}
	for _, p := range top.Ports {
		port = port || p.Port == 3000 && strings.Contains(p.Command, "http.server 3000")
	}
	if !stopped {
		h.t.Errorf("the stopped sleep is not among the blocked: %+v", top.Blocked)
	}
	if !port {
		h.t.Errorf("port 3000 has no server among the ports: %+v", top.Ports)
	}
	out := h.ok("top", "box", "--once")
	if !strings.Contains(out, "web failed") && !strings.Contains(out, "web activating") {
		h.t.Errorf("the page does not show the failed service:\n%s", out)
	}
	if !strings.Contains(out, "DISKS ") {
		h.t.Errorf("the page does not show disks:\n%s", out)
	}
}

// followsService reads a unit's journal as it grows, and leaves nothing behind.
func (h *host) followsService() {
	h.t.Helper()
	h.sh("box", "systemd-run --quiet --unit=beat sh -c 'while :; do echo beat $((i+=1)); sleep 0.3; done'")
	cmd := exec.Command(h.binary, "logs", "box", "--service", "beat", "--lines", "1", "--follow", "--json")
	cmd.Env = h.environ()
	out, err := cmd.StdoutPipe()
	if err != nil {
		h.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		h.t.Fatal(err)
	}
	first, seen := -1, 0
	lines := bufio.NewScanner(out)
	for seen < 8 && lines.Scan() {
		var l vm.UnitLog
		if err := json.Unmarshal(lines.Bytes(), &l); err != nil {
			h.t.Fatal(err)
		}
		word, n, _ := strings.Cut(l.Message, " ")
		i, err := strconv.Atoi(n)
		if word != "beat" || err != nil {
			continue // systemd's own
		}
		if first < 0 {
			first = i
		}
		if i != first+seen {
			h.t.Errorf("line %d comes after line %d", i, first+seen-1)
		}
		seen++
	}
	_ = cmd.Process.Signal(os.Interrupt)
	if err := cmd.Wait(); err != nil || seen != 8 {
		h.t.Errorf("%d lines were followed, and ^C ended it with %v", seen, err)
	}
	h.eventually("no journalctl is left", func() bool { return h.run("exec", "box", "--", "pgrep", "journalctl").code == 1 })
	h.sh("box", "systemctl stop beat")
}
