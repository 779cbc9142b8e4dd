// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

// Package link carries many streams between the host and the agent in a guest
// over one virtio-serial port. Both ends first find each other in whatever
// bytes an earlier session left behind (the resync handshake), proving that
// they hold the VM's link key, then speak yamux. It knows nothing of the
// verbs that travel on the streams; the monitor uses the host's end, the
// agent the guest's.
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

// patience bounds one write to the link. It is long because a paused VM does
// not read: a VM that wakes must find its streams alive.
const patience = 24 * time.Hour

// config is the multiplexer's configuration, the same on both ends. Keepalive
// is off: it would kill the sessions of paused VMs.
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
