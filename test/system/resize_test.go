//go:build system

// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package system

import (
	"encoding/json"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// guestSize is what a guest has: CPUs, MiB of memory and of its root file
// system.
func (h *host) guestSize(name string) (cpus, memory, disk int) {
	h.t.Helper()
	out := h.sh(name, `echo $(nproc) $(($(awk '/^MemTotal/{print $2}' /proc/meminfo) / 1024)) $(df -BM --output=size / | tail -1 | tr -d M)`)
	f := strings.Fields(out)
	if len(f) != 3 {
		h.t.Fatalf("the guest says %q", out)
	}
	n := make([]int, 3)
	for i := range f {
		n[i], _ = strconv.Atoi(f[i])
	}
	return n[0], n[1], n[2]
}

// resizeIs resizes and checks how it was done and what the guest has then.
// Memory and file system may lack what the kernel keeps of them.
func (h *host) resizeIs(name, how string, cpus, memory, disk int, flags ...string) {
	h.t.Helper()
	var out struct {
		How map[string]string `json:"how"`
	}
	text := h.ok(append([]string{"resize", name, "--json"}, flags...)...)
	if err := json.Unmarshal([]byte(text), &out); err != nil {
		h.t.Fatal(err)
	}
	for part, got := range out.How {
		if got != how {
			h.t.Errorf("%v: %s is %s, want %s", flags, part, got, how)
		}
	}
	if len(out.How) == 0 {
		h.t.Errorf("%v changed nothing", flags)
	}
	h.sizeIs(name, cpus, memory, disk)
}

func (h *host) sizeIs(name string, cpus, memory, disk int) {
	h.t.Helper()
	c, m, d := h.guestSize(name)
	if c != cpus || m > memory || m < memory*9/10 || d > disk || d < disk*95/100 {
		h.t.Errorf("the guest has %d CPUs, %d MiB of memory, %d MiB of disk; want %d, %d, %d", c, m, d, cpus, memory, disk)
	}
}

// dataMiB is what a file in the data directory takes of the disk.
func (h *host) dataMiB(pattern string) int64 {
	h.t.Helper()
	found, err := filepath.Glob(filepath.Join(h.data, pattern))
	if err != nil || len(found) != 1 {
		h.t.Fatalf("%s is found as %v (%v), want one file", pattern, found, err)
	}
	var st syscall.Stat_t
	if err := syscall.Stat(found[0], &st); err != nil {
		h.t.Fatal(err)
	}
	return st.Blocks * 512 >> 20
}

// TestCoreResize: CPUs up and down, memory and disk up while the VM runs and
// its programs continue; what was added is in a suspended and in a forked VM;
// the rest by a stop and a start.
//
// 000-31, 002-16
func TestCoreResize(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	h.ok("up", "--name", "box")
	h.sizeIs("box", 1, 512, 16<<10)
	h.ok("exec", "-d", "box", "--", "sleep", "100000")
	sleeper := h.sh("box", "pgrep -x sleep")
	h.resizeIs("box", "live", 2, 512, 16<<10, "--cpu", "2")
	h.resizeIs("box", "live", 1, 512, 16<<10, "--cpu", "1")
	h.resizeIs("box", "live", 1, 1024, 16<<10, "--mem", "1G")
	h.resizeIs("box", "live", 1, 1024, 20<<10, "--disk", "20")

	// A dead monitor's successor knows what the machine has.
	id := h.find("box").ID
	if err := syscall.Kill(h.pidOf(id, "monitor"), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	h.eventually("a new monitor", func() bool { return h.run("exec", "box", "--", "true").code == 0 })
	h.resizeIs("box", "live", 2, 1024, 20<<10, "--cpu", "2")

	// The kernel uses the highest memory first: what was plugged in.
	sum := h.sh("box", "head -c 64M /dev/urandom > /dev/shm/big && sha256sum < /dev/shm/big")
	same := func(name string) {
		t.Helper()
		h.sizeIs(name, 2, 1024, 20<<10)
		if got := h.sh(name, "sha256sum < /dev/shm/big; pgrep -x sleep"); got != sum+"\n"+sleeper {
			t.Errorf("%s has %s, want %s and %s", name, got, sum, sleeper)
		}
	}
	h.ok("suspend", "box")
	if n := h.dataMiB("generations/*/ram-dimm0"); n < 64 {
		t.Errorf("the plugged in memory holds %d MiB of data", n)
	}
	h.ok("start", "box")
	same("box")
	h.ok("fork", "box", "--name", "kid")
	same("kid-1")
	h.resizeIs("kid-1", "live", 4, 2048, 24<<10, "--cpu", "4", "--mem", "2G", "--disk", "24")
	h.ok("rm", "kid-1")

	// Less memory needs a start, on the same disk.
	h.sh("box", "echo kept > /work/f; sync")
	h.resizeIs("box", "restart", 2, 512, 20<<10, "--mem", "512")
	if got := h.sh("box", "cat /work/f; pgrep -x sleep || echo none"); got != "kept\nnone" {
		t.Errorf("after the start: %q", got)
	}
	h.ok("stop", "box")
	r := h.run("resize", "box", "--disk", "24", "--cpu", "1")
	if r.code != 0 || !strings.Contains(r.stdout, "from its next start on") {
		t.Errorf("want a resize at the next start, got %s", r)
	}
	h.ok("start", "box")
	h.sizeIs("box", 1, 512, 24<<10)
	h.run("resize", "box", "--disk", "16").wants(t, 2, "cannot shrink")
	if h.find("box").ID != id {
		t.Error("the id has changed")
	}
	h.ok("rm", id)
	if l := h.list(); len(l) != 0 {
		t.Errorf("left after rm by the id: %+v", l)
	}
}
