// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"errors"
	"os"
	"os/signal"
	"path/filepath"
	"sync"
	"syscall"
	"time"
	"unsafe"

	"github.com/warren-vm/warren/internal/vt"
	"github.com/warren-vm/warren/vm"
)

// terminal is a pseudo-terminal with its program. It belongs to the guest;
// viewers attach and detach.
type terminal struct {
	table *terminals

	mu       sync.Mutex
	info     vm.TerminalSession // without Attached, Title, Start and End
	started  uint64             // start time of its program in clock ticks
	screen   *vt.Screen
	tape     *tape
	viewers  map[*viewer]struct{}
	heard    chan struct{} // closed and replaced at output and at the end
	drained  chan struct{} // has a token after a viewer has taken output
	free     bool          // no viewer takes output: the program does not wait for them
	signalOK bool          // its program is ours and not yet reaped
	expiry   *time.Timer

	master *os.File // nil = closed, after the program's end
	pidfd  *os.File

	pumps  sync.WaitGroup // the reader of master
	waiter sync.WaitGroup // waits for the end
	ended  chan struct{}
}

const (
	// lagMax is how far the fastest viewer may be behind before the program
	// has to wait: half of the tape, so that the viewer misses nothing.
	lagMax = tapeSize / 2
	// stallAfter is how long the program waits for viewers that take no
	// output at all. Later they get the screen redrawn.
	stallAfter = 5 * time.Second
	// A terminal delivers output in pieces as small as a line. After floodAfter
	// pieces in a row, the reader pauses after each small piece, so that later
	// pieces hold many lines and cost less.
	floodAfter = 16
	floodPiece = 1024
	floodPause = 2 * time.Millisecond
	// keepExited is how long an ended terminal can be read
	keepExited = 10 * time.Minute
)

func newTerminal(t *terminals, info vm.TerminalSession) *terminal {
	return &terminal{
		table: t, info: info, screen: vt.New(info.Cols, info.Rows), viewers: make(map[*viewer]struct{}),
		heard: make(chan struct{}), drained: make(chan struct{}, 1), ended: make(chan struct{}),
	}
}

// openTerminal starts a program on a new pseudo-terminal, unless gone is closed first.
func (a *Agent) openTerminal(gone <-chan struct{}, s vm.TerminalSpec) (*terminal, error) {
	cmd, path, err := a.terminalCommand(s)
	if err != nil {
		return nil, err
	}
	master, slave, err := openPTY()
	if err != nil {
		return nil, vm.Errorf(vm.Limit, "", "the guest has no pseudo-terminal left: %w", err)
	}
	defer func() { _ = syscall.Close(slave) }()
	if cmd.user.uid != uint32(os.Geteuid()) {
		_ = syscall.Fchown(slave, int(cmd.user.uid), -1) // programs want to own their terminal, but most work without
	}
	t := newTerminal(&a.terms, vm.TerminalSession{
		ID: s.ID, User: cmd.user.name, Command: s.Command, Cols: s.Cols, Rows: s.Rows, CreatedAt: time.Now().UTC(),
	})
	if t.tape, err = newTape(); err != nil {
		_ = master.Close()
		return nil, vm.Errorf(vm.Limit, "", "the guest has no memory for a terminal: %w", err)
	}
	t.master = master
	t.setSize()
	defaultSignals()
	run := &spawned{}
	cmd.gone = gone
	if err := a.fork(cmd, path, [3]int{slave, slave, slave}, run); err != nil {
		_ = master.Close()
		t.tape.free()
		var bad *failed
		if errors.As(err, &bad) {
			err = vm.Errorf(vm.Invalid, cmd.argv[0], "cannot be started: %w", err)
		}
		return nil, err
	}
	t.info.PID, t.pidfd, t.signalOK = run.pid, run.pidfd, true
	t.started = startTicks(run.pid)
	t.run()
	return t, nil
}

// terminalCommand is the user's login shell, or a command line.
func (a *Agent) terminalCommand(s vm.TerminalSpec) (*command, string, error) {
	env := map[string]string{"TERM": "xterm-256color"}
	for k, v := range s.Env {
		env[k] = v
	}
	spec := vm.ExecSpec{Command: s.Command, User: s.User, Cwd: s.Cwd, Env: env}
	if s.Command == "" {
		spec.Argv = []string{"/bin/sh"}
	}
	cmd, err := a.prepare(spec)
	if err != nil {
		return nil, "", err
	}
	cmd.tty = true
	if err := cmd.checkCwd(); err != nil {
		return nil, "", err
	}
	path := cmd.argv[0]
	if s.Command == "" {
		if shell := cmd.user.shell; shell != "" && syscall.Access(shell, 1) == nil {
			path = shell
		}
		if syscall.Access(path, 1) != nil {
			return nil, "", vm.Errorf(vm.Unsupported, path, "the guest has no shell").WithHint("name a program for the terminal")
		}
		cmd.argv = []string{"-" + filepath.Base(path)} // a login shell
	} else if path, err = cmd.lookup(); err != nil {
		return nil, "", vm.Errorf(vm.Invalid, cmd.argv[0], "cannot be started: %w", err)
	}
	return cmd, path, nil
}

// defaultSignals makes sure that programs react to ^C and ^\: they inherit
// the signals that this process ignores, but not those that it handles.
func defaultSignals() {
	for _, s := range []os.Signal{syscall.SIGINT, syscall.SIGQUIT} {
		if signal.Ignored(s) {
			signal.Notify(make(chan os.Signal, 1), s)
		}
	}
}

const (
	tiocsptlck  = 0x40045431
	tiocgptpeer = 0x5441
	tcgets      = 0x5401
	tcsets      = 0x5402
	tiocswinsz  = 0x5414
	tiocgpgrp   = 0x540f
	iutf8       = 0x4000
)

func ioctl(fd int, request, arg uintptr) (uintptr, error) {
	r, _, e := syscall.Syscall(syscall.SYS_IOCTL, uintptr(fd), request, arg)
	if e != 0 {
		return 0, e
	}
	return r, nil
}

// openPTY returns both ends of a new pseudo-terminal.
func openPTY() (master *os.File, slave int, err error) {
	fd, err := syscall.Open("/dev/ptmx", syscall.O_RDWR|syscall.O_NOCTTY|syscall.O_CLOEXEC|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, 0, err
	}
	var unlock int32
	_, err = ioctl(fd, tiocsptlck, uintptr(unsafe.Pointer(&unlock)))
	var peer uintptr
	if err == nil {
		peer, err = ioctl(fd, tiocgptpeer, syscall.O_RDWR|syscall.O_NOCTTY|syscall.O_CLOEXEC)
	}
	if err != nil {
		_ = syscall.Close(fd)
		return nil, 0, err
	}
	var mode syscall.Termios
	if _, err := ioctl(int(peer), tcgets, uintptr(unsafe.Pointer(&mode))); err == nil {
		mode.Iflag |= iutf8 // so that erase removes whole characters
		_, _ = ioctl(int(peer), tcsets, uintptr(unsafe.Pointer(&mode)))
	}
	return os.NewFile(uintptr(fd), "terminal"), int(peer), nil
}

// setSize sets the kernel's size, which signals the program. t.mu is held, or
// the terminal is not shared yet.
func (t *terminal) setSize() {
	size := [4]uint16{uint16(t.info.Rows), uint16(t.info.Cols)}
	_ = t.control(func(fd int) error {
		_, err := ioctl(fd, tiocswinsz, uintptr(unsafe.Pointer(&size)))
		return err
	})
}

// control calls f with the master's descriptor, unless it is closed.
func (t *terminal) control(f func(fd int) error) error {
	if t.master == nil {
		return os.ErrClosed
	}
	raw, err := t.master.SyscallConn()
	if err != nil {
		return err
	}
	var ferr error
	err = raw.Control(func(fd uintptr) { ferr = f(int(fd)) })
	return errors.Join(err, ferr)
}

// run starts the reader and the waiter.
func (t *terminal) run() {
	t.screen.Reply = t.reply
	t.pumps.Go(t.pump)
	t.waiter.Go(t.await)
}

// pump reads the program's output until it is interrupted.
func (t *terminal) pump() {
	buf := make([]byte, 4096)
	n, err := 0, error(nil)
	for inRow := 0; ; inRow++ {
		if inRow > floodAfter && n < floodPiece {
			<-time.After(floodPause) // too short to need an interruption
		}
		began := time.Now()
		n, err = t.master.Read(buf)
		if time.Since(began) > floodPause {
			inRow = 0 // the reader had to wait for the program
		}
		if n > 0 {
			t.output(buf[:n])
			t.holdUp()
		}
		if err != nil {
			return
		}
		if n == len(buf) && n < 32<<10 {
			buf = make([]byte, 32<<10)
		}
	}
}

// output processes output of the program.
func (t *terminal) output(b []byte) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.tape.write(b)
	_, _ = t.screen.Write(b) // never fails
	t.tell()
}

// tell wakes goroutines that wait for output or the end. t.mu is held.
func (t *terminal) tell() {
	close(t.heard)
	t.heard = make(chan struct{})
	for v := range t.viewers {
		v.poke()
	}
}

// holdUp waits while every viewer is far behind, but at most stallAfter if none takes output.
func (t *terminal) holdUp() {
	for {
		t.mu.Lock()
		wait := len(t.viewers) > 0 && !t.free
		for v := range t.viewers {
			wait = wait && t.tape.end-v.at > lagMax
		}
		t.mu.Unlock()
		if !wait {
			return
		}
		late := time.NewTimer(stallAfter)
		select {
		case <-t.drained:
		case <-late.C:
			t.mu.Lock()
			t.free = true
			t.mu.Unlock()
		}
		late.Stop()
	}
}

// reply answers a query of the program if no viewer's terminal does. t.mu is held.
func (t *terminal) reply(b []byte) {
	if len(t.viewers) > 0 {
		return
	}
	_ = t.control(func(fd int) error { // an answer that does not fit is dropped
		_, err := syscall.Write(fd, b)
		return err
	})
}

// await waits for the program's end.
func (t *terminal) await() {
	status, ok := awaitEnd(t.pidfd, &t.mu, func() { t.signalOK = false })
	if !ok {
		return // interrupted
	}
	_ = t.master.SetReadDeadline(time.Unix(1, 0))
	t.mu.Lock()
	t.free = true // nothing waits for viewers any more
	t.mu.Unlock()
	select {
	case t.drained <- struct{}{}:
	default:
	}
	t.pumps.Wait()
	t.drain()
	now := time.Now().UTC()
	t.mu.Lock()
	t.info.ExitCode, t.info.ExitedAt = &status.Code, &now
	_ = t.master.Close()
	t.master = nil
	_ = t.pidfd.Close()
	close(t.ended)
	t.tell()
	t.expire(keepExited)
	t.mu.Unlock()
	t.table.trim()
}

// expire forgets the terminal after a while. t.mu is held.
func (t *terminal) expire(after time.Duration) {
	t.expiry = time.AfterFunc(after, func() { t.table.forget(t, true) })
}

// drain reads the output that remains at the program's end, at most as much
// as is kept: a background child may continue to write.
func (t *terminal) drain() {
	buf := make([]byte, 4096)
	for left := tapeSize; left > 0; {
		n := 0
		err := t.control(func(fd int) (err error) {
			n, err = syscall.Read(fd, buf)
			return err
		})
		if errors.Is(err, syscall.EINTR) {
			continue
		}
		if err != nil || n <= 0 {
			return
		}
		t.output(buf[:n])
		left -= n
	}
}

// view returns the terminal as clients see it. t.mu is held.
func (t *terminal) view() vm.TerminalSession {
	v := t.info
	v.Attached, v.Title = len(t.viewers), t.screen.Title()
	v.Start, v.End = t.tape.start(), t.tape.end
	return v
}

// fit sets the size to the smallest of the viewers'. Without viewers, and
// after the program's end, it stays. t.mu is held.
func (t *terminal) fit() {
	if t.info.ExitCode != nil {
		return
	}
	cols, rows := 0, 0
	for v := range t.viewers {
		if v.cols > 0 && v.rows > 0 {
			cols, rows = smaller(cols, v.cols), smaller(rows, v.rows)
		}
	}
	if cols == 0 || cols == t.info.Cols && rows == t.info.Rows {
		return
	}
	t.info.Cols, t.info.Rows = cols, rows
	t.screen.Resize(cols, rows)
	t.setSize()
}

func smaller(have, n int) int {
	if have == 0 {
		return n
	}
	return min(have, n)
}

// kill sends a signal to the root process, or to its whole group.
func (t *terminal) kill(s syscall.Signal, group bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.signalOK {
		return
	}
	pid := t.info.PID
	if group {
		pid = -pid
	}
	_ = syscall.Kill(pid, s) // it may have ended at this moment
}

// hangUp tells the programs that the terminal is closed.
func (t *terminal) hangUp() {
	var front int32
	t.mu.Lock()
	_ = t.control(func(fd int) error {
		_, err := ioctl(fd, tiocgpgrp, uintptr(unsafe.Pointer(&front)))
		return err
	})
	if t.signalOK && front > 1 {
		_ = syscall.Kill(-int(front), syscall.SIGHUP)
	}
	t.mu.Unlock()
	t.kill(syscall.SIGHUP, true)
	t.kill(syscall.SIGCONT, true)
}

// dup returns another file of the master, for one writer.
func (t *terminal) dup() (*os.File, error) {
	fd := -1
	err := t.control(func(m int) error {
		r, _, e := syscall.Syscall(syscall.SYS_FCNTL, uintptr(m), syscall.F_DUPFD_CLOEXEC, 0)
		if e != 0 {
			return e
		}
		fd = int(r)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), "terminal"), nil
}
