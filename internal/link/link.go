// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

// Package link carries many streams between the host and the agent in a guest over one
// virtio-serial port. First both ends synchronise, whatever bytes an earlier session left in
// the port, and prove that they hold the VM's link key. Then they speak yamux. The package does
// not know the verbs on the streams; the monitor uses the host's end, the agent the guest's.
package link

import (
	"io"
	"time"

	"github.com/hashicorp/yamux"
)

// PortName is the name of the virtio-serial port of the agent.
const PortName = "org.warren.agent.0"

// KeySize is the length of a link key in bytes.
const KeySize = 32

// window is the receive window of each stream.
const window = 1 << 20

// patience limits one write to the link. It is long because a paused VM does
// not read, and its streams must survive until it wakes.
const patience = 24 * time.Hour

// config returns the multiplexer's configuration, the same for both ends.
// Keepalive is off, because it would close the sessions of paused VMs.
func config() *yamux.Config {
	c := yamux.DefaultConfig()
	c.AcceptBacklog = 1024
	c.MaxStreamWindowSize = window
	c.EnableKeepAlive = false
	c.ConnectionWriteTimeout = patience
	c.StreamOpenTimeout = 0
	c.StreamCloseTimeout = time.Minute
	c.LogOutput = io.Discard
	return c
}
