// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package monitor

import (
	"encoding/json"
	"slices"
	"time"
)

// roomLook is the pause between two tries to resume a machine that is paused
// because the host's disk is full.
const roomLook = time.Second

// watchDisk resumes the machine after QEMU has stopped it because a write of
// its guest found no room on the host. QEMU keeps that write and tries it
// again when the machine resumes, so nothing is lost.
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
			pause(m.lifetime, roomLook) // the event comes before the stop
			m.awaitRoom()
		}
	})
}

// awaitRoom returns when the machine is not paused for want of room. A capture
// may have given up in between, unable to reach the agent: the guest's
// programs are thawed once more.
func (m *machine) awaitRoom() {
	stood := false
	for ; m.tryOn(); pause(m.lifetime, roomLook) {
		if !stood {
			m.log.Warn("the host's disk is full: the machine is paused until there is room")
		}
		stood = true
	}
	m.capturing.Lock()
	defer m.capturing.Unlock()
	if !stood || m.held || !slices.Contains(m.agent().Features, "freeze") {
		return
	}
	if err := m.thaw(m.lifetime); err != nil {
		m.log.Warn("there is room again", "err", err)
	}
}

// tryOn reports whether the machine was paused for want of room, and if so
// lets it try again. A capture keeps it standing for its own reasons.
func (m *machine) tryOn() bool {
	m.capturing.Lock()
	defer m.capturing.Unlock()
	state, err := m.qemu().RunState(m.lifetime)
	if err != nil || state != "io-error" {
		return false
	}
	if err := m.qemu().QMP.Execute(m.lifetime, "cont", nil, nil); err != nil {
		m.log.Warn("the machine could not be continued", "err", err)
	}
	return m.lifetime.Err() == nil
}
