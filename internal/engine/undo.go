// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/warren-vm/warren/vm"
)

// joinUndo appends the errors of an undo to err, the first cause.
func joinUndo(err, undoErr error) error {
	if undoErr == nil {
		return err
	}
	return errors.Join(err, undoErr)
}

// undo is a list of steps that undo what an operation has made. The zero value is ready.
type undo struct {
	mu sync.Mutex
	// guarded by mu
	steps []undoStep
	ran   bool
}

type undoStep struct {
	name string
	do   func(context.Context) error
}

// add adds a step, to be run before those added earlier. If the list has already run, add
// carries the step out at once.
func (u *undo) add(ctx context.Context, name string, do func(context.Context) error) error {
	u.mu.Lock()
	if !u.ran {
		u.steps = append(u.steps, undoStep{name, do})
		u.mu.Unlock()
		return nil
	}
	u.mu.Unlock()
	return undoStep{name, do}.run(ctx)
}

// run carries out the steps, last added first, even after failures, and joins their
// errors. It ignores the cancellation of ctx. A second run does nothing.
func (u *undo) run(ctx context.Context) error {
	u.mu.Lock()
	steps := u.steps
	u.steps, u.ran = nil, true
	u.mu.Unlock()
	var errs []error
	for i := len(steps) - 1; i >= 0; i-- {
		errs = append(errs, steps[i].run(ctx))
	}
	return errors.Join(errs...)
}

func (s undoStep) run(ctx context.Context) error {
	if err := s.do(context.WithoutCancel(ctx)); err != nil {
		return fmt.Errorf("undo of %s: %w", s.name, err)
	}
	return nil
}

// reset empties the list without undoing anything.
func (u *undo) reset() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.steps, u.ran = nil, false
}

// insistEvery is the pause between two tries of insist.
const insistEvery = time.Second

// insist runs an action that must succeed. If it fails, because the disk is full or the
// records cannot be written, insist retries it in the background.
func (e *Engine) insist(do func(context.Context) error) {
	done := func(ctx context.Context) bool {
		err := do(ctx)
		return err == nil || died(err) || vm.KindOf(err) == vm.NotFound
	}
	if done(e.life) {
		return
	}
	e.spawn(func(ctx context.Context) {
		for {
			after, stop := e.cfg.Clock.After(insistEvery)
			select {
			case <-after:
				if done(ctx) {
					return
				}
			case <-ctx.Done():
				stop()
				return
			}
		}
	})
}
