// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"bytes"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/warren-vm/warren/vm"
)

// Limits of one pass. If a list is cut, Problems says so.
const (
	maxStateProcesses = 1000
	maxStateFDs       = 512 // of one process
	maxStatePorts     = 256
	maxStateMounts    = 256
)

// state answers with what runs in the guest. It passes over /proc once.
func (a *Agent) state(w *answer, _ *request) error {
	s := scan{proc: "/proc", user: a.users.name, exec: a.execIDs(), self: os.Getpid()}
	out, err := s.state()
	if err != nil {
		return err
	}
	probeInside(out.Ports)
	return w.json(out, nil)
}

// execIDs maps the pids of running commands of exec to their ids.
func (a *Agent) execIDs() map[int]string {
	ids := make(map[int]string)
	for _, p := range a.procs.list() {
		if v := p.view(); v.ExitCode == nil {
			ids[v.PID] = v.ID
		}
	}
	return ids
}

// scan is one pass over /proc.
type scan struct {
	proc string // "/proc"; tests use another one
	user func(uid uint32) string
	exec map[int]string
	self int // the agent's pid

	buf      [8 << 10]byte
	now      time.Time
	uptime   float64
	names    map[uint32]string
	procs    []*seen
	byPID    map[int]*seen
	sockets  map[string]*vm.ListeningPort // by inode
	problems []string
}

// seen is a process as the pass found it.
type seen struct {
	vm.GuestProcess
	program    string // base name of its executable; "" = a zombie
	argv       []string
	group      int // process group
	session    int
	tty        uint64
	foreground int // the terminal's foreground group
	fds        map[int]string
	waitsFor   []int // descriptors that it sleeps on
}

func (s *scan) state() (vm.GuestState, error) {
	s.now, s.names, s.byPID = time.Now().UTC(), make(map[uint32]string), make(map[int]*seen)
	if f := strings.Fields(string(s.read("uptime"))); len(f) > 0 {
		s.uptime, _ = strconv.ParseFloat(f[0], 64)
	}
	sockets := listening(s.proc)
	if len(sockets) > maxStatePorts {
		sockets = sockets[:maxStatePorts]
		s.problem("ports: only the first " + strconv.Itoa(maxStatePorts) + " are listed")
	}
	s.sockets = make(map[string]*vm.ListeningPort, len(sockets))
	for i := range sockets {
		s.sockets[sockets[i].inode] = &sockets[i].ListeningPort
	}
	if err := s.all(); err != nil {
		return vm.GuestState{}, err
	}
	for _, p := range s.procs {
		p.Waits = s.waits(p)
	}
	out := vm.GuestState{
		Time: s.now, UptimeSeconds: s.uptime, Processes: []vm.GuestProcess{}, Terminals: s.terminals(),
		Ports: []vm.GuestPort{}, Mounts: s.mounts(), Roles: s.roles(),
	}
	for _, p := range s.procs {
		out.Processes = append(out.Processes, p.GuestProcess)
	}
	for _, so := range sockets {
		out.Ports = append(out.Ports, vm.GuestPort{ListeningPort: so.ListeningPort})
	}
	out.Problems = s.problems
	return out, nil
}

func (s *scan) problem(text string) { s.problems = append(s.problems, text) }

// read reads a small file below /proc. The result is valid until the next
// read. It makes three system calls where os.ReadFile makes seven: there are
// hundreds of files, and under emulation each call counts.
func (s *scan) read(name string) []byte {
	fd, err := syscall.Open(s.proc+"/"+name, syscall.O_RDONLY|syscall.O_CLOEXEC, 0)
	if err != nil {
		return nil
	}
	defer shut(fd)
	n, err := syscall.Read(fd, s.buf[:])
	if err != nil || n < 0 {
		return nil
	}
	return s.buf[:n]
}

// shut closes a descriptor that was only read.
func shut(fd int) { _ = syscall.Close(fd) }

func (s *scan) link(name string) string {
	n, err := syscall.Readlink(s.proc+"/"+name, s.buf[:])
	if err != nil || n <= 0 {
		return ""
	}
	return string(s.buf[:n])
}

// numbers lists the numeric names in a directory, at most most of them; -1 = all.
func (s *scan) numbers(dir string, most int) ([]int, error) {
	fd, err := syscall.Open(s.proc+"/"+dir, syscall.O_RDONLY|syscall.O_DIRECTORY|syscall.O_CLOEXEC, 0)
	if err != nil {
		return nil, os.NewSyscallError("open", err)
	}
	defer shut(fd)
	var out []int
	var names []string
	for {
		n, err := syscall.ReadDirent(fd, s.buf[:])
		if err != nil || n <= 0 {
			return out, err
		}
		_, _, names = syscall.ParseDirent(s.buf[:n], -1, names[:0])
		for _, name := range names {
			if i, err := strconv.Atoi(name); err == nil {
				if len(out) == most {
					return out, nil
				}
				out = append(out, i)
			}
		}
	}
}

// all reads every process except kernel threads.
func (s *scan) all() error {
	pids, err := s.numbers(".", -1)
	if err != nil {
		return err
	}
	slices.Sort(pids)
	for _, pid := range pids {
		if len(s.procs) == maxStateProcesses {
			s.problem("processes: only the first " + strconv.Itoa(maxStateProcesses) + " are listed")
			break
		}
		if p := s.process(pid); p != nil {
			s.procs = append(s.procs, p)
			s.byPID[pid] = p
		}
	}
	for _, p := range s.procs {
		p.Exec = s.execOf(p)
		p.System = s.isSystem(p)
	}
	return nil
}

// process reads one process; nil if it has ended or is a kernel thread.
func (s *scan) process(pid int) *seen {
	dir := strconv.Itoa(pid)
	stat := s.read(dir + "/stat")
	f := statFields(stat)
	if len(f) < 22 {
		return nil
	}
	num := func(i int) int { n, _ := strconv.Atoi(f[i]); return n }
	p := &seen{group: num(2), session: num(3), tty: uint64(max(num(4), 0)), foreground: num(5)}
	p.PID, p.PPID, p.State = pid, num(1), f[0]
	if pid == 2 || p.PPID == 2 {
		return nil
	}
	name := ""
	if i, j := bytes.IndexByte(stat, '('), bytes.LastIndexByte(stat, ')'); i >= 0 && j > i {
		name = string(stat[i+1 : j])
	}
	p.CPUSeconds = float64(num(11)+num(12)) / clockTicks
	p.RSS = int64(num(21)) * int64(os.Getpagesize())
	age := s.uptime - float64(num(19))/clockTicks
	p.StartedAt = s.now.Add(-time.Duration(age * float64(time.Second))).Truncate(10 * time.Millisecond)
	p.Terminal = terminalName(p.tty)
	var st syscall.Stat_t
	if syscall.Stat(s.proc+"/"+dir, &st) != nil {
		return nil
	}
	if _, ok := s.names[st.Uid]; !ok {
		s.names[st.Uid] = s.user(st.Uid)
	}
	p.User = s.names[st.Uid]
	if line := s.read(dir + "/cmdline"); len(line) > 0 {
		line = line[:min(len(line), 4096)]
		p.argv = strings.Split(strings.TrimRight(string(line), "\x00"), "\x00")
		p.Command = strings.TrimSpace(strings.Join(p.argv, " "))
	}
	if p.Command == "" {
		p.Command = "[" + name + "]"
	}
	p.Unit = unitOf(s.read(dir + "/cgroup"))
	if p.State != "Z" {
		p.program = strings.TrimSuffix(path.Base(s.link(dir+"/exe")), " (deleted)")
		if p.program == "." {
			p.program = name
		}
		p.Cwd = s.link(dir + "/cwd")
		s.descriptors(p)
	}
	return p
}

// descriptors reads the targets of a process's descriptors, and adds the
// process to the listening sockets that it holds.
func (s *scan) descriptors(p *seen) {
	dir := strconv.Itoa(p.PID) + "/fd"
	fds, _ := s.numbers(dir, maxStateFDs) // a partial list is used
	p.fds = make(map[int]string, len(fds))
	for _, fd := range fds {
		target := s.link(dir + "/" + strconv.Itoa(fd))
		if target == "" {
			continue
		}
		p.fds[fd] = target
		inode, ok := strings.CutPrefix(target, "socket:[")
		if so := s.sockets[strings.TrimSuffix(inode, "]")]; ok && so != nil && (so.PID == 0 || so.PID > p.PID) && p.PID != 1 {
			so.PID, so.Command = p.PID, p.Command
		}
	}
	if len(fds) == maxStateFDs {
		s.problem("process " + strconv.Itoa(p.PID) + ": only " + strconv.Itoa(maxStateFDs) + " of its files were looked at")
	}
}

// execOf returns the id of the exec command that a process belongs to: its
// session leader, or one of its ancestors.
func (s *scan) execOf(p *seen) string {
	if id := s.exec[p.session]; id != "" {
		return id
	}
	for range 32 {
		if id := s.exec[p.PID]; id != "" {
			return id
		}
		if p = s.byPID[p.PPID]; p == nil {
			break
		}
	}
	return ""
}

// isSystem reports whether a process runs in every guest.
func (s *scan) isSystem(p *seen) bool {
	if p.PID == 1 || p.PID == s.self || p.PID == s.agentParent() {
		return true
	}
	if p.Exec != "" {
		return false
	}
	if p.PPID == 1 && p.User == "root" && len(p.argv) > 1 && p.argv[0] == agentName && p.argv[1] == "services" {
		return true // it runs the program of a container image
	}
	if strings.HasPrefix(p.Unit, "getty@") || strings.HasPrefix(p.Unit, "serial-getty@") { // a program of a logged-in user is work
		return slices.Contains([]string{"agetty", "getty", "login"}, p.program)
	}
	for _, u := range []string{"systemd-", "dbus.", "dbus-", "init.scope", "warren-agent"} {
		if strings.HasPrefix(p.Unit, u) {
			return true
		}
	}
	return false
}

// agentParent returns the pid of the agent's supervisor, or 0 if it has none
// or PID 1 is its parent.
func (s *scan) agentParent() int {
	if p := s.byPID[s.self]; p != nil && p.PPID > 1 {
		return p.PPID
	}
	return 0
}

// unitOf returns the systemd unit of a control group.
func unitOf(cgroup []byte) string {
	line, _, _ := strings.Cut(string(cgroup), "\n")
	at := line[strings.LastIndexByte(line, ':')+1:]
	for name := path.Base(at); len(at) > 1; name = path.Base(at) {
		if strings.HasSuffix(name, ".service") || strings.HasSuffix(name, ".scope") {
			return name
		}
		at = path.Dir(at)
	}
	return ""
}

// terminalName returns the name of a terminal from its device number in
// /proc/PID/stat; "" if there is none.
func terminalName(dev uint64) string {
	major, minor := dev>>8&0xfff, dev&0xff|dev>>12&0xfff00
	switch {
	case dev == 0:
		return ""
	case major >= 136 && major <= 143:
		return "pts/" + strconv.FormatUint((major-136)<<8|minor, 10)
	case major == 4 && minor < 64:
		return "tty" + strconv.FormatUint(minor, 10)
	case major == 4:
		return "ttyS" + strconv.FormatUint(minor-64, 10)
	case major == 229:
		return "hvc" + strconv.FormatUint(minor, 10)
	case major == 5 && minor == 1:
		return "console"
	}
	return "tty " + strconv.FormatUint(major, 10) + ":" + strconv.FormatUint(minor, 10)
}
