// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"bytes"
	"path"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/warren-vm/warren/vm"
)

// roles returns the programs in roles that a returning user asks for. Each
// has evidence; a program without evidence has no role.
func (s *scan) roles() []vm.GuestRole {
	out := []vm.GuestRole{}
	for _, p := range s.procs {
		if p.System || p.PID == s.self {
			continue
		}
		for _, find := range []func(*seen) (vm.GuestRole, bool){s.repl, s.server, s.sqlite, s.browser, s.worker, s.watcher} {
			r, ok := find(p)
			if !ok {
				continue
			}
			r.PID, r.Program = p.PID, or(p.program, vm.ProgramName(p.Command))
			if r.Alive = p.State != "Z" && p.State != "T" && p.State != "t"; !r.Alive {
				r.Seen += ", but it " + p.Waits
			}
			out = append(out, r)
		}
	}
	return out
}

// version removes a version's digits: python3.11 is python.
func version(program string) string { return strings.TrimRight(program, "0123456789.-") }

var shells = []string{"bash", "sh", "dash", "zsh", "fish", "ksh"}

var repls = []string{
	"python", "pypy", "ipython", "node", "deno", "bun", "irb", "ruby", "psql", "mysql", "mariadb", "sqlite", "redis-cli", "php", "R",
	"julia", "ghci", "lua", "perl", "gdb", "pdb", "scala", "erl", "iex", "mongosh",
}

// repl recognises an interpreter that reads a terminal in the foreground, or
// will read it again when its child has ended.
func (s *scan) repl(p *seen) (r vm.GuestRole, ok bool) {
	name := version(p.program)
	shell := slices.Contains(shells, name)
	if p.tty == 0 || !isTerminal(p, p.fds[0]) || !shell && !slices.Contains(repls, name) {
		return r, false
	}
	reads := slices.ContainsFunc(p.waitsFor, func(fd int) bool { return isTerminal(p, p.fds[fd]) })
	r.Role, r.Seen = vm.RoleREPL, p.program+" on "+p.Terminal
	why := "descriptor 0 is " + p.fds[0]
	switch {
	case reads:
		r.Why = why + "; it " + p.Waits
	case shell && p.session == p.PID && !hasScript(p.argv):
		r.Why = why + "; it leads the terminal's session and " + p.Waits
	case p.group == p.foreground && !hasScript(p.argv):
		r.Why = why + "; it is in the foreground, was given no program, and " + p.Waits
	default:
		return r, false
	}
	return r, true
}

// hasScript reports whether an interpreter runs a program file.
func hasScript(argv []string) bool {
	for _, a := range argv[min(1, len(argv)):] {
		if a == "-c" || a == "-m" || a == "-e" || !strings.HasPrefix(a, "-") {
			return true
		}
	}
	return false
}

var databases = map[string]string{
	"postgres": "PostgreSQL", "mysqld": "MySQL", "mariadbd": "MariaDB", "redis-server": "Redis", "valkey-server": "Valkey",
	"mongod": "MongoDB", "memcached": "memcached", "etcd": "etcd", "clickhouse": "ClickHouse", "cockroach": "CockroachDB",
}

// server recognises a database's first process by its program and port.
func (s *scan) server(p *seen) (r vm.GuestRole, ok bool) {
	name := databases[p.program]
	if parent := s.byPID[p.PPID]; name == "" || parent != nil && parent.program == p.program {
		return r, false
	}
	r.Role, r.Seen, r.Why = vm.RoleDatabase, name, "its program is "+p.program
	if ports := s.portsOf(p); ports != "" {
		r.Why += "; it listens on " + ports
	} else {
		r.Why += "; it listens on no port"
	}
	return r, true
}

// portsOf lists the listening ports of a process.
func (s *scan) portsOf(p *seen) string {
	var ports []int
	for _, target := range p.fds {
		inode, _ := strings.CutPrefix(target, "socket:[")
		if so := s.sockets[strings.TrimSuffix(inode, "]")]; so != nil && !slices.Contains(ports, so.Port) {
			ports = append(ports, so.Port)
		}
	}
	slices.Sort(ports)
	var words []string
	for _, n := range ports {
		words = append(words, strconv.Itoa(n))
	}
	return strings.Join(words, ", ")
}

// sqlite recognises a process that has an SQLite file open, by the file's
// first bytes; a write-ahead log next to it shows that it is in use.
func (s *scan) sqlite(p *seen) (r vm.GuestRole, ok bool) {
	var files, why []string
	for _, fd := range sortedFDs(p) {
		file := p.fds[fd]
		if !strings.HasPrefix(file, "/") || slices.Contains(files, file) || len(files) == 4 || !s.holdsSQLite(p.PID, fd, file) {
			continue
		}
		files = append(files, file)
		w := "descriptor " + strconv.Itoa(fd) + " is " + file + ", which begins as an SQLite file"
		for _, f := range p.fds {
			if f == file+"-wal" || f == file+"-journal" {
				w += "; its " + strings.TrimPrefix(f, file+"-") + " is open too"
				break
			}
		}
		why = append(why, w)
	}
	if len(files) == 0 {
		return r, false
	}
	return vm.GuestRole{Role: vm.RoleDatabase, Seen: "SQLite " + strings.Join(files, ", "), Why: strings.Join(why, "; ")}, true
}

// holdsSQLite checks a file's first bytes, if its name is typical of SQLite.
// A database with another name is recognised by the log next to it.
func (s *scan) holdsSQLite(pid, fd int, file string) bool {
	ext := path.Ext(file)
	if !slices.Contains([]string{".db", ".sqlite", ".sqlite3", ".db3", ".sqlitedb"}, ext) && !slices.Contains(mapsTo(s.byPID[pid]), file+"-wal") {
		return false
	}
	name := s.proc + "/" + strconv.Itoa(pid) + "/fd/" + strconv.Itoa(fd)
	var st syscall.Stat_t
	if syscall.Stat(name, &st) != nil || st.Mode&syscall.S_IFMT != syscall.S_IFREG {
		return false
	}
	f, err := syscall.Open(name, syscall.O_RDONLY|syscall.O_NONBLOCK|syscall.O_CLOEXEC, 0)
	if err != nil {
		return false
	}
	defer shut(f)
	var head [16]byte
	n, err := syscall.Pread(f, head[:], 0)
	if err == nil && n == 0 { // new: only the log next to it has pages
		return slices.Contains(mapsTo(s.byPID[pid]), file+"-wal")
	}
	return err == nil && string(head[:max(n, 0)]) == "SQLite format 3\x00"
}

// mapsTo lists the targets of a process's descriptors.
func mapsTo(p *seen) []string {
	var out []string
	for _, f := range p.fds {
		out = append(out, f)
	}
	return out
}

func sortedFDs(p *seen) []int {
	out := make([]int, 0, len(p.fds))
	for fd := range p.fds {
		out = append(out, fd)
	}
	slices.Sort(out)
	return out
}

var browsers = []string{
	"chromium", "chrome", "google-chrome", "chrome-headless-shell", "headless_shell", "firefox", "firefox-esr", "firefox-bin", "msedge", "brave",
}

// browser recognises a browser's first process, and counts the processes that show pages.
func (s *scan) browser(p *seen) (r vm.GuestRole, ok bool) {
	if !isBrowser(p) {
		return r, false
	}
	if parent := s.byPID[p.PPID]; parent != nil && isBrowser(parent) {
		return r, false
	}
	pages, ended := 0, 0
	for _, c := range s.procs {
		switch {
		case c == p || !s.below(c, p):
		case c.State == "Z":
			ended++
		case strings.Contains(c.Command, "--type=renderer") || strings.Contains(c.Command, "-contentproc"):
			pages++
		}
	}
	r.Role, r.Seen = vm.RoleBrowser, p.program+", "+strconv.Itoa(pages)+" page processes"
	r.Why = "its program is " + p.program + "; " + strconv.Itoa(pages) + " of its processes show pages"
	if ended > 0 {
		r.Why += ", " + strconv.Itoa(ended) + " have ended and were not cleared away"
	}
	if ports := s.portsOf(p); ports != "" {
		r.Why += "; it listens on " + ports
	}
	return r, true
}

func isBrowser(p *seen) bool { return slices.Contains(browsers, p.program) }

// below reports whether p descends from top.
func (s *scan) below(p, top *seen) bool {
	for range 16 {
		if p = s.byPID[p.PPID]; p == nil {
			return false
		}
		if p == top {
			return true
		}
	}
	return false
}

// queues are words of command lines that name a queue's worker, with the words that must follow.
var queues = [][]string{
	{"celery", "worker"},
	{"rq", "worker"},
	{"rqworker"},
	{"sidekiq"},
	{"resque:work"},
	{"queue:work"},
	{"dramatiq"},
	{"huey_consumer"},
	{"huey_consumer.py"},
	{"faktory-worker"},
	{"arq"},
	{"good_job"},
	{"delayed_job"},
	{"temporal-worker"},
	{"graphile-worker"},
}

// worker recognises a queue's worker by its command line: a known name, or a
// program file with such a name.
func (s *scan) worker(p *seen) (r vm.GuestRole, ok bool) {
	r.Role = vm.RoleWorker
	for i, a := range p.argv[:min(len(p.argv), 32)] {
		base := path.Base(a)
		for _, q := range queues {
			if base == q[0] && (len(q) == 1 || slices.Contains(p.argv[i:], q[1])) {
				r.Seen = strings.Join(q, " ")
				r.Why = "its command line names " + r.Seen + "; it " + p.Waits
				return r, true
			}
		}
		if ext := path.Ext(base); i <= 2 && strings.Contains(strings.ToLower(base), "worker") &&
			slices.Contains([]string{".py", ".js", ".mjs", ".cjs", ".ts", ".rb", ".php", ".sh", ".pl"}, ext) {
			r.Seen = base
			r.Why = "the program that it runs is called " + base + "; it " + p.Waits
			return r, true
		}
	}
	return r, false
}

// watcher recognises a process that watches files with inotify.
func (s *scan) watcher(p *seen) (r vm.GuestRole, ok bool) {
	watches, at := 0, -1
	for _, fd := range sortedFDs(p) {
		if !strings.Contains(p.fds[fd], "inotify") || !strings.HasPrefix(p.fds[fd], "anon_inode:") {
			continue
		}
		n := s.watches(p.PID, fd)
		if watches += n; n > 0 || at < 0 {
			at = fd
		}
	}
	if at < 0 || watches == 0 {
		return r, false
	}
	r.Role, r.Seen = vm.RoleWatcher, "watches "+strconv.Itoa(watches)+" places"
	r.Why = "descriptor " + strconv.Itoa(at) + " is inotify with " + strconv.Itoa(watches) + " watches; it " + p.Waits
	if to := p.fds[1]; to != "" {
		r.Why += "; its output goes to " + s.what(p, 1)
	}
	return r, true
}

// watches counts an inotify descriptor's watches. The kernel returns whole lines at each read.
func (s *scan) watches(pid, fd int) (n int) {
	f, err := syscall.Open(s.proc+"/"+strconv.Itoa(pid)+"/fdinfo/"+strconv.Itoa(fd), syscall.O_RDONLY|syscall.O_CLOEXEC, 0)
	if err != nil {
		return 0
	}
	defer shut(f)
	for range 1000 {
		got, err := syscall.Read(f, s.buf[:])
		if err != nil || got <= 0 {
			break
		}
		n += bytes.Count(s.buf[:got], []byte("inotify wd:"))
	}
	return n
}
