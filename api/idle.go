// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package api

import "github.com/warren-vm/warren/vm"

// NewHold is the body of POST /v1/vms/{vm}/holds. All members may be absent.
type NewHold struct {
	For    *vm.Seconds `json:"seconds,omitempty"` // 3600; at most seven days
	Reason string      `json:"reason,omitempty"`  // at most 200 bytes, for people
}

// HoldList answers GET /v1/vms/{vm}/holds.
type HoldList struct {
	Holds []vm.Hold `json:"holds"`
}
