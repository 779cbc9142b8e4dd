// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package secret

import (
	"context"
	"testing"
	"time"
)

// TestPace: a VM that uses its secrets without pause waits, and others do not.
func TestPace(t *testing.T) {
	var p paces
	ctx, stop := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer stop()
	n := 0
	for p.wait(ctx, "greedy") == nil && n < 2*usesAtOnce {
		n++
	}
	if n < usesAtOnce || n > usesAtOnce+10 {
		t.Errorf("a VM used secrets %d times at once, want %d", n, usesAtOnce)
	}
	if err := p.wait(t.Context(), "other"); err != nil {
		t.Errorf("another VM: %v", err)
	}
}
