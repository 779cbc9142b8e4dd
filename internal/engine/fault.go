// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"errors"
)

// ErrDied is returned by a Config.Fault to simulate the death of the process at a label:
// the engine stops there, undoes nothing and writes nothing more. The test then calls
// Open on the same records and directories.
var ErrDied = errors.New("the engine died")

// step is called before each step of an operation. It fails if ctx has ended, or with an
// injected fault.
func (e *Engine) step(ctx context.Context, label string) error {
	if e.dead.Load() {
		return ErrDied
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if e.cfg.Fault == nil {
		return nil
	}
	err := e.cfg.Fault(label)
	if errors.Is(err, ErrDied) {
		e.dead.Store(true)
		e.cancel(ErrDied)
	}
	return err
}

func died(err error) bool { return errors.Is(err, ErrDied) }
