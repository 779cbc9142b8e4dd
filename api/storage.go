// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package api

// Prune is the body of POST /v1/storage/prune.
type Prune struct {
	DryRun bool  `json:"dryRun,omitempty"`    // only list what would be removed
	Free   int64 `json:"freeBytes,omitempty"` // additional space to free
}
