// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"time"

	"github.com/warren-vm/warren/vm"
)

// While the server runs, what it waits for is measured by a clock that nobody
// sets. Across a restart only the times in records are left, of a clock that
// may have been set meanwhile.

// fitClock brings the times of a record that was read at the start into what is
// possible now. A clock that was set back leaves times that are to come: such a
// VM would neither fall asleep nor end for as long as the clock was ahead.
func fitClock(rec *vm.VM, now time.Time) {
	if rec.LastActive.After(now) {
		rec.LastActive = now
	}
	if ttl := time.Duration(rec.TTLSeconds) * time.Second; ttl > 0 && rec.ExpiresAt.After(now.Add(ttl)) {
		rec.ExpiresAt = now.Add(ttl)
	}
	if rec.Exit.Time.After(now) {
		rec.Exit.Time = now
	}
}
