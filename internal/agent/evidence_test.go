// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/warren-vm/warren/vm"
)

func (r *tree) scan() *scan {
	r.t.Helper()
	s := &scan{proc: r.dir, user: func(uint32) string { return "dev" }, self: 50}
	if _, err := s.state(); err != nil {
		r.t.Fatal(err)
	}
	return s
}

// TestEvidenceCounters: transferred bytes, watchers and their watches,
// including descriptors beyond the listed ones.
func TestEvidenceCounters(t *testing.T) {
	r := newTree(t)
	fds := map[int]string{0: "/dev/null", 7: "anon_inode:inotify", 8: "anon_inode:[eventpoll]"}
	r.add(proc{pid: 60, ppid: 1, name: "vite", cmdline: "vite", exe: "/usr/bin/node", cwd: "/", fds: fds, fdinfo: map[int]string{7: "pos: 0\ninotify wd:1 ino:2\ninotify wd:2 ino:3\n"}})
	r.file("60/io", "rchar: 100\nwchar: 20\nsyscr: 9\nread_bytes: 7\n")
	many := map[int]string{}
	for fd := range maxStateFDs + 20 {
		many[fd] = "anon_inode:inotify"
	}
	r.add(proc{pid: 61, ppid: 1, name: "many", cmdline: "many", exe: "/usr/bin/many", cwd: "/", fds: many})
	s := r.scan()
	want := []vm.Counter{{PID: 60, IO: 120, Instances: 1, Watches: 2}, {PID: 61, Instances: maxStateFDs + 20}}
	if got := s.counters(true); !slices.Equal(got, want) {
		t.Errorf("the counters are %+v, want %+v", got, want)
	}
	if got := s.counters(false); got[0].Instances != 0 || got[0].IO != 120 {
		t.Errorf("the counters without inotify are %+v, want no instances and the I/O of process 60", got)
	}
}

// TestEvidenceLocks: which process holds a lock, which waits, and the path of the file.
func TestEvidenceLocks(t *testing.T) {
	r := newTree(t)
	file := filepath.Join(t.TempDir(), "lock")
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	var st syscall.Stat_t
	if err := syscall.Stat(file, &st); err != nil {
		t.Fatal(err)
	}
	id := fileID(st.Dev, st.Ino)
	r.add(proc{pid: 60, ppid: 1, name: "dpkg", cmdline: "dpkg", exe: "/usr/bin/dpkg", cwd: "/", fds: map[int]string{0: "/dev/null", 3: "pipe:[1]", 4: file}})
	r.file("locks", "1: POSIX  ADVISORY  WRITE 60 "+id+" 0 EOF\n1: -> POSIX  ADVISORY  WRITE 99 "+id+" 0 EOF\n"+
		"2: FLOCK  ADVISORY  WRITE 60 00:01:2 0 EOF\n3: LEASE  ACTIVE    READ  60 00:01:2 0 EOF\nrubbish\n\n")
	want := []vm.FileLock{{PID: 60, File: id, Path: file}, {PID: 99, File: id, Waits: true}, {PID: 60, File: "00:01:2"}}
	if got := r.scan().locks(); !slices.Equal(got, want) {
		t.Errorf("the locks are %+v, want %+v", got, want)
	}
	r.file("locks", strings.Repeat("1: POSIX  ADVISORY  WRITE 60 00:01:2 0 EOF\n", 2*maxLocks))
	s := r.scan()
	if got := s.locks(); len(got) != maxLocks || len(s.problems) != 1 {
		t.Errorf("%d locks, problems %v", len(got), s.problems)
	}
}

// TestEvidenceFileID: a file is named as this kernel names it.
func TestEvidenceFileID(t *testing.T) {
	f, err := os.Create(filepath.Join(t.TempDir(), "lock"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	var st syscall.Stat_t
	if err := syscall.Fstat(int(f.Fd()), &st); err != nil {
		t.Fatal(err)
	}
	locks, err := os.ReadFile("/proc/locks")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(locks), ":"+strconv.FormatUint(st.Ino, 10)+" ") {
		t.Skip("this kernel shows no locks here")
	}
	if !strings.Contains(string(locks), " "+fileID(st.Dev, st.Ino)+" ") {
		t.Errorf("no lock of file %s in\n%s", fileID(st.Dev, st.Ino), locks)
	}
	if got := fileID(0xfe00, 13275); got != "fe:00:13275" {
		t.Errorf("the file's id is %s, want fe:00:13275", got)
	}
	if got := fileID(0x103<<8|1|3<<20, 5); got != "103:301:5" {
		t.Errorf("the file's id is %s, want 103:301:5", got)
	}
}

// TestEvidenceDeleted: large deleted files that are still open.
func TestEvidenceDeleted(t *testing.T) {
	r := newTree(t)
	big := filepath.Join(t.TempDir(), "big (deleted)") // the link's text, and a file that it leads to here
	if err := os.WriteFile(big, make([]byte, leastDeleted), 0o644); err != nil {
		t.Fatal(err)
	}
	small := filepath.Join(t.TempDir(), "small (deleted)")
	if err := os.WriteFile(small, []byte("x"), 0o644); err != nil {
		t.Fatal(err)
	}
	r.add(proc{pid: 60, ppid: 1, name: "app", cmdline: "app", exe: "/app", cwd: "/", fds: map[int]string{0: big, 1: small, 2: "/memfd:x (deleted)", 3: "/dev/shm/x (deleted)"}})
	got := r.scan().deleted()
	if len(got) != 1 || got[0].Path != strings.TrimSuffix(big, " (deleted)") || got[0].PID != 60 || got[0].Bytes < leastDeleted {
		t.Errorf("the deleted files are %+v, want the big one of process 60", got)
	}
}

// TestKernelLine: lines that indicate a problem, with their time.
func TestKernelLine(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	l, ok := kernelLine("3,500,90500000,-;Out of memory: Killed process 9 (node)\n SUBSYSTEM=x\n", now, 100)
	if !ok || l.Text != "Out of memory: Killed process 9 (node)" || l.Time != now.Add(-9500*time.Millisecond) {
		t.Errorf("the kernel's line is %+v, %v, want the kill 9.5 s ago", l, ok)
	}
	for _, record := range []string{"", "x", "6,1,2,-;ordinary", "6,1;Killed process", "no head, Killed process"} {
		if l, ok := kernelLine(record, now, 100); ok {
			t.Errorf("the record %q is read as trouble: %+v", record, l)
		}
	}
	if l, _ := kernelLine("3,1,999000000,-;I/O error "+strings.Repeat("x", 9999), now, 100); l.Time.After(now) || len(l.Text) != maxKernelText {
		t.Errorf("a long line from the future is %+v, want it cut and not later than now", l)
	}
}

// TestKernelTrouble: the last lines of a log are kept, and a missing log is no
// failure. A pipe stands for the log: one record per read.
func TestKernelTrouble(t *testing.T) {
	if got := kernelTrouble(filepath.Join(t.TempDir(), "none"), time.Now(), 1); got != nil {
		t.Errorf("a log that does not exist has %v, want nothing", got)
	}
	var p [2]int
	if err := syscall.Pipe2(p[:], syscall.O_CLOEXEC|0x4000); err != nil { // O_DIRECT: packets
		t.Fatal(err)
	}
	defer syscall.Close(p[0])
	if _, _, errno := syscall.Syscall(syscall.SYS_FCNTL, uintptr(p[1]), 1031, 1<<20); errno != 0 { // F_SETPIPE_SZ: a record takes a page
		t.Fatalf("the pipe's size: %v", errno)
	}
	for i := range 2 * maxKernelLines / 3 * 2 {
		if _, err := syscall.Write(p[1], []byte(fmt.Sprintf("3,%d,1,-;I/O error %d\n", i, i))); err != nil {
			t.Fatal(err)
		}
	}
	syscall.Close(p[1])
	got := kernelTrouble("/proc/self/fd/"+strconv.Itoa(p[0]), time.Now(), 1)
	if len(got) != maxKernelLines || got[len(got)-1].Text != fmt.Sprintf("I/O error %d", 2*maxKernelLines/3*2-1) {
		t.Errorf("%d lines, the last %+v", len(got), got[max(len(got)-1, 0):])
	}
}
