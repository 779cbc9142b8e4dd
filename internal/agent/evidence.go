// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"bytes"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/warren-vm/warren/vm"
)

// Limits of the evidence.
const (
	maxLocks       = 256
	maxKernelLines = 40
	maxKernelText  = 400
	maxDeleted     = 16
	leastDeleted   = 4 << 20 // size of a deleted file that is worth reporting
)

// evidence answers with the guest's load and, if all is requested, with signs
// of problems. The host interprets them.
func (a *Agent) evidence(w *answer, r *request) error {
	s := scan{proc: "/proc", user: a.users.name, exec: a.execIDs(), self: os.Getpid()}
	state, err := s.state()
	if err != nil {
		return err
	}
	all := r.flag("all")
	out := vm.Evidence{State: state, Counters: s.counters(all), Locks: s.locks()}
	out.CPUSeconds, out.VCPU = cpuTime()
	out.MemTotal, out.MemAvailable = memory()
	if f := strings.Fields(string(s.read("loadavg"))); len(f) > 0 {
		out.Load1, _ = strconv.ParseFloat(f[0], 64)
	}
	if all {
		probeInside(out.State.Ports)
		out.Deleted = s.deleted()
		out.Kernel = kernelTrouble("/dev/kmsg", s.now, s.uptime)
		out.Inotify.Watches, _ = strconv.Atoi(strings.TrimSpace(string(s.read("sys/fs/inotify/max_user_watches"))))
		out.Inotify.Instances, _ = strconv.Atoi(strings.TrimSpace(string(s.read("sys/fs/inotify/max_user_instances"))))
	}
	return w.json(out, nil)
}

// counters reads how much each process has transferred so far, and what it watches.
func (s *scan) counters(all bool) []vm.Counter {
	out := make([]vm.Counter, 0, len(s.procs))
	for _, p := range s.procs {
		c := vm.Counter{PID: p.PID}
		for l := range bytes.Lines(s.read(strconv.Itoa(p.PID) + "/io")) {
			name, value, _ := strings.Cut(strings.TrimSpace(string(l)), ": ")
			if name == "rchar" || name == "wchar" {
				n, _ := strconv.ParseInt(value, 10, 64)
				c.IO += n
			}
		}
		if all {
			c.Instances, c.Watches = s.watchers(p)
		}
		out = append(out, c)
	}
	return out
}

// maxWatchFDs bounds the search of one process's descriptors for watchers.
const maxWatchFDs = 8192

// watchers counts the inotify descriptors of a process, and their watches.
func (s *scan) watchers(p *seen) (instances, watches int) {
	count := func(fd int, to string) {
		if strings.HasPrefix(to, "anon_inode:") && strings.Contains(to, "inotify") {
			instances++
			watches += s.watches(p.PID, fd)
		}
	}
	if len(p.fds) < maxStateFDs {
		for fd, to := range p.fds {
			count(fd, to)
		}
		return instances, watches
	}
	dir := strconv.Itoa(p.PID) + "/fd"
	fds, _ := s.numbers(dir, maxWatchFDs) // the pass over /proc reports a cut list
	for _, fd := range fds {
		count(fd, s.link(dir+"/"+strconv.Itoa(fd)))
	}
	return instances, watches
}

// locks lists the processes that hold a file lock or wait for one.
func (s *scan) locks() []vm.FileLock {
	var out []vm.FileLock
	for _, l := range procLines(s.proc + "/locks") {
		f := strings.Fields(l)
		waits := len(f) > 1 && f[1] == "->"
		if waits {
			f = f[1:]
		}
		if len(f) < 6 || f[1] != "POSIX" && f[1] != "FLOCK" && f[1] != "OFDLCK" {
			continue
		}
		if len(out) == maxLocks {
			s.problem("locks: only the first " + strconv.Itoa(maxLocks) + " are listed")
			break
		}
		lock := vm.FileLock{File: f[5], Waits: waits}
		lock.PID, _ = strconv.Atoi(f[4])
		lock.Path = s.pathOf(lock.PID, lock.File)
		out = append(out, lock)
	}
	return out
}

// pathOf returns the path under which a process has the file open that the
// kernel names major:minor:inode.
func (s *scan) pathOf(pid int, file string) string {
	p := s.byPID[pid]
	if p == nil {
		return ""
	}
	for fd, to := range p.fds {
		var st syscall.Stat_t
		if !strings.HasPrefix(to, "/") || syscall.Stat(s.proc+"/"+strconv.Itoa(pid)+"/fd/"+strconv.Itoa(fd), &st) != nil {
			continue
		}
		if fileID(st.Dev, st.Ino) == file {
			return to
		}
	}
	return ""
}

// fileID names a file as /proc/locks does.
func fileID(dev, ino uint64) string {
	hex := func(n uint64) string {
		if t := strconv.FormatUint(n, 16); len(t) > 1 {
			return t
		}
		return "0" + strconv.FormatUint(n, 16)
	}
	major, minor := dev>>8&0xfff|dev>>32&^0xfff, dev&0xff|dev>>12&^0xff
	return hex(major) + ":" + hex(minor&0xffffffff) + ":" + strconv.FormatUint(ino, 10)
}

// deleted lists large deleted files that an open descriptor keeps.
func (s *scan) deleted() []vm.DeletedFile {
	var out []vm.DeletedFile
	for _, p := range s.procs {
		for _, fd := range sortedFDs(p) {
			path, ok := strings.CutSuffix(p.fds[fd], " (deleted)")
			if !ok || !strings.HasPrefix(path, "/") || strings.HasPrefix(path, "/memfd:") || strings.HasPrefix(path, "/dev/") {
				continue
			}
			var st syscall.Stat_t
			name := s.proc + "/" + strconv.Itoa(p.PID) + "/fd/" + strconv.Itoa(fd)
			if syscall.Stat(name, &st) == nil && st.Blocks*512 >= leastDeleted && len(out) < maxDeleted {
				out = append(out, vm.DeletedFile{PID: p.PID, Path: path, Bytes: st.Blocks * 512})
			}
		}
	}
	return out
}

// troubles are texts in the kernel's log that indicate a problem.
var troubles = []string{
	"Killed process", "blocked for more than", "EXT4-fs error", "EXT4-fs warning", "Remounting filesystem read-only", "I/O error", "segfault at",
}

// kernelTrouble reads the last lines of the kernel's log that indicate a
// problem. The kernel had been up for uptime seconds at the time now.
func kernelTrouble(file string, now time.Time, uptime float64) []vm.KernelLine {
	fd, err := syscall.Open(file, syscall.O_RDONLY|syscall.O_NONBLOCK|syscall.O_CLOEXEC, 0)
	if err != nil {
		return nil
	}
	defer shut(fd)
	var out []vm.KernelLine
	buf := make([]byte, 8<<10) // one record per read
	for range 100_000 {
		n, err := syscall.Read(fd, buf)
		if err == syscall.EPIPE || err == syscall.EINTR { // the oldest records were overwritten
			continue
		}
		if err != nil || n <= 0 {
			break
		}
		if l, ok := kernelLine(string(buf[:n]), now, uptime); ok {
			if out = append(out, l); len(out) > maxKernelLines {
				out = out[1:]
			}
		}
	}
	return out
}

// kernelLine parses one record, "6,339,5140900,-;text". It returns false if
// the record indicates no problem.
func kernelLine(record string, now time.Time, uptime float64) (vm.KernelLine, bool) {
	head, text, ok := strings.Cut(record, ";")
	f := strings.Split(head, ",")
	if !ok || len(f) < 3 {
		return vm.KernelLine{}, false
	}
	text, _, _ = strings.Cut(text, "\n")
	for _, t := range troubles {
		if !strings.Contains(text, t) {
			continue
		}
		micros, _ := strconv.ParseInt(f[2], 10, 64)
		ago := time.Duration((uptime - float64(micros)/1e6) * float64(time.Second))
		return vm.KernelLine{Time: now.Add(-max(ago, 0)).Truncate(time.Millisecond), Text: text[:min(len(text), maxKernelText)]}, true
	}
	return vm.KernelLine{}, false
}
