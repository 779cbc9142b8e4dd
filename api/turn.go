// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package api

import "github.com/warren-vm/warren/vm"

// MarkTurn is the body of POST turns.
type MarkTurn struct {
	Note     string `json:"note,omitempty"`     // what is tried
	DiskOnly bool   `json:"diskOnly,omitempty"` // without memory: going back to it boots the VM
}

// StartedProcess answers POST processes.
type StartedProcess struct {
	vm.Process
	Turn *vm.Turn `json:"turn,omitempty"` // marked before the start
}
