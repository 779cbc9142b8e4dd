// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package api

import "github.com/warren-vm/warren/vm"

// ContentOf is the body of POST /v1/vms/{vm}/content.
type ContentOf struct {
	State string         `json:"state,omitempty"` // as vm.DiffRequest.To; "" = now
	Paths []vm.GuestPath `json:"paths"`           // absolute; with what is below them
}
