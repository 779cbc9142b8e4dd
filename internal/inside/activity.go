// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package inside

import (
	"sync"
	"time"
)

// notedEvery is the precision with which the time of the last byte is recorded.
const notedEvery = 100 * time.Millisecond

// traffic sums the bytes of a visit that counts by its traffic, so that not every read and write takes the
// engine's lock.
type traffic struct {
	v *visit

	mu    sync.Mutex
	n     int64     // guarded by mu
	noted time.Time // guarded by mu
}

// count adds n bytes.
func (t *traffic) count(n int) {
	if n <= 0 {
		return
	}
	now := t.v.in.now()
	t.mu.Lock()
	t.n += int64(n)
	bytes := int64(0)
	if now.Sub(t.noted) >= notedEvery || now.Before(t.noted) {
		bytes, t.n, t.noted = t.n, 0, now
	}
	t.mu.Unlock()
	if bytes > 0 {
		t.v.Moved(bytes)
	}
}
