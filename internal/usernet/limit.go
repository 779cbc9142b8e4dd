// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package usernet

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"

	"golang.org/x/time/rate"

	"github.com/warren-vm/warren/internal/egress"
	"github.com/warren-vm/warren/vm"
)

const maxBurst = 256 << 10 // bytes that a rate lets through at once

// meter counts what one rule lets through.
type meter struct {
	limit    vm.NetLimit
	up, down *rate.Limiter // nil = no limit
	bytes    atomic.Int64
	open     int // connections, and streams beyond the first of each; guarded by meters.mu
}

// meters are those of the rules of one VM that have a limit, by the rule's id.
type meters struct {
	mu     sync.Mutex
	byRule map[string]*meter
}

// of returns the meter of a rule. A rule with another limit starts to count again, but for
// its bytes.
func (m *meters) of(rule string, limit vm.NetLimit) *meter {
	old := m.byRule[rule]
	if old != nil && old.limit == limit {
		return old
	}
	now := &meter{limit: limit}
	if old != nil {
		now.bytes.Store(old.bytes.Load())
	}
	if limit.Rate > 0 {
		burst := int(min(limit.Rate, maxBurst))
		now.up, now.down = rate.NewLimiter(rate.Limit(limit.Rate), burst), rate.NewLimiter(rate.Limit(limit.Rate), burst)
	}
	if m.byRule == nil {
		m.byRule = make(map[string]*meter)
	}
	m.byRule[rule] = now
	return now
}

// keep forgets the meters of rules that the policy has no longer.
func (m *meters) keep(p vm.NetworkPolicy) {
	m.mu.Lock()
	defer m.mu.Unlock()
	ids := make(map[string]bool, len(p.Rules))
	for _, r := range p.Rules {
		ids[r.ID] = true
	}
	for id := range m.byRule {
		if !ids[id] {
			delete(m.byRule, id)
		}
	}
}

// join makes a flow count for the rule of a verdict that allows it. The verdict that it
// returns refuses the flow if the rule lets no more through.
func (m *meters) join(f *flow, v egress.Verdict) egress.Verdict {
	if !v.Allow || v.Limit == (vm.NetLimit{}) {
		return v
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	it := m.of(v.Rule, v.Limit)
	var had []*meter
	if p := f.meters.Load(); p != nil {
		had = *p
	}
	for _, h := range had {
		if h == it {
			return v
		}
	}
	no := egress.Verdict{Rule: v.Rule}
	switch {
	case it.limit.Connections > 0 && it.open >= it.limit.Connections:
		return it.full(v.Rule)
	case it.spent():
		no.Reason = fmt.Sprintf("the rule %s has let its %d bytes through", v.Rule, it.limit.Bytes)
		return no
	}
	it.open++
	more := append(append([]*meter(nil), had...), it)
	f.meters.Store(&more)
	return v
}

// stream makes a request of an HTTP/2 connection count for the rule of a verdict that allows
// it: the first at once counts as its connection, each further one as a connection more. The
// caller calls leave when the request has ended.
func (m *meters) stream(f *flow, v egress.Verdict) (_ egress.Verdict, leave func()) {
	if !v.Allow || v.Limit.Connections == 0 {
		return v, func() {}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	it := m.of(v.Rule, v.Limit)
	if f.streams[it] > 0 {
		if it.open >= it.limit.Connections {
			return it.full(v.Rule), func() {}
		}
		it.open++
	}
	if f.streams == nil {
		f.streams = make(map[*meter]int)
	}
	f.streams[it]++
	return v, func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		if f.streams[it]--; f.streams[it] > 0 {
			it.open--
		}
	}
}

func (it *meter) full(rule string) egress.Verdict {
	return egress.Verdict{Rule: rule, Reason: fmt.Sprintf("the rule %s allows %d connections at once", rule, it.limit.Connections)}
}

func (it *meter) spent() bool { return it.limit.Bytes > 0 && it.bytes.Load() >= it.limit.Bytes }

// leave ends a flow's part.
func (m *meters) leave(f *flow) {
	p := f.meters.Swap(nil)
	if p == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, it := range *p {
		it.open--
	}
}

// sent counts bytes that the guest is about to send, received bytes that it is about to
// get. They wait as long as a rate asks for. If a rule has let all its bytes through, they
// cut the flow and fail.
func (f *flow) sent(k int) error {
	f.up.Add(int64(k))
	return f.charge(k, func(m *meter) *rate.Limiter { return m.up })
}

func (f *flow) received(k int) error {
	f.down.Add(int64(k))
	return f.charge(k, func(m *meter) *rate.Limiter { return m.down })
}

func (f *flow) charge(k int, way func(*meter) *rate.Limiter) error {
	p := f.meters.Load()
	if p == nil || k == 0 {
		return nil
	}
	for _, m := range *p {
		if m.bytes.Add(int64(k)) > m.limit.Bytes && m.limit.Bytes > 0 {
			f.stop(fmt.Sprintf("cut: its rule has let its %d bytes through", m.limit.Bytes))
			return errNotAllowed
		}
		if l := way(m); l != nil {
			if err := pace(f.ctx, l, k); err != nil {
				return err
			}
		}
	}
	return nil
}

// pace waits until a rate lets k bytes through, or the context ends.
func pace(ctx context.Context, l *rate.Limiter, k int) error {
	for k > 0 {
		part := min(k, l.Burst())
		if err := l.WaitN(ctx, part); err != nil {
			return err
		}
		k -= part
	}
	return nil
}
