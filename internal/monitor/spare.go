// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package monitor

import (
	"context"
	"sync"
	"time"
)

const (
	// spareAfter is the delay after a capture before the next copy is made: VMs
	// that start on the capture come first.
	spareAfter = 300 * time.Millisecond
	// spareKept is how long the copy is kept when no capture follows.
	spareKept = 10 * time.Minute
)

// spare controls the work on a machine's spare; see qemu.Process.MakeSpare. The
// zero value is ready.
type spare struct {
	mu     sync.Mutex
	cancel context.CancelFunc // of the work in progress; guarded by mu
}

// begin returns the context of new work and cancels earlier work.
func (s *spare) begin(ctx context.Context) context.Context {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cancel != nil {
		s.cancel()
	}
	ctx, s.cancel = context.WithCancel(ctx)
	return ctx
}

// stop cancels the work; a finished spare stays.
func (s *spare) stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cancel != nil {
		s.cancel()
	}
}

// makeSpare makes the next capture's copy of the base after a delay, and removes it
// when no capture comes or the machine ends.
func (m *machine) makeSpare() {
	ctx, proc := m.spare.begin(m.lifetime), m.qemu()
	m.wg.Go(func() {
		if pause(ctx, spareAfter); ctx.Err() == nil {
			if err := proc.MakeSpare(ctx); err != nil && ctx.Err() == nil {
				m.log.Warn("no spare copy of the memory", "err", err)
			}
			pause(ctx, spareKept)
		}
		if ctx.Err() == nil || m.lifetime.Err() != nil {
			proc.DropSpare()
		}
	})
}
