// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"bytes"
	"io"
	"os"
	"strconv"
	"strings"
	"syscall"
)

// writeSmall makes the file hold text. It leaves a file that already does
// unchanged, and replaces any other atomically.
func writeSmall(path, text string, mode os.FileMode) error {
	if b, err := os.ReadFile(path); err == nil && string(b) == text {
		return nil
	}
	tmp := path + ".warren-new"
	if err := os.WriteFile(tmp, []byte(text), mode); err != nil {
		_ = os.Remove(tmp)
		return err
	}
	if err := os.Chmod(tmp, mode); err != nil {
		_ = os.Remove(tmp)
		return err
	}
	if err := os.Rename(tmp, path); err != nil {
		_ = os.Remove(tmp)
		return err
	}
	return nil
}

// maxSmall is the largest file that is read in one piece.
const maxSmall = 4096

// readSmall reads the beginning of a file into b with as few instructions as
// possible, because on a restored guest each runs for the first time.
func readSmall(path string, b []byte) (int, error) {
	fd, err := openRaw(path, syscall.O_RDONLY, 0)
	if err != nil {
		return 0, err
	}
	n, err := syscall.Pread(fd, b, 0)
	_ = syscall.Close(fd) // it was only read
	return max(n, 0), err
}

// openRaw opens a file without the runtime's poller.
func openRaw(path string, flags int, mode uint32) (fd int, err error) {
	for {
		fd, err = syscall.Open(path, flags|syscall.O_CLOEXEC|syscall.O_NONBLOCK, mode) // a pipe must not block
		if err != syscall.EINTR {
			return fd, err
		}
	}
}

// overwrite makes a small file hold text, in place: on a restored guest it takes
// a tenth of writeSmall's time. It writes a single block, so the write is atomic.
func overwrite(path, text string, mode os.FileMode) error {
	fd, err := openRaw(path, syscall.O_RDWR|syscall.O_CREAT, uint32(mode.Perm()))
	if err != nil {
		return &os.PathError{Op: "open", Path: path, Err: err}
	}
	err = rewrite(fd, text)
	if cerr := syscall.Close(fd); err == nil {
		err = cerr
	}
	if err != nil {
		return &os.PathError{Op: "write", Path: path, Err: err}
	}
	return nil
}

// rewrite replaces the contents of the file.
func rewrite(fd int, text string) error {
	have := make([]byte, maxSmall)
	n, err := syscall.Pread(fd, have, 0)
	if err != nil {
		return err
	}
	if string(have[:n]) == text {
		return nil
	}
	switch m, err := syscall.Pwrite(fd, []byte(text), 0); {
	case err != nil:
		return err
	case m < len(text):
		return io.ErrShortWrite
	}
	if n > len(text) || n == len(have) { // the file may be longer than was read
		return syscall.Ftruncate(fd, int64(len(text)))
	}
	return nil
}

// startTicks returns a process's start time in clock ticks since the boot, or
// 0 if it does not exist.
func startTicks(pid int) uint64 {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return 0
	}
	f := statFields(b)
	if len(f) < 20 || f[0] == "Z" {
		return 0
	}
	n, _ := strconv.ParseUint(f[19], 10, 64)
	return n
}

// statFields returns the fields of /proc/PID/stat from the state on; the name
// before it may hold any characters.
func statFields(stat []byte) []string {
	i := bytes.LastIndexByte(stat, ')')
	if i < 0 {
		return nil
	}
	return strings.Fields(string(stat[i+1:]))
}

// sysPidfdOpen is the number of pidfd_open, which package syscall lacks.
const sysPidfdOpen = 434

// pidfdOpen returns a descriptor of a process that becomes readable when it
// ends.
func pidfdOpen(pid int) (*os.File, error) {
	fd, _, errno := syscall.Syscall(sysPidfdOpen, uintptr(pid), 0, 0)
	if errno != 0 {
		return nil, errno
	}
	if err := syscall.SetNonblock(int(fd), true); err != nil {
		_ = syscall.Close(int(fd))
		return nil, err
	}
	syscall.CloseOnExec(int(fd))
	return os.NewFile(fd, "pidfd"), nil
}

// CommandLine returns the value of name=value on the kernel command line.
func CommandLine(name string) string {
	b, err := os.ReadFile("/proc/cmdline")
	if err != nil {
		return ""
	}
	for _, w := range strings.Fields(string(b)) {
		if v, ok := strings.CutPrefix(w, name+"="); ok {
			return v
		}
	}
	return ""
}

// Initial returns the name of PID 1, such as "systemd", or "" while the guest still boots.
func Initial() string {
	b, err := os.ReadFile("/proc/1/comm")
	if err != nil {
		return ""
	}
	switch name := strings.TrimSpace(string(b)); name {
	case "init", "exe":
		return ""
	default:
		return name
	}
}

var signalNames = [...]string{
	1: "HUP", 2: "INT", 3: "QUIT", 4: "ILL", 5: "TRAP", 6: "ABRT", 7: "BUS", 8: "FPE", 9: "KILL", 10: "USR1",
	11: "SEGV", 12: "USR2", 13: "PIPE", 14: "ALRM", 15: "TERM", 16: "STKFLT", 17: "CHLD", 18: "CONT", 19: "STOP",
	20: "TSTP", 21: "TTIN", 22: "TTOU", 23: "URG", 24: "XCPU", 25: "XFSZ", 26: "VTALRM", 27: "PROF", 28: "WINCH",
	29: "IO", 30: "PWR", 31: "SYS",
}

// signalName returns a signal's name without SIG, or its number.
func signalName(s syscall.Signal) string {
	if s > 0 && int(s) < len(signalNames) {
		return signalNames[s]
	}
	return strconv.Itoa(int(s))
}

// parseSignal takes a name with or without SIG, or a number; 0 is not valid.
func parseSignal(name string) syscall.Signal {
	if n, err := strconv.Atoi(name); err == nil && n > 0 && n <= 64 {
		return syscall.Signal(n)
	}
	name = strings.TrimPrefix(strings.ToUpper(name), "SIG")
	for i, s := range signalNames {
		if s != "" && s == name {
			return syscall.Signal(i)
		}
	}
	return 0
}
