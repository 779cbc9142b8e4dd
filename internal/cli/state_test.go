// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/warren-vm/warren/vm"
)

// aState is a VM with one of everything.
func aState(name string) vm.GuestState {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	port := func(n int, p vm.Probe) vm.GuestPort {
		return vm.GuestPort{ListeningPort: vm.ListeningPort{Proto: "tcp", Address: "0.0.0.0", Port: n, PID: 10, Command: "node server.js"}, Probe: p}
	}
	return vm.GuestState{
		ID: "abcdefghij0123456789", Name: name, State: vm.Running, Live: true, Time: now, StartedAt: time.Now().Add(-time.Hour),
		From: "generation sl-1", Losses: []string{"connections to the outside"}, Restored: []string{"memory"}, Problems: []string{"services: cut"},
		Processes: []vm.GuestProcess{
			{SystemProcess: vm.SystemProcess{PID: 1, User: "root", State: "S", Command: "/sbin/init"}, System: true},
			{SystemProcess: vm.SystemProcess{PID: 10, User: "dev", State: "S", RSS: 1 << 20, Command: "node server.js"}, Exec: "p3", Waits: "waits for connections on port 3000", StartedAt: now.Add(-time.Minute)},
			{SystemProcess: vm.SystemProcess{PID: 11, User: "dev", State: "S", Command: "sh -c run python3 later"}, Waits: "sleeps"},
			{SystemProcess: vm.SystemProcess{PID: 12, User: "dev", State: "Z", Command: "[ruby]"}, Waits: "has ended"},
		},
		Terminals: []vm.GuestTerminal{{Name: "pts/0", Leader: 20, Shell: "bash", Foreground: 21, Command: "evil\x1b[2J", Cwd: "/work", Waits: "reads its terminal"}},
		Ports: []vm.GuestPort{
			port(3000, vm.Probe{OK: true, Kind: "http", Status: 200, Server: "x", Answer: "<h1>Hi</h1>", From: "host", Millis: 4}),
			port(3001, vm.Probe{Kind: "refused", Why: "connection refused", From: "host"}),
		},
		Services: []vm.GuestService{{Name: "nginx", Active: "failed", Sub: "failed"}, {Name: "cron", Active: "active", Sub: "running"}, {Name: "apt", Active: "inactive", Sub: "dead"}},
		Mounts:   []vm.GuestMount{{Path: "/", Type: "ext4", Source: "/dev/vda", Total: 4 << 30, Free: 1 << 30}},
		Roles: []vm.GuestRole{
			{Role: vm.RoleREPL, PID: 21, Program: "python3", Alive: true, Seen: "python3 on pts/0", Why: "descriptor 0 is /dev/pts/0"},
			{Role: vm.RoleDatabase, PID: 22, Program: "postgres", Seen: "PostgreSQL", Why: "none of its ports answers"},
		},
	}
}

// TestStatePage: everything is on the page, with its evidence, and no text of
// the guest moves the cursor.
func TestStatePage(t *testing.T) {
	f := newFake(t)
	f.on("GET /v1/vms/box/state", aState("box"))
	r := run(t, f, Local{}, "", "state", "box")
	r.wants(t, 0, "")
	for _, want := range []string{
		"box  running for 60m, from generation sl-1", "waits for connections on port 3000", "and 1 of the system", "pts/0", "20 bash", `21 evil\x1b[2J`, "/work",
		`http 200 x "<h1>Hi</h1>" in 4 ms`, "NO: connection refused", "failed (failed)", "and 1 inactive", "1 GiB of 4 GiB",
		"descriptor 0 is /dev/pts/0", "\nRESTORED\n  memory\n", "\nLOST\n  connections to the outside\n", "\nNOT CHECKED\n  services: cut\n",
	} {
		if !strings.Contains(r.out, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	if strings.Contains(r.out, "\x1b") || strings.Contains(r.out, "/sbin/init") {
		t.Errorf("the page shows what it should not:\n%s", r.out)
	}
	if all := run(t, f, Local{}, "", "state", "-a", "box"); !strings.Contains(all.out, "/sbin/init") || !strings.Contains(all.out, "inactive (dead)") {
		t.Errorf("-a does not show all:\n%s", all.out)
	}
	var back vm.GuestState
	if err := json.Unmarshal([]byte(run(t, f, Local{}, "", "state", "--json", "box").out), &back); err != nil || len(back.Ports) != 2 {
		t.Errorf("state --json: %v, %+v, want 2 ports", err, back)
	}
}

// TestStateExpect: a script can compare a state with what it needs.
func TestStateExpect(t *testing.T) {
	f := newFake(t)
	f.on("GET /v1/vms/box/state", aState("box"))
	off := aState("off")
	off.Live, off.State, off.From = false, vm.Suspended, "will continue from generation sl-1"
	f.on("GET /v1/vms/off/state", off)
	f.on("GET /v1/vms/box/fs/stat", vm.FileInfo{Path: "/work/app.db"})
	for _, e := range []string{"file:/work/app.db", "port:3000", "process:node", "process:server.js", "service:cron", "service:cron.service", "role:repl", "terminal:pts/0", "mount:/"} {
		if r := run(t, f, Local{}, "", "state", "box", "--expect", e); r.code != 0 || r.stderr != "" || r.out != "" {
			t.Errorf("state --expect %s: status %d: %s", e, r.code, r.stderr)
		}
	}
	for e, why := range map[string]string{
		"port:3001": "connection refused", "port:3002": "nothing listens", "process:python3": "no such process", "process:ruby": "has ended",
		"service:nginx": "failed", "service:none": "no such service", "role:browser": "no program", "role:database": "none of its ports answers",
		"terminal:pts/9": "no such terminal", "mount:/data": "nothing is mounted",
	} {
		run(t, f, Local{}, "", "state", "box", "--expect", e, "--expect", "port:3000").wants(t, 1, "missing: "+e+": ")
		run(t, f, Local{}, "", "state", "box", "--expect", e).wants(t, 1, why)
	}
	run(t, f, Local{}, "", "state", "off", "--expect", "port:3000").wants(t, 1, "the VM is suspended")
	if r := run(t, f, Local{}, "", "state", "off"); !strings.HasPrefix(r.out, "off  suspended, will continue from generation sl-1\n") || strings.Contains(r.out, "PROCESSES") {
		t.Errorf("a suspended VM: %s", r.out)
	}
	for _, e := range []string{"port", "port:", "port:x", "port:70000", "color:red"} {
		run(t, nil, Local{}, "", "state", "box", "--expect", e).wants(t, 2, "hint: ")
	}
}

// TestStateDiff: exactly the differences between two VMs.
func TestStateDiff(t *testing.T) {
	f := newFake(t)
	other := aState("copy")
	other.Processes = other.Processes[:1]
	other.Processes[0].PID = 7 // one of the system: no difference
	other.Processes = append(other.Processes, aState("").Processes[2:]...)
	other.Ports[0].Probe.Millis = 99
	other.Ports[1].Probe = vm.Probe{OK: true, Kind: "silent"}
	other.Services[0].Active = "active"
	f.on("GET /v1/vms/box/state", aState("box"))
	f.on("GET /v1/vms/copy/state", other)
	f.on("GET /v1/vms/same/state", aState("same"))
	r := run(t, f, Local{}, "", "state", "box", "--diff", "copy")
	r.wants(t, 0, "")
	lines := strings.Split(strings.TrimSpace(r.out), "\n")
	if len(lines) != 4 || !strings.HasPrefix(lines[0], "WHAT") || !strings.Contains(lines[1], "3001") || !strings.Contains(lines[2], "10 node server.js") ||
		!strings.Contains(lines[3], "failed (failed)") {
		t.Errorf("state --diff of another is not three differences:\n%s", r.out)
	}
	if r := run(t, f, Local{}, "", "state", "box", "--diff", "same"); r.out != "no difference\n" {
		t.Errorf("state --diff of an equal one: %q, want no difference", r.out)
	}
	if r := run(t, f, Local{}, "", "state", "box", "--diff", "same", "--json"); strings.TrimSpace(r.out) != "[]" {
		t.Errorf("state --diff --json of an equal one: %q, want an empty array", r.out)
	}
}
