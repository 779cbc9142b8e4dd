// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package qmp

import (
	"context"
	"encoding/json"
	"sync"
	"time"
)

// maxQueued bounds the events that wait for a subscriber. QEMU sends a few per
// minute; a guest can provoke more (RTC_CHANGE), so the oldest is dropped.
const maxQueued = 256

// Event is something that happened in QEMU.
type Event struct {
	Name string          // e.g. "SHUTDOWN"
	Data json.RawMessage // may be nil
	Time time.Time
}

// Events is a subscription: every event from the time of Subscribe on, in
// order. One goroutine may use it at a time.
type Events struct {
	c     *Client
	ready chan struct{} // holds a token when there may be a new event

	mu    sync.Mutex // guards the fields below; taken inside Client.mu
	queue []Event
	ended bool
}

// Subscribe begins to collect events. End it with Close.
func (c *Client) Subscribe() *Events {
	s := &Events{c: c, ready: make(chan struct{}, 1)}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		s.end()
	} else {
		c.subs[s] = struct{}{}
	}
	return s
}

func (s *Events) put(e Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.queue) == maxQueued {
		s.queue = append(s.queue[:0], s.queue[1:]...)
	}
	s.queue = append(s.queue, e)
	s.wake()
}

func (s *Events) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = true
	s.wake()
}

func (s *Events) wake() {
	select {
	case s.ready <- struct{}{}:
	default:
	}
}

// Next returns the next event, waiting for it. After the connection has ended
// it returns what is still queued and then the connection's error.
func (s *Events) Next(ctx context.Context) (Event, error) {
	for {
		s.mu.Lock()
		if len(s.queue) > 0 {
			e := s.queue[0]
			s.queue = append(s.queue[:0], s.queue[1:]...)
			s.mu.Unlock()
			return e, nil
		}
		ended := s.ended
		s.mu.Unlock()
		if ended {
			if err := s.c.Err(); err != nil {
				return Event{}, err
			}
			return Event{}, ErrClosed
		}
		select {
		case <-s.ready:
		case <-ctx.Done():
			return Event{}, ctx.Err()
		}
	}
}

// Close ends the subscription.
func (s *Events) Close() {
	s.c.mu.Lock()
	delete(s.c.subs, s)
	s.c.mu.Unlock()
	s.end()
}
