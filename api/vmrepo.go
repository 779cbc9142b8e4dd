// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"time"

	"github.com/warren-vm/warren/vm"
)

// GrantVMRepo lets the programs of a VM use a repository as the VM itself.
type GrantVMRepo struct {
	Access vm.GitAccess `json:"access"` // read or write
	// Branches are patterns of the branches that it may push to; none = agent/NAME/** and
	// agent/ID/**.
	Branches []string `json:"branches,omitempty"`
}

// VMRepo is a repository that a VM may use.
type VMRepo struct {
	ID        string       `json:"id"`
	Name      string       `json:"name,omitempty"`
	URL       string       `json:"url"` // inside the VM
	Access    vm.GitAccess `json:"access"`
	Branches  []string     `json:"branches"` // patterns of the branches that it may push to; empty = none
	GrantedAt time.Time    `json:"grantedAt"`
}

// VMRepos answers GET /v1/vms/{vm}/repositories.
type VMRepos struct {
	Repositories []VMRepo `json:"repositories"`
}
