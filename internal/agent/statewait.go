// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"encoding/binary"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// System calls of x86-64 in which processes sleep.
const (
	sysRead, sysWrite, sysPoll, sysReadv, sysWritev, sysSelect = 0, 1, 7, 19, 20, 23
	sysPause, sysNanosleep, sysAccept, sysSendto, sysRecvfrom  = 34, 35, 43, 44, 45
	sysSendmsg, sysRecvmsg, sysWait4, sysFcntl, sysFlock       = 46, 47, 61, 72, 73
	sysSigtimedwait, sysSigsuspend, sysFutex                   = 128, 130, 202
	sysClockNanosleep, sysEpollWait, sysWaitid, sysPselect     = 230, 232, 247, 270
	sysPpoll, sysEpollPwait, sysAccept4, sysEpollPwait2        = 271, 281, 288, 441
	sysConnect                                                 = 42
)

const waitsForChild = "waits for a child"

const maxWaited = 64 // descriptors of one wait that are read

// waits says what a process does now, and records the descriptors that it
// waits for. It looks at the first thread.
func (s *scan) waits(p *seen) string {
	switch p.State {
	case "R":
		return "runs"
	case "T", "t":
		return "is stopped"
	case "Z", "X":
		return "has ended; its parent has not asked how"
	}
	f := strings.Fields(string(s.read(strconv.Itoa(p.PID) + "/syscall")))
	if len(f) == 0 {
		return s.inKernel(p)
	}
	if f[0] == "running" {
		return "runs"
	}
	call, err := strconv.Atoi(f[0])
	if err != nil || call < 0 || len(f) < 5 {
		return s.inKernel(p)
	}
	var args [4]uint64
	for i := range args {
		args[i], _ = strconv.ParseUint(strings.TrimPrefix(f[i+1], "0x"), 16, 64)
	}
	fd := int(int32(args[0]))
	switch call {
	case sysRead, sysReadv, sysRecvfrom, sysRecvmsg:
		p.waitsFor = []int{fd}
		if s.what(p, fd) == "file changes" {
			return "waits for file changes"
		}
		return "reads " + s.what(p, fd)
	case sysWrite, sysWritev, sysSendto, sysSendmsg:
		return "writes to " + s.what(p, fd) + ", which takes no more"
	case sysAccept, sysAccept4:
		p.waitsFor = []int{fd}
		return "waits for " + s.what(p, fd)
	case sysConnect:
		return "connects to somewhere that does not answer"
	case sysPoll, sysPpoll, sysSelect, sysPselect, sysEpollWait, sysEpollPwait, sysEpollPwait2:
		p.waitsFor = s.waited(p, call, args)
		return s.several(p)
	case sysFcntl, sysFlock:
		return "waits for a lock on " + s.what(p, fd)
	}
	return plainWait(call, s, p)
}

// plainWait describes waits that are not for a descriptor.
func plainWait(call int, s *scan, p *seen) string {
	switch call {
	case sysWait4, sysWaitid:
		return waitsForChild
	case sysNanosleep, sysClockNanosleep:
		return "sleeps"
	case sysPause, sysSigsuspend, sysSigtimedwait:
		return "waits for a signal"
	case sysFutex:
		return "waits for another thread"
	}
	return s.inKernel(p)
}

// inKernel names the kernel function in which a process sleeps.
func (s *scan) inKernel(p *seen) string {
	how := "waits"
	if p.State == "D" {
		how = "waits for a device, and takes no signal"
	}
	if name := strings.TrimSpace(string(s.read(strconv.Itoa(p.PID) + "/wchan"))); name != "" && name != "0" {
		return how + " (" + name + ")"
	}
	return how
}

// what describes the target of a descriptor, for people.
func (s *scan) what(p *seen, fd int) string {
	target, ok := p.fds[fd]
	switch {
	case !ok:
		return "descriptor " + strconv.Itoa(fd)
	case isTerminal(p, target):
		return "its terminal"
	case strings.HasPrefix(target, "pipe:"):
		return "a pipe"
	case strings.HasPrefix(target, "socket:["):
		if so := s.sockets[strings.TrimSuffix(strings.TrimPrefix(target, "socket:["), "]")]; so != nil {
			return "connections on port " + strconv.Itoa(so.Port)
		}
		return "a socket"
	case strings.Contains(target, "inotify") || strings.Contains(target, "fanotify"):
		return "file changes"
	case strings.HasPrefix(target, "anon_inode:"):
		kind := strings.Trim(strings.TrimPrefix(target, "anon_inode:"), "[]")
		return map[string]string{"eventfd": "an event", "timerfd": "a timer", "signalfd": "a signal", "pidfd": "a process's end"}[kind]
	case strings.HasPrefix(target, "/proc/"):
		return "the kernel's tables"
	}
	return target
}

// isTerminal reports whether a descriptor is the process's controlling terminal.
func isTerminal(p *seen, target string) bool {
	return p.tty != 0 && (target == "/dev/"+p.Terminal || target == "/dev/tty" || target == "/dev/console")
}

// several describes a wait for any of several descriptors.
func (s *scan) several(p *seen) string {
	if len(p.waitsFor) == 0 {
		return "sleeps"
	}
	var names []string
	for _, fd := range p.waitsFor {
		if n := s.what(p, fd); n != "" && !slices.Contains(names, n) {
			names = append(names, n)
		}
	}
	switch {
	case len(names) == 0:
		return "waits for an event"
	case len(names) == 1 && names[0] == "its terminal":
		return "reads its terminal"
	}
	more := ""
	if slices.Sort(names); len(names) > 4 {
		names, more = names[:4], ", ..."
	}
	return "waits for " + strings.Join(names, ", ") + more
}

// waited returns the descriptors of a select, poll or epoll. They are in the
// process's memory, or for epoll in the kernel's list.
func (s *scan) waited(p *seen, call int, args [4]uint64) []int {
	switch call {
	case sysPoll, sysPpoll:
		n := min(args[1], maxWaited)
		mem := s.memory(p.PID, args[0], int(n)*8)
		var out []int
		for ; len(mem) >= 8; mem = mem[8:] {
			if fd := int(int32(binary.LittleEndian.Uint32(mem))); fd >= 0 {
				out = append(out, fd)
			}
		}
		return out
	case sysSelect, sysPselect:
		n := min(args[0], 1024)
		var out []int
		for _, set := range args[1:3] { // readable and writable sets
			if set == 0 {
				continue
			}
			for i, b := range s.memory(p.PID, set, int(n+63)/64*8) {
				for bit := range 8 {
					if fd := i*8 + bit; b>>bit&1 == 1 && uint64(fd) < n && len(out) < maxWaited {
						out = append(out, fd)
					}
				}
			}
		}
		return out
	}
	return s.epolled(p, int(int32(args[0])))
}

// epolled returns the descriptors that an epoll descriptor watches.
func (s *scan) epolled(p *seen, fd int) []int {
	var out []int
	for l := range strings.Lines(string(s.read(strconv.Itoa(p.PID) + "/fdinfo/" + strconv.Itoa(fd)))) {
		f := strings.Fields(l)
		if len(f) < 2 || f[0] != "tfd:" || len(out) == maxWaited {
			continue
		}
		if n, err := strconv.Atoi(f[1]); err == nil {
			out = append(out, n)
		}
	}
	return out
}

// memory reads a part of a process's memory; nil if that is not possible.
func (s *scan) memory(pid int, at uint64, size int) []byte {
	if size <= 0 || at == 0 || at >= 1<<47 {
		return nil
	}
	fd, err := syscall.Open(s.proc+"/"+strconv.Itoa(pid)+"/mem", syscall.O_RDONLY|syscall.O_CLOEXEC, 0)
	if err != nil {
		return nil
	}
	defer shut(fd)
	b := make([]byte, size)
	n, err := syscall.Pread(fd, b, int64(at))
	if err != nil || n < 0 {
		return nil
	}
	return b[:n]
}
