// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package sshd

import (
	"context"
	"net"
	"net/netip"
	"sync"
	"time"

	"github.com/warren-vm/warren/vm"
)

const (
	firstDelay  = 250 * time.Millisecond
	longest     = 8 * time.Second
	forgetAfter = 10 * time.Minute
	maxGuests   = 4096 // addresses remembered
)

// guard slows down those who guess. A wrong secret is answered late, and each
// further one from the same address later still; so many connections from one
// address may wait like this at once. A right secret is never held up.
type guard struct {
	now func() time.Time

	mu sync.Mutex
	m  map[netip.Prefix]*suspect
}

type suspect struct {
	failures int
	last     time.Time
	inside   int // connections that have not logged in
}

func newGuard(now func() time.Time) *guard {
	return &guard{now: now, m: map[netip.Prefix]*suspect{}}
}

// neighbourhood is what one machine can choose its address from.
func neighbourhood(conn net.Conn) netip.Prefix {
	a, ok := conn.RemoteAddr().(*net.TCPAddr)
	if !ok {
		return netip.Prefix{}
	}
	ip := a.AddrPort().Addr().Unmap().WithZone("")
	bits := 64
	if ip.Is4() {
		bits = 32
	}
	p, err := ip.Prefix(bits)
	if err != nil {
		return netip.Prefix{}
	}
	return p
}

// find returns who is remembered of an address. g.mu is held.
func (g *guard) find(p netip.Prefix) *suspect {
	s := g.m[p]
	if s == nil {
		if len(g.m) >= maxGuests {
			g.forget()
		}
		s = &suspect{}
		g.m[p] = s
	}
	if g.now().Sub(s.last) > forgetAfter {
		s.failures = 0
	}
	return s
}

// forget makes room: those who have been quiet, else those who are not here.
// g.mu is held.
func (g *guard) forget() {
	for _, all := range []bool{false, true} {
		for p, s := range g.m {
			if s.inside == 0 && (all || g.now().Sub(s.last) > forgetAfter) {
				delete(g.m, p)
			}
		}
		if len(g.m) < maxGuests {
			return
		}
	}
}

// enter counts a connection that has not logged in, until leave is called.
func (g *guard) enter(conn net.Conn) (leave func(), err error) {
	p := neighbourhood(conn)
	g.mu.Lock()
	defer g.mu.Unlock()
	s := g.find(p)
	if s.inside >= maxStrange {
		return nil, vm.Errorf(vm.Limit, p.String(), "too many connections that have not logged in")
	}
	s.inside++
	return func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		if s.inside--; s.inside == 0 && s.failures == 0 {
			delete(g.m, p)
		}
	}, nil
}

// failed notes a wrong secret and returns how long its answer is to wait.
func (g *guard) failed(conn net.Conn) time.Duration {
	g.mu.Lock()
	defer g.mu.Unlock()
	s := g.find(neighbourhood(conn))
	s.last = g.now()
	delay := min(firstDelay<<min(s.failures, 10), longest)
	s.failures++
	return delay
}

// sleep waits, or until ctx ends.
func sleep(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}
