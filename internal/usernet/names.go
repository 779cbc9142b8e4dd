// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package usernet

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"
)

const (
	answerTTL   = 30 * time.Second // also given to the guest
	failureTTL  = 3 * time.Second
	lookupLimit = 8 * time.Second
	maxAnswers  = 1024 // names remembered
	maxAddrs    = 4096 // addresses remembered
	maxPerAddr  = 8    // names remembered for each address
	maxPerName  = 64   // addresses remembered for each name
)

// hostResolver asks the host's resolver for absolute names, so that the host's
// search domains are not tried.
type hostResolver struct{ *net.Resolver }

func (r hostResolver) LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error) {
	return r.Resolver.LookupNetIP(ctx, network, host+".")
}

type answer struct {
	addrs   []netip.Addr
	more    bool // it has more addresses
	err     error
	expires time.Time
}

// directory looks names up on the host, caches the answers for a short while, and
// knows which names led to an address.
type directory struct {
	resolver Resolver

	mu      sync.Mutex // guards the fields below
	answers map[string]answer
	byIP    map[netip.Addr][]string // newest name first
	zones   map[string]zoneAnswer
}

func newDirectory(r Resolver) *directory {
	return &directory{resolver: r, answers: make(map[string]answer), byIP: make(map[netip.Addr][]string), zones: make(map[string]zoneAnswer)}
}

// resolve returns the IPv4 addresses of a name in normal form. The caller must have
// them judged.
func (d *directory) resolve(ctx context.Context, name string) ([]netip.Addr, error) {
	d.mu.Lock()
	a, ok := d.answers[name]
	d.mu.Unlock()
	if ok && time.Now().Before(a.expires) {
		return a.addrs, a.err
	}
	ctx, cancel := context.WithTimeout(ctx, lookupLimit)
	defer cancel()
	addrs, err := d.resolver.LookupNetIP(ctx, "ip4", name)
	if err != nil && errors.Is(ctx.Err(), context.Canceled) {
		return nil, err
	}
	a = answer{err: err, expires: time.Now().Add(failureTTL)}
	if err == nil {
		a.expires = time.Now().Add(answerTTL)
		for _, ip := range addrs {
			if ip = ip.Unmap(); !ip.Is4() || slices.Contains(a.addrs, ip) {
				continue
			}
			if a.more = len(a.addrs) >= maxPerName; a.more {
				break
			}
			a.addrs = append(a.addrs, ip)
		}
	}
	d.remember(name, a)
	return a.addrs, a.err
}

func (d *directory) remember(name string, a answer) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.answers) >= maxAnswers {
		clear(d.answers)
	}
	d.answers[name] = a
	for _, ip := range a.addrs {
		if _, ok := d.byIP[ip]; !ok && len(d.byIP) >= maxAddrs {
			clear(d.byIP) // names in the policy are looked up again if needed
		}
		names := slices.DeleteFunc(slices.Clone(d.byIP[ip]), func(s string) bool { return s == name })
		names = slices.Insert(names, 0, name)
		d.byIP[ip] = names[:min(len(names), maxPerAddr)]
	}
}

// unknown returns those of the names that were not looked up lately.
func (d *directory) unknown(names []string) (list []string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	now := time.Now()
	for _, name := range names {
		if a, ok := d.answers[name]; !ok || !now.Before(a.expires) {
			list = append(list, name)
		}
	}
	return list
}

// leading returns those of the names whose newest answer has an address, and one of which it
// is not known whether it has; "" = none. Unlike of, it does not depend on what the guest has
// looked up.
func (d *directory) leading(names []string, ip netip.Addr) (list []string, unsure string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, name := range names {
		a, ok := d.answers[name]
		switch {
		case slices.Contains(a.addrs, ip):
			list = append(list, name)
		case !ok || a.more || a.err != nil && !notFound(a.err):
			unsure = name
		}
	}
	return list, unsure
}

// of returns the names that led to ip, the newest first.
func (d *directory) of(ip netip.Addr) []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.byIP[ip]
}
