// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package monitor

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/warren-vm/warren/vm"
)

const (
	// freezeWait bounds the wait until the agent has frozen the guest's programs.
	freezeWait = 10 * time.Second
	// restTime is how long the agent gets to become idle after its answer. What it is
	// doing at the capture, each child must finish with code that it has not translated
	// yet, which takes three times as long.
	restTime = 4 * time.Millisecond
	// thawWait bounds the wait until the agent has thawed them; a guest must not
	// stay frozen.
	thawWait = 20 * time.Second
	// thawAgain is the pause between two attempts to thaw.
	thawAgain = 200 * time.Millisecond
)

// capture writes the machine's state to files; see qemu.Process.Capture. With
// Freeze the guest's programs are frozen from the end of the first pass until the
// machine resumes. In the captured state they stay frozen until the resets of its
// start.
func (m *machine) capture(ctx context.Context, s vm.CaptureSpec) (vm.Captured, error) {
	if !closed(m.started) {
		return vm.Captured{}, vm.Errorf(vm.Unavailable, string(m.spec.ID), "the machine is still being started")
	}
	m.capturing.Lock()
	defer m.capturing.Unlock()
	m.spare.stop()
	if s.Quit {
		m.intend("stop")
	}
	s.GuestKey = m.link.holds()
	frozen, synced := false, false
	var syncing sync.WaitGroup // the guest writes its dirty pages during the first pass
	syncing.Go(func() { synced = m.sync(ctx, s) })
	defer syncing.Wait()
	before := func(ctx context.Context) error {
		syncing.Wait()
		if s.Freeze && slices.Contains(m.agent().Features, "freeze") {
			frozen = true
			if err := m.freeze(ctx, s.RAM == "", synced); err != nil {
				return err
			}
			if s.RAM != "" {
				pause(ctx, restTime)
			}
		}
		m.link.setPaused(true)
		return nil
	}
	out, err := m.qemu().Capture(ctx, s, before)
	out.Synced = frozen && (synced || s.RAM == "")
	if err == nil && s.Hold {
		out.Machine.Agent = m.agent()
		m.held = frozen
		return out, nil
	}
	m.link.setPaused(false)
	out.Machine.Agent = m.agent()
	if s.Quit && err == nil {
		<-m.gone
		return out, nil
	}
	if s.Quit {
		m.intend("")
	}
	if frozen {
		err = errors.Join(err, m.thaw(ctx))
	}
	if s.RAM != "" {
		m.makeSpare()
	}
	return out, err
}

// resume resumes a machine that a capture has left paused.
func (m *machine) resume(ctx context.Context) error {
	m.capturing.Lock()
	defer m.capturing.Unlock()
	err := m.qemu().QMP.Execute(ctx, "cont", nil, nil)
	m.link.setPaused(false)
	if err != nil {
		return vm.Errorf(vm.Internal, string(m.spec.ID), "the machine could not be resumed: %w", err)
	}
	if m.held {
		if err := m.thaw(ctx); err != nil {
			return err // the next request tries again
		}
		m.held = false
	}
	return nil
}

// sync has the guest write its dirty pages while its programs run, so that few are left
// when they are frozen. It reports whether the agent can; a capture does not fail because
// of it.
func (m *machine) sync(ctx context.Context, s vm.CaptureSpec) bool {
	if !s.Sync || !s.Freeze || s.RAM == "" || !slices.Contains(m.agent().Features, "sync") {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, freezeWait)
	defer cancel()
	if err := m.guest.Sync(ctx); err != nil {
		m.log.Warn("the guest's disks could not be synced before a capture", "err", err)
		return false
	}
	return true
}

// freeze freezes the guest's programs. With disk it freezes the file systems, too; with
// synced their dirty pages are written once more.
func (m *machine) freeze(ctx context.Context, disk, synced bool) error {
	ctx, cancel := context.WithTimeout(ctx, freezeWait)
	defer cancel()
	freeze := func() (vm.FreezeReport, error) { return m.guest.Freeze(ctx, disk) }
	if synced {
		freeze = func() (vm.FreezeReport, error) { return m.guest.FreezeSynced(ctx) }
	}
	if _, err := freeze(); err != nil {
		return vm.Errorf(vm.GuestFault, string(m.spec.ID), "its programs could not be frozen: %w", err).
			WithHint("look at its console (`warren logs NAME`)")
	}
	return nil
}

// thaw lets the guest's programs continue, even if the caller disconnects.
func (m *machine) thaw(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), thawWait)
	defer cancel()
	for {
		try, stop := context.WithTimeout(ctx, freezeWait)
		sent := time.Now()
		err := m.guest.Thaw(try)
		stop()
		if err == nil {
			if time.Since(sent) >= clockExact {
				m.setClockAgain()
			}
			return nil
		}
		select {
		case <-m.gone:
			return err
		case <-ctx.Done():
			return vm.Errorf(vm.GuestFault, string(m.spec.ID), "its programs may be frozen: the agent did not answer: %w", err).
				WithHint("stop and start the VM if its programs don't continue")
		case <-time.After(thawAgain):
		}
	}
}

// flatten merges layers below the disk; see qemu.Process.Flatten. It excludes
// captures.
func (m *machine) flatten(ctx context.Context, base string, part bool) error {
	m.capturing.Lock()
	defer m.capturing.Unlock()
	return m.qemu().Flatten(ctx, base, part)
}

// disk names the file that the machine writes to. It waits for a capture in
// progress.
func (m *machine) disk(ctx context.Context) (string, error) {
	if !closed(m.started) {
		return "", vm.Errorf(vm.Unavailable, string(m.spec.ID), "the machine is still being started")
	}
	m.capturing.Lock()
	defer m.capturing.Unlock()
	return m.qemu().ActiveDisk(ctx)
}

// resumeLeftPaused resumes a machine whose monitor died in the middle of a capture.
func (m *machine) resumeLeftPaused(ctx context.Context) error {
	state, err := m.qemu().RunState(ctx)
	if err != nil || state != "paused" {
		return err
	}
	m.log.Warn("the machine was paused: its last monitor died in a capture")
	return m.qemu().QMP.Execute(ctx, "cont", nil, nil)
}
