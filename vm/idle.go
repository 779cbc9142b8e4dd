// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package vm

import "time"

// ActivityKind is a kind of use that keeps a VM awake.
type ActivityKind string

// The kinds of activity.
const (
	ActivityStart   ActivityKind = "start"   // started, woken, or found running by a new server
	ActivityExec    ActivityKind = "exec"    // a command, or an operation on one or on a service
	ActivityFiles   ActivityKind = "files"   // files read, written or watched
	ActivityPTY     ActivityKind = "pty"     // bytes of a terminal
	ActivitySSH     ActivityKind = "ssh"     // traffic of the SSH gateway
	ActivityGateway ActivityKind = "gateway" // bytes to or from a port: preview, mapped domain, forward
	ActivityBoot    ActivityKind = "boot"    // resumed after a restart of the host
	ActivityHold    ActivityKind = "hold"    // a hold
	ActivityNone    ActivityKind = ""        // reading, which does not count
)

// HoldID names a hold: "hd-" and 16 characters.
type HoldID string

// NewHoldID returns a fresh random hold id.
func NewHoldID() HoldID { return HoldID("hd-" + randomID(16)) }

// Limits of holds.
const (
	DefaultHold = time.Hour
	MinHold     = time.Second
	MaxHold     = 7 * 24 * time.Hour
	MaxHolds    = 16  // of one VM at a time
	MaxReason   = 200 // bytes
)

// Hold keeps a VM awake until a time. It belongs to one VM: forks and
// snapshots do not inherit it.
type Hold struct {
	ID        HoldID    `json:"id"`
	VM        ID        `json:"vmId"`
	Reason    string    `json:"reason,omitempty"`
	CreatedAt time.Time `json:"createdAt"`
	Until     time.Time `json:"until"`
	By        Actor     `json:"by"`

	Host string `json:"host,omitempty"` // id of the server that it belongs to; "" = written by an older warren
}

// Idle explains when a VM will be suspended or stopped, or why not.
type Idle struct {
	VM    ID     `json:"vmId"`
	Name  string `json:"name,omitempty"`
	State State  `json:"state"`

	// LastActivity is the time of the last activity, and LastKind its kind.
	LastActivity time.Time    `json:"lastActivity,omitzero"`
	LastKind     ActivityKind `json:"lastKind,omitempty"`

	IdleTimeout *Seconds `json:"idleTimeoutSeconds"` // null = never
	OnIdle      Op       `json:"onIdle"`             // suspend or stop

	Awake     []Keeper  `json:"awake"`               // what keeps it awake now
	IdleSince time.Time `json:"idleSince,omitzero"`  // zero while something keeps it awake, or it is suspended or stopped
	SleepsAt  time.Time `json:"sleepsAt,omitzero"`   // at the earliest; zero = unknown
	Never     string    `json:"never,omitempty"`     // why it is not suspended automatically
	AsleepFor string    `json:"asleepFor,omitempty"` // why it is suspended or stopped: idle, suspend, stop, ...
	Asleep    time.Time `json:"asleepSince,omitzero"`
	Holds     []Hold    `json:"holds"` // soonest to end first
}

// Keeper is a reason why a VM stays awake.
type Keeper struct {
	Kind  ActivityKind `json:"kind,omitempty"` // for calls in progress, or hold
	Count int          `json:"count,omitempty"`
	Op    Op           `json:"operation,omitempty"` // an operation in progress
	Hold  HoldID       `json:"holdId,omitempty"`
	Until time.Time    `json:"until,omitzero"`
	Why   string       `json:"why"` // in words
}
