//go:build system

// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package system

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/warren-vm/warren/internal/layout"
	"github.com/warren-vm/warren/vm"
)

// poolState is what GET /v1/host says of the pool.
type poolState struct{ Size, Ready, Hits, Misses int }

func (h *host) pool() (out poolState) {
	h.t.Helper()
	key, err := os.ReadFile(filepath.Join(h.data, "admin.key"))
	if err != nil {
		h.t.Fatal(err)
	}
	req, err := http.NewRequest("GET", "http://"+h.listen+"/v1/host", nil)
	if err != nil {
		h.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+strings.TrimSpace(string(key)))
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		h.t.Fatal(err)
	}
	defer resp.Body.Close()
	var body struct{ Pool poolState }
	if err := json.NewDecoder(resp.Body).Decode(&body); err != nil {
		h.t.Fatal(err)
	}
	return body.Pool
}

// members are the directories of VMs that are the pool's: a machine that no VM has
// taken, or none yet.
func (h *host) members() map[string]bool {
	h.t.Helper()
	out := map[string]bool{}
	dirs, err := os.ReadDir(filepath.Join(h.data, "vms"))
	if err != nil {
		h.t.Fatal(err)
	}
	for _, d := range dirs {
		var spec vm.MachineSpec
		err := layout.ReadJSON(layout.VMDir(filepath.Join(h.data, "vms", d.Name())).Machine(), &spec)
		if vm.KindOf(err) == vm.NotFound || err == nil && spec.Pooled {
			out[d.Name()] = true
		}
	}
	return out
}

// pooledHost is newHost whose first VM comes from the pool, as most VMs of users do:
// it waits until there is a machine.
func pooledHost(t testing.TB) *host {
	t.Helper()
	h := newHost(t)
	h.poolReady()
	return h
}

// poolReady waits until the pool has its member: on a busy host this takes as
// long as the pool's patience and a start.
func (h *host) poolReady() {
	h.t.Helper()
	for deadline := time.Now().Add(2 * time.Minute); h.pool().Ready == 0; time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			h.t.Fatalf("the pool stays empty: %+v\n%s", h.pool(), h.log)
		}
	}
}

// identity is what tells a guest from its siblings.
const identity = `hostname; cat /etc/machine-id /proc/sys/kernel/random/boot_id; cat /etc/ssh/ssh_host_ed25519_key.pub 2>/dev/null || echo none; head -c 16 /dev/urandom | od -An -tx1; date +%s`

// registry says whether the guest reaches its package registry.
const registry = `url=$(grep -rhoE 'https?://[^ ]+' /etc/apt/sources.list /etc/apt/sources.list.d | head -n 1)
curl -s -o /dev/null --max-time 20 "$url" && echo reached || echo refused`

// TestPool: VMs that come from the warm pool are VMs like any other, and what
// a crash leaves of the pool is swept.
func TestPool(t *testing.T) {
	h := newHost(t, "--pool", "1")
	seen := map[string]string{}
	for name, network := range map[string]string{"one": "packages", "two": "closed"} {
		h.poolReady()
		created := h.run("up", "--name", name, "--net", network)
		if created.code != 0 {
			t.Fatalf("the VM was not made: %s", created)
		}
		lines := strings.Split(h.sh(name, identity), "\n")
		if len(lines) != 6 {
			t.Fatalf("identity: %q", lines)
		}
		id := h.find(name).ID
		want := sha256.Sum256([]byte("warren machine-id " + id))
		if lines[0] != name || lines[1] != hex.EncodeToString(want[:16]) {
			t.Errorf("%s is called %s, machine-id %s", name, lines[0], lines[1])
		}
		for i, what := range []string{"host name", "machine-id", "boot id", "host key", "random bytes"} {
			if other, ok := seen[lines[i]]; ok && lines[i] != "none" {
				t.Errorf("%s and %s share their %s", other, name, what)
			}
			seen[lines[i]] = name
		}
		now, err := time.Parse("2006-01-02 15:04:05", h.sh(name, `date -u "+%Y-%m-%d %H:%M:%S"`))
		if off := time.Since(now); err != nil || off.Abs() > 5*time.Second {
			t.Errorf("its clock is off by %v (%v)", off, err)
		}
		if v := h.find(name); v.Network != network {
			t.Errorf("the network of %s is %s, want %s", name, v.Network, network)
		}
		if got, want := h.sh(name, registry), map[string]string{"packages": "reached", "closed": "refused"}[network]; got != want {
			t.Errorf("the package registry is %s from %s, want %s", got, name, want)
		}
		if records := h.ok("audit", "ls", "--json"); !strings.Contains(strings.ReplaceAll(records, " ", ""), `"pooled":true`) {
			t.Errorf("no record says that it came from the pool: %s", records)
		}
	}
	if p := h.pool(); p.Hits != 2 || p.Misses != 0 || p.Size != 1 {
		t.Errorf("pool: %+v", p)
	}

	// A crash leaves the member; the next server sweeps it and keeps the VMs.
	h.poolReady()
	h.killServer()
	before := len(h.processes())
	h.serve("--pool", "0") // no new members: the old one's end is counted
	if after := len(h.processes()); before != 6 || after != 4 {
		t.Errorf("%d processes before, %d after the sweep; want QEMU and monitor of three, then two", before, after)
	}
	if dirs, err := os.ReadDir(filepath.Join(h.data, "vms")); err != nil || len(dirs) != 2 {
		t.Errorf("%d VM directories, want 2 (%v)", len(dirs), err)
	}
	if got := h.sh("one", "hostname"); got != "one" {
		t.Errorf("after the restart: %q", got)
	}
	h.ok("stop", "two")
	h.ok("start", "two")
	if got := h.sh("two", "hostname; cat /proc/sys/kernel/hostname"); got != "two\ntwo" {
		t.Errorf("after stop and start: %q", got)
	}
}
