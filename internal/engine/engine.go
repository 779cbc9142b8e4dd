// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
)

// Engine is the one place that changes the state of VMs.
type Engine struct{}

// Open reconciles records, files and processes, and returns the engine.
func Open(ctx context.Context) (*Engine, error) { return &Engine{}, nil }
