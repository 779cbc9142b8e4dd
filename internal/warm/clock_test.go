// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package warm

import (
	"errors"
	"testing"
	"time"
)

// A guest whose clock runs wrong becomes no generation.
func TestClock(t *testing.T) {
	at := time.Now()
	look := func(up, before, after time.Duration) clock { return clock{up, at.Add(before), at.Add(after)} }
	began := look(3*time.Second, 0, 100*time.Millisecond)
	for _, c := range []struct {
		up    time.Duration
		right bool
	}{{7 * time.Second, true}, {7150 * time.Millisecond, true}, {6900 * time.Millisecond, true}, {19 * time.Second, false}, {4 * time.Second, false}} {
		err := look(c.up, 4*time.Second, 4100*time.Millisecond).since(began)
		if c.right != (err == nil) || err != nil && !errors.Is(err, errClock) {
			t.Errorf("up %v: %v", c.up, err)
		}
	}
}
