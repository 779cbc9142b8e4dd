// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package inside

import (
	"sync"
	"time"
)

// notedEvery is how exactly the time of the last byte is known.
const notedEvery = 100 * time.Millisecond

// traffic adds up the bytes of a loosened visit, so that not each of them asks
// for the engine's lock.
type traffic struct {
	v *visit

	mu    sync.Mutex
	n     int64     // guarded by mu
	noted time.Time // guarded by mu
}

// count notes bytes that went through.
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
