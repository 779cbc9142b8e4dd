// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/warren-vm/warren/vm"
)

const (
	poolQuiet    = 300 * time.Millisecond // nothing was created for so long before a member is made
	poolLook     = time.Minute            // between two looks at all members
	poolWait     = 2 * time.Second        // before asking again whether the host is idle
	poolPatience = 30 * time.Second       // a host that is never idle gets its members too
	poolRetry    = 30 * time.Second       // after a failure, or after members were given up
	poolKept     = 10 * time.Minute       // members are kept for what was asked for since
	poolKinds    = 3                      // images and sizes that have members at a time
	poolAnswer   = time.Second            // for a member to say that it is there
	poolBusy     = 60.0                   // percent of time in which programs wait for a CPU
)

// pool keeps machines that are restored, warmed and paused, so that most
// creates need only resume one. A member has the id, the directory and the
// disk of a VM but no record: what a crash leaves of it belongs to nothing and
// is swept by the next engine. Its lock is the innermost.
type pool struct {
	e    *Engine
	wake chan struct{} // tells tend that something has changed

	mu sync.Mutex
	// guarded by mu
	members []*member // oldest first
	making  *making   // nil = none
	wanted  map[kind]demand
	quiet   time.Time // no member is made before
	shut    bool      // no member is kept any more
	hits    int64
	misses  int64
}

// kind is what members have in common that can stand for each other.
type kind struct {
	image vm.ImageID
	size  vm.Size
}

// demand says how much a kind is wanted.
type demand struct {
	times int
	last  time.Time
}

// member is one machine of the pool. It belongs to whoever has popped it.
type member struct {
	id      vm.ID
	kind    kind
	key     string // of the warm generation
	agent   string // digest
	qemu    string // version
	made    time.Time
	machine Machine
}

// making is a member that is being made.
type making struct {
	size   vm.Size
	cancel context.CancelFunc
	done   chan struct{}
}

// PoolInfo describes the warm pool.
type PoolInfo struct {
	Size   int   // members wanted of each image and size; 0 = the pool is off
	Ready  int   // members that wait now
	Hits   int64 // creates that took one, since the server started
	Misses int64 // creates that found none
}

func newPool(e *Engine) *pool {
	return &pool{e: e, wake: make(chan struct{}, 1), wanted: map[kind]demand{}, quiet: e.now()}
}

func (p *pool) size() int { return p.e.cfg.Settings.Pool }

func (p *pool) info() PoolInfo {
	p.mu.Lock()
	defer p.mu.Unlock()
	return PoolInfo{Size: p.size(), Ready: len(p.members), Hits: p.hits, Misses: p.misses}
}

// growth is what the members are expected to take beyond what they hold.
func (p *pool) growth() (bytes int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, m := range p.members {
		bytes += expected(m.kind.size)
	}
	if p.making != nil {
		bytes += expected(p.making.size)
	}
	return bytes
}

// take returns a member that can become a VM of the image and size, or nil. It
// is the caller's, to adopt, to give back or to discard.
func (p *pool) take(ctx context.Context, img vm.Image, size vm.Size) *member {
	if p.size() == 0 {
		return nil
	}
	k := kind{img.ID, size}
	p.ask(k)
	for {
		m := p.pop(func(m *member) bool { return m.kind == k })
		if m == nil {
			p.count(&p.misses)
			return nil
		}
		err := p.fresh(ctx, m, img)
		if err == nil {
			return m
		}
		if ctx.Err() != nil {
			p.giveBack(ctx, m)
			return nil
		}
		p.e.log.Info("a machine of the pool cannot be used any more", "vm", m.id, "why", err)
		p.discard(ctx, m)
	}
}

// ask notes that a kind was wanted.
func (p *pool) ask(k kind) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.e.now()
	p.wanted[k] = demand{times: p.wanted[k].times + 1, last: now}
	p.laterLocked(poolQuiet)
}

// laterLocked holds the making of members off for d.
func (p *pool) laterLocked(d time.Duration) {
	if t := p.e.now().Add(d); t.After(p.quiet) {
		p.quiet = t
	}
}

func (p *pool) count(n *int64) {
	p.mu.Lock()
	*n++
	p.mu.Unlock()
	p.poke()
}

func (p *pool) poke() {
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// pop takes the oldest member that fits out of the pool.
func (p *pool) pop(fits func(*member) bool) *member {
	p.mu.Lock()
	defer p.mu.Unlock()
	i := slices.IndexFunc(p.members, fits)
	if i < 0 {
		return nil
	}
	m := p.members[i]
	p.members = slices.Delete(p.members, i, i+1)
	return m
}

// giveBack puts a member into the pool, the oldest first. When the pool is shut
// the member ends.
func (p *pool) giveBack(ctx context.Context, m *member) {
	p.mu.Lock()
	if p.shut {
		p.mu.Unlock()
		p.discard(ctx, m)
		return
	}
	defer p.mu.Unlock()
	i := slices.IndexFunc(p.members, func(o *member) bool { return o.made.After(m.made) })
	if i < 0 {
		i = len(p.members)
	}
	p.members = slices.Insert(p.members, i, m)
}

// fresh says why a member cannot stand for a VM that is started now; nil = it
// can. The member must have been popped: it is paused again, which a VM must
// not be.
func (p *pool) fresh(ctx context.Context, m *member, img vm.Image) error {
	host, err := p.e.cfg.Host.Platform(ctx)
	if err != nil {
		return err
	}
	// What is built here where it is missing, the create needs anyway.
	gen, err := p.e.cfg.Images.Warm(ctx, img, m.kind.size)
	if err != nil {
		return err
	}
	switch {
	case gen.Key != m.key:
		return errors.New("its image has another warm generation now")
	case host.AgentDigest != m.agent:
		return errors.New("it has another agent")
	case host.QEMUVersion != m.qemu:
		return errors.New("it runs on another QEMU")
	case p.e.now().Sub(m.made) > p.e.cfg.Settings.PoolAge:
		return errors.New("it is too old")
	}
	ctx, stop := context.WithTimeout(ctx, poolAnswer)
	defer stop()
	return m.machine.Pause(ctx)
}

// discard ends a member and removes what it has. What cannot be removed is
// swept by the next engine.
func (p *pool) discard(ctx context.Context, m *member) {
	m.machine.Close()
	ctx = context.WithoutCancel(ctx)
	err := p.e.sweep(ctx, m.id)
	if err == nil {
		err = p.e.removeDir(m.id)
	}
	if err != nil && !died(err) {
		p.e.log.Warn("a machine of the pool could not be removed", "vm", m.id, "err", err)
	}
}

// giveUp ends one member, so that something else can have its memory. It
// reports whether there was one.
func (p *pool) giveUp(ctx context.Context) bool {
	p.mu.Lock()
	p.laterLocked(poolRetry)
	on := p.making
	p.mu.Unlock()
	if m := p.pop(func(*member) bool { return true }); m != nil {
		p.e.log.Info("a machine of the pool makes room", "vm", m.id)
		p.discard(ctx, m)
		return true
	}
	if on == nil {
		return false
	}
	on.cancel()
	select {
	case <-on.done:
		return true
	case <-ctx.Done():
		return false
	}
}

// drain ends every member; nobody makes new ones any more.
func (p *pool) drain(ctx context.Context) {
	p.mu.Lock()
	p.shut = true
	p.mu.Unlock()
	for {
		m := p.pop(func(*member) bool { return true })
		if m == nil {
			return
		}
		p.discard(ctx, m)
	}
}

// adopt makes the member of a plan the VM of op. Without an error and without
// a machine the member could not be used and is gone: the caller goes the
// ordinary way.
func (e *Engine) adopt(ctx context.Context, op *operation, p *createPlan) (Machine, vm.MachineStatus, error) {
	m, none := p.member, vm.MachineStatus{}
	p.member = nil // from here on it is the operation's
	for _, step := range []undoStep{
		{"directory", func(context.Context) error { return e.removeDir(m.id) }},
		{"machine", func(ctx context.Context) error { return e.sweep(ctx, m.id) }},
		{"connection", func(context.Context) error { m.machine.Close(); return nil }},
	} {
		if err := op.undo.add(ctx, step.name, step.do); err != nil {
			return nil, none, err
		}
	}
	if err := e.step(ctx, "create:pool"); err != nil {
		return nil, none, err
	}
	reset := newReset(p.rec)
	var err error
	if reset.HostKeys, err = hostKeys(); err != nil {
		return nil, none, err
	}
	st, err := m.machine.Adopt(ctx, vm.Adoption{Reset: reset, Network: p.rec.Network, Deadline: p.deadline})
	if err == nil {
		e.pool.count(&e.pool.hits)
		p.pooled = true
		op.detail = p.detail()
		return m.machine, st, nil
	}
	if ctx.Err() != nil {
		return nil, none, err
	}
	e.pool.count(&e.pool.misses)
	e.log.Warn("a machine of the pool could not be adopted; starting another", "vm", m.id, "err", err)
	m.machine.Close()
	if err := e.sweep(ctx, m.id); err != nil {
		return nil, none, err
	}
	return nil, none, e.removeDir(m.id)
}
