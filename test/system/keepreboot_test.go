//go:build system

// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package system

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/warren-vm/warren/internal/layout"
)

// TestKeepOverReboot: a drain, the end of serve, and what a boot leaves of a
// host (nothing in its run directory, no process). A VM that continues after a
// boot does so by itself, its program where it was; one that stays sleeps until
// it is used, and has lost nothing either.
func TestKeepOverReboot(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	h.ok("up", "--name", "goes", "--persist", "persistent")
	h.ok("up", "--name", "stays", "--persist", "persistent")
	if out := h.ok("on-boot", "stays", "stay"); !strings.Contains(out, "stays suspended") {
		t.Errorf("on-boot says %q", out)
	}
	for _, name := range []string{"goes", "stays"} {
		h.count(name)
	}
	const who = "cut -d' ' -f22 /proc/$(pgrep -of /run/count)/stat" // the program's start, by its kernel's clock
	since := map[string]string{"goes": h.sh("goes", who), "stays": h.sh("stays", who)}

	var drained struct {
		VMs []struct {
			Name, State   string
			ResumesOnBoot bool
		}
	}
	if err := json.Unmarshal([]byte(h.ok("drain", "--json")), &drained); err != nil {
		t.Fatal(err)
	}
	if len(drained.VMs) != 2 {
		t.Fatalf("drained: %+v", drained)
	}
	for _, v := range drained.VMs {
		if v.State != "suspended" || v.ResumesOnBoot != (v.Name == "goes") {
			t.Errorf("drained: %+v", v)
		}
	}
	if r := h.run("start", "stays"); r.code == 0 || !strings.Contains(r.stderr, "shut down") {
		t.Errorf("a start while the host is drained: %d, %s", r.code, r.stderr)
	}
	h.stopServer()
	for pid, cmd := range h.processes() {
		t.Errorf("process %d would end with the host: %s", pid, cmd)
	}
	h.emptyRun()

	h.serve()
	h.eventually("it goes on by itself", func() bool { return h.find("goes").State == "running" })
	h.goesOn("after the boot", "goes")
	if got := h.find("stays").State; got != "suspended" {
		t.Errorf("stays is %s", got)
	}
	h.goesOn("used after the boot", "stays")
	for name, want := range since {
		if got := h.sh(name, who); got != want || got == "" {
			t.Errorf("the program of %s began at %q, and at %q before the boot", name, got, want)
		}
	}
}

// emptyRun leaves of the run directory what a boot leaves.
func (h *host) emptyRun() {
	h.t.Helper()
	run, err := layout.Dir(h.data).Run()
	if err != nil {
		h.t.Fatal(err)
	}
	if err := os.RemoveAll(string(run)); err != nil {
		h.t.Fatal(err)
	}
}
