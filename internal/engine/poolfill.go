// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"cmp"
	"context"
	"errors"
	"io"
	"slices"
	"time"

	"github.com/warren-vm/warren/vm"
)

// run keeps the pool full until ctx ends.
func (p *pool) run(ctx context.Context) {
	var looked time.Time
	for ctx.Err() == nil {
		if now := p.e.now(); now.Sub(looked) >= poolLook {
			p.look(ctx)
			looked = now
		}
		after, stop := p.e.cfg.Clock.After(p.fill(ctx))
		select {
		case <-after:
		case <-p.wake:
		case <-ctx.Done():
		}
		stop()
	}
}

// look discards members that are stale or no longer wanted. It takes them out of the pool
// one at a time.
func (p *pool) look(ctx context.Context) {
	kinds := p.kinds(ctx)
	p.mu.Lock()
	members := slices.Clone(p.members)
	p.mu.Unlock()
	for _, m := range members {
		if p.pop(func(o *member) bool { return o == m }) == nil {
			continue // taken meanwhile
		}
		img, err := p.e.cfg.Images.Find(ctx, string(m.kind.image))
		switch {
		case err != nil:
		case !slices.Contains(kinds, m.kind):
			err = errors.New("its size is no longer requested")
		default:
			err = p.fresh(ctx, m, img)
		}
		if err == nil || ctx.Err() != nil { // while the pool ends, drain discards them all
			p.giveBack(ctx, m)
			continue
		}
		p.e.log.Info("discarding a machine of the pool", "vm", m.id, "why", err)
		p.discard(ctx, m)
	}
}

// kinds lists the kinds that the pool should hold, most requested first: those requested
// recently and more than once, and the default image in the default size.
func (p *pool) kinds(ctx context.Context) []kind {
	p.mu.Lock()
	for k, d := range p.wanted {
		if p.e.now().Sub(d.last) > poolKept {
			delete(p.wanted, k)
		}
	}
	var out []kind
	for k, d := range p.wanted {
		if d.times > 1 {
			out = append(out, k)
		}
	}
	slices.SortFunc(out, func(a, b kind) int {
		return cmp.Or(p.wanted[b].last.Compare(p.wanted[a].last), cmp.Compare(a.image, b.image))
	})
	p.mu.Unlock()
	out = out[:min(len(out), poolKinds)]
	if img, err := p.e.cfg.Images.Find(ctx, ""); err == nil {
		size := p.e.cfg.Settings.DefaultSize
		size.DiskMiB = max(size.DiskMiB, img.DiskMiB)
		if k := (kind{img.ID, size}); !slices.Contains(out, k) {
			out = append(out[:min(len(out), poolKinds-1)], k)
		}
	}
	return out
}

// lacking returns a kind with too few members.
func (p *pool) lacking(ctx context.Context) (kind, bool) {
	kinds := p.kinds(ctx)
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, k := range kinds {
		have := 0
		for _, m := range p.members {
			if m.kind == k {
				have++
			}
		}
		if have < p.size() {
			return k, true
		}
	}
	return kind{}, false
}

// fill makes one member if one is lacking and the host has room. It returns when to try
// again.
func (p *pool) fill(ctx context.Context) time.Duration {
	k, ok := p.lacking(ctx)
	if !ok {
		return poolLook
	}
	p.mu.Lock()
	quiet := p.quiet
	p.mu.Unlock()
	switch now := p.e.now(); {
	case now.Before(quiet):
		return quiet.Sub(now)
	case p.e.atWork():
		return poolQuiet
	}
	if !p.room(ctx, k.size) {
		return poolWait
	}
	m, err := p.build(ctx, k)
	if err != nil {
		if ctx.Err() == nil {
			p.e.log.Warn("a machine for the pool could not be made", "err", err)
			p.mu.Lock()
			p.laterLocked(poolRetry)
			p.mu.Unlock()
		}
		return poolRetry
	}
	p.giveBack(ctx, m)
	return 0
}

// atWork reports whether any VM has an operation in progress.
func (e *Engine) atWork() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.creating) > 0 {
		return true
	}
	for _, s := range e.vms {
		if s.op != nil {
			return true
		}
	}
	return false
}

// room reports whether the host is idle and has disk, and memory for a member plus one
// more VM.
func (p *pool) room(ctx context.Context, size vm.Size) bool {
	have, err := p.e.cfg.Host.Capacity(ctx)
	if err != nil || have.DiskFree < p.e.cfg.Settings.DiskReserve {
		return false
	}
	grow := p.e.expectedGrowth(admission{})
	if have.MemAvailable-grow-2*int64(size.MemoryMiB)<<20 < p.e.cfg.Settings.MemoryReserve {
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return have.Waiting < poolBusy || p.e.now().Sub(p.quiet) > poolPatience
}

// build makes a member. If it fails, nothing is left of it.
func (p *pool) build(ctx context.Context, k kind) (m *member, err error) {
	ctx, cancel := context.WithTimeout(ctx, p.e.cfg.Settings.StartDeadline)
	on := &making{size: k.size, cancel: cancel, done: make(chan struct{})}
	p.mu.Lock()
	p.making = on
	p.mu.Unlock()
	var u undo
	defer func() {
		if err != nil && !p.e.dead.Load() {
			err = errors.Join(err, u.run(ctx))
		}
		cancel()
		p.mu.Lock()
		p.making = nil
		p.mu.Unlock()
		close(on.done)
	}()
	return p.start(ctx, k, &u)
}

// start starts a machine on the warm generation, warms it and pauses it.
func (p *pool) start(ctx context.Context, k kind, u *undo) (*member, error) {
	e := p.e
	img, err := e.cfg.Images.Find(ctx, string(k.image))
	if err != nil {
		return nil, err
	}
	gen, err := e.cfg.Images.Warm(ctx, img, k.size)
	if err != nil {
		return nil, err
	}
	host, err := e.cfg.Host.Platform(ctx)
	if err != nil {
		return nil, err
	}
	plan := &createPlan{image: img, deadline: e.cfg.Settings.StartDeadline, rec: vm.VM{
		ID: vm.NewID(), Image: img.ID, Size: k.size, Network: vm.NetworkPolicy{Mode: vm.NetClosed},
	}}
	if err := e.makeDir(ctx, plan.rec.ID, u); err != nil {
		return nil, err
	}
	if err := e.makeOverlay(plan, gen); err != nil {
		return nil, err
	}
	spec, err := e.warmSpec(ctx, plan, gen)
	if err != nil {
		return nil, err
	}
	spec.Pooled = true
	machine, _, err := e.launch(ctx, spec, u)
	if err != nil {
		return nil, err
	}
	if err := warmUp(ctx, machine.Guest()); err != nil {
		return nil, err
	}
	return &member{
		id: plan.rec.ID, kind: k, key: gen.Key, agent: host.AgentDigest, qemu: host.QEMUVersion,
		made: e.now(), machine: machine,
	}, machine.Pause(ctx)
}

// loginShell starts what terminals and the commands of SDKs start, if the image has it. It reads files
// of the image, which may fail or never end, so its outcome counts for nothing after shellTime.
const (
	loginShell = "! command -v bash >/dev/null || bash -l -c true"
	shellTime  = 10 * time.Second
)

// warmUp runs what the first command of a VM will need. Under emulation the first command
// in a new QEMU takes four times as long as the second. It leaves no entry in the list of
// processes.
func warmUp(ctx context.Context, g Guest) error {
	for _, s := range []vm.ExecSpec{{Command: "true"}, {Command: "true"}, {Command: loginShell, Timeout: vm.Millis(shellTime)}} {
		x, err := g.Exec(ctx, s)
		if err != nil {
			return err
		}
		if _, err := x.Run(io.Discard, io.Discard); err != nil && s.Timeout == 0 {
			return err
		}
	}
	list, err := g.Processes(ctx)
	if err != nil {
		return err
	}
	for _, p := range list {
		if err := g.Forget(ctx, p.ID); err != nil {
			return err
		}
	}
	return nil
}
