// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/warren-vm/warren/internal/egress"
	"github.com/warren-vm/warren/internal/vault"
	"github.com/warren-vm/warren/vm"
)

// maxFork bounds the children of one fork.
const maxFork = 1000

// Fork makes running copies of a running or suspended VM, all or none. Each has the
// parent's memory, processes, terminals and disk of one instant, and an identity of its
// own. The parent keeps running. Fork returns when every child is usable. If it fails, or
// ctx ends first, nothing of the children is left.
func (e *Engine) Fork(ctx context.Context, c *vm.Call, ref string, r ForkRequest) (out Forked, err error) {
	if r.Count == 0 {
		r.Count = 1
	}
	if err := cmp.Or(checkFork(r), checkFoldersMode(r.Folders), checkVolumesMode(r.Volumes, VolumesCut, VolumesRO, VolumesDetach)); err != nil {
		return Forked{}, fail(vm.OpFork, ref, err)
	}
	op, err := e.begin(ctx, c, ref, vm.OpFork)
	if err != nil {
		return Forked{}, fail(vm.OpFork, ref, err)
	}
	op.cancelWith(ctx)
	defer func() { err = e.finish(op, err) }()
	network, err := e.forkNetwork(op.ctx, c, op.before, r.Network)
	if err == nil {
		err = e.mayForkInside(c.Actor, op.before, r.Count)
	}
	if err != nil {
		return Forked{}, err
	}
	children, err := e.planFork(op.before, r, network)
	if err != nil {
		return Forked{}, err
	}
	for i := range children {
		children[i].FromInside = children[i].FromInside || c.Actor.VM != ""
	}
	out.First = !e.forkedBefore(op.before)
	claims, err := e.admitFork(op.ctx, children)
	if err != nil {
		return Forked{}, err
	}
	defer e.releaseClaims(claims...)
	if err := e.receiptFor(op.ctx, op, c, vm.AuditEntry{Detail: map[string]any{"count": r.Count, "policy": network, "policyDigest": network.Digest()}}); err != nil {
		return Forked{}, err
	}
	g, err := e.forkSourceOf(op, r.Volumes)
	if err != nil {
		return Forked{}, err
	}
	unpin := func() { e.unpin(g.ID) }
	defer func() { unpin() }()
	out.Children, err = e.startChildren(op.ctx, g, children, r)
	if err != nil {
		e.collectLater()
		if op.before.State == vm.Suspended {
			err = notContinued(op.before, g, err)
		}
		return Forked{}, err
	}
	if !g.Durable { // the children run while it is made durable
		unpin = func() {}
		e.publishLater(g.ID)
	}
	out.Parent, out.Generation, out.Caveats = e.recordOf(op.slot), g, vm.Caveats
	if op.before.State == vm.Running {
		out.Pause = time.Duration(g.PauseMs * float64(time.Millisecond))
	}
	e.cfg.Journal.EmitVM(out.Parent, "vm.forked", map[string]any{"count": r.Count, "generation": string(g.ID), "pauseMs": g.PauseMs})
	return out, nil
}

func checkFork(r ForkRequest) error {
	if r.Count < 1 || r.Count > maxFork {
		return vm.Errorf(vm.Invalid, "", "a fork makes 1 to %d children, not %d", maxFork, r.Count).
			WithCode("INVALID_REQUEST").WithHint("make several smaller forks")
	}
	if r.Prefix != "" {
		return vm.CheckName(fmt.Sprintf("%s-%d", r.Prefix, r.Count))
	}
	return r.Sandbox.Check()
}

// forkedBefore reports whether a VM, or one of its ancestors, was forked before. It sees
// only forks of which records are left.
func (e *Engine) forkedBefore(rec vm.VM) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, s := range e.vms {
		if s.rec.Parent == rec.ID {
			return true
		}
	}
	for g := e.gens[rec.Head]; g != nil; g = e.gens[g.info.Parent] {
		if g.info.Why == vm.WhyFork {
			return true
		}
	}
	return false
}

// forkNetwork returns the network policy of a fork's children: the parent's, or a narrower
// one. A wider one is refused with kind Denied.
func (e *Engine) forkNetwork(ctx context.Context, c *vm.Call, parent vm.VM, asked vm.NetworkSpec) (vm.NetworkPolicy, error) {
	if asked == "" {
		return parent.Network, nil
	}
	p, err := e.cfg.Policies.Compile(c, parent.Account, asked)
	if err != nil {
		return p, err
	}
	img, err := e.cfg.Images.Find(ctx, string(parent.Image))
	if err != nil && p.Mode == vm.NetPackages {
		return p, err
	}
	p.Hosts, p.Secrets = hostsOf(p.Mode, img), parent.Network.Secrets
	if wider := egress.Widens(parent.Network, p); len(wider) > 0 {
		return p, vm.Errorf(vm.Denied, label(parent), "a fork may not reach more than its parent: %s", strings.Join(wider, ", ")).
			WithCode("NETWORK_WIDER", "widens", wider).
			WithHint("fork it as it is, then open the copy: `warren net allow NAME HOST`")
	}
	return p, nil
}

// planFork makes the records of the children.
func (e *Engine) planFork(parent vm.VM, r ForkRequest, network vm.NetworkPolicy) ([]vm.VM, error) {
	now := e.now()
	var children []vm.VM
	for i := range r.Count {
		rec := parent
		rec.ID, rec.Name, rec.DisplayName = vm.NewID(), "", ""
		rec.State, rec.Op, rec.Reason, rec.InstanceID = vm.Starting, vm.OpCreate, "", vm.NewInstanceID()
		rec.CreatedAt, rec.LastActive, rec.StartedAt = now, now, time.Time{}
		rec.Previews = nil // like every new VM, a child starts without previews
		rec.Parent, rec.Machine, rec.Exit = parent.ID, vm.MachineRef{}, vm.MachineExit{}
		rec.Generation, rec.Head, rec.DiskOn = "", "", ""
		rec.Folders = childFolders(parent.Folders, r.Folders)
		rec.OneShot, rec.Network, rec.Sandbox = false, network, r.Sandbox
		rec.Network.Secrets = vm.ForChild(network.Secrets)
		if r.Prefix != "" {
			rec.Name = fmt.Sprintf("%s-%d", r.Prefix, i+1)
		}
		req := CreateRequest{Persistence: r.Persistence, IdleTimeout: r.IdleTimeout, TTL: r.TTL, Labels: r.Labels}
		if err := fillLabels(&rec, req, vm.Image{}); err != nil {
			return nil, err
		}
		if r.Persistence != nil {
			if err := fillPersistence(&rec, req, vm.Image{}); err != nil {
				return nil, err
			}
		}
		if err := fillChildLimits(&rec, req); err != nil {
			return nil, err
		}
		children = append(children, rec)
	}
	return children, nil
}

// fillChildLimits sets the limits of a child. The idle timeout defaults to the parent's.
func fillChildLimits(rec *vm.VM, r CreateRequest) error {
	if err := fillTTL(rec, r.TTL); err != nil {
		return err
	}
	if !r.IdleTimeout.Set {
		return nil
	}
	return setIdle(rec, r.IdleTimeout)
}

// forkSourceOf returns the generation on which the children start, pinned: a suspended
// VM's own, or a new one of a running VM.
func (e *Engine) forkSourceOf(op *operation, volumes string) (g vm.Generation, err error) {
	if op.before.State != vm.Suspended {
		err = e.withoutVolumes(op, volumes, func() (err error) {
			g, err = e.capture(op.ctx, op, captureOptions{why: vm.WhyFork, volumes: volumes})
			return err
		})
		return g, err
	}
	if err := e.volumesGiven(op.before, volumes); err != nil {
		return g, err
	}
	g, ok := e.generationInfo(op.before.Generation)
	if !ok || !e.pin(g.ID) {
		return g, vm.Errorf(vm.Corrupt, string(op.before.Generation), "the memory of the VM is gone").
			WithHint("start it from its disk alone: `warren start %s --disk-only`", label(op.before))
	}
	opened, err := e.opened(op.ctx, g)
	if err != nil {
		e.unpin(g.ID)
	}
	opened.Cut = opened.Cut || volumes == VolumesCut // for these children only
	return opened, err
}

// childStart is one child being made.
type childStart struct {
	op    *operation
	share bool            // it reads the volumes that its parent reads
	reads []*vault.Volume // the volumes shared
	m     Machine
	st    vm.MachineStatus
}

// startChildren starts the children on a generation, some at a time, and commits them when all
// run.
func (e *Engine) startChildren(ctx context.Context, g vm.Generation, recs []vm.VM, r ForkRequest) (children []vm.VM, err error) {
	starts := make([]*childStart, 0, len(recs))
	defer func() {
		for _, b := range starts {
			if ferr := e.finish(b.op, err); err == nil && ferr != nil {
				err = ferr
			}
		}
	}()
	for _, rec := range recs {
		op, err := e.beginCreate(rec, r.Prefix != "")
		if err != nil {
			return nil, err
		}
		op.cancelWith(ctx)
		starts = append(starts, &childStart{op: op, share: r.Volumes == VolumesRO})
	}
	if err := e.startAll(ctx, g, starts); err != nil {
		return nil, err
	}
	if children, err = e.commitChildren(ctx, g, starts); err != nil {
		return nil, err
	}
	for i, b := range starts {
		e.watch(b.op.slot, b.m)
		e.cfg.Journal.EmitVM(children[i], "vm.created", map[string]any{"parent": string(children[i].Parent), "generation": string(g.ID)})
		e.cfg.Journal.EmitVM(children[i], "vm.running", timings(b.st))
	}
	return children, nil
}

// startAll starts all children through the queue. The first failure ends the others.
func (e *Engine) startAll(ctx context.Context, g vm.Generation, starts []*childStart) error {
	outer, _ := e.patience(e.cfg.Settings.StartDeadline)
	ctx, cancel := context.WithTimeoutCause(ctx, outer, startTimeout("", outer))
	defer cancel()
	var wg sync.WaitGroup
	var mu sync.Mutex
	var first error
	for _, b := range starts {
		wg.Go(func() {
			err := e.startChild(ctx, g, b)
			mu.Lock()
			defer mu.Unlock()
			if err != nil && first == nil {
				first = err
				cancel()
			}
		})
	}
	wg.Wait()
	return first
}

func (e *Engine) startChild(ctx context.Context, g vm.Generation, b *childStart) error {
	select {
	case e.starts <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	defer func() { <-e.starts }()
	s, u := b.op.slot, &b.op.undo
	if err := e.step(ctx, "fork:record"); err != nil {
		return err
	}
	e.mu.Lock()
	s.rec.Head, s.rec.DiskOn, s.rec.Generation = g.ID, g.ID, g.ID
	e.mu.Unlock()
	if err := e.enter(ctx, b.op); err != nil {
		return err
	}
	if e.cfg.Objects != nil {
		if err := e.cfg.Objects.Inherit(ctx, s.rec.Parent, s.id); err != nil {
			return err
		}
	}
	if err := e.step(ctx, "fork:dir"); err != nil {
		return err
	}
	if err := e.makeDir(ctx, s.id, u); err != nil {
		return err
	}
	if err := e.cfg.Generations.Disk(g.ID, s.id, g.Size.DiskMiB); err != nil {
		return diskError(e.cfg.Dir.Overlay(s.id), err)
	}
	rec := e.recordOf(s)
	if err := e.shareVolumes(ctx, b, g); err != nil {
		return err
	}
	spec, err := e.generationSpec(ctx, rec, g)
	if err != nil {
		return err
	}
	if spec.Reset.HostKeys, err = hostKeys(); err != nil {
		return err
	}
	spec.Patient = true
	if err := e.step(ctx, "fork:launch"); err != nil {
		return err
	}
	b.m, b.st, err = e.launch(ctx, spec, u)
	return cause(ctx, err)
}

// commitChildren records all children as running in one durable change: after a crash all
// of them exist or none.
func (e *Engine) commitChildren(ctx context.Context, g vm.Generation, starts []*childStart) ([]vm.VM, error) {
	if err := e.step(ctx, "fork:commit"); err != nil {
		return nil, err
	}
	slots := make([]*slot, 0, len(starts))
	for _, b := range starts {
		if err := e.sharedVolumes(ctx, b); err != nil {
			return nil, err
		}
		slots = append(slots, b.op.slot)
	}
	p, err := e.cfg.Host.Platform(ctx)
	if err != nil {
		return nil, err
	}
	now := e.now()
	children, err := e.updateAll(ctx, slots, func(i int, rec *vm.VM) {
		setRunning(rec, starts[i].st, p, now)
		e.fillStarted(rec, g, vm.OpFork)
	})
	if err != nil {
		return nil, err
	}
	// From here on the children run, even if the request or the server ends.
	return children, e.step(context.WithoutCancel(ctx), "fork:done")
}

// childOverhead is the memory that QEMU and the monitor of an idle child take.
const childOverhead = 48 << 20

// admitFork refuses a fork for which the host or the account's quota has no room. A child
// shares its parent's pages, and is expected to write to a part of its memory.
func (e *Engine) admitFork(ctx context.Context, children []vm.VM) ([]*claim, error) {
	a := admission{account: children[0].Account, forks: true, each: expected(children[0].Size) + childOverhead}
	for _, rec := range children {
		a.wants = append(a.wants, &claim{id: rec.ID, size: rec.Size, grows: a.each})
	}
	return a.wants, e.admit(ctx, a)
}
