// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package usernet

import (
	"fmt"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/warren-vm/warren/vm"
)

const keptRefusals = 20

// recorder passes on the records of connections, at a bounded rate, so that a guest
// cannot flood the log. The next record that passes counts the refusals that were
// dropped.
type recorder struct {
	out func(vm.Connection)

	mu       sync.Mutex // guards the fields below and serialises out
	limit    *rate.Limiter
	skipped  int
	refusals []vm.Connection // as the guest may read them, the newest last
}

func newRecorder(out func(vm.Connection)) *recorder {
	return &recorder{out: out, limit: rate.NewLimiter(50, 200)}
}

// add passes a record on. told is its reason, as the guest may read it.
func (r *recorder) add(c vm.Connection, told string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !c.Allowed {
		if !r.limit.Allow() {
			r.skipped++
			return
		}
		if r.skipped > 0 {
			c.Reason = fmt.Sprintf("%s (and %d more refusals that were not recorded)", c.Reason, r.skipped)
			r.skipped = 0
		}
		if len(r.refusals) >= keptRefusals {
			r.refusals = append(r.refusals[:0], r.refusals[1:]...)
		}
		shown := c
		shown.Reason = told
		r.refusals = append(r.refusals, shown)
	}
	if r.out != nil {
		r.out(c)
	}
}

// lastRefusals renders the newest refusals, one a line.
func (r *recorder) lastRefusals() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := make([]string, 0, len(r.refusals))
	for _, c := range r.refusals {
		what := c.Dest
		if c.Name != "" && c.Name != c.Dest {
			what = c.Name + " " + c.Dest
		}
		out = append(out, fmt.Sprintf("%s %s %s: %s", c.Time.UTC().Format(time.TimeOnly), c.Proto, what, c.Reason))
	}
	return out
}
