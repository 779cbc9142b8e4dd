// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package api

import "github.com/warren-vm/warren/vm"

// EnableMemory is the body of POST /v1/vms/{vm}/memory.
type EnableMemory struct {
	Repo string `json:"repo,omitempty"` // id or name; "" = a new one
}

// CommitMemory is the body of POST /v1/vms/{vm}/memory/commit.
type CommitMemory struct {
	Message string `json:"message,omitempty"`
}

// RollbackMemory is the body of POST /v1/vms/{vm}/memory/rollback.
type RollbackMemory struct {
	Commit string `json:"commit"`
}

// MemoryLog answers GET /v1/vms/{vm}/memory/log.
type MemoryLog struct {
	Commits []vm.Commit `json:"commits"` // newest first
}
