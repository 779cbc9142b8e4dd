// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

// Package inside holds the calls into a running guest: commands, processes, files,
// terminals, services, connections, and the state of the guest. Each is built on
// engine.Visit, which finds the VM, wakes it, checks the caller's right and counts the
// use. The package changes no record of a VM.
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

// Config holds the room's dependencies. Every field is required.
type Config struct {
	Engine   *engine.Engine
	Access   *access.Access
	Journal  *journal.Journal
	Clock    engine.Clock
	Settings engine.Settings // it reads only GuestDeadline and StallCheck
	Dir      layout.Dir      // for the console logs
	// AuditArgs says which arguments of commands audit records have; "" = vm.ArgsFull.
	AuditArgs string
}

// Inside is the room. Its methods may be called concurrently. A Linux user "" is root.
type Inside struct {
	cfg    Config
	life   context.Context // ends with Close
	cancel context.CancelCauseFunc
	tasks  sync.WaitGroup

	mu       sync.Mutex
	closed   bool                     // guarded by mu
	loopback map[engine.Ports]*places // guarded by mu; see dial.go
}

// New opens the room. It lives until Close, even if ctx ends.
func New(ctx context.Context, cfg Config) *Inside {
	in := &Inside{cfg: cfg, loopback: map[engine.Ports]*places{}}
	in.life, in.cancel = context.WithCancelCause(context.WithoutCancel(ctx))
	return in
}

// Close ends the room's tasks and waits for them until ctx ends. Open calls end with the
// engine.
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

// spawn runs f as a task that Close waits for. f must end with life. After Close spawn
// does nothing.
func (in *Inside) spawn(f func()) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if !in.closed {
		in.tasks.Go(f)
	}
}

func (in *Inside) now() time.Time { return in.cfg.Clock.Now() }
