// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"github.com/warren-vm/warren/vm"
)

// Limits of the start of a server in the background.
const (
	serverPatience = time.Minute            // until it answers; its record store may need most of it
	serverPoll     = 100 * time.Millisecond // between two questions whether it does
	logShown       = 2 << 10                // bytes of its log in an error
)

// background starts `warren serve` on a data directory in a session of its own, so that it outlives the command that
// starts it, and waits until answers reports that it answers. It returns the file of its log. If the server ends
// before, the error, of kind Unavailable, has the end of that log. A server that does not answer in time is ended.
func (c commands) background(ctx context.Context, data string, answers func(context.Context) bool) (string, error) {
	dir, err := c.dir(data)
	if err != nil {
		return "", err
	}
	program, err := os.Executable()
	if err != nil {
		return "", vm.Errorf(vm.Internal, "warren", "its own program is not found: %w", err)
	}
	name := dir.ServeLog()
	log, err := os.OpenFile(name, os.O_CREATE|os.O_WRONLY|os.O_APPEND|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		return "", vm.Errorf(vm.Unavailable, name, "the log of the server cannot be written: %w", err)
	}
	defer log.Close()
	before, err := log.Stat()
	if err != nil {
		return "", vm.Errorf(vm.Unavailable, name, "the log of the server cannot be read: %w", err)
	}
	cmd := exec.Command(program, "serve", "--data", string(dir))
	cmd.Stdout, cmd.Stderr = log, log
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return "", vm.Errorf(vm.Unavailable, "serve", "the server does not start: %w", err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	ctx, cancel := context.WithTimeoutCause(ctx, serverPatience, vm.Errorf(vm.Unavailable, "serve", "the new server does not answer").WithHint("its log is in %s", name))
	defer cancel()
	for {
		if answers(ctx) {
			return name, nil
		}
		select {
		case err := <-ended:
			return "", vm.Errorf(vm.Unavailable, "serve", "the server ended at once (%v): %s", err, logEnd(name, before.Size())).WithHint("its log is in %s", name)
		case <-ctx.Done():
			_ = cmd.Process.Signal(syscall.SIGTERM) // it may have ended
			return "", context.Cause(ctx)
		case <-time.After(serverPoll):
		}
	}
}

// logEnd returns the end of what a log has from an offset on.
func logEnd(name string, from int64) string {
	f, err := os.Open(name)
	if err != nil {
		return fmt.Sprint(err)
	}
	defer f.Close()
	if info, err := f.Stat(); err == nil {
		from = max(from, info.Size()-logShown)
	}
	buf := make([]byte, logShown)
	n, _ := f.ReadAt(buf, from) // io.EOF at the end
	return strings.TrimSpace(string(buf[:n]))
}
