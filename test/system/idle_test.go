//go:build system

// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package system

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/warren-vm/warren/vm"
)

func (h *host) idle(name string) vm.Idle {
	h.t.Helper()
	var i vm.Idle
	if err := json.Unmarshal([]byte(h.ok("idle", name, "--json")), &i); err != nil {
		h.t.Fatal(err)
	}
	return i
}

// falls waits until the VM sleeps.
func (h *host) falls(name string) vm.Idle {
	h.t.Helper()
	for deadline := time.Now().Add(90 * time.Second); time.Now().Before(deadline); <-time.After(200 * time.Millisecond) {
		if i := h.idle(name); i.State == vm.Suspended {
			return i
		}
	}
	h.t.Fatalf("it does not fall asleep: %s", h.ok("idle", name))
	return vm.Idle{}
}

// counted reads the audit records of starts of a VM that were made to wake it.
func (h *host) woken(id string) (n int) {
	h.t.Helper()
	var list []struct{ Op, VM, Subject, Outcome string }
	if err := json.Unmarshal([]byte(h.ok("audit", "ls", "--json")), &list); err != nil {
		h.t.Fatal(err)
	}
	for _, r := range list {
		if r.Op == "start" && r.VM == id && r.Subject == "woken" && r.Outcome == "ok" {
			n++
		}
	}
	return n
}

// TestIdleWakesOnce: after its timeout a VM is suspended; twenty commands at
// once wake it with one start, and what ran in it continues. A hold keeps it
// awake until it is released.
//
// 002-12, 002-13
func TestIdleWakesOnce(t *testing.T) {
	t.Parallel()
	h := pooledHost(t)
	h.ok("up", "--name", "box", "--idle", "2s")
	defer h.run("rm", "box")
	id := h.find("box").ID
	h.ok("exec", "box", "--background", "--", "sh", "-c", "i=0; while :; do i=$((i+1)); echo $i >> /run/count; sleep 0.1; done")
	before, err := strconv.Atoi(h.sh("box", "sleep 1; tail -n 1 /run/count"))
	if err != nil || before == 0 {
		t.Fatalf("the counter stands at %d (%v), want it counting", before, err)
	}
	i := h.falls("box")
	if i.AsleepFor != "idle" || i.LastKind != vm.ActivityExec {
		t.Errorf("the VM sleeps for %q after %q, want idle after %q", i.AsleepFor, i.LastKind, vm.ActivityExec)
	}
	if quiet := i.Asleep.Sub(i.LastActivity); quiet < 2*time.Second {
		t.Errorf("the VM fell asleep %v after its last use, want 2 s or more", quiet)
	}
	t.Logf("suspended %v after the last use", i.Asleep.Sub(i.LastActivity))

	starts := h.woken(id)
	began := time.Now()
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			r := h.run("exec", "box", "--", "tail", "-n", "1", "/run/count")
			n, err := strconv.Atoi(strings.TrimSpace(r.stdout))
			if r.code != 0 || err != nil || n < before {
				t.Errorf("%s: %v, after %d", r, err, before)
			}
		})
	}
	wg.Wait()
	t.Logf("twenty commands woke it and were done after %v", time.Since(began))
	if n := h.woken(id) - starts; n != 1 {
		t.Errorf("%d starts", n)
	}

	h.ok("hold", "box", "--for", "10m", "--reason", "build")
	held := h.idle("box")
	if len(held.Holds) != 1 || held.Holds[0].Reason != "build" {
		t.Fatalf("the VM has the holds %+v, want the build's", held.Holds)
	}
	if held.State != vm.Running {
		t.Fatalf("a held VM is %q, want it running", held.State)
	}
	<-time.After(8 * time.Second)
	if i := h.idle("box"); i.State != vm.Running || len(i.Awake) != 1 {
		t.Errorf("in spite of a hold: %+v", i)
	}
	h.killServer()
	h.serve()
	if i := h.idle("box"); len(i.Holds) != 1 || i.Holds[0].ID != held.Holds[0].ID {
		t.Errorf("after a restart of the server: %+v", i)
	}
	h.ok("hold", "release", "box", string(held.Holds[0].ID))
	if i := h.falls("box"); i.LastKind != vm.ActivityHold {
		t.Errorf("after the hold was released the last use is %q, want the hold", i.LastKind)
	}
}

// TestIdleDial: a server in the guest answers the first connection after a
// wake.
func TestIdleDial(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	h.ok("up", "--name", "box")
	defer h.run("rm", "box")
	id := h.find("box").ID
	h.ok("exec", "box", "--background", "--", "python3", "-m", "http.server", "8000")
	h.sh("box", "until curl -sfo /dev/null localhost:8000; do sleep 0.2; done")
	for round := range 3 {
		h.ok("suspend", "box")
		h.ok("start", "box")
		began := time.Now()
		status, err := h.request(id, 8000)
		if err != nil || status != http.StatusOK {
			t.Errorf("round %d: %d, %v", round, status, err)
		}
		t.Logf("answered %v after the wake", time.Since(began))
	}
}

// request makes one HTTP request to a port of a guest, as the engine dials it.
func (h *host) request(id string, port int) (int, error) {
	h.t.Helper()
	found, err := filepath.Glob(filepath.Join(env("XDG_RUNTIME_DIR", "/run"), "warren", "*", id, "monitor.sock"))
	if err != nil || len(found) != 1 {
		h.t.Fatalf("sockets %v, %v", found, err)
	}
	conn, err := net.Dial("unix", found[0])
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	if _, err := fmt.Fprintf(conn, "GET /port/%d HTTP/1.1\r\nHost: monitor\r\nConnection: Upgrade\r\nUpgrade: warren-stream\r\n\r\n", port); err != nil {
		return 0, err
	}
	r := bufio.NewReader(conn)
	up, err := http.ReadResponse(r, nil)
	if err != nil {
		return 0, err
	}
	if up.StatusCode != http.StatusSwitchingProtocols {
		why, _ := io.ReadAll(up.Body)
		return 0, fmt.Errorf("not dialled: %s", why)
	}
	if _, err := fmt.Fprint(conn, "GET / HTTP/1.1\r\nHost: guest\r\nConnection: close\r\n\r\n"); err != nil {
		return 0, err
	}
	answer, err := http.ReadResponse(r, nil)
	if err != nil {
		return 0, err
	}
	_, err = io.Copy(io.Discard, answer.Body)
	return answer.StatusCode, err
}
