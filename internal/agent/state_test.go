// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/warren-vm/warren/vm"
)

// tree is a /proc of a test.
type tree struct {
	t   *testing.T
	dir string
}

// proc is one process of it.
type proc struct {
	pid, ppid, group, session, tty, front int
	name, state, cmdline, exe, cwd, unit  string
	syscall, wchan                        string
	fds                                   map[int]string
	fdinfo                                map[int]string
}

func newTree(t *testing.T) *tree {
	r := &tree{t, t.TempDir()}
	r.file("uptime", "100.00 50.00\n")
	r.file("net/tcp", "")
	r.file("self/mounts", "")
	return r
}

func (r *tree) file(name, text string) {
	r.t.Helper()
	path := filepath.Join(r.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		r.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		r.t.Fatal(err)
	}
}

func (r *tree) link(name, target string) {
	r.t.Helper()
	path := filepath.Join(r.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		r.t.Fatal(err)
	}
	if err := os.Symlink(target, path); err != nil {
		r.t.Fatal(err)
	}
}

func (r *tree) add(p proc) {
	r.t.Helper()
	dir := strconv.Itoa(p.pid) + "/"
	if p.state == "" {
		p.state = "S"
	}
	r.file(dir+"stat", fmt.Sprintf("%d (%s) %s %d %d %d %d %d 0 0 0 0 0 150 50 0 0 20 0 1 0 9000 0 10 0\n",
		p.pid, p.name, p.state, p.ppid, p.group, p.session, p.tty, p.front))
	r.file(dir+"cmdline", strings.ReplaceAll(p.cmdline, " ", "\x00")+"\x00")
	r.file(dir+"cgroup", "0::/system.slice/"+p.unit+"\n")
	r.file(dir+"syscall", p.syscall+"\n")
	r.file(dir+"wchan", p.wchan)
	if p.exe != "" {
		r.link(dir+"exe", p.exe)
		r.link(dir+"cwd", p.cwd)
	}
	for fd, to := range p.fds {
		r.link(dir+"fd/"+strconv.Itoa(fd), to)
	}
	for fd, text := range p.fdinfo {
		r.file(dir+"fdinfo/"+strconv.Itoa(fd), text)
	}
}

func (r *tree) state(exec map[int]string) vm.GuestState {
	r.t.Helper()
	s := scan{proc: r.dir, user: func(uint32) string { return "dev" }, exec: exec, self: 50}
	w, err := s.state()
	if err != nil {
		r.t.Fatal(err)
	}
	return w
}

func processOf(t *testing.T, w vm.GuestState, pid int) vm.GuestProcess {
	t.Helper()
	i := slices.IndexFunc(w.Processes, func(p vm.GuestProcess) bool { return p.PID == pid })
	if i < 0 {
		t.Fatalf("no process %d in %+v", pid, w.Processes)
	}
	return w.Processes[i]
}

const pts0 = 136 << 8 // device number of /dev/pts/0

// TestStateProcesses: what each process is and what it waits for.
func TestStateProcesses(t *testing.T) {
	r := newTree(t)
	r.add(proc{pid: 1, name: "systemd", cmdline: "/sbin/init", exe: "/usr/lib/systemd/systemd", cwd: "/", syscall: "232 0x4 0x0 0x10 0xffffffff 0x0 0x0 0x0 0x0"})
	r.add(proc{pid: 2, name: "kthreadd"})
	r.add(proc{pid: 3, ppid: 2, name: "rcu_gp"})
	r.add(proc{pid: 50, ppid: 1, name: "agent", cmdline: "/run/agent", exe: "/run/agent", cwd: "/", syscall: "running"})
	r.add(proc{pid: 60, ppid: 50, session: 60, name: "apt (x) get", cmdline: "apt-get install x", exe: "/usr/bin/apt-get", cwd: "/work", syscall: "61 0x3d 0x0 0x0 0x0 0x0 0x0 0x0 0x0"})
	r.add(proc{
		pid: 61, ppid: 60, session: 61, name: "dpkg", cmdline: "dpkg -i x", exe: "/usr/bin/dpkg", cwd: "/",
		syscall: "72 0x5 0x7 0x7ffd 0x0 0x0 0x0 0x0 0x0", fds: map[int]string{5: "/var/lib/dpkg/lock"},
	})
	r.add(proc{
		pid: 70, ppid: 1, name: "app", cmdline: "/srv/app", exe: "/srv/app (deleted)", cwd: "/srv", unit: "app.service",
		syscall: "0 0x3 0x0 0x0 0x0 0x0 0x0 0x0 0x0", fds: map[int]string{3: "pipe:[77]"},
	})
	r.add(proc{pid: 71, ppid: 1, name: "dd", cmdline: "dd", exe: "/bin/dd", state: "D", cwd: "/", syscall: "-1 0x0 0x0", wchan: "io_schedule"})
	r.add(proc{pid: 72, ppid: 70, name: "gone", state: "Z"})
	r.add(proc{pid: 73, ppid: 70, name: "stopped", cmdline: "vi", exe: "/bin/vi", cwd: "/", state: "T"})
	w := r.state(map[int]string{60: "p4"})
	if len(w.Processes) != 8 {
		t.Errorf("%d processes, want 8 without the kernel's", len(w.Processes))
	}
	for pid, want := range map[int]string{
		50: "runs", 60: "waits for a child", 61: "waits for a lock on /var/lib/dpkg/lock", 70: "reads a pipe",
		71: "waits for a device, and takes no signal (io_schedule)", 72: "has ended; its parent has not asked how", 73: "is stopped",
	} {
		if got := processOf(t, w, pid).Waits; got != want {
			t.Errorf("process %d %q, want %q", pid, got, want)
		}
	}
	apt := processOf(t, w, 60)
	if apt.Exec != "p4" || apt.System || apt.Cwd != "/work" || apt.User != "dev" || apt.CPUSeconds != 2 || apt.RSS != int64(10*os.Getpagesize()) {
		t.Errorf("apt is %+v, want exec p4 of dev in /work with 2 s of CPU", apt)
	}
	if age := w.Time.Sub(apt.StartedAt).Round(100e6); age != 10e9 {
		t.Errorf("it was started %s ago, want 10 s", age)
	}
	if p := processOf(t, w, 61); p.Exec != "p4" {
		t.Errorf("a child in a session of its own belongs to no command: %+v", p)
	}
	if p := processOf(t, w, 70); p.Unit != "app.service" || p.System {
		t.Errorf("the service's process is %+v, want unit app.service", p)
	}
	if !processOf(t, w, 1).System || !processOf(t, w, 50).System || processOf(t, w, 72).Command != "[gone]" {
		t.Errorf("the processes are %+v, want 1 and 50 as the system's and 72 without a command", w.Processes)
	}
}

// TestStateTerminals: the foreground process, its directory and what it waits
// for; a REPL needs evidence.
func TestStateTerminals(t *testing.T) {
	r := newTree(t)
	tty := map[int]string{0: "/dev/pts/0", 1: "/dev/pts/0"}
	r.add(proc{pid: 80, ppid: 50, group: 80, session: 80, tty: pts0, front: 81, name: "bash", cmdline: "-bash", exe: "/bin/bash", cwd: "/root", fds: tty, syscall: "61 0x0 0x0 0x0 0x0"})
	r.add(proc{pid: 81, ppid: 80, group: 81, session: 80, tty: pts0, front: 81, name: "apt-get", cmdline: "apt-get install x", exe: "/usr/bin/apt-get", cwd: "/work", fds: tty, syscall: "247 0x0 0x0 0x0 0x0"})
	r.add(proc{pid: 82, ppid: 81, group: 81, session: 80, tty: pts0, front: 81, name: "dpkg", cmdline: "dpkg --configure x", exe: "/usr/bin/dpkg", cwd: "/", fds: tty, syscall: "0 0x0 0x0 0x0 0x0"})
	// A Python that selects on its terminal, with the set in its memory.
	r.add(proc{
		pid: 90, ppid: 50, group: 90, session: 90, tty: pts0 | 3, front: 90, name: "python3", cmdline: "python3", exe: "/usr/bin/python3.11", cwd: "/srv",
		fds: map[int]string{0: "/dev/pts/3"}, syscall: "23 0x1 0x20 0x0 0x0 0x0",
	})
	r.file("90/mem", strings.Repeat("\x00", 0x20)+"\x01"+strings.Repeat("\x00", 7))
	// One that runs a script, and one in the background, are none.
	r.add(proc{
		pid: 91, ppid: 90, group: 91, session: 90, tty: pts0 | 3, front: 90, name: "node", cmdline: "node", exe: "/usr/bin/node", cwd: "/srv",
		fds: map[int]string{0: "/dev/pts/3"}, syscall: "202 0x1 0x0 0x0 0x0",
	})
	r.add(proc{
		pid: 95, ppid: 50, group: 95, session: 95, tty: pts0 | 4, front: 95, name: "python3", cmdline: "python3 serve.py", exe: "/usr/bin/python3.11", cwd: "/srv",
		fds: map[int]string{0: "/dev/pts/4"}, syscall: "230 0x1 0x0 0x0 0x0",
	})
	w := r.state(nil)
	want := []vm.GuestTerminal{
		{Name: "pts/0", Leader: 80, Shell: "-bash", Foreground: 81, Command: "apt-get install x", User: "dev", Cwd: "/work", Waits: "waits for a child: 82 dpkg reads its terminal"},
		{Name: "pts/3", Leader: 90, Shell: "python3", Foreground: 90, Command: "python3", User: "dev", Cwd: "/srv", Waits: "reads its terminal"},
		{Name: "pts/4", Leader: 95, Shell: "python3 serve.py", Foreground: 95, Command: "python3 serve.py", User: "dev", Cwd: "/srv", Waits: "sleeps"},
	}
	if !slices.Equal(w.Terminals, want) {
		t.Errorf("the terminals are %+v\nwant %+v", w.Terminals, want)
	}
	var repls []int
	for _, role := range w.Roles {
		if role.Role == vm.RoleREPL {
			repls = append(repls, role.PID)
		}
		if role.Why == "" || role.Seen == "" {
			t.Errorf("a role without evidence: %+v", role)
		}
	}
	if !slices.Equal(repls, []int{80, 90}) {
		t.Errorf("REPLs are %v, want the shell 80 and the Python 90: %+v", repls, w.Roles)
	}
}

// TestStateRoles: watchers, workers, databases and browsers, each with its
// evidence; a program without evidence has no role.
func TestStateRoles(t *testing.T) {
	r := newTree(t)
	file := filepath.Join(t.TempDir(), "app.db")
	if err := os.WriteFile(file, []byte("SQLite format 3\x00rest"), 0o644); err != nil {
		t.Fatal(err)
	}
	fake := filepath.Join(t.TempDir(), "fake.db")
	if err := os.WriteFile(fake, []byte("something else here"), 0o644); err != nil {
		t.Fatal(err)
	}
	r.file("net/tcp", "  sl\n   0: 0100007F:18EB 00000000:0000 0A 0:0 0:0 0 0 0 4711 1\n")
	poll := make([]byte, 24)
	binary.LittleEndian.PutUint32(poll[16:], 5)
	r.add(proc{
		pid: 100, name: "watch", cmdline: "node watch", exe: "/usr/bin/node", cwd: "/w", syscall: "7 0x10 0x1 0x0 0x0",
		fds: map[int]string{1: "/dev/null", 5: "anon_inode:inotify"}, fdinfo: map[int]string{5: "pos:\t0\ninotify wd:1 ino:2\ninotify wd:2 ino:3\n"},
	})
	r.file("100/mem", string(poll))
	r.add(proc{pid: 101, name: "idle", cmdline: "idle", exe: "/bin/idle", cwd: "/", fds: map[int]string{5: "anon_inode:inotify"}, fdinfo: map[int]string{5: "pos:\t0\n"}})
	r.add(proc{pid: 102, name: "data", cmdline: "data", exe: "/bin/data", cwd: "/", fds: map[int]string{3: file, 4: file + "-wal", 5: fake}})
	r.add(proc{
		pid: 103, name: "redis-server", cmdline: "redis-server 127.0.0.1:6379", exe: "/usr/bin/redis-server", cwd: "/",
		fds: map[int]string{6: "socket:[4711]", 7: "anon_inode:[eventpoll]"}, fdinfo: map[int]string{7: "pos:\t0\ntfd:        6 events: 19\n"}, syscall: "232 0x7 0x0 0x0 0x0",
	})
	r.add(proc{pid: 104, name: "celery", cmdline: "/usr/bin/python3 /usr/bin/celery -A app worker", exe: "/usr/bin/python3.11", cwd: "/"})
	r.add(proc{pid: 105, name: "nginx", cmdline: "nginx: worker process", exe: "/usr/sbin/nginx", cwd: "/"})
	r.add(proc{pid: 106, name: "chromium", cmdline: "chromium --headless", exe: "/usr/lib/chromium/chromium", cwd: "/", state: "T"})
	r.add(proc{pid: 107, ppid: 106, name: "chromium", cmdline: "chromium --type=renderer", exe: "/usr/lib/chromium/chromium", cwd: "/"})
	r.add(proc{pid: 108, ppid: 106, name: "chromium", state: "Z"})
	w := r.state(nil)
	var got []string
	for _, role := range w.Roles {
		got = append(got, fmt.Sprintf("%s %d %v | %s | %s", role.Role, role.PID, role.Alive, role.Seen, role.Why))
	}
	want := []string{
		"watcher 100 true | watches 2 places | descriptor 5 is inotify with 2 watches; it waits for file changes; its output goes to /dev/null",
		"database 102 true | SQLite " + file + " | descriptor 3 is " + file + ", which begins as an SQLite file; its wal is open too",
		"database 103 true | Redis | its program is redis-server; it listens on 6379",
		"worker 104 true | celery worker | its command line names celery worker; it waits",
		"browser 106 false | chromium, 1 page processes, but it is stopped | its program is chromium; 1 of its processes show pages, 1 have ended and were not cleared away",
	}
	if !slices.Equal(got, want) {
		t.Errorf("the roles are\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if p := processOf(t, w, 103); p.Waits != "waits for connections on port 6379" {
		t.Errorf("epoll: %q", p.Waits)
	}
	if len(w.Ports) != 1 || w.Ports[0].PID != 103 || w.Ports[0].Address != "127.0.0.1" {
		t.Errorf("the ports are %+v, want that of process 103 alone", w.Ports)
	}
}

// TestStateHostile: whatever a guest's users put into /proc, the pass works and stays short.
func TestStateHostile(t *testing.T) {
	r := newTree(t)
	r.add(proc{pid: 200, name: ") R 1 (", cmdline: strings.Repeat("x", 100<<10), exe: "/x", cwd: "/", syscall: "7 0xffffffffffffffff 0xffffffffffffffff 0x0 0x0"})
	r.add(proc{pid: 201, name: "sel", cmdline: "sel", exe: "/x", cwd: "/", syscall: "23 0xffffffff 0x8 0x8 0x0 0x0"})
	r.file("201/mem", strings.Repeat("\xff", 4096))
	r.file("202/stat", "202 (short) S 1")
	r.file("203/stat", "")
	fds := map[int]string{}
	for i := range maxStateFDs + 10 {
		fds[i] = "pipe:[1]"
	}
	r.add(proc{pid: 204, name: "many", cmdline: "many", exe: "/x", cwd: "/", fds: fds})
	r.file("self/mounts", "/dev/vda /a\\040b ext4 ro,relatime 0 0\nproc /proc proc rw 0 0\nnonsense\nserver:/x /nfs nfs4 rw 0 0\n")
	w := r.state(nil)
	if len(w.Processes) != 3 || len(processOf(t, w, 200).Command) > 4096 || processOf(t, w, 200).State != "S" {
		t.Errorf("%d processes, %+v", len(w.Processes), w.Processes[0].State)
	}
	if got := processOf(t, w, 201).Waits; len(got) > 200 {
		t.Errorf("a wait for everything: %q", got)
	}
	if len(w.Problems) != 1 || !strings.Contains(w.Problems[0], "204") {
		t.Errorf("what was cut is not named: %q", w.Problems)
	}
	want := []vm.GuestMount{{Path: "/a b", Source: "/dev/vda", Type: "ext4", ReadOnly: true}, {Path: "/nfs", Source: "server:/x", Type: "nfs4"}}
	if !slices.Equal(w.Mounts, want) {
		t.Errorf("the mounts are %+v, want %+v", w.Mounts, want)
	}
}

// TestProbeInside probes real sockets: an HTTP server, one that greets, one
// that sends nothing, one that closes, and none.
func TestProbeInside(t *testing.T) {
	serve := func(answer func(net.Conn)) vm.GuestPort {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { l.Close() })
		go func() {
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				answer(c)
			}
		}()
		return vm.GuestPort{ListeningPort: vm.ListeningPort{Proto: "tcp", Address: "127.0.0.1", Port: l.Addr().(*net.TCPAddr).Port}}
	}
	web := serve(func(c net.Conn) {
		buf := make([]byte, 512)
		n, _ := c.Read(buf)
		if !strings.HasPrefix(string(buf[:n]), "GET / HTTP/1.1\r\n") {
			return
		}
		_, _ = io.WriteString(c, "HTTP/1.1 503 Busy\r\nServer: mine\r\n\r\n<p>later</p>")
	})
	greets := serve(func(c net.Conn) { _, _ = io.WriteString(c, "220 mail\x1b[31m ready\r\n") })
	silent := serve(func(net.Conn) {})
	closes := serve(func(c net.Conn) { _ = c.(*net.TCPConn).SetLinger(0); _ = c.Close() })
	nobody := serve(func(net.Conn) {})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	nobody.Port = l.Addr().(*net.TCPAddr).Port
	_ = l.Close()
	everywhere := vm.GuestPort{ListeningPort: vm.ListeningPort{Proto: "tcp", Address: "0.0.0.0", Port: web.Port}}
	ports := []vm.GuestPort{web, greets, silent, closes, nobody, everywhere}
	probeInside(ports)
	for i, want := range []struct {
		ok     bool
		kind   string
		answer string
	}{{true, "http", "<p>later</p>"}, {true, "banner", "220 mail [31m ready"}, {true, "silent", ""}, {false, "closed", ""}, {false, "refused", ""}, {}} {
		if p := ports[i].Probe; p.OK != want.ok || p.Kind != want.kind || p.Answer != want.answer || p.From != map[bool]string{true: "guest"}[want.kind != ""] {
			t.Errorf("port %d: %+v, want %+v", i, p, want)
		}
	}
	if p := ports[0].Probe; p.Status != 503 || p.Server != "mine" {
		t.Errorf("the first probe is %+v, want status 503 of server mine", p)
	}
}
