// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package diagnose

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/warren-vm/warren/vm"
)

var begin = time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)

// proc is a process that runs for 100 s and does nothing.
func proc(pid, ppid int, command, waits string) vm.GuestProcess {
	return vm.GuestProcess{
		SystemProcess: vm.SystemProcess{PID: pid, PPID: ppid, User: "root", State: "S", Command: command},
		StartedAt:     begin.Add(-100 * time.Second), Waits: waits,
	}
}

// report is a VM with nothing wrong, looked at for 5 s, and these processes.
func report(procs ...vm.GuestProcess) *Report {
	r := &Report{VM: vm.VM{ID: "abc", Name: "box", State: vm.Running, Network: vm.NetworkPolicy{Mode: vm.NetPackages}}, Now: begin}
	r.Before.VCPU, r.Before.MemTotal, r.Before.MemAvailable = 2, 1<<30, 1<<29
	r.Before.State.UptimeSeconds, r.Before.State.Time = 1000, begin.Add(-5*time.Second)
	r.Before.State.Processes = procs
	r.Before.State.Mounts = []vm.GuestMount{{Path: "/", Source: "/dev/vda", Type: "ext4", Total: 8 << 30, Free: 4 << 30, Files: 1000, FilesLeft: 900}}
	r.After = r.Before
	r.After.State.UptimeSeconds, r.After.State.Time = 1005, begin
	r.After.State.Processes = slices.Clone(procs)
	r.After.State.Mounts = slices.Clone(r.Before.State.Mounts)
	r.After.Inotify = vm.InotifyLimits{Watches: 1000, Instances: 128}
	return r
}

func (r *Report) port(n int, address string, pid int, p vm.Probe) {
	for _, q := range r.After.State.Processes {
		if q.PID == pid {
			r.After.State.Ports = append(r.After.State.Ports, vm.GuestPort{ListeningPort: vm.ListeningPort{Proto: "tcp", Address: address, Port: n, PID: pid, Command: q.Command}, Probe: p})
		}
	}
}

// TestFind: each trouble is named once, with who makes it; what is no trouble
// is not named.
func TestFind(t *testing.T) {
	lock := func(pid int, path string) vm.FileLock { return vm.FileLock{PID: pid, File: "fe:00:7", Path: path} }
	const frontend = "/var/lib/dpkg/lock-frontend"
	apt := proc(10, 1, "apt-get install -y x", "sleeps")
	for name, c := range map[string]struct {
		report func() *Report
		want   string   // the codes, in order
		says   []string // somewhere in the findings
	}{
		"nothing": {func() *Report { return report(proc(1, 0, "/sbin/init", "waits for an event")) }, "", nil},
		"the dpkg lock is another's": {func() *Report {
			r := report(apt, proc(20, 1, "python3 hold.py", "sleeps"))
			r.After.Locks = []vm.FileLock{lock(20, frontend)}
			return r
		}, "install-locked", []string{"waits for the lock " + frontend + ", which process 20 (python3 hold.py) holds", "the holder did nothing", "kill 20"}},
		"its own dpkg lock, and busy": {func() *Report {
			r := report(apt, proc(11, 10, "dpkg --unpack x", "runs"))
			r.After.Locks = []vm.FileLock{lock(10, frontend)}
			r.After.State.Processes[1].CPUSeconds = 3
			return r
		}, "", nil},
		"apt-get update has no need of dpkg's lock": {func() *Report {
			r := report(proc(10, 1, "apt-get update", "waits for a socket"), proc(20, 1, "dpkg -i x", "runs"))
			r.After.Locks = []vm.FileLock{lock(20, frontend)}
			r.After.State.Processes[0].CPUSeconds, r.After.State.Processes[1].CPUSeconds = 1, 4
			return r
		}, "", nil},
		"it asks a question": {func() *Report {
			r := report(apt, proc(11, 10, "dpkg --configure x", "waits for a child"), proc(12, 11, "whiptail", "reads its terminal"))
			r.Screens = map[int]string{10: "Restart services? [yes/no]"}
			return r
		}, "install-asks", []string{"Restart services?", "warren pty box"}},
		"it is stopped": {func() *Report {
			r := report(proc(10, 1, "npm install", "waits for a child"), proc(11, 10, "node-gyp", "is stopped"))
			r.After.State.Processes[1].State = "T"
			return r
		}, "install-stopped", []string{"kill -CONT 11"}},
		"it hangs, and a host was refused": {func() *Report {
			r := report(proc(10, 1, "node /usr/bin/npm ci", "waits for a socket"))
			r.Connections = []vm.Connection{{Time: begin, Proto: "tcp", Dest: "1.2.3.4:443", Name: "registry.example", Reason: "not a registry"}}
			return r
		}, "install-hung connection-refused", []string{"refused by the network policy: registry.example", "0.00 s of CPU and 0 bytes in 5.0 s", "net set box open"}},
		"it moves bytes": {func() *Report {
			r := report(proc(10, 1, "pip install x", "waits for a socket"))
			r.After.Counters = []vm.Counter{{PID: 10, IO: 1 << 20}}
			return r
		}, "", nil},
		"a dev server is no install": {func() *Report { return report(proc(10, 1, "npm run dev", "waits for a child")) }, "", nil},
		"a unit's port is another's": {func() *Report {
			r := report(proc(30, 1, "node old.js", "waits for connections on port 3000"))
			r.port(3000, "0.0.0.0", 30, vm.Probe{OK: true, Kind: "http", From: "host"})
			r.Units = []Unit{{GuestService: vm.GuestService{Name: "web", Active: "failed", Sub: "failed"}, Exec: "/usr/bin/python3 -m http.server 3000", Lines: []string{"Traceback", "OSError: [Errno 98] Address already in use"}}}
			return r
		}, "port-taken", []string{"unit web wants port 3000, which process 30 (node old.js) has", "service restart box web"}},
		"a command's port is a service's": {func() *Report {
			r := report(proc(30, 1, "nginx", "sleeps"))
			r.After.State.Processes[0].Unit = "nginx.service"
			r.port(8080, "0.0.0.0", 30, vm.Probe{OK: true, Kind: "http", From: "host"})
			r.Commands = []Command{{Process: vm.Process{ID: "p3", Argv: []string{"node", "server.js"}}, Lines: []string{"Error: listen EADDRINUSE: address already in use :::8080"}}}
			return r
		}, "port-taken", []string{"command p3 wants port 8080", "service stop box nginx"}},
		"a port that was taken and is free": {func() *Report {
			r := report()
			r.Units = []Unit{{GuestService: vm.GuestService{Name: "web", Active: "failed"}, Lines: []string{"bind: Address already in use"}}}
			return r
		}, "port-taken", []string{"nobody listens on it now"}},
		"a failed unit": {func() *Report {
			r := report()
			r.Units = []Unit{{GuestService: vm.GuestService{Name: "web", Active: "failed", Sub: "failed"}, Lines: []string{"config: line 7"}}, {GuestService: vm.GuestService{Name: "job", Active: "activating", Sub: "auto-restart"}}}
			return r
		}, "unit-failed unit-restarting", []string{"config: line 7", "logs box --service web"}},
		"a server on the loopback alone is reached": {func() *Report {
			r := report(proc(40, 1, "vite", "sleeps"))
			r.port(5173, "::1", 40, vm.Probe{OK: true, Kind: "http", Status: 200, From: "guest"})
			return r
		}, "", nil},
		"no answer": {func() *Report {
			r := report(proc(40, 1, "app", "runs"))
			r.port(80, "0.0.0.0", 40, vm.Probe{Kind: "refused", Why: "nobody takes it", From: "host"})
			r.port(81, "0.0.0.0", 40, vm.Probe{OK: true, Kind: "silent", From: "host"})
			return r
		}, "port-no-answer port-silent", []string{"nobody takes it"}},
		"a stopped server": {func() *Report {
			r := report(proc(40, 1, "node server.js", "is stopped"), proc(41, 40, "node child.js", "is stopped"))
			r.After.State.Processes[0].State, r.After.State.Processes[1].State = "T", "T"
			r.port(80, "0.0.0.0", 40, vm.Probe{OK: true, Kind: "silent", From: "host"})
			r.After.State.Roles = []vm.GuestRole{{Role: vm.RoleWatcher, PID: 40, Seen: "watches 3 places"}}
			return r
		}, "process-stopped", []string{"listens on 0.0.0.0:80", "it is a watcher: watches 3 places", "kill -CONT 40"}},
		"a job of a shell": {func() *Report {
			r := report(proc(40, 1, "vim x", "is stopped"))
			r.After.State.Processes[0].State, r.After.State.Processes[0].Terminal = "T", "pts/0"
			return r
		}, "process-stopped", []string{"`fg`"}},
		"stuck at both looks": {func() *Report {
			r := report(proc(40, 1, "cat /nfs/x", "waits for a device, and takes no signal (nfs_wait)"), proc(41, 1, "dd", "waits for a device"))
			r.Before.State.Processes[0].State, r.After.State.Processes[0].State, r.After.State.Processes[1].State = "D", "D", "D"
			r.After.Kernel = []vm.KernelLine{{Time: begin, Text: "INFO: task cat:40 blocked for more than 120 seconds."}}
			return r
		}, "process-stuck", []string{"nfs_wait", "blocked for more than 120"}},
		"a dead browser": {func() *Report {
			r := report(proc(40, 1, "chrome", "has ended"))
			r.After.State.Roles = []vm.GuestRole{{Role: vm.RoleBrowser, PID: 40, Seen: "chrome, 0 page processes", Why: "its program is chrome"}}
			return r
		}, "browser-dead", nil},
		"a browser that lost pages": {func() *Report {
			r := report(proc(40, 1, "chrome", "waits"))
			r.After.State.Roles = []vm.GuestRole{{Role: vm.RoleBrowser, PID: 40, Alive: true, Seen: "chrome, 1 page processes", Why: "2 have ended and were not cleared away"}}
			return r
		}, "browser-crashed", nil},
		"no more watches": {func() *Report {
			r := report(proc(40, 1, "node watch.js", "waits for file changes"), proc(41, 1, "tail -F x", "sleeps"))
			r.After.Counters = []vm.Counter{{PID: 40, Instances: 1, Watches: 1000}, {PID: 41, Instances: 1}}
			return r
		}, "watch-limit watcher-blind", []string{"1000 of 1000 inotify watches in use by user root", "fs.inotify.max_user_watches=4000"}},
		"no more instances": {func() *Report {
			r := report(proc(40, 1, "many", "sleeps"))
			r.After.Counters = []vm.Counter{{PID: 40, Instances: 128, Watches: 1}}
			return r
		}, "watch-limit", []string{"max_user_instances=1024"}},
		"a watcher's complaint": {func() *Report {
			r := report()
			r.Commands = []Command{{Process: vm.Process{ID: "p1"}, Lines: []string{"Error: ENOSPC: System limit for number of file watchers reached, watch '/x'"}}}
			return r
		}, "watch-limit", []string{"command p1: Error: ENOSPC"}},
		"a watcher of another's files": {func() *Report {
			r := report(proc(40, 1, "vite", "waits for file changes"))
			r.After.State.Processes[0].Cwd = "/data/app"
			r.After.State.Roles = []vm.GuestRole{{Role: vm.RoleWatcher, PID: 40, Alive: true, Why: "9 watches"}}
			r.After.State.Mounts = append(r.After.State.Mounts, vm.GuestMount{Path: "/data", Type: "fuse.rclone"})
			return r
		}, "watcher-remote", []string{"/data (fuse.rclone)", "poll"}},
		"a lock": {func() *Report {
			r := report(proc(40, 1, "app", "waits for a lock on /x"), proc(41, 1, "other", "sleeps"))
			r.After.Locks = []vm.FileLock{{PID: 41, File: "fe:00:9", Path: "/x"}, {PID: 40, File: "fe:00:9", Path: "/x", Waits: true}}
			return r
		}, "lock-wait", []string{"process 40 (app) waits for a lock on /x, which process 41 (other) holds"}},
		"full": {func() *Report {
			r := report()
			m := &r.After.State.Mounts[0]
			m.Free, m.FilesLeft = 1<<20, 3
			r.After.State.Mounts = append(r.After.State.Mounts, *m) // a bind mount is no second disk
			r.After.State.Mounts[1].Path = "/also"
			r.Usage = map[string][]DiskUse{"/": {{"/var/log", 3 << 30}}}
			r.After.Deleted = []vm.DeletedFile{{PID: 9, Path: "/tmp/x", Bytes: 1 << 30}}
			return r
		}, "disk-full no-inodes deleted-file-open", []string{"3072 MiB in /var/log", "resize box --disk"}},
		"nearly full": {func() *Report {
			r := report()
			r.After.State.Mounts[0].Free = 600 << 20
			return r
		}, "disk-low", nil},
		"the kernel killed": {func() *Report {
			r := report()
			r.After.Kernel = []vm.KernelLine{
				{Time: begin.Add(-2 * time.Minute), Text: "Out of memory: Killed process 9 (node) total-vm:9kB, anon-rss:9kB"},
				{Time: begin.Add(-time.Minute), Text: "Memory cgroup out of memory: Killed process 10 (node) total-vm:9kB, anon-rss:9kB"},
				{Time: begin.Add(-5 * time.Hour), Text: "Out of memory: Killed process 3 (make) total-vm:9kB"},
			}
			return r
		}, "oom-kill oom-kill", []string{"killed node for lack of memory, 60 s ago (2 times)", "2026-03-04 05:05:07Z Memory cgroup"}},
		"little memory": {func() *Report {
			r := report(proc(40, 1, "java", "sleeps"))
			r.After.MemAvailable, r.After.State.Processes[0].RSS = 1<<20, 1<<29
			return r
		}, "memory-low", []string{"512 MiB in process 40 (java)"}},
		"the disk breaks": {func() *Report {
			r := report()
			r.After.State.Mounts[0].ReadOnly = true
			r.After.Kernel = []vm.KernelLine{{Time: begin, Text: "EXT4-fs error (device vda): oh"}, {Time: begin, Text: "EXT4-fs (vda): Remounting filesystem read-only"}}
			return r
		}, "root-read-only disk-errors", nil},
		"the clock": {func() *Report {
			r := report()
			r.ClockOff, r.ClockSlack = -time.Hour, time.Second
			return r
		}, "clock-off", []string{"1h0m0s behind"}},
		"the clock is not known better": {func() *Report {
			r := report()
			r.ClockOff, r.ClockSlack = 4*time.Second, 3*time.Second
			return r
		}, "", nil},
		"a question": {func() *Report {
			r := report(proc(40, 1, "bash", "waits for a child"), proc(41, 40, "ssh host", "reads its terminal"), proc(50, 1, "python3", "reads its terminal"))
			r.After.State.Terminals = []vm.GuestTerminal{{Name: "pts/0", Foreground: 41, Waits: "reads its terminal"}, {Name: "pts/1", Foreground: 50, Waits: "reads its terminal"}}
			r.After.State.Roles = []vm.GuestRole{{Role: vm.RoleREPL, PID: 50, Alive: true}}
			r.Screens = map[int]string{40: "password:"}
			return r
		}, "terminal-waits", []string{"on the screen: password:"}},
		"a script's question": {func() *Report {
			r := report(proc(40, 1, "bash deploy.sh", "reads its terminal"), proc(50, 1, "-bash", "reads its terminal"), proc(51, 1, "bash --login", "reads its terminal"))
			for _, p := range r.After.State.Processes {
				r.After.State.Terminals = append(r.After.State.Terminals, vm.GuestTerminal{Name: fmt.Sprint("pts/", p.PID), Foreground: p.PID, Waits: p.Waits})
				r.After.State.Roles = append(r.After.State.Roles, vm.GuestRole{Role: vm.RoleREPL, PID: p.PID, Alive: true})
			}
			return r
		}, "terminal-waits", []string{"process 40 (bash deploy.sh) waits for somebody to type in pts/40"}},
		"an old refusal": {func() *Report {
			r := report()
			r.Connections = []vm.Connection{{Time: begin.Add(-time.Hour), Dest: "1.2.3.4:443"}, {Time: begin, Allowed: true, Dest: "1.2.3.4:443"}}
			return r
		}, "", nil},
		"a crash, busy CPUs, zombies": {func() *Report {
			r := report(proc(40, 1, "spin", "runs"))
			r.After.CPUSeconds, r.After.Load1, r.After.State.Processes[0].CPUSeconds = 10, 8, 5
			r.After.Kernel = []vm.KernelLine{{Time: begin, Text: "app[7]: segfault at 0 ip 0"}}
			for pid := 50; pid < 60; pid++ {
				z := proc(pid, 40, "[x]", "has ended")
				z.State = "Z"
				r.After.State.Processes = append(r.After.State.Processes, z)
			}
			return r
		}, "crash zombies cpu-busy", []string{"100 % of a CPU: process 40 (spin)", "has 10 ended children"}},
	} {
		t.Run(name, func(t *testing.T) {
			var codes, all []string
			for _, f := range Find(c.report()) {
				codes = append(codes, f.Code)
				all = append(all, f.Subject, f.Says, f.Do)
				all = append(all, f.Evidence...)
				if f.Says == "" || f.Do == "" || f.Subject == "" || f.Evidence == nil || !slices.Contains(vm.Severities, f.Severity) {
					t.Errorf("incomplete: %+v", f)
				}
			}
			text := strings.Join(all, "\n")
			if got := strings.Join(codes, " "); got != c.want {
				t.Errorf("found %q, want %q:\n%s", got, c.want, text)
			}
			for _, s := range c.says {
				if !strings.Contains(text, s) {
					t.Errorf("nothing says %q:\n%s", s, text)
				}
			}
		})
	}
}

// TestFindBounded: a guest that makes endless trouble gets a bounded page, and
// one that lies about its processes no endless search.
func TestFindBounded(t *testing.T) {
	var procs []vm.GuestProcess
	for pid := 2; pid < 1000; pid++ {
		p := proc(pid, 1, "evil\xff "+strings.Repeat("é", 5000), "is stopped")
		p.State = "T"
		procs = append(procs, p)
	}
	a, b := proc(1000, 1001, "npm install", "waits for a child"), proc(1001, 1000, "npm ci", "waits for a child") // each other's parent
	procs = append(procs, a, b, proc(1002, 1002, "apt install x", "waits for a child"))
	r := report(procs...)
	for i := range 1000 {
		r.Connections = append(r.Connections, vm.Connection{Time: begin, Dest: fmt.Sprint(i)})
		r.After.Kernel = append(r.After.Kernel, vm.KernelLine{Time: begin, Text: "I/O error " + strings.Repeat("x", 9000)})
	}
	list := Find(r)
	if len(list) > maxFindings {
		t.Errorf("%d findings", len(list))
	}
	more := 0
	for _, f := range list {
		for _, s := range append(f.Evidence, f.Says, f.Do, f.Subject) {
			if len(s) > 4*maxText || strings.ContainsRune(s, '\xff') || strings.ToValidUTF8(s, "") != s {
				t.Fatalf("a text of %d bytes", len(s))
			}
			if strings.Contains(s, "more of this kind") {
				more++
			}
		}
		if len(f.Evidence) > maxEvidence {
			t.Errorf("%d lines of evidence", len(f.Evidence))
		}
	}
	if more != 2 {
		t.Errorf("%d rules were cut, want 2", more)
	}
}

// TestBlocked: who does not continue, and what it waits for.
func TestBlocked(t *testing.T) {
	r := report(proc(1, 0, "/sbin/init", "sleeps"), proc(10, 1, "make", "waits for a child"), proc(11, 10, "cc", "reads a pipe"), proc(12, 1, "app", "waits for a lock on /x"),
		proc(13, 1, "other", "sleeps"), proc(14, 1, "dd", "waits for a device"))
	r.After.State.Processes[5].State = "D"
	r.After.Locks = []vm.FileLock{{PID: 13, File: "1"}, {PID: 12, File: "1", Waits: true}}
	got := Blocked(r.After)
	want := []vm.Blocked{
		{PID: 10, State: "S", Command: "make", Waits: "waits for a child: process 11 (cc) reads a pipe"},
		{PID: 12, State: "S", Command: "app", Waits: "waits for a lock on /x, held by process 13 (other)"},
		{PID: 14, State: "D", Command: "dd", Waits: "waits for a device"},
	}
	if !slices.Equal(got, want) {
		t.Errorf("the processes that do not continue are %+v\nwant %+v", got, want)
	}
}

// TestInstaller: command lines of package managers, and those that look alike.
func TestInstaller(t *testing.T) {
	for command, want := range map[string]string{
		"apt-get install x": "apt-get", "/usr/bin/dpkg --status-fd 9 --configure x": "dpkg", "apt install x": "apt", "/usr/bin/python3 /usr/bin/unattended-upgrade": "unattended-upgrade",
		"npm install": "npm", "node /usr/lib/node_modules/npm/bin/npm-cli.js ci": "npm", "python3 -m pip install x": "pip", "/usr/bin/python3 /usr/bin/pip3 install x": "pip",
		"pip3.11 download x": "pip", "yarn": "yarn", "cargo fetch": "cargo", "uv sync": "uv", "sudo apt-get update": "apt-get",
		"npm run dev": "", "node server.js": "", "python3 -c import pip": "", "bash": "", "": "", "vi apt": "", "go run .": "", "yarn dev": "", "sh -c apt-get install x": "",
	} {
		if got := installer(command); got != want {
			t.Errorf("the installer in %q is %q, want %q", command, got, want)
		}
	}
}

// TestLines: what a terminal would not show is no part of a line.
func TestLines(t *testing.T) {
	got := Lines([]byte("\x1b[31mred\x1b[0m\r\n\n  \n10%\r20%\r100% done\n\x1b]0;title\x07ask [y/n] \x1b[?25h"))
	if want := []string{"red", "100% done", "ask [y/n]"}; !slices.Equal(got, want) {
		t.Errorf("the lines are %q, want %q", got, want)
	}
}

// TestBiggest: the directory that holds it, not each one above it.
func TestBiggest(t *testing.T) {
	got := Biggest([]DiskUse{{"/var", 1000}, {"/var/log", 990}, {"/var/log/app", 980}, {"/home", 100}, {"/home/a", 50}, {"/home/b", 50}})
	if want := []DiskUse{{"/var/log/app", 980}, {"/home", 100}, {"/home/a", 50}, {"/home/b", 50}}; !slices.Equal(got, want) {
		t.Errorf("the biggest directories are %v, want %v", got, want)
	}
}

// TestAsleep: why a VM does not run, from its record.
func TestAsleep(t *testing.T) {
	rec := vm.VM{ID: "abc", Name: "box", State: vm.Suspended, Reason: "idle", Exit: vm.MachineExit{Reason: "idle", Time: begin}}
	f := Asleep(rec)
	if len(f) != 1 || f[0].Says != "the VM is suspended: it was idle for its idle timeout, at 2026-03-04T05:06:07Z" || f[0].Severity != vm.SeverityInfo {
		t.Errorf("an idle VM's findings are %+v, want one that says since when it is suspended", f)
	}
	rec = vm.VM{ID: "abc", State: vm.Stopped, Reason: "host-restart", Losses: []string{"memory"}}
	if f = Asleep(rec); f[0].Severity != vm.SeverityWarning || !strings.Contains(f[0].Do, "start abc") || !slices.Contains(f[0].Evidence, "lost: memory") {
		t.Errorf("a VM stopped by a host restart has the findings %+v, want a warning with the loss and the command to start it", f)
	}
	if f = Asleep(vm.VM{State: vm.Lost, Reason: "files-missing"}); f[0].Severity != vm.SeverityError {
		t.Errorf("a lost VM's findings are %+v, want an error", f)
	}
}
