// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package engine

import "time"

// startOutlasts is the number of deadlines that a start may take in all if the caller
// named none. The monitor adds the time for which QEMU waited for a CPU, and reports when
// that was too much.
const startOutlasts = 4

// patience returns how long to wait for a start with that deadline. A deadline that a
// caller named is exact; the server's own is extended when the host is loaded.
func (e *Engine) patience(limit time.Duration) (outer time.Duration, patient bool) {
	if limit != e.cfg.Settings.StartDeadline {
		return limit, false
	}
	return startOutlasts * limit, true
}
