// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

// Package inside holds the calls into a running guest: commands, processes, files,
// terminals, services, connections, and what lives in the guest. Each stands on
// engine.Visit, which finds the VM, wakes it, checks the caller's right and counts
// the use. The package changes no record of a VM.
package inside

import (
	"context"
	"sync"
	"time"

	"github.com/warren-vm/warren/internal/access"
	"github.com/warren-vm/warren/internal/engine"
	"github.com/warren-vm/warren/internal/journal"
	"github.com/warren-vm/warren/internal/layout"
	"github.com/warren-vm/warren/vm"
)

// Config is what the room works with. Every field is required.
type Config struct {
	Engine   *engine.Engine
	Access   *access.Access
	Journal  *journal.Journal
	Clock    engine.Clock
	Settings engine.Settings // of which it reads GuestDeadline and StallCheck
	Dir      layout.Dir      // has the console logs
}

// Inside is the room. All methods may be called at once from many goroutines. A
// Linux user "" is root.
type Inside struct {
	cfg    Config
	life   context.Context // ends with Close
	cancel context.CancelCauseFunc
	tasks  sync.WaitGroup

	mu       sync.Mutex
	closed   bool                     // guarded by mu
	loopback map[engine.Ports]*places // guarded by mu; see dial.go
}

// New opens the room. It lives until Close, not only as long as ctx.
func New(ctx context.Context, cfg Config) *Inside {
	in := &Inside{cfg: cfg, loopback: map[engine.Ports]*places{}}
	in.life, in.cancel = context.WithCancelCause(context.WithoutCancel(ctx))
	return in
}

// Close ends the room's tasks and waits for them, at most as long as ctx. Calls that
// are under way end with the engine.
func (in *Inside) Close(ctx context.Context) error {
	in.mu.Lock()
	in.closed = true
	in.mu.Unlock()
	in.cancel(vm.Errorf(vm.Unavailable, "", "the server is stopping"))
	done := make(chan struct{})
	go func() { // ends with the tasks, which end with life
		in.tasks.Wait()
		close(done)
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return vm.WithOp(vm.OpServe, "", vm.Errorf(vm.Timeout, "", "some calls into guests did not end: %w", context.Cause(ctx)))
	}
}

// spawn runs f as a task that Close waits for. f is to end with life. After Close
// it does not run.
func (in *Inside) spawn(f func()) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if !in.closed {
		in.tasks.Go(f)
	}
}

func (in *Inside) now() time.Time { return in.cfg.Clock.Now() }
