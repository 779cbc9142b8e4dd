// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package monitor

import (
	"context"
	"net/http"

	"github.com/warren-vm/warren/internal/layout"
	"github.com/warren-vm/warren/internal/qemu"
	"github.com/warren-vm/warren/vm"
)

// A machine keeps in private memory every page that it has written since its start,
// and each capture compares and copies these. reseat replaces QEMU: a new one
// starts on what a capture has just written, behind the same network and sockets.
// Programs, terminals and connections continue.

// reseat moves a machine that a capture has paused to a new QEMU. If it fails,
// either the machine is still paused, or it is gone and the captured state can be
// started.
func (m *machine) reseat(ctx context.Context, g vm.GenerationSource) error {
	m.capturing.Lock()
	defer m.capturing.Unlock()
	if !m.held {
		return vm.Errorf(vm.WrongState, string(m.spec.ID), "the machine is not paused by a capture")
	}
	m.moving.Lock()
	defer m.moving.Unlock()
	ctx, cancel := context.WithTimeout(ctx, startDeadline)
	defer cancel()
	old, spec := m.qemu(), m.seated(g)
	m.intend("reseat")
	if err := old.Kill(ctx); err != nil { // all its state is captured
		m.intend("")
		return vm.Errorf(vm.Internal, string(m.spec.ID), "qemu could not be ended: %w", err)
	}
	old.DropSpare()
	// A monitor that re-attaches must know what the machine maps.
	if err := writeJSON(layout.VMDir(spec.Dir).Machine(), spec); err != nil {
		return err
	}
	proc, err := qemu.Spawn(ctx, spec)
	if err != nil {
		return err
	}
	m.guest.Close()
	m.link.drop()
	m.link.again()
	if err := m.runSeated(ctx, proc, spec); err != nil {
		_ = proc.Kill(context.WithoutCancel(ctx)) // it may have ended already
		return err
	}
	m.intend("")
	return nil
}

// seated is the spec of the machine on its new QEMU: the guest is as captured and
// keeps its identity.
func (m *machine) seated(g vm.GenerationSource) vm.MachineSpec {
	now := m.qemu().Machine()
	m.mu.Lock()
	defer m.mu.Unlock()
	spec := m.spec
	spec.Generation = &g
	spec.Size, spec.Plugged = now.Size, now.Plugged
	if len(spec.Reset.LinkKey) > 0 {
		spec.GuestKey, spec.OtherKeys = spec.Reset.LinkKey, nil
	}
	return spec
}

// runSeated lets the new QEMU and its guest run.
func (m *machine) runSeated(ctx context.Context, proc *qemu.Process, spec vm.MachineSpec) error {
	if err := proc.AwaitRunning(ctx); err != nil {
		return err
	}
	m.mu.Lock()
	m.spec.Generation, m.spec.GuestKey, m.spec.OtherKeys = spec.Generation, spec.GuestKey, nil
	m.mu.Unlock()
	m.proc.Store(proc)
	m.held = false
	m.link.setPaused(false)
	m.console()
	m.watchDisk()
	if _, err := m.link.wait(ctx); err != nil { // the time in the reset must be current
		return m.silent(err)
	}
	if err := m.reset(ctx, m.guest.Wake); err != nil {
		return err
	}
	m.setClockAgain()
	return nil
}

// Reseat moves a machine that a capture has paused to a new QEMU, started on the
// captured state; see machine.reseat.
func (c *Client) Reseat(ctx context.Context, g vm.GenerationSource) error {
	ctx, cancel := within(ctx, 2*startDeadline)
	defer cancel()
	return c.call(ctx, "POST", "/reseat", g, nil)
}

func (s *server) reseat(w http.ResponseWriter, r *http.Request) {
	var g vm.GenerationSource
	if err := readJSONBody(r, &g); err != nil {
		writeError(w, err)
		return
	}
	if err := s.m.reseat(context.WithoutCancel(r.Context()), g); err != nil {
		writeError(w, err)
		return
	}
	writeJSONBody(w, struct{}{})
}
