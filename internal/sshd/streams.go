// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package sshd

import "sync"

// streams counts the connections of a socket in the guest.
type streams struct {
	mu  sync.Mutex
	n   int
	all sync.WaitGroup
}

func (s *streams) begin() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.n >= maxStreams {
		return false
	}
	s.n++
	s.all.Add(1)
	return true
}

func (s *streams) end() {
	s.mu.Lock()
	s.n--
	s.mu.Unlock()
	s.all.Done()
}

func (s *streams) wait() { s.all.Wait() }
