// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package sshd

import (
	"context"
	"net"
	"net/netip"
	"slices"
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

// guard slows down guessing. A wrong secret is answered with a delay, and each further
// one from the same address with a longer one; only a limited number of connections
// from one address may wait like this at once. A valid secret is never delayed.
//
// Connections that have not logged in have their own limit. When it is reached,
// the guard closes the oldest connection of the address that has the most, so
// every newcomer has a minute to log in.
type guard struct {
	now func() time.Time

	mu        sync.Mutex
	m         map[netip.Prefix]*suspect
	strangers []*stranger // the oldest first
}

// suspect is the state of an address.
type suspect struct {
	failures int
	last     time.Time
	inside   int // connections that have not logged in
}

// stranger is a connection that has not logged in.
type stranger struct {
	from netip.Prefix
	cut  func() // closes the connection; does not block
}

func newGuard(now func() time.Time) *guard {
	return &guard{now: now, m: map[netip.Prefix]*suspect{}}
}

// neighbourhood returns the address prefix from which one machine can choose its addresses.
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

// find returns the state of an address, which it creates if necessary. g.mu is held.
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

// forget makes room: it drops addresses without recent failures, else those
// without connections. g.mu is held.
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

// enter counts a connection that has not logged in, until leave is called. cut
// closes the connection when its place is given to another one; it must not block.
func (g *guard) enter(conn net.Conn, cut func()) (leave func(), err error) {
	p := neighbourhood(conn)
	g.mu.Lock()
	defer g.mu.Unlock()
	s := g.find(p)
	if s.inside >= maxStrange {
		return nil, vm.Errorf(vm.Limit, p.String(), "too many connections that have not logged in")
	}
	if len(g.strangers) >= maxStrangers {
		old := g.crowd()
		g.leave(old)
		old.cut()
	}
	s.inside++
	g.m[p] = s // its last connection may have just been closed
	one := &stranger{from: p, cut: cut}
	g.strangers = append(g.strangers, one)
	return func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.leave(one)
	}, nil
}

// crowd returns the oldest connection of the address that has the most. g.mu is
// held, and there is at least one.
func (g *guard) crowd() *stranger {
	old := g.strangers[0]
	for _, s := range g.strangers {
		if g.m[s.from].inside > g.m[old.from].inside {
			old = s
		}
	}
	return old
}

// leave uncounts a connection, once. g.mu is held.
func (g *guard) leave(one *stranger) {
	i := slices.Index(g.strangers, one)
	if i < 0 {
		return
	}
	g.strangers = slices.Delete(g.strangers, i, i+1)
	s := g.m[one.from]
	if s.inside--; s.inside == 0 && s.failures == 0 {
		delete(g.m, one.from)
	}
}

// failed records a wrong secret and returns how long to delay its answer.
func (g *guard) failed(conn net.Conn) time.Duration {
	g.mu.Lock()
	defer g.mu.Unlock()
	s := g.find(neighbourhood(conn))
	s.last = g.now()
	delay := min(firstDelay<<min(s.failures, 10), longest)
	s.failures++
	return delay
}

// sleep waits for d or until ctx ends.
func sleep(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}
