// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"os"
	"os/signal"
	"sync"
	"syscall"

	"github.com/warren-vm/warren/vm"
)

// signals cancels the command's context at SIGINT or SIGTERM, unless the
// command takes the signals. After the first one the system's default applies
// again: a second ^C ends the program.
type signals struct {
	in   chan os.Signal
	done chan struct{}

	mu    sync.Mutex       // guards the field below
	taker chan<- os.Signal // nil = nobody
}

// watch returns a context that a signal cancels, and a function that ends the
// watch.
func (s *signals) watch(ctx context.Context) (context.Context, func()) {
	s.in, s.done = make(chan os.Signal, 8), make(chan struct{})
	ctx, cancel := context.WithCancelCause(ctx)
	signal.Notify(s.in, os.Interrupt, syscall.SIGTERM)
	go func() {
		defer close(s.done)
		for sig := range s.in {
			if !s.pass(sig) {
				signal.Stop(s.in)
				cancel(vm.Errorf(vm.Cancelled, "", "interrupted by %s", sig))
			}
		}
	}()
	return ctx, func() {
		signal.Stop(s.in)
		close(s.in)
		<-s.done
		cancel(nil)
	}
}

// pass gives a signal to its taker. If the taker is not ready, the signal is
// dropped.
func (s *signals) pass(sig os.Signal) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.taker == nil {
		return false
	}
	select {
	case s.taker <- sig:
	default:
	}
	return true
}

// take directs signals to the returned channel until release is called.
func (s *signals) take() (sigs <-chan os.Signal, release func()) {
	c := make(chan os.Signal, 4)
	s.mu.Lock()
	s.taker = c
	s.mu.Unlock()
	return c, func() {
		s.mu.Lock()
		s.taker = nil
		s.mu.Unlock()
	}
}

// signalName is the guest's name for a local signal.
func signalName(sig os.Signal) string {
	if sig == syscall.SIGTERM {
		return "TERM"
	}
	return "INT"
}
