// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"os"
	"syscall"
	"time"
)

const (
	// politeness is how long commands started by exec may take to end
	politeness = 2 * time.Second
	// initPatience is how long the init system may take before the agent
	// itself turns the machine off.
	initPatience = 20 * time.Second

	sigPowerOff = syscall.Signal(34 + 4) // SIGRTMIN+4 and +5 of systemd
	sigReboot   = syscall.Signal(34 + 5)
)

// powerOff shuts the guest down. It answers before the shutdown ends.
func (a *Agent) powerOff(w *answer, r *request) error {
	reboot := r.flag("reboot")
	if err := w.bytes(nil); err != nil {
		return err
	}
	// The shutdown must not end with the session: the host may disconnect now.
	a.shutDown(context.WithoutCancel(r.ctx), reboot)
	return nil
}

// shutDown ends the commands started by exec and asks systemd to shut down.
// Without systemd, or if that takes too long, it shuts down itself.
func (a *Agent) shutDown(ctx context.Context, reboot bool) {
	if err := a.freezer.thaw(); err != nil {
		a.log.Error("shutting down a frozen guest", "error", err)
	}
	a.endProcesses(ctx)
	syscall.Sync()
	if Initial() == "systemd" {
		s := sigPowerOff
		if reboot {
			s = sigReboot
		}
		if err := a.sys.Signal(1, s); err == nil {
			pause(ctx, initPatience)
		}
	} else {
		a.endEverything(ctx)
	}
	if err := a.sys.Reboot(reboot); err != nil {
		a.log.Error("cannot turn the machine off", "error", err)
	}
}

// endProcesses asks the commands to end, then kills them and everything in their control group.
func (a *Agent) endProcesses(ctx context.Context) {
	a.procs.terminate(syscall.SIGTERM)
	for _, t := range a.terms.list() {
		t.hangUp()
	}
	wait, stop := context.WithTimeout(ctx, politeness)
	defer stop()
	for _, p := range a.procs.list() {
		select {
		case <-p.ended:
		case <-wait.Done():
		}
	}
	a.procs.terminate(syscall.SIGKILL)
	if fd := a.cgroup.get(); fd >= 0 {
		_ = os.WriteFile(cgroupDir+"/cgroup.kill", []byte("1"), 0) // absent before Linux 5.14
	}
}

// endEverything shuts down a guest without an init system.
func (a *Agent) endEverything(ctx context.Context) {
	if os.Getpid() == 1 || Initial() == "" {
		return
	}
	_ = a.sys.Signal(-1, syscall.SIGTERM)
	pause(ctx, politeness/2)
	_ = a.sys.Signal(-1, syscall.SIGKILL)
	syscall.Sync()
	_ = syscall.Mount("", "/", "", syscall.MS_REMOUNT|syscall.MS_RDONLY, "") // if it fails, the journal recovers the disk
}

// pause waits for d or the end of ctx.
func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}
