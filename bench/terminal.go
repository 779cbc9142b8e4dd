// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// terminal measures terminals: the time until a key's echo, compared with OpenSSH
// into the same guest, and the effects of a flood of output.
func (b *bench) terminal(ctx context.Context) (err error) {
	id, err := b.withTools(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.server.remove(context.WithoutCancel(ctx), id)) }()
	if b.wants("terminal.echo") {
		err = b.echo(ctx, id)
	}
	if b.wants("terminal.flood") {
		err = errors.Join(err, b.flood(ctx, id))
	}
	return err
}

// echo measures the time from a key press to its echo: each way is a program on a
// pseudo-terminal of this host with a login shell of the guest behind it.
func (b *bench) echo(ctx context.Context, id string) (err error) {
	p, err := b.peer(ctx, id, "ssh-terminal")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.close()) }()
	plain := append([]string{"-o", "ControlPath=none"}, p.options()...) // the first one counts
	ways := []*typist{
		{name: "warren shell", cmd: b.server.cli(ctx, "shell", id)},
		{name: "ssh", cmd: exec.CommandContext(ctx, "ssh", append(plain, "-tt", "root@guest")...)},
	}
	for _, w := range ways {
		if err := w.start(); err != nil {
			return fmt.Errorf("%s: %w", w.name, err)
		}
		defer w.stop()
	}
	const prefix = "key press to its echo: "
	for round := range 2 + max(4, b.n/3) { // the first two are warm-up
		for _, w := range ways {
			s := b.rep.series(prefix+w.name, "ms", bound{})
			for range 20 {
				took, err := w.key()
				if err != nil {
					return fmt.Errorf("%s: %w", w.name, err)
				}
				if round > 1 {
					s.took(took)
				}
				if err := pause(ctx, 20*time.Millisecond); err != nil {
					return err
				}
			}
			if err := w.clear(); err != nil {
				return fmt.Errorf("%s: %w", w.name, err)
			}
		}
	}
	b.compare("key press to its echo: ", " / ", "warren shell", "ssh", prefix, bound{Max: 1.5})
	return nil
}

// typist is a program on a pseudo-terminal of this host.
type typist struct {
	name   string
	cmd    *exec.Cmd
	master *os.File
	out    chan []byte
}

// start starts the program and waits for a prompt.
func (w *typist) start() error {
	master, slave, err := openPTY()
	if err != nil {
		return err
	}
	defer slave.Close()
	w.master, w.out = master, make(chan []byte, 256)
	w.cmd.Stdin, w.cmd.Stdout, w.cmd.Stderr = slave, slave, slave
	w.cmd.SysProcAttr = &unix.SysProcAttr{Setsid: true, Setctty: true}
	if w.cmd.Env == nil {
		w.cmd.Env = os.Environ()
	}
	w.cmd.Env = append(w.cmd.Env, "TERM=xterm-256color")
	if err := w.cmd.Start(); err != nil {
		_ = master.Close()
		return err
	}
	go func() { // ends when the program has
		defer close(w.out)
		for {
			buf := make([]byte, 4096)
			n, err := master.Read(buf)
			if err != nil {
				return
			}
			w.out <- buf[:n]
		}
	}()
	return w.until("#", time.Minute)
}

// until reads until the output since the call holds a text.
func (w *typist) until(text string, limit time.Duration) error {
	late := time.NewTimer(limit)
	defer late.Stop()
	var seen []byte
	for !bytes.Contains(seen, []byte(text)) {
		select {
		case data, ok := <-w.out:
			if !ok {
				return fmt.Errorf("it ended after %q", seen)
			}
			seen = append(seen, data...)
		case <-late.C:
			return fmt.Errorf("no %q within %v in %q", text, limit, seen)
		}
	}
	return nil
}

// key presses a key.
func (w *typist) key() (time.Duration, error) {
	began := time.Now()
	if _, err := w.master.WriteString("x"); err != nil {
		return 0, err
	}
	err := w.until("x", 20*time.Second)
	return time.Since(began), err
}

// clear erases the line that was typed, and takes the result.
func (w *typist) clear() error {
	if _, err := w.master.WriteString("\x15"); err != nil {
		return err
	}
	for {
		select {
		case _, ok := <-w.out:
			if !ok {
				return errors.New("it ended")
			}
		case <-time.After(300 * time.Millisecond):
			return nil
		}
	}
}

func (w *typist) stop() {
	_ = w.cmd.Process.Kill() // it may have ended
	_ = w.cmd.Wait()
	_ = w.master.Close()
	for range w.out { // so that its reader ends
	}
}

// openPTY returns both ends of a new pseudo-terminal of 80 by 24.
func openPTY() (master, slave *os.File, err error) {
	master, err = os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		return nil, nil, err
	}
	fd := int(master.Fd())
	err = errors.Join(
		unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0),
		unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Row: 24, Col: 80}),
	)
	n, nerr := unix.IoctlGetUint32(fd, unix.TIOCGPTN)
	if err = errors.Join(err, nerr); err == nil {
		slave, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	}
	if err != nil {
		return nil, nil, errors.Join(err, master.Close())
	}
	return master, slave, nil
}

// monitorPID finds the monitor of a VM by its command line.
func monitorPID(id string) (int, error) {
	dirs, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return 0, err
	}
	for _, dir := range dirs {
		line, err := os.ReadFile(filepath.Join(dir, "cmdline"))
		if err != nil || !bytes.Contains(line, []byte(id)) {
			continue
		}
		name, _, _ := strings.Cut(string(line), "\x00")
		if strings.Contains(filepath.Base(name), "warren-monitor") {
			var pid int
			_, err := fmt.Sscan(filepath.Base(dir), &pid)
			return pid, err
		}
	}
	return 0, fmt.Errorf("VM %s has no monitor", id)
}
