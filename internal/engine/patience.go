// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package engine

import "time"

// startOutlasts is how many deadlines a start may take in all where nobody named
// one: its monitor adds what QEMU waits for a CPU, and says when that was too much.
const startOutlasts = 4

// patience is how long a start with that deadline is waited for. One that somebody
// has named is meant; the server's own follows the load of the host.
func (e *Engine) patience(limit time.Duration) (outer time.Duration, patient bool) {
	if limit != e.cfg.Settings.StartDeadline {
		return limit, false
	}
	return startOutlasts * limit, true
}
