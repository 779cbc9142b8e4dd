// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package monitor

import (
	"context"
	"net/http"
	"time"

	"github.com/warren-vm/warren/internal/layout"
	"github.com/warren-vm/warren/vm"
)

// A machine of the pool is started and warmed like any other and then paused.
// Adopting it gives it another VM's identity and resumes it.

// pause pauses the machine until it is adopted or resumed. Pausing a paused machine
// succeeds: so its owner checks that monitor and QEMU answer.
func (m *machine) pause(ctx context.Context) error {
	if !closed(m.started) {
		return vm.Errorf(vm.Unavailable, string(m.spec.ID), "the machine is still being started")
	}
	m.capturing.Lock()
	defer m.capturing.Unlock()
	m.link.setPaused(true)
	if err := m.qemu().QMP.Execute(ctx, "stop", nil, nil); err != nil {
		m.link.setPaused(false)
		return vm.Errorf(vm.Internal, string(m.spec.ID), "the machine could not be paused: %w", err)
	}
	return nil
}

// adopt resumes a paused machine as the VM that a describes. Its spec is durable
// first, so that a monitor that re-attaches knows the key. A machine that did not
// acknowledge every reset is killed before anything can reach it.
func (m *machine) adopt(ctx context.Context, a vm.Adoption) error {
	if !closed(m.started) {
		return vm.Errorf(vm.Unavailable, string(m.spec.ID), "the machine is still being started")
	}
	d := a.Deadline
	if d <= 0 {
		d = startDeadline
	}
	ctx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	m.capturing.Lock()
	defer m.capturing.Unlock()
	m.mu.Lock()
	m.begun, m.timings = time.Now(), make(map[string]time.Duration)
	m.mu.Unlock()
	if err := m.become(a); err != nil {
		return err
	}
	m.mark("written")
	err := m.qemu().QMP.Execute(ctx, "cont", nil, nil)
	if err != nil {
		err = vm.Errorf(vm.Internal, string(m.spec.ID), "the machine could not be resumed: %w", err)
	} else {
		m.link.setPaused(false)
		m.mark("running")
		err = m.reset(ctx, m.guest.Wake)
	}
	if err != nil {
		if kerr := m.kill(context.WithoutCancel(ctx)); kerr != nil {
			m.log.Error("a machine that was not reset could not be killed", "err", kerr)
		}
		return err
	}
	m.mark("ready")
	return nil
}

// become writes the new identity and network to the spec and applies them.
func (m *machine) become(a vm.Adoption) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	spec := m.spec
	spec.Reset, spec.Network, spec.Paths, spec.Deadline, spec.Pooled = a.Reset, a.Network, a.Paths, a.Deadline, false
	// Durable: the removal of images reads Pooled.
	if err := layout.WriteJSON(layout.VMDir(spec.Dir).Machine(), spec, 0o600); err != nil {
		return err
	}
	// Only these fields: others are read without the lock.
	m.spec.Reset, m.spec.Network, m.spec.Paths, m.spec.Deadline, m.spec.Pooled = a.Reset, a.Network, a.Paths, a.Deadline, false
	m.net.SetPolicy(a.Network)
	return nil
}

func (s *server) pause(w http.ResponseWriter, r *http.Request) {
	if err := s.m.pause(r.Context()); err != nil {
		writeError(w, err)
		return
	}
	writeJSONBody(w, struct{}{})
}

func (s *server) adopt(w http.ResponseWriter, r *http.Request) {
	var a vm.Adoption
	if err := readJSONBody(r, &a); err != nil {
		writeError(w, err)
		return
	}
	if err := s.m.adopt(r.Context(), a); err != nil {
		writeError(w, err)
		return
	}
	writeJSONBody(w, s.m.brief())
}

// Pause pauses the machine; see machine.pause.
func (c *Client) Pause(ctx context.Context) error {
	ctx, cancel := within(ctx, callDeadline)
	defer cancel()
	return c.call(ctx, "POST", "/pause", nil, nil)
}

// Adopt resumes a paused machine as another VM and waits until every reset is
// acknowledged. After an error the machine cannot be used: sweep it.
func (c *Client) Adopt(ctx context.Context, a vm.Adoption) (vm.MachineStatus, error) {
	ctx, cancel := within(ctx, startDeadline)
	defer cancel()
	var st vm.MachineStatus
	return st, c.call(ctx, "POST", "/adopt", a, &st)
}
