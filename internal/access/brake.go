// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package access

import (
	"context"
	"time"
)

// Brake slows down who tries secrets, a few at a time.
type Brake struct {
	For  time.Duration // how long a failed authentication waits
	slow chan struct{} // one token for each that waits
}

// NewBrake returns a brake of a quarter of a second.
func NewBrake() *Brake { return &Brake{For: 250 * time.Millisecond, slow: make(chan struct{}, 32)} }

// Wait delays the answer to a failed authentication, at most until ctx ends. Of more than 32 at
// once, the others do not wait: so many that a delay would not help.
func (b *Brake) Wait(ctx context.Context) {
	select {
	case b.slow <- struct{}{}:
		timer := time.NewTimer(b.For)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ctx.Done():
		}
		<-b.slow
	default:
	}
}
