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
	poolQuiet    = 300 * time.Millisecond // without a create before a member is made
	poolLook     = time.Minute            // between two checks of all members
	poolWait     = 2 * time.Second        // before checking again whether the host is idle
	poolPatience = 30 * time.Second       // after this time a busy host gets its members, too
	poolRetry    = 30 * time.Second       // after a failure, or after members were given up
	poolKept     = 10 * time.Minute       // kinds requested within this time keep their members
	poolKinds    = 3                      // images and sizes that may have members
	poolAnswer   = time.Second            // for a member to prove that it answers
	poolBusy     = 60.0                   // percent of the time in which programs wait for a CPU
)

// pool keeps machines that are restored, warmed and paused, so that most creates need
// only resume one. A member has the id, the directory and the disk of a VM but no record:
// the next engine sweeps what a crash leaves of it. Its lock is the innermost.
type pool struct {
	e    *Engine
	wake chan struct{} // wakes run: something has changed

	mu sync.Mutex
	// guarded by mu
	members []*member // oldest first
	making  *making   // nil = none
	wanted  map[kind]demand
	quiet   time.Time // no member is made before this time
	shut    bool      // members are no longer kept
	hits    int64
	misses  int64
}

// kind is the image and size of interchangeable members.
type kind struct {
	image vm.ImageID
	size  vm.Size
}

// demand says how often and when a kind was last requested.
type demand struct {
	times int
	last  time.Time
}

// member is one machine of the pool. Only the caller that popped it may use it.
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
	Size   int   // members wanted for each image and size; 0 = the pool is off
	Ready  int   // members ready now
	Hits   int64 // creates that took a member, since the server started
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

// growth is the memory by which the members are expected to grow.
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

// take returns a member that can become a VM of the image and size, or nil. The caller
// adopts it, gives it back or discards it.
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
		p.e.log.Info("discarding a machine of the pool", "vm", m.id, "why", err)
		p.discard(ctx, m)
	}
}

// ask counts a request for a kind.
func (p *pool) ask(k kind) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.e.now()
	p.wanted[k] = demand{times: p.wanted[k].times + 1, last: now}
	p.laterLocked(poolQuiet)
}

// laterLocked makes no member for at least d.
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

// pop removes the oldest member that fits from the pool and returns it.
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

// giveBack returns a member to its place in the pool, which is sorted by age. If the pool
// is shut it discards the member.
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

// fresh returns why a member cannot become a VM now, or nil. The caller must have popped
// the member: fresh pauses it again, which must not happen to a VM.
func (p *pool) fresh(ctx context.Context, m *member, img vm.Image) error {
	host, err := p.e.cfg.Host.Platform(ctx)
	if err != nil {
		return err
	}
	// If the warm generation must be built, the create needs it anyway.
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

// discard ends a member and removes its files. The next engine sweeps what could not be
// removed.
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

// giveUp ends one member to free its memory. It reports whether there was one.
func (p *pool) giveUp(ctx context.Context) bool {
	p.mu.Lock()
	p.laterLocked(poolRetry)
	on := p.making
	p.mu.Unlock()
	if m := p.pop(func(*member) bool { return true }); m != nil {
		p.e.log.Info("discarding a machine of the pool to free its memory", "vm", m.id)
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

// drain ends every member and shuts the pool.
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

// adopt turns the member of a plan into the VM of op. If it returns neither a machine nor
// an error, the member was unusable and is gone: the caller starts a machine the ordinary
// way.
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
	st, err := m.machine.Adopt(ctx, vm.Adoption{Reset: reset, Network: p.rec.Network, Paths: p.rec.Paths, Deadline: p.deadline})
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
