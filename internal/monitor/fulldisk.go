// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package monitor

import (
	"encoding/json"
	"slices"
	"time"
)

// roomLook is the interval between attempts to resume a machine that is paused
// because the host's disk is full.
const roomLook = time.Second

// watchDisk resumes the machine after QEMU paused it because a write of the guest
// found no room on the host. QEMU keeps that write and repeats it when the machine
// resumes, so nothing is lost.
func (m *machine) watchDisk() {
	events := m.qemu().QMP.Subscribe()
	m.wg.Go(func() {
		defer events.Close()
		m.awaitRoom() // the last monitor may have died while it was paused
		for {
			e, err := events.Next(m.lifetime)
			if err != nil {
				return
			}
			var failed struct {
				Action string `json:"action"`
			}
			if e.Name != "BLOCK_IO_ERROR" || json.Unmarshal(e.Data, &failed) != nil || failed.Action != "stop" {
				continue
			}
			pause(m.lifetime, roomLook) // the event arrives before the stop
			m.awaitRoom()
		}
	})
}

// awaitRoom returns when the machine is not paused for lack of room. A capture may
// have failed meanwhile without reaching the agent, so it thaws the guest's
// programs again.
func (m *machine) awaitRoom() {
	stood := false
	for ; m.resumeIfRoom(); pause(m.lifetime, roomLook) {
		if !stood {
			m.log.Warn("the host's disk is full: the machine is paused until there is room")
		}
		stood = true
		m.full.Store(true)
	}
	m.full.Store(false)
	m.capturing.Lock()
	defer m.capturing.Unlock()
	if !stood || m.held || !slices.Contains(m.agent().Features, "freeze") {
		return
	}
	if err := m.thaw(m.lifetime); err != nil {
		m.log.Warn("there is room again", "err", err)
	}
}

// resumeIfRoom resumes the machine if it is paused for lack of room, and reports whether
// it was. It leaves a machine alone that a capture has paused.
func (m *machine) resumeIfRoom() bool {
	m.capturing.Lock()
	defer m.capturing.Unlock()
	state, err := m.qemu().RunState(m.lifetime)
	if err != nil || state != "io-error" {
		return false
	}
	if err := m.qemu().QMP.Execute(m.lifetime, "cont", nil, nil); err != nil {
		m.log.Warn("the machine could not be resumed", "err", err)
	}
	return m.lifetime.Err() == nil
}
