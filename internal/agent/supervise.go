// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
)

// crashPause is how long the supervisor waits before it restarts an agent that has just died.
const crashPause = time.Second

// unhurried stops the agent's runtime from interrupting work that takes longer than 10
// ms: just after a restore under emulation all work does, and the signals make it
// slower. For the same reason stacks never shrink.
const unhurried = "GODEBUG=asyncpreemptoff=1,gcshrinkstackoff=1"

// Supervise runs the agent and restarts it when it dies. child is the pid of
// a running agent, or 0. It reaps all processes whose parent it becomes, and
// may be PID 1. It returns only if it cannot continue.
//
// On SIGHUP it execs the program that an upgrade has installed, which frees
// the old program's memory.
func Supervise(ctx context.Context, child int) error {
	var running atomic.Int64
	hup := make(chan os.Signal, 1)
	signal.Notify(hup, syscall.SIGHUP)
	go func() { // runs as long as the process
		for range hup {
			err := refresh(int(running.Load()))
			Kmsg("the supervisor could not be upgraded: " + err.Error())
		}
	}()
	if os.Getpid() == 1 {
		go powerSignals()
	}
	services := 0
	if os.Getpid() == 1 {
		services = startServices()
	}
	for ctx.Err() == nil {
		if child == 0 {
			var err error
			child, err = syscall.ForkExec(program, []string{agentName, "agent"}, &syscall.ProcAttr{
				Dir: "/", Env: append(os.Environ(), unhurried), Files: []uintptr{0, 1, 2}, Sys: &syscall.SysProcAttr{Setsid: true},
			})
			if err != nil {
				return fmt.Errorf("start %s: %w", program, err)
			}
		}
		running.Store(int64(child))
		if err := reapUntil(child, &services); err != nil {
			return err
		}
		child = 0
		running.Store(0)
		Kmsg("the agent died; it is restarted")
		pause(ctx, crashPause)
	}
	return context.Cause(ctx)
}

// powerSignals turns the machine off, or starts it again, when a program asks PID 1 for it in the ways of
// busybox, of System V's init and of systemd.
func powerSignals() {
	asked := make(chan os.Signal, 1)
	signal.Notify(asked, syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGTERM, syscall.SIGINT, sigPowerOff, sigReboot)
	s := <-asked
	_ = syscall.Kill(-1, syscall.SIGTERM) // it fails only if there is no other process
	<-time.After(politeness / 2)
	_ = syscall.Kill(-1, syscall.SIGKILL)
	_ = syscall.Mount("", "/", "", syscall.MS_REMOUNT|syscall.MS_RDONLY, "") // if it fails, the journal recovers the disk
	err := kernel{}.Reboot(s == syscall.SIGTERM || s == syscall.SIGINT || s == sigReboot)
	Kmsg("the machine could not be turned off: " + err.Error())
}

// reapUntil reaps children until the given one has ended. The process services is started again if it fails.
func reapUntil(child int, services *int) error {
	for {
		var ws syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &ws, 0, nil)
		switch {
		case errors.Is(err, syscall.EINTR):
		case err != nil:
			return fmt.Errorf("wait: %w", err)
		case pid == child && (ws.Exited() || ws.Signaled()):
			return nil
		case pid == *services && (ws.Signaled() || ws.Exited() && ws.ExitStatus() != 0):
			<-time.After(crashPause)
			*services = startServices()
		}
	}
}

// refresh execs the installed program in the supervisor's place. It returns only on failure.
func refresh(child int) error {
	return syscall.Exec(program, []string{agentName, "supervise", "-child", strconv.Itoa(child)}, os.Environ())
}

// refreshParent asks the supervisor above this process, if there is one, to
// exec the new program, too.
func refreshParent() {
	if parent := os.Getppid(); isSupervisor(parent) {
		_ = syscall.Kill(parent, syscall.SIGHUP) // if it fails, the supervisor only stays old
	}
}

func isSupervisor(pid int) bool {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/cmdline")
	return err == nil && strings.HasPrefix(string(b), agentName+"\x00supervise")
}

// PowerOffNow turns the machine off at once, without a shutdown. It returns only on failure.
func PowerOffNow() { _ = kernel{}.Reboot(false) }
