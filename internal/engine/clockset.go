// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"time"

	"github.com/warren-vm/warren/vm"
)

// While the server runs, it measures its waits with the monotonic clock. After a restart
// it has only the times in the records, and the wall clock may have been set since.

// fitClock corrects the times of a record that was read at the start. If the clock was
// set back, they lie in the future, and the VM would neither fall asleep nor expire until
// the clock catches up.
func fitClock(rec *vm.VM, now time.Time) {
	if rec.LastActive.After(now) {
		rec.LastActive = now
	}
	if ttl := time.Duration(rec.TTL); ttl > 0 && rec.ExpiresAt.After(now.Add(ttl)) {
		rec.ExpiresAt = now.Add(ttl)
	}
	if rec.Exit.Time.After(now) {
		rec.Exit.Time = now
	}
}
